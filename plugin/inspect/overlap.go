package inspect

import (
	"cmp"
	"net/netip"
	"slices"
)

// findOverlaps enters in each range those of other clusters that have some of its addresses. CIDRs
// overlap only if one has all of the other, so in their order a range overlaps exactly those before
// it that have its first address: what a stack of them is for.
func (f *fleet) findOverlaps() {
	type placed struct {
		netip.Prefix
		of *fleetRange
	}
	var all []placed
	for i := range f.Items {
		if p, err := netip.ParsePrefix(f.Items[i].CIDR); err == nil {
			all = append(all, placed{p.Masked(), &f.Items[i]})
		}
	}
	slices.SortStableFunc(all, func(a, b placed) int { return cmp.Or(a.Addr().Compare(b.Addr()), a.Bits()-b.Bits()) })
	var around []placed
	for _, one := range all {
		for len(around) > 0 && !around[len(around)-1].Contains(one.Addr()) {
			around = around[:len(around)-1]
		}
		for _, other := range around {
			if other.of.cluster != one.of.cluster {
				one.of.add(other.of)
				other.of.add(one.of)
			}
		}
		around = append(around, one)
	}
}

func (r *fleetRange) add(other *fleetRange) {
	r.Overlaps = append(r.Overlaps, overlap{other.Context, other.ServiceCIDR, other.CIDR})
}
