package history

import (
	"cmp"
	"net/netip"
	"slices"
)

// place is where a record is.
type place struct {
	address netip.Addr
	record  Record
}

// limit keeps so many former owners of an address. The namespace that has most of them loses its
// oldest one; where several have as many, the one that has the oldest of all.
func (s *shard) limit(a netip.Addr, owners int) {
	for {
		former := map[string]int{}
		n, oldest := 0, -1
		for _, r := range s.records[a] {
			if !r.Open() {
				n++
				former[r.Service.Namespace]++
			}
		}
		if n <= owners {
			return
		}
		for i, r := range s.records[a] {
			if r.Open() {
				continue
			}
			if oldest < 0 || cmp.Or(cmp.Compare(former[s.records[a][oldest].Service.Namespace], former[r.Service.Namespace]),
				r.last().Compare(s.records[a][oldest].last())) < 0 {
				oldest = i
			}
		}
		s.drop(a, oldest)
	}
}

// shrink brings the shard to a size. The namespace that has most there, former and present owners
// together, loses its former ones first, the oldest before the others. Of a present one only the
// begin is forgotten.
func (s *shard) shrink(to int) {
	of := map[string][]place{} // by namespace, in the order in which they go
	bytes := map[string]int{}
	for a, records := range s.records {
		for _, r := range records {
			of[r.Service.Namespace] = append(of[r.Service.Namespace], place{a, r})
			bytes[r.Service.Namespace] += size(r)
		}
	}
	for _, all := range of {
		slices.SortFunc(all, goesBefore)
	}
	for s.bytes > to && len(bytes) > 0 {
		largest := most(bytes)
		victim := of[largest][0]
		of[largest] = of[largest][1:]
		bytes[largest] -= size(victim.record)
		if len(of[largest]) == 0 {
			delete(bytes, largest)
		}
		s.drop(victim.address, slices.Index(s.records[victim.address], victim.record))
	}
}

// goesBefore orders what a namespace has: former owners before present ones, the oldest first.
func goesBefore(a, b place) int {
	present := func(p place) int {
		if p.record.Open() {
			return 1
		}
		return 0
	}
	return cmp.Or(present(a)-present(b), a.record.last().Compare(b.record.last()), a.address.Compare(b.address))
}

// most is the namespace that has most.
func most(bytes map[string]int) (namespace string) {
	for one, n := range bytes {
		if c := cmp.Compare(n, bytes[namespace]); namespace == "" || c > 0 || c == 0 && one < namespace {
			namespace = one
		}
	}
	return namespace
}
