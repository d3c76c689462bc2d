package history

import (
	"net/netip"
	"slices"
	"time"

	"k8s.io/apimachinery/pkg/types"
)

// Ledger has the records of all addresses. NewLedger makes one. It is not safe for concurrent use.
//
// A change costs what its address has of records; where a shard is full, a walk of that one as
// well, which makes room for an eighth of it. Nothing depends on the number of Services.
type Ledger struct {
	owners int
	shards [Shards]shard
}

// shard has the records of its addresses, those of each in the order in which they came.
type shard struct {
	records map[netip.Addr][]Record
	bytes   int
	// changed is since when it is to be written; zero: it is as it was written.
	changed time.Time
}

// NewLedger returns an empty ledger, which keeps so many former owners of an address.
func NewLedger(owners int) *Ledger { return &Ledger{owners: owners} }

// Begin enters that a Service has an address. What is known is not entered again.
func (l *Ledger) Begin(r Record, now time.Time) {
	s := l.of(r.Address)
	for i, one := range s.records[r.Address] {
		if one.Open() && one.same(r) {
			if one.UID == "" && r.UID != "" {
				one.UID = r.UID
				s.replace(i, one)
			}
			return
		}
	}
	if r.UID == "" {
		r.UID = s.uid(r)
	}
	s.add(r)
	l.settle(s, r.Address, now)
}

// End enters that a Service has lost an address. From and Came count if its begin is not known.
func (l *Ledger) End(r Record, now time.Time) {
	s := l.of(r.Address)
	if i := slices.IndexFunc(s.records[r.Address], func(one Record) bool { return one.Open() && one.same(r) }); i >= 0 {
		open := s.records[r.Address][i]
		open.To, open.Ended = r.To, r.Ended
		s.replace(i, open)
	} else {
		s.add(r)
	}
	l.settle(s, r.Address, now)
}

// Page returns what is to be written of a shard, complete up to now, in an order that depends on
// the records alone.
func (l *Ledger) Page(shard int, now time.Time) Page {
	p := Page{Seen: now}
	s := &l.shards[shard]
	for _, a := range s.addresses() {
		p.Records = append(p.Records, s.records[a]...)
	}
	return p
}

// Due returns, of those that may be written, the shard that waits longest, and since when; -1 if
// none does.
func (l *Ledger) Due(may func(shard int) bool) (shard int, since time.Time) {
	shard = -1
	for i := range l.shards {
		if t := l.shards[i].changed; !t.IsZero() && (shard < 0 || t.Before(since)) && may(i) {
			shard, since = i, t
		}
	}
	return shard, since
}

// Written says that a shard is being written as it is. A write that fails takes Touch.
func (l *Ledger) Written(shard int) { l.shards[shard].changed = time.Time{} }

// Touch has a shard written.
func (l *Ledger) Touch(shard int, now time.Time) {
	if s := &l.shards[shard]; s.changed.IsZero() {
		s.changed = now
	}
}

func (l *Ledger) of(a netip.Addr) *shard { return &l.shards[ShardOf(a)] }

// settle keeps the bounds after a change of an address, and has its shard written.
func (l *Ledger) settle(s *shard, a netip.Addr, now time.Time) {
	s.limit(a, l.owners)
	if s.bytes > MostBytes {
		s.shrink(MostBytes / 8 * 7)
	}
	if s.changed.IsZero() {
		s.changed = now
	}
}

func (s *shard) addresses() (all []netip.Addr) {
	for a := range s.records {
		all = append(all, a)
	}
	slices.SortFunc(all, netip.Addr.Compare)
	return all
}

// size is what a record takes in its ConfigMap.
func size(r Record) int { return len(r.String()) + len("\n") }

func (s *shard) add(r Record) {
	if s.records == nil {
		s.records = map[netip.Addr][]Record{}
	}
	s.records[r.Address] = append(s.records[r.Address], r)
	s.bytes += size(r)
}

// replace puts a record in the place of the i-th of its address.
func (s *shard) replace(i int, r Record) {
	s.bytes += size(r) - size(s.records[r.Address][i])
	s.records[r.Address][i] = r
}

// drop forgets the i-th record of an address.
func (s *shard) drop(a netip.Addr, i int) {
	s.bytes -= size(s.records[a][i])
	if s.records[a] = slices.Delete(s.records[a], i, i+1); len(s.records[a]) == 0 {
		delete(s.records, a)
	}
}

// uid is that of the Service when it was last heard of at the address.
func (s *shard) uid(r Record) (uid types.UID) {
	for _, one := range s.records[r.Address] {
		if one.Service == r.Service && one.UID != "" {
			uid = one.UID
		}
	}
	return uid
}
