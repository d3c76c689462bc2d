package history

import (
	"net/netip"
	"slices"
	"time"
)

// Merge takes in what is written of a shard, as a replica does that begins to lead. What it has
// seen itself, since its own start, is more than what is written: ends that the leader before did
// not write any more. What is written is older: since when Services have their addresses. What
// neither says happened unseen, after the page was written.
func (l *Ledger) Merge(shard int, written Page, now time.Time) {
	if written.Seen.IsZero() {
		if len(l.shards[shard].records) > 0 {
			l.Touch(shard, now)
		}
		return
	}
	s := &l.shards[shard]
	full := 0
	for _, r := range written.Records {
		full += size(r)
	}
	m := merge{shard: s, known: map[netip.Addr][]bool{}, seen: written.Seen, now: now}
	for _, r := range slices.Backward(written.Records) { // the latest of a Service first
		m.take(r)
	}
	if full < MostBytes/4*3 { // or what is not written may have been forgotten for want of room
		m.mend()
	}
	for _, a := range s.addresses() {
		slices.SortStableFunc(s.records[a], func(a, b Record) int { return a.From.At.Compare(b.From.At) })
		s.limit(a, l.owners)
	}
	if s.bytes > MostBytes {
		s.shrink(MostBytes / 8 * 7)
	}
	if !slices.Equal(l.Page(shard, now).Records, written.Records) {
		l.Touch(shard, now)
	}
}

// merge is one Merge.
type merge struct {
	*shard
	// known are the records of the ledger that are written, too.
	known     map[netip.Addr][]bool
	seen, now time.Time
}

// take takes in a written record.
func (m merge) take(r Record) {
	mine := m.records[r.Address]
	if m.known[r.Address] == nil {
		m.known[r.Address] = make([]bool, len(mine))
	}
	known := m.known[r.Address]
	for i := len(known) - 1; i >= 0; i-- { // further ones came in by this
		one := mine[i]
		if known[i] || !one.same(r) || !r.Open() && (one.Open() || one.To.At.Sub(r.To.At).Abs() > time.Minute) {
			continue
		}
		known[i] = true
		one.From, one.Came = r.From, r.Came
		if one.UID == "" {
			one.UID = r.UID
		}
		if !r.Open() {
			one.To, one.Ended = r.To, r.Ended
		}
		m.replace(i, one)
		return
	}
	if r.Open() {
		r.To, r.Ended = Between(m.seen, m.now), Unseen
		for _, one := range mine[:len(known)] { // the next owner came when this one had let go
			if !one.Beside() && one.From.At.After(m.seen) && one.From.At.Before(r.To.At) {
				r.To.At = one.From.At
			}
		}
	}
	m.add(r)
}

// mend says how Services that the replica found came to their addresses: not before the page was
// written.
func (m merge) mend() {
	for a, records := range m.records {
		known := m.known[a]
		for i, one := range records {
			if one.Came != Found || !one.Open() || known != nil && (i >= len(known) || known[i]) {
				continue
			}
			if one.From.At.After(m.seen) {
				one.Came = Created
			} else {
				one.Came, one.From = Unseen, Between(m.seen, m.now)
			}
			m.replace(i, one)
		}
	}
}
