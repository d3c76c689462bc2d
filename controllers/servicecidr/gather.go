package servicecidr

import (
	"context"
	"math"
	"net/netip"
	"strings"

	networkingv1 "k8s.io/api/networking/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/clusterip-operator/clusterip-operator/allocator"
	"github.com/clusterip-operator/clusterip-operator/api/v1alpha1"
	"github.com/clusterip-operator/clusterip-operator/controllers/internal/upstream"
)

// gather reads what decide needs from the address index.
func (r *Reconciler) gather(ctx context.Context, cidr *networkingv1.ServiceCIDR) (inputs, error) {
	in := inputs{now: r.Clock.Now(), limits: r.Limits}
	var prefixes []netip.Prefix
	for _, c := range r.Index.ServiceCIDRs() {
		if c.Name != cidr.Name {
			continue
		}
		for _, rg := range c.Ranges {
			prefixes = append(prefixes, rg.Prefix())
			for _, b := range []allocator.Band{allocator.Static, allocator.Dynamic} {
				use := bandUse{cidr: rg.Prefix(), band: b, usage: r.Index.Usage(rg.Band(b))}
				use.perHour, use.known = r.history.rate(bandKey{c.Name, rg.Prefix(), b}, in.now, use.usage.Size-use.usage.Free)
				in.bands = append(in.bands, use)
			}
		}
	}
	in.overlaps = r.Index.Overlaps(prefixes, r.Networks)
	if cidr.DeletionTimestamp.IsZero() {
		return in, nil
	}
	in.deleted = cidr.DeletionTimestamp.Time
	var err error
	in.orphans, in.blockers, err = r.orphans(ctx, cidr.Name)
	return in, err
}

// orphans counts the used addresses that would be left without a range, and names the first ones. Cooling ones are not waited for.
func (r *Reconciler) orphans(ctx context.Context, name string) (count uint64, first []blocker, err error) {
	for _, span := range r.Index.Orphans(name) {
		usage := r.Index.Usage(span)
		count += usage.Size - usage.Free - usage.Cooling
		if len(first) == namesShown {
			continue
		}
		for _, a := range r.Index.Used(span, namesShown+int(min(usage.Cooling, math.MaxInt32))) {
			if len(first) == namesShown || r.Index.State(a) == allocator.Cooling {
				continue
			}
			owner, err := r.owner(ctx, a)
			if err != nil {
				return 0, nil, err
			}
			first = append(first, blocker{address: a, owner: owner})
		}
	}
	return count, first, nil
}

// owner says whose an address is: the Services that hold it, or what its IPAddress is kept for, or names.
func (r *Reconciler) owner(ctx context.Context, a netip.Addr) (string, error) {
	if claims := r.Index.Claims(a); len(claims) > 0 {
		names := make([]string, 0, len(claims))
		for _, c := range claims {
			names = append(names, "Service "+c.String())
		}
		return strings.Join(names, ", "), nil
	}
	if k, ok := r.Index.Owned(a); ok && k.Purpose == v1alpha1.PurposeAdditional {
		return "additional address of Service " + k.Service.String(), nil
	}
	ip := &networkingv1.IPAddress{}
	if err := r.Client.Get(ctx, client.ObjectKey{Name: a.String()}, ip); err != nil {
		return "IPAddress without a Service", client.IgnoreNotFound(err)
	}
	return upstream.Describe(ip), nil
}
