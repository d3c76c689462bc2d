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

// shrink brings the shard to a size. Former owners go first, then, where the cluster has more
// Services than there is room for, present ones: of them only the begin is forgotten.
func (s *shard) shrink(to int) {
	for _, open := range []bool{false, true} {
		of := map[string][]place{} // by namespace, the oldest first
		bytes := map[string]int{}
		for a, records := range s.records {
			for _, r := range records {
				if r.Open() == open {
					of[r.Service.Namespace] = append(of[r.Service.Namespace], place{a, r})
					bytes[r.Service.Namespace] += size(r)
				}
			}
		}
		for _, all := range of {
			slices.SortFunc(all, func(a, b place) int {
				return cmp.Or(a.record.last().Compare(b.record.last()), a.address.Compare(b.address))
			})
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
