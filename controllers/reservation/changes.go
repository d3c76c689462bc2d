package reservation

import (
	"cmp"
	"math"
	"net/netip"
	"slices"

	"github.com/clusterip-operator/clusterip-operator/allocator"
	"github.com/clusterip-operator/clusterip-operator/internal/addressindex"
	"github.com/clusterip-operator/clusterip-operator/internal/steering"
)

// observed are policies and ServiceCIDRs at one time: what decides beside the state of an address.
type observed struct {
	policies *steering.Compiled
	cidrs    []addressindex.ServiceCIDR // by name
}

// changed returns a function that tells which addresses to look at since it was last asked.
func (r *Reconciler) changed() func() []netip.Addr {
	seen := observed{policies: steering.Compile(steering.Inputs{})}
	return func() []netip.Addr {
		now := r.observe()
		reserved, cooling := seen.differ(now)
		seen = now
		var out []netip.Addr
		for _, r := range reserved {
			out = slices.AppendSeq(out, r.Addresses())
		}
		for _, s := range cooling {
			out = append(out, r.cooling(s)...)
		}
		return out
	}
}

// moved reports whether a ServiceCIDR came, went or changed since this was last asked of it. Counts
// and conditions, which are written more often, change nothing that is wanted.
func (r *Reconciler) moved(name string) bool {
	now, known := r.Index.ServiceCIDR(name)
	if !known {
		r.told.Delete(name)
		return true
	}
	last, told := r.told.Swap(name, now)
	return !told || !alike(last.(addressindex.ServiceCIDR), now)
}

// alike reports whether a ServiceCIDR offers the same as before, to reservations.
func alike(before, after addressindex.ServiceCIDR) bool {
	return before.Name == after.Name && before.Terminating == after.Terminating && slices.Equal(before.Ranges, after.Ranges)
}

func byName(all []addressindex.ServiceCIDR) map[string]addressindex.ServiceCIDR {
	out := make(map[string]addressindex.ServiceCIDR, len(all))
	for _, c := range all {
		out[c.Name] = c
	}
	return out
}

func (r *Reconciler) observe() observed {
	return observed{policies: r.Policies.Current(), cidrs: r.Index.ServiceCIDRs()}
}

// cooling returns the addresses of a span that cool down.
func (r *Reconciler) cooling(s allocator.Span) []netip.Addr {
	if r.Index.Usage(s).Cooling == 0 {
		return nil
	}
	return slices.DeleteFunc(r.Index.Used(s, math.MaxInt), func(a netip.Addr) bool { return r.Index.State(a) != allocator.Cooling })
}

// differ returns reservations that came or went, also by their ranges, and spans of new cool-downs.
func (o observed) differ(now observed) (reserved []steering.Reservation, cooling []allocator.Span) {
	for was, is := range steering.Changed(o.policies, now.policies) {
		before, after := cmp.Or(was, &steering.Policy{}), cmp.Or(is, &steering.Policy{})
		if !slices.Equal(before.Reservations, after.Reservations) {
			reserved = append(append(reserved, before.Reservations...), after.Reservations...)
		}
		if before.UID != after.UID || before.CoolDown != after.CoolDown || !slices.Equal(before.Ranges, after.Ranges) {
			cooling = append(append(cooling, cooledBy(before)...), cooledBy(after)...)
		}
	}
	for _, touched := range o.touched(now) {
		reserved = append(reserved, now.policies.Reservations(touched)...)
	}
	return reserved, cooling
}

// cooledBy returns the spans in which a policy has addresses cool down.
func cooledBy(p *steering.Policy) (out []allocator.Span) {
	for _, r := range p.Ranges {
		if p.CoolDown > 0 {
			out = append(out, r.Range.Span())
		}
	}
	return out
}

// touched returns the spans of the ServiceCIDRs that came, went, or are being deleted since.
func (o observed) touched(now observed) (out []allocator.Span) {
	was, is := steering.Trim(o.cidrs, now.cidrs, alike)
	sides := []map[string]addressindex.ServiceCIDR{byName(was), byName(is)}
	for _, side := range sides {
		for name, c := range side {
			if alike(sides[0][name], sides[1][name]) {
				continue
			}
			for _, r := range c.Ranges {
				out = append(out, r.Span())
			}
		}
	}
	return out
}
