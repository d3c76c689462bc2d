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
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/clusterip-operator/clusterip-operator/allocator"
	"github.com/clusterip-operator/clusterip-operator/api/v1alpha1"
	"github.com/clusterip-operator/clusterip-operator/internal/addressindex"
	"github.com/clusterip-operator/clusterip-operator/internal/steering"
)

// gather reads what a policy decides by: the ServiceCIDRs by a reading, all else from memory. The
// policy must be compiled.
func (r *Reconciler) gather(ctx context.Context, from reading, o *v1alpha1.ServiceCIDRPolicy, policies *steering.Compiled) (inputs, error) {
	in := settings(o)
	p := policies.Policy(o.Name)
	in.families, in.invalid, in.cordoned = policies.Families(), len(p.Invalid) > 0, p.Allocation == v1alpha1.AllocationCordoned
	in.obstacles = append(in.obstacles, r.Index.Overlaps(in.prefixes(), r.Networks)...)
	concerned, err := from(ctx, func(c addressindex.ServiceCIDR) bool { return in.concern(c, o) })
	if err != nil {
		return inputs{}, err
	}
	for _, c := range concerned {
		r.enter(&in, c, o, policies)
	}
	return in, nil
}

// reading returns some of the ServiceCIDRs, in the order of their names.
type reading func(ctx context.Context, which func(addressindex.ServiceCIDR) bool) ([]*networkingv1.ServiceCIDR, error)

// cached is what the cache has. Few of a thousand ServiceCIDRs concern a policy, and each policy
// with growth looks at them once a minute: the compilation tells which may. What it does not know
// yet wakes the policy when it does.
func (r *Reconciler) cached(o *v1alpha1.ServiceCIDRPolicy, policies *steering.Compiled) reading {
	return func(ctx context.Context, which func(addressindex.ServiceCIDR) bool) (out []*networkingv1.ServiceCIDR, _ error) {
		for _, c := range policies.Related(o.Spec.ServiceCIDRSelector.MatchLabels, o.Name, settings(o).prefixes()) {
			found := &networkingv1.ServiceCIDR{}
			err := r.Client.Get(ctx, client.ObjectKey{Name: c.Name}, found)
			switch {
			case apierrors.IsNotFound(err): // it is gone since they were compiled
			case err != nil:
				return nil, fmt.Errorf("reading ServiceCIDR %s: %w", c.Name, err)
			case which(addressindex.NewServiceCIDR(found)):
				out = append(out, found)
			}
		}
		return out, nil
	}
}

// live is what the API server has.
func (r *Reconciler) live(ctx context.Context, which func(addressindex.ServiceCIDR) bool) (out []*networkingv1.ServiceCIDR, _ error) {
	cidrs := &networkingv1.ServiceCIDRList{}
	if err := r.Live.List(ctx, cidrs); err != nil {
		return nil, fmt.Errorf("listing ServiceCIDRs: %w", err)
	}
	for i := range cidrs.Items {
		if c := &cidrs.Items[i]; which(addressindex.NewServiceCIDR(c)) {
			out = append(out, c)
		}
	}
	slices.SortFunc(out, func(a, b *networkingv1.ServiceCIDR) int { return cmp.Compare(a.Name, b.Name) })
	return out, nil
}

// concern reports whether a ServiceCIDR has a part in what a policy decides.
func (in inputs) concern(c addressindex.ServiceCIDR, o *v1alpha1.ServiceCIDRPolicy) bool {
	return c.CreatedFor == o.Name || selects(o.Spec.ServiceCIDRSelector.MatchLabels, c.Labels) ||
		slices.ContainsFunc(c.Ranges, func(r allocator.Range) bool { return in.meets(r.Prefix()) })
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
	c := addressindex.NewServiceCIDR(cidr)
	creator := c.CreatedFor
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
