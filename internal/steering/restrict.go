package steering

import (
	"iter"
	"net/netip"
	"slices"

	"github.com/clusterip-operator/clusterip-operator/allocator"
	"github.com/clusterip-operator/clusterip-operator/api/v1alpha1"
)

// strictness has the stricter of two allocations behind the other.
var strictness = []v1alpha1.Allocation{v1alpha1.AllocationAutomatic, v1alpha1.AllocationByRequest, v1alpha1.AllocationCordoned}

// atLeast reports whether the policy gives addresses out as strictly as this, or more so.
func (p *Policy) atLeast(a v1alpha1.Allocation) bool {
	return slices.Index(strictness, p.Allocation) >= slices.Index(strictness, a)
}

// Restricts reports whether the policy keeps the addresses of its ranges from draws, at least.
func (p *Policy) Restricts() bool { return p.atLeast(v1alpha1.AllocationByRequest) }

// cordons reports whether the policy gives out no address of its ranges.
func cordons(p *Policy) bool { return p.atLeast(v1alpha1.AllocationCordoned) }

// EnforcedByAPIServer reports whether the API server itself is to keep Services out of the ranges.
func (p *Policy) EnforcedByAPIServer() bool {
	return (p.Exclusive || p.Restricts()) && p.Enforcement == v1alpha1.EnforcementAPIServer
}

// Restriction returns the policy whose allocation counts for an address: of those that have it the
// strictest, and of equals the best. Nil: it is drawn, and may be chosen.
func (s *Compiled) Restriction(a netip.Addr) *Policy {
	if s.restricts == 0 || slices.Contains(s.apiServer, a) {
		return nil
	}
	return restriction(s.around(a), (*Policy).Restricts)
}

// RestrictionOf is Restriction for all of a range: that of a part of it does not count.
func (s *Compiled) RestrictionOf(r allocator.Range) *Policy {
	if s.restricts == 0 {
		return nil
	}
	return restriction(s.outside(r.Prefix()), (*Policy).Restricts)
}

// Cordoned returns the policy that has cordoned all of a range, nil for none.
func (s *Compiled) Cordoned(r allocator.Range) *Policy {
	if by := s.RestrictionOf(r); by != nil && by.Allocation == v1alpha1.AllocationCordoned {
		return by
	}
	return nil
}

// restriction returns the strictest of some of the policies that have one of the prefixes.
func restriction(around iter.Seq[*ownedPrefix], of func(*Policy) bool) (strictest *Policy) {
	for at := range around {
		for _, p := range at.holders {
			if !of(p) || !p.Restricts() || strictest != nil && !p.atLeast(strictest.Allocation) {
				continue
			}
			if strictest == nil || p.Allocation != strictest.Allocation || p.outranks(strictest) {
				strictest = p
			}
		}
	}
	return strictest
}

// withheld returns the parts of a prefix of which addresses are given out as strictly as this, or
// more so: of ByRequest none is drawn.
func (s *Compiled) withheld(from v1alpha1.Allocation, prefix netip.Prefix) (out []allocator.Span) {
	if s.restricts == 0 {
		return nil
	}
	for at := range s.overlapping(prefix) {
		if slices.ContainsFunc(at.holders, func(p *Policy) bool { return p.atLeast(from) }) {
			out = append(out, at.span)
		}
	}
	return out
}
