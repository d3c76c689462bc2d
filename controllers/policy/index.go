package policy

import (
	"slices"
	"sort"
	"sync/atomic"

	"github.com/clusterip-operator/clusterip-operator/allocator"
	"github.com/clusterip-operator/clusterip-operator/controllers/internal/steering"
)

// index answers questions about all policies of one Snapshot.
type index struct {
	from *steering.Compiled
	// users are the names of the policies that have a range of a ServiceCIDR.
	users map[string][]string
	// reserved are the spans of all reservations by their first address; no two overlap.
	reserved []allocator.Span
}

func newIndex(s *steering.Compiled) *index {
	out := &index{from: s, users: map[string][]string{}}
	for _, p := range s.Policies() {
		for _, r := range p.Ranges {
			if users := out.users[r.ServiceCIDR]; len(users) == 0 || users[len(users)-1] != p.Name {
				out.users[r.ServiceCIDR] = append(users, p.Name)
			}
		}
		for _, r := range p.Reservations {
			out.reserved = append(out.reserved, r.Span)
		}
	}
	slices.SortFunc(out.reserved, func(a, b allocator.Span) int { return a.First.Compare(b.First) })
	return out
}

// within returns the parts of s that are reserved.
func (x *index) within(s allocator.Span) []allocator.Span {
	if s.IsEmpty() {
		return nil
	}
	first := sort.Search(len(x.reserved), func(i int) bool { return !x.reserved[i].Last.Less(s.First) })
	var out []allocator.Span
	for _, r := range x.reserved[first:] {
		if s.Last.Less(r.First) {
			break
		}
		if r.First.Less(s.First) {
			r.First = s.First
		}
		if s.Last.Less(r.Last) {
			r.Last = s.Last
		}
		out = append(out, r)
	}
	return out
}

// indexes keeps the index of the Snapshot that was asked for last. The zero value is ready; it is safe for concurrent use.
type indexes struct{ last atomic.Pointer[index] }

func (x *indexes) of(s *steering.Compiled) *index {
	if last := x.last.Load(); last != nil && last.from == s {
		return last
	}
	made := newIndex(s)
	x.last.Store(made)
	return made
}
