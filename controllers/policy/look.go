package policy

import (
	"context"
	"fmt"
	"net/netip"
	"slices"
	"strings"

	networkingv1 "k8s.io/api/networking/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/clusterip-operator/clusterip-operator/allocator"
	"github.com/clusterip-operator/clusterip-operator/api/v1alpha1"
	"github.com/clusterip-operator/clusterip-operator/controllers/internal/addressindex"
	"github.com/clusterip-operator/clusterip-operator/controllers/internal/steering"
)

// sight are the inputs of report: everything that is known about one policy.
type sight struct {
	generation int64
	policy     *steering.Policy
	// asks: the policy asks for ranges; selects: by their labels.
	asks, selects bool
	ranges        []rangeUse
	// reserved is how many addresses the policy keeps, absent how many of these are not in place, pending how many of the absent
	// have nobody in their way. first are the first of the absent.
	reserved, absent, pending int
	first                     []absentee
}

// rangeUse is the use of a range of the policy.
type rangeUse struct {
	steering.PolicyRange
	static, dynamic bandUse
}

// bandUse is the use of one band. kept is how many of its reserved addresses are those of reservations.
type bandUse struct {
	allocator.Usage
	kept uint64
}

// absentee is a reserved address that is not in place.
type absentee struct {
	address     netip.Addr
	reservation string
	// why says who has it; empty when nobody has and it is only a matter of time.
	why string
}

// look gathers what the address index and the compiled policies know of a policy. It is false while this version is not compiled.
func (r *Reporter) look(o *v1alpha1.ServiceCIDRPolicy) (sight, bool) {
	rules := r.Board.Current()
	p := rules.Policy(o.Name)
	if p == nil || p.UID != o.UID || p.Generation != o.Generation {
		return sight{}, false
	}
	s := sight{
		generation: o.Generation, policy: p, selects: o.Spec.ServiceCIDRSelector != nil,
		asks: len(o.Spec.ServiceCIDRs) > 0 || o.Spec.ServiceCIDRSelector != nil,
	}
	x := r.index.of(rules)
	for _, pr := range p.Ranges {
		s.ranges = append(s.ranges, rangeUse{
			PolicyRange: pr, static: r.use(x, pr.Range.Band(allocator.Static)), dynamic: r.use(x, pr.Range.Band(allocator.Dynamic)),
		})
	}
	r.addAbsent(&s)
	return s, true
}

func (r *Reporter) use(x *index, band allocator.Span) bandUse {
	u := bandUse{Usage: r.Index.Usage(band)}
	if u.Reserved > 0 {
		for _, s := range x.within(band) {
			u.kept += r.Index.Usage(s).Reserved
		}
	}
	return u
}

// addAbsent looks for every address that the policy reserves.
func (r *Reporter) addAbsent(s *sight) {
	cidrs := r.Index.ServiceCIDRs()
	for _, reservation := range s.policy.Reservations {
		for _, a := range each(reservation.Span) {
			s.reserved++
			if r.inPlace(reservation, a) || unusable(cidrs, a) {
				continue
			}
			s.absent++
			one := absentee{address: a, reservation: reservation.Name, why: r.obstacle(cidrs, a)}
			if one.why == "" {
				s.pending++
			}
			s.first = keepFirst(s.first, one)
		}
	}
}

// namesShown is how many absentees a condition names.
const namesShown = 3

// keepFirst prefers those that somebody has: the others come by themselves.
func keepFirst(first []absentee, one absentee) []absentee {
	if len(first) < namesShown {
		return append(first, one)
	}
	if i := slices.IndexFunc(first, func(a absentee) bool { return a.why == "" }); i >= 0 && one.why != "" {
		return append(slices.Delete(first, i, i+1), one)
	}
	return first
}

// inPlace reports whether a reserved address is kept, or has the Service that it is kept for, or is being handed out.
func (r *Reporter) inPlace(held steering.Reservation, a netip.Addr) bool {
	if k, ok := r.Index.Owned(a); ok && k.Purpose == v1alpha1.PurposeReservation && k.Policy == held.Policy {
		return true
	}
	if held.For.Name != "" && slices.Contains(r.Index.Claims(a), held.For) {
		return true
	}
	return r.Index.State(a) == allocator.Assumed
}

// unusable reports whether an address is in a range and yet nobody's, as the network address: nobody has to keep it.
func unusable(cidrs []addressindex.ServiceCIDR, a netip.Addr) bool {
	return anyRange(cidrs, func(r allocator.Range) bool { return r.Prefix().Contains(a) }) &&
		!anyRange(cidrs, func(r allocator.Range) bool { return r.Contains(a) })
}

func anyRange(cidrs []addressindex.ServiceCIDR, has func(allocator.Range) bool) bool {
	return slices.ContainsFunc(cidrs, func(c addressindex.ServiceCIDR) bool { return slices.ContainsFunc(c.Ranges, has) })
}

// anIPAddress stands for a holder that nameHolders looks up.
const anIPAddress = "an IPAddress"

// obstacle says what keeps a reservation from an address, empty for nothing.
func (r *Reporter) obstacle(cidrs []addressindex.ServiceCIDR, a netip.Addr) string {
	if claims := r.Index.Claims(a); len(claims) > 0 {
		return fmt.Sprintf("Service %s has it", claims[0])
	}
	var covered bool
	for _, c := range cidrs {
		if c.Contains(a) && !c.Terminating {
			if s := r.Index.State(a); s == allocator.Allocated || s == allocator.Reserved {
				return anIPAddress
			}
			return ""
		}
		covered = covered || c.Contains(a)
	}
	if covered {
		return "its ServiceCIDR is being deleted"
	}
	return "it is in no ServiceCIDR"
}

// nameHolders says whose the IPAddresses are that stand in the way. Only those that are shown are looked up.
func (r *Reporter) nameHolders(ctx context.Context, s *sight) error {
	for i, one := range s.first {
		if one.why != anIPAddress {
			continue
		}
		ip := &networkingv1.IPAddress{}
		if err := r.Client.Get(ctx, client.ObjectKey{Name: one.address.String()}, ip); client.IgnoreNotFound(err) != nil {
			return fmt.Errorf("reading IPAddress %s: %w", one.address, err)
		}
		s.first[i].why = holder(ip)
	}
	return nil
}

func holder(ip *networkingv1.IPAddress) string {
	ref := ip.Spec.ParentRef
	if ref == nil {
		return "an IPAddress without a parent has it"
	}
	whose := strings.TrimPrefix(fmt.Sprintf("%s/%s", ref.Namespace, ref.Name), "/")
	return fmt.Sprintf("the IPAddress of %s %s, managed by %q, has it", ref.Resource, whose, ip.Labels[networkingv1.LabelManagedBy])
}

// policies returns a function that tells which policies are not what they were when it was last asked.
func (r *Reporter) policies() func() []string {
	seen := emptyScene().rules
	return func() []string {
		now := r.Board.Current()
		out := slices.DeleteFunc(names(seen, now), func(name string) bool { return samePolicy(seen.Policy(name), now.Policy(name)) })
		seen = now
		return out
	}
}

// samePolicy reports whether two versions of a policy have the same status, as far as the rules decide it.
func samePolicy(a, b *steering.Policy) bool {
	if a == nil || b == nil {
		return a == b
	}
	return a.UID == b.UID && a.Generation == b.Generation &&
		slices.Equal(a.Ranges, b.Ranges) && slices.Equal(a.Reservations, b.Reservations) &&
		slices.Equal(a.Invalid, b.Invalid) && slices.Equal(a.Conflicts, b.Conflicts) &&
		slices.Equal(a.Missing, b.Missing) && slices.Equal(a.Unready, b.Unready) && slices.Equal(a.Deleting, b.Deleting)
}
