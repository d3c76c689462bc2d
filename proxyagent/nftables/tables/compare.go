//go:build linux

package tables

import (
	"hash/maphash"
	"maps"
	"slices"
)

// Observed is what the kernel has.
type Observed struct {
	Dormant bool
	Sets    map[Set]struct{}  // those of Schemas
	Prints  map[Bucket]uint64 // the sums of the fingerprints of their elements
	Rules   map[string]string // by chain: its policy and the handles of its rules, which are never used twice
	Others  map[string]bool   // sets that packets write into, and those of other versions
}

// Bucket is one of the parts into which the elements of a set fall by their keys. The agent writes
// while a comparison reads: only the buckets that it wrote to cannot be compared.
type Bucket struct {
	Set Set
	n   uint16
}

const buckets = 1 << 10

// Bucket is that of an element.
func (k Key) Bucket() Bucket { return Bucket{k.Set, uint16(maphash.String(seed, k.Of) % buckets)} }

// Journal is what the agent has written since a comparison began to read: the comparison says
// nothing of that, but the next one does. Nil notes nothing.
type Journal struct {
	buckets map[Bucket]struct{}
	names   map[string]struct{} // of chains, and of sets that are not compared
}

// NewJournal returns one without entries.
func NewJournal() *Journal { return &Journal{map[Bucket]struct{}{}, map[string]struct{}{}} }

// Note notes a Transaction, and names of chains and sets.
func (j *Journal) Note(t Transaction, names ...string) {
	if j == nil {
		return
	}
	for k := range t.Change {
		j.buckets[k.Bucket()] = struct{}{}
	}
	for _, name := range slices.Concat(slices.Collect(maps.Keys(t.Write)), t.Remove, names) {
		j.names[name] = struct{}{}
	}
}

// Has reports whether a name was noted.
func (j *Journal) Has(name string) bool { _, noted := j.names[name]; return noted }

// Wrote reports whether an element in a bucket was noted.
func (j *Journal) Wrote(b Bucket) bool { _, noted := j.buckets[b]; return noted }

// NotePending notes what waits to be written: that is known to differ.
func (t *Table) NotePending(j *Journal) {
	j.Note(Transaction{Change: t.changed}, slices.Collect(maps.Keys(t.pending))...)
}

// Chains are the names of all that the kernel should have.
func (t *Table) Chains() map[string]struct{} {
	wanted := map[string]struct{}{}
	for name := range t.layout().static() {
		wanted[name] = struct{}{}
	}
	for name := range t.chains {
		wanted[name] = struct{}{}
	}
	return wanted
}

// Rewrite has a chain written once more that the kernel has.
func (t *Table) Rewrite(name string) { t.pending[name] = state{there: true} }

// CompareChains notes how the kernel's chains differ from those wanted, and returns that in words.
// It goes by the handles that it was last known to have, and returns those of now: a program that
// changes a rule cannot keep them.
func (t *Table) CompareChains(have Observed, j *Journal, before map[string]string) (handles map[string]string, found []string) {
	wanted := t.Chains()
	handles = map[string]string{}
	for name, now := range have.Rules {
		was, known := before[name]
		switch _, ok := wanted[name]; {
		case ok:
			handles[name] = now
		case !j.Has(name):
			handles[name], t.pending[name] = now, state{there: true}
			found = append(found, "chain "+name)
		case known: // it is leaving, and would stay if it were not known any more
			handles[name] = was
		}
	}
	for name := range wanted {
		now, there := have.Rules[name]
		switch was, known := before[name]; {
		case j.Has(name) && known:
			handles[name] = was
		case !there || now != was:
			t.pending[name] = state{there: there}
			found = append(found, "chain "+name)
		}
	}
	return handles, found
}

// Forget is for before all elements are compared: it is not known how they differ.
func (t *Table) Forget() { t.changed = map[Key]Change{} }

// Differs notes that an element does.
func (t *Table) Differs(k Key, c Change) { t.changed[k] = c }

// Differing are the buckets whose elements have other fingerprints than those wanted.
func (t *Table) Differing(have Observed, j *Journal) map[Bucket]struct{} {
	differ := map[Bucket]struct{}{}
	for _, some := range []map[Bucket]uint64{t.prints, have.Prints} {
		for b := range some {
			if !j.Wrote(b) && t.prints[b] != have.Prints[b] {
				differ[b] = struct{}{}
			}
		}
	}
	return differ
}

// Snapshot is what All needs, for a comparison that runs beside changes.
func (t *Table) Snapshot() *Table {
	return &Table{ports: maps.Clone(t.ports), plain: maps.Clone(t.plain), wanted: maps.Clone(t.wanted), routes: maps.Clone(t.routes)}
}
