package growth

import (
	"cmp"
	"context"
	"encoding/json"
	"fmt"
	"net/netip"
	"slices"
	"time"

	networkingv1 "k8s.io/api/networking/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/clusterip-operator/clusterip-operator/allocator"
	"github.com/clusterip-operator/clusterip-operator/api/v1alpha1"
	"github.com/clusterip-operator/clusterip-operator/internal/addressindex"
	"github.com/clusterip-operator/clusterip-operator/internal/steering"
)

// gather reads the ServiceCIDRs from reader, all else from memory. The policy must be compiled.
func (r *Reconciler) gather(ctx context.Context, reader client.Reader, o *v1alpha1.ServiceCIDRPolicy, policies *steering.Compiled) (inputs, error) {
	cidrs := &networkingv1.ServiceCIDRList{}
	if err := reader.List(ctx, cidrs, client.UnsafeDisableDeepCopy); err != nil { // they are only read here
		return inputs{}, fmt.Errorf("listing ServiceCIDRs: %w", err)
	}
	in := settings(o)
	p := policies.Policy(o.Name)
	in.families, in.invalid, in.cordoned = policies.Families(), len(p.Invalid) > 0, p.Allocation == v1alpha1.AllocationCordoned
	in.obstacles = append(in.obstacles, r.Index.Overlaps(in.prefixes(), r.Networks)...)
	var concerned []*networkingv1.ServiceCIDR
	for i := range cidrs.Items {
		if c := &cidrs.Items[i]; in.concern(c, o) {
			concerned = append(concerned, c)
		}
	}
	slices.SortFunc(concerned, func(a, b *networkingv1.ServiceCIDR) int { return cmp.Compare(a.Name, b.Name) }) // a cache has no order, and messages should
	for _, c := range concerned {
		r.enter(&in, c, o, policies)
	}
	return in, nil
}

// concern reports whether a ServiceCIDR has a part in what a policy decides. Few of a thousand
// have, and each policy with growth looks at all of them once a minute.
func (in inputs) concern(c *networkingv1.ServiceCIDR, o *v1alpha1.ServiceCIDRPolicy) bool {
	return c.Annotations[v1alpha1.AnnotationCreatedFor] == o.Name || selects(o.Spec.ServiceCIDRSelector.MatchLabels, c.Labels) ||
		slices.ContainsFunc(c.Spec.CIDRs, func(text string) bool {
			p, err := netip.ParsePrefix(text)
			return err == nil && in.meets(p)
		})
}

func (in inputs) meets(p netip.Prefix) bool {
	return slices.ContainsFunc(in.supernets, func(s supernet) bool { return s.prefix.Overlaps(p) })
}

// settings reads the spec. What is no prefix the schema has refused.
func settings(o *v1alpha1.ServiceCIDRPolicy) inputs {
	g := o.Spec.Growth
	in := inputs{generation: o.Generation, percent: int(g.WhenFreePercent), maxRanges: int(g.MaxRanges), dryRun: g.DryRun}
	if g.WhenFullWithin != nil {
		in.within = g.WhenFullWithin.Duration
	}
	for _, from := range g.From {
		if p, err := netip.ParsePrefix(from.CIDR); err == nil {
			in.supernets = append(in.supernets, supernet{prefix: p.Masked(), bits: int(from.PrefixLength)})
		}
	}
	for _, text := range g.ReservedNetworks {
		if p, err := netip.ParsePrefix(text); err == nil {
			in.obstacles = append(in.obstacles, addressindex.Network{Owner: "growth.reservedNetworks", Prefix: p.Masked()})
		}
	}
	return in
}

func (in inputs) prefixes() (out []netip.Prefix) {
	for _, s := range in.supernets {
		out = append(out, s.prefix)
	}
	return out
}

// enter notes what a ServiceCIDR means to a policy.
func (r *Reconciler) enter(in *inputs, cidr *networkingv1.ServiceCIDR, o *v1alpha1.ServiceCIDRPolicy, policies *steering.Compiled) {
	c, creator := addressindex.NewServiceCIDR(cidr), cidr.Annotations[v1alpha1.AnnotationCreatedFor]
	selected := selects(o.Spec.ServiceCIDRSelector.MatchLabels, c.Labels)
	var usage v1alpha1.ServiceCIDRUsage
	if selected {
		usage = usageOf(cidr)
	}
	for _, rng := range c.Ranges {
		if in.meets(rng.Prefix()) {
			in.obstacles = append(in.obstacles, addressindex.Network{Owner: ownerOf(c.Name, creator, o.Name), Prefix: rng.Prefix()})
		}
		if c.Terminating || !selected && creator != o.Name {
			continue
		}
		// The policy may be compiled without the range's labels. What other policies have is known.
		p := policies.Policy(o.Name)
		open := rng.Band(allocator.Dynamic).Subtract(policies.ClosedTo(p, rng)...)
		lost, by := len(open) == 0, withholds(p, policies, rng)
		if creator == o.Name {
			in.created = append(in.created, created{name: c.Name, prefix: rng.Prefix(), ready: c.Ready, lost: selected && lost, withheld: by})
		}
		if selected {
			if by != "" {
				open = nil // what is free there is free for no Service of the policy
			}
			use := rangeUse{prefix: rng.Prefix(), usage: r.use(open), perDay: growthPerDay(usage, rng.Prefix())}
			if creator == o.Name && !lost && r.Clock.Since(cidr.CreationTimestamp.Time) > young && idle(usage) {
				use.idle = c.Name
			}
			in.ranges = append(in.ranges, use)
		}
	}
}

// selects reports whether labels have all that a policy with growth selects by.
func selects(wanted, has map[string]string) bool {
	for key, value := range wanted {
		if v, ok := has[key]; !ok || v != value {
			return false
		}
	}
	return true
}

// ownerOf names a ServiceCIDR to a policy, and the other policy for which it was created.
func ownerOf(name, creator, policy string) string {
	if creator == "" || creator == policy {
		return "ServiceCIDR " + name
	}
	return fmt.Sprintf("ServiceCIDR %s, created for ServiceCIDRPolicy %q,", name, creator)
}

// withholds returns the other policy that has a range cordoned, or by request only where the policy
// draws: empty for none.
func withholds(p *steering.Policy, policies *steering.Compiled, rng allocator.Range) string {
	by := policies.RestrictionOf(rng)
	if by == nil || by.Allocation == p.Allocation {
		return ""
	}
	return by.Name
}

// use adds up the use of disjoint spans. Free are the addresses that a new Service could get, also
// those that cool down: a policy does not grow for Services that are gone.
func (r *Reconciler) use(spans []allocator.Span) (sum allocator.Usage) {
	for _, s := range spans {
		u := r.Index.Usage(s)
		free := u.Available()
		if r.Unsteered {
			free = u.Free
		}
		sum.Size, sum.Free = sum.Size+u.Size, sum.Free+free
	}
	return sum
}

// young is how old a range is whose use may be still to come.
const young = 24 * time.Hour

// usageOf reads a ServiceCIDR's use; nothing if it is not there yet, or another writer spoilt it.
func usageOf(cidr *networkingv1.ServiceCIDR) (usage v1alpha1.ServiceCIDRUsage) {
	if json.Unmarshal([]byte(cidr.Annotations[v1alpha1.AnnotationUsage]), &usage) != nil {
		return v1alpha1.ServiceCIDRUsage{}
	}
	return usage
}

// growthPerDay is the forecast of a range, 0 if there is none.
func growthPerDay(usage v1alpha1.ServiceCIDRUsage, of netip.Prefix) int64 {
	for _, r := range usage.Ranges {
		if r.CIDR == of.String() && r.Dynamic.GrowthPerDay != nil {
			return *r.Dynamic.GrowthPerDay
		}
	}
	return 0
}

// idle reports whether no address of a ServiceCIDR is in use, or was when its forecast began.
func idle(usage v1alpha1.ServiceCIDRUsage) bool {
	for _, r := range usage.Ranges {
		for _, b := range []v1alpha1.BandUsage{r.Static, r.Dynamic} {
			if b.Allocated+b.Reserved+b.Cooling > 0 || b.GrowthPerDay == nil || *b.GrowthPerDay != 0 {
				return false
			}
		}
	}
	return len(usage.Ranges) > 0
}
