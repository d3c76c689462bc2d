package policy

import (
	"context"
	"fmt"
	"net/netip"
	"slices"

	networkingv1 "k8s.io/api/networking/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/clusterip-operator/clusterip-operator/allocator"
	"github.com/clusterip-operator/clusterip-operator/api/v1alpha1"
	"github.com/clusterip-operator/clusterip-operator/internal/addressindex"
	"github.com/clusterip-operator/clusterip-operator/internal/steering"
	"github.com/clusterip-operator/clusterip-operator/internal/upstream"
)

// gather reads what index and policies know of a policy, false while this version is not compiled.
func (r *Reconciler) gather(o *v1alpha1.ServiceCIDRPolicy) (inputs, bool) {
	policies := r.Policies.Current()
	p := policies.Policy(o.Name)
	if p == nil || p.UID != o.UID || p.Generation != o.Generation {
		return inputs{}, false
	}
	in := inputs{
		generation: o.Generation, policy: p, selects: o.Spec.ServiceCIDRSelector != nil,
		asks:     len(o.Spec.ServiceCIDRs) > 0 || o.Spec.ServiceCIDRSelector != nil,
		enforces: p.EnforcedByAPIServer(),
		enforced: meta.FindStatusCondition(o.Status.Conditions, v1alpha1.PolicyEnforced),
	}
	for _, pr := range p.Ranges {
		static, dynamic := pr.Range.Band(allocator.Static), pr.Range.Band(allocator.Dynamic)
		in.ranges = append(in.ranges, rangeUse{pr, r.use(policies, static), r.use(policies, dynamic)})
	}
	r.gatherReservations(&in)
	return in, true
}

// use counts the addresses of a band, and those that a reservation keeps.
func (r *Reconciler) use(policies *steering.Compiled, band allocator.Span) bandUse {
	u := bandUse{Usage: r.Index.Usage(band)}
	if u.Reserved > 0 {
		for _, s := range policies.ReservedIn(band) {
			u.kept += r.Index.Usage(s).Reserved
		}
	}
	return u
}

// gatherReservations adds which reserved addresses there are, and which of them are not in place.
func (r *Reconciler) gatherReservations(in *inputs) {
	p := in.policy
	for _, reservation := range p.Reservations {
		for a := range reservation.Addresses() {
			in.reserved++
			switch why, missing := r.obstacle(reservation, a); {
			case missing:
				in.addAbsent(absentee{address: a, reservation: reservation.Name, why: why})
			case r.Index.State(a) == allocator.Reserved && !has(p.Ranges, a): // not while its Service has it
				in.elsewhere++
			}
		}
	}
}

// has reports whether one of the ranges has an address that Services can have.
func has(ranges []steering.PolicyRange, a netip.Addr) bool {
	return slices.ContainsFunc(ranges, func(r steering.PolicyRange) bool { return r.Range.Contains(a) })
}

// anIPAddress stands for a holder that nameHolders looks up.
const anIPAddress = "an IPAddress"

// obstacle says what keeps a reservation from an address, empty for nothing, if it is not in place:
// reserved by an IPAddress, or had by the Service it is for, or being handed out.
func (r *Reconciler) obstacle(held steering.Reservation, a netip.Addr) (why string, missing bool) {
	k, ok := r.Index.Owned(a)
	claims, state := r.Index.Claims(a), r.Index.State(a)
	if ok && k.Purpose == v1alpha1.PurposeReservation && k.Policy == held.Policy || state == allocator.Assumed ||
		held.For.Name != "" && slices.Contains(claims, held.For) {
		return "", false
	}
	covering := r.Index.Covering(a)
	usable := len(covering) > 0
	offered := slices.ContainsFunc(covering, func(c addressindex.ServiceCIDR) bool { return !c.Terminating })
	switch {
	case !usable && r.Index.Inside(a):
		return "", false // such as the network address, which no Service can have
	case len(claims) > 0:
		return fmt.Sprintf("Service %s has it", claims[0]), true
	case !usable:
		return "it is in no ServiceCIDR", true
	case !offered:
		return "its ServiceCIDR is being deleted", true
	case state == allocator.Allocated || state == allocator.Reserved:
		return anIPAddress, true
	default:
		return "", true
	}
}

// nameHolders says whose the IPAddresses in the way are. It looks up only those that are shown.
func (r *Reconciler) nameHolders(ctx context.Context, in *inputs) error {
	for i, one := range in.first {
		if one.why != anIPAddress {
			continue
		}
		ip := &networkingv1.IPAddress{}
		if err := r.Client.Get(ctx, client.ObjectKey{Name: one.address.String()}, ip); client.IgnoreNotFound(err) != nil {
			return fmt.Errorf("reading IPAddress %s: %w", one.address, err)
		}
		in.first[i].why = "the " + upstream.Describe(ip) + ", has it"
	}
	return nil
}
