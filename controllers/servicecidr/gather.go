package servicecidr

import (
	"context"
	"fmt"
	"math"
	"net/netip"
	"slices"
	"strings"
	"time"

	networkingv1 "k8s.io/api/networking/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/clusterip-operator/clusterip-operator/allocator"
	"github.com/clusterip-operator/clusterip-operator/api/v1alpha1"
	"github.com/clusterip-operator/clusterip-operator/controllers/internal/addressindex"
)

// gather reads what decide needs from the address index.
func (r *Reconciler) gather(ctx context.Context, cidr *networkingv1.ServiceCIDR) (inputs, error) {
	in := inputs{now: r.Clock.Now(), limits: r.Limits}
	ranges := r.ranges(cidr.Name)
	in.bands = r.bands(cidr.Name, ranges, in.now)
	in.overlaps = r.overlaps(ranges)
	if cidr.DeletionTimestamp.IsZero() {
		return in, nil
	}
	in.deleted = cidr.DeletionTimestamp.Time
	var err error
	in.orphans, in.blockers, err = r.orphans(ctx, cidr.Name)
	return in, err
}

func (r *Reconciler) ranges(name string) []allocator.Range {
	for _, c := range r.Index.ServiceCIDRs() {
		if c.Name == name {
			return c.Ranges
		}
	}
	return nil
}

func (r *Reconciler) bands(name string, ranges []allocator.Range, now time.Time) []bandUse {
	var out []bandUse
	for _, rg := range ranges {
		for _, b := range []allocator.Band{allocator.Static, allocator.Dynamic} {
			use := bandUse{cidr: rg.Prefix(), band: b, usage: r.Index.Usage(rg.Band(b))}
			use.perHour, use.known = r.history.rate(bandKey{name, rg.Prefix(), b}, now, use.used())
			out = append(out, use)
		}
	}
	return out
}

// overlaps returns the networks that meet the ranges.
func (r *Reconciler) overlaps(ranges []allocator.Range) []addressindex.Network {
	prefixes := make([]netip.Prefix, 0, len(ranges))
	for _, rg := range ranges {
		prefixes = append(prefixes, rg.Prefix())
	}
	return r.Index.Overlaps(prefixes, r.Networks)
}

// orphans counts the used addresses that would be left without a range, and names the first ones. Cooling ones are not waited for.
func (r *Reconciler) orphans(ctx context.Context, name string) (count uint64, first []blocker, err error) {
	for _, span := range r.Index.Orphans(name) {
		usage := r.Index.Usage(span)
		count += usage.Size - usage.Free - usage.Cooling
		for _, a := range r.inUse(span, usage, namesShown-len(first)) {
			owner, err := r.owner(ctx, a)
			if err != nil {
				return 0, nil, err
			}
			first = append(first, blocker{address: a, owner: owner})
		}
	}
	return count, first, nil
}

// inUse returns the first addresses of a span that are used and not cooling.
func (r *Reconciler) inUse(span allocator.Span, usage allocator.Usage, limit int) []netip.Addr {
	if limit <= 0 {
		return nil
	}
	used := r.Index.Used(span, limit+int(min(usage.Cooling, math.MaxInt32)))
	used = slices.DeleteFunc(used, func(a netip.Addr) bool { return r.Index.State(a) == allocator.Cooling })
	return used[:min(len(used), limit)]
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
	parent := "nothing"
	if ref := ip.Spec.ParentRef; ref != nil {
		parent = ref.Resource + " " + strings.TrimPrefix(ref.Namespace+"/"+ref.Name, "/")
	}
	return fmt.Sprintf("IPAddress of %s, managed by %q", parent, ip.Labels[networkingv1.LabelManagedBy]), nil
}
