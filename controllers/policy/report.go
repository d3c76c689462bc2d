package policy

import (
	"math"
	"net/netip"

	"github.com/clusterip-operator/clusterip-operator/api/v1alpha1"
)

// report is the status that a policy should have: without refusals, which are not ours, and without times.
func report(s sight) v1alpha1.ServiceCIDRPolicyStatus {
	out := v1alpha1.ServiceCIDRPolicyStatus{ObservedGeneration: s.generation, Conditions: conditions(s)}
	counted := map[netip.Prefix]bool{}
	for _, r := range s.ranges {
		one := v1alpha1.PolicyRange{
			CIDR: r.Range.Prefix().String(), ServiceCIDR: r.ServiceCIDR, Static: r.static.status(), Dynamic: r.dynamic.status(),
		}
		out.Ranges = append(out.Ranges, one)
		if prefix := r.Range.Prefix(); !counted[prefix] { // two ServiceCIDRs may offer the same range
			counted[prefix] = true
			out.Summary.Ranges++
			addTo(&out.Summary.BandStatus, one.Static)
			addTo(&out.Summary.BandStatus, one.Dynamic)
		}
	}
	return out
}

// status counts as users see it: what other managers reserve is in use, what our reservations keep is not.
func (u bandUse) status() v1alpha1.BandStatus {
	kept := min(u.kept, u.Reserved)
	return v1alpha1.BandStatus{
		Size: capped(u.Size), Used: capped(u.Allocated + u.Reserved - kept), Free: capped(u.Free),
		Cooling: capped(u.Cooling), Reserved: capped(kept),
	}
}

func capped(n uint64) int64 { return int64(min(n, math.MaxInt64)) }

func addTo(sum *v1alpha1.BandStatus, b v1alpha1.BandStatus) {
	sum.Size, sum.Used, sum.Free = plus(sum.Size, b.Size), plus(sum.Used, b.Used), plus(sum.Free, b.Free)
	sum.Cooling, sum.Reserved = plus(sum.Cooling, b.Cooling), plus(sum.Reserved, b.Reserved)
}

// plus adds numbers that are not negative, and stops at the largest.
func plus(a, b int64) int64 { return a + min(b, math.MaxInt64-a) }
