package growth

import (
	"net/netip"
	"slices"

	"github.com/gaissmai/bart"

	"github.com/clusterip-operator/clusterip-operator/api/v1alpha1"
	"github.com/clusterip-operator/clusterip-operator/internal/addressindex"
	"github.com/clusterip-operator/clusterip-operator/internal/steering"
)

// changed returns a function that tells which policies have to be looked at since its last call.
func (r *Reconciler) changed() func() []string {
	seen, growing := steering.Compile(steering.Inputs{}), growers{}
	return func() []string {
		now := r.Policies.Current()
		names := growing.concerned(seen, now)
		seen = now
		return names
	}
}

// growers are the policies with growth of a compilation, by name: a tenth of all, which would cost
// more to go through than what changes.
type growers map[string]grower

// grower is a policy with growth, and its supernets.
type grower struct {
	*steering.Policy
	supernets []netip.Prefix
}

// concerned makes the growers those of the later compilation, and returns the ones that what has
// changed since the other may make decide otherwise, by name: a policy that itself changed, one
// that selects or selected a changed ServiceCIDR, and one whose supernets or ranges meet what
// changed, be it a ServiceCIDR or what another policy has. With a family of the cluster all are
// concerned.
func (g growers) concerned(before, after *steering.Compiled) (names []string) {
	for was, p := range steering.Changed(before, after) {
		if was != nil {
			delete(g, was.Name)
		}
		if p != nil && follows(p.Object()) {
			g[p.Name] = grower{p, settings(p.Object()).prefixes()}
		}
	}
	moved, all := differ(before, after), !slices.Equal(before.Families(), after.Families())
	for name, p := range g {
		if all || moved.concerns(p) {
			names = append(names, name)
		}
	}
	slices.Sort(names)
	return names
}

// follows reports whether a policy has growth that can be followed. API servers refuse growth
// without a selector, unless their definition of policies lacks the rule: one such object must stop
// nothing.
func follows(o *v1alpha1.ServiceCIDRPolicy) bool {
	return o.Spec.Growth != nil && o.Spec.ServiceCIDRSelector != nil
}

// difference is what differs between two compilations.
type difference struct {
	// policies are those that came or changed, by name, and cidrs both forms of changed ServiceCIDRs.
	policies map[string]bool
	cidrs    []addressindex.ServiceCIDR
	// prefixes are all ranges of these ServiceCIDRs, and those that the policies had or have.
	prefixes bart.Lite
}

// differ compares two compilations.
func differ(before, after *steering.Compiled) *difference {
	d := &difference{policies: map[string]bool{}}
	for was, p := range steering.Changed(before, after) {
		if p != nil && same(was, p) {
			continue
		}
		if p != nil {
			d.policies[p.Name] = true
		}
		d.enter(was, p)
	}
	d.cidrs = steering.Moved(before, after)
	for _, c := range d.cidrs {
		for _, r := range c.Ranges {
			d.prefixes.Insert(r.Prefix())
		}
	}
	return d
}

// same reports whether a policy has the same, from the same place among the policies' priorities.
func same(a, b *steering.Policy) bool {
	return a != nil && a.UID == b.UID && a.Generation == b.Generation && a.FollowedGeneration == b.FollowedGeneration &&
		a.Standing == b.Standing && slices.Equal(a.Claimed, b.Claimed) && slices.Equal(a.Ranges, b.Ranges)
}

// enter notes what policies have.
func (d *difference) enter(policies ...*steering.Policy) {
	for _, p := range policies {
		if p == nil {
			continue
		}
		for _, prefix := range p.Claimed {
			d.prefixes.Insert(prefix)
		}
	}
}

// concerns reports whether the difference may have to do with a policy that has growth.
func (d *difference) concerns(p grower) bool {
	return d.policies[p.Name] || slices.ContainsFunc(p.Claimed, d.meets) || slices.ContainsFunc(p.supernets, d.meets) ||
		slices.ContainsFunc(d.cidrs, func(c addressindex.ServiceCIDR) bool {
			return c.CreatedFor == p.Name || selects(p.Object().Spec.ServiceCIDRSelector.MatchLabels, c.Labels)
		})
}

func (d *difference) meets(p netip.Prefix) bool { return d.prefixes.OverlapsPrefix(p) }
