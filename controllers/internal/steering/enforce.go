package steering

import (
	"cmp"
	"encoding/json"
	"net/netip"
	"slices"
	"sort"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/selection"
	"k8s.io/apimachinery/pkg/util/sets"

	"github.com/clusterip-operator/clusterip-operator/allocator"
	"github.com/clusterip-operator/clusterip-operator/api/v1alpha1"
)

// Owner returns the policy that keeps others away from an address, nil if there is none.
func (s *Compiled) Owner(a netip.Addr) *Policy {
	if len(s.owned) == 0 || slices.Contains(s.apiServer, a) {
		return nil
	}
	return bestOwner(s.ranges.around(a))
}

// Stranger reports whether a Service that has an address is none that the Owner of the address lets have it. A Service that a reservation is for is
// no stranger. sure is false where the labels of the Service, which may be left out, could say otherwise.
func (s *Compiled) Stranger(a netip.Addr, svc Service) (stranger, sure bool) {
	if r, ok := s.Reservation(a); ok && r.For == svc.NamespacedName || s.Owner(a) == nil {
		return false, true
	}
	_, by := mayHold(s.ranges.around(a))
	for _, p := range by {
		if p.selector.inNamespace(svc.NamespaceLabels) && p.selector.services.Empty() {
			return false, true
		}
		sure = sure || p.selector.inNamespace(svc.NamespaceLabels)
	}
	return !selected(by, svc), !sure
}

// Enforced is what the API server has to know to keep strangers out by itself.
type Enforced struct {
	Spec v1alpha1.ExclusiveRangesSpec
	// LeftOut are the policies that would make it too large for an API object: they are enforced by the webhook alone.
	LeftOut []string
}

// Enforce says about all addresses of policies with enforcement: APIServer what MayHold says. room is how many bytes it may have; the best policies
// come first. It costs a walk over all ranges and reservations, and several where there is not enough room.
func (s *Compiled) Enforce(room int) Enforced {
	var enforced []*Policy
	for _, p := range s.policies {
		if p.Exclusive && p.Enforcement == v1alpha1.EnforcementAPIServer {
			enforced = append(enforced, p)
		}
	}
	fits := func(n int) bool {
		text, err := json.Marshal(s.tableOf(enforced[:n]))
		return err == nil && len(text) <= room
	}
	n := len(enforced)
	if !fits(n) {
		n = max(0, sort.Search(n, func(n int) bool { return !fits(n) })-1)
	}
	out := Enforced{Spec: s.tableOf(enforced[:n])}
	for _, p := range enforced[n:] {
		out.LeftOut = append(out.LeftOut, p.Name)
	}
	return out
}

// tableOf is what the API server looks up to enforce these policies.
func (s *Compiled) tableOf(enforced []*Policy) v1alpha1.ExclusiveRangesSpec {
	t := table{s: s, enforced: sets.New(enforced...), selectors: map[*Policy]int32{}, out: v1alpha1.ExclusiveRangesSpec{
		IPv4Lengths: []int32{}, IPv6Lengths: []int32{}, Ranges: map[string]v1alpha1.ExclusiveRange{}, Selectors: []v1alpha1.ExclusiveSelector{},
	}}
	for _, at := range s.owned {
		t.addRange(at)
	}
	for _, r := range s.reserved {
		for _, prefix := range prefixesOf(r.Span) {
			t.addReservation(prefix, r)
		}
	}
	for _, list := range [][]int32{t.out.IPv4Lengths, t.out.IPv6Lengths} {
		slices.SortFunc(list, func(a, b int32) int { return cmp.Compare(b, a) })
	}
	return t.out
}

type table struct {
	s         *Compiled
	enforced  sets.Set[*Policy]
	selectors map[*Policy]int32
	out       v1alpha1.ExclusiveRangesSpec
}

// addRange enters a range if it is enforced; if it lies in one that is, and is not, as open.
func (t *table) addRange(at *ownedPrefix) {
	owner, by := mayHold(t.s.outside(at.prefix))
	if owner == nil {
		return
	}
	entry := v1alpha1.ExclusiveRange{Policy: owner.Name, Open: !t.enforced.Has(owner)}
	for _, p := range by {
		if entry.Open = entry.Open || p.selector.namespaces.Empty() && p.selector.services.Empty(); entry.Open {
			entry.Selectors = nil
			break
		}
		entry.Selectors = append(entry.Selectors, t.selector(p))
	}
	t.add(at.prefix, entry)
}

// addReservation enters a reservation, as far as its addresses are those of ranges that are entered.
func (t *table) addReservation(prefix netip.Prefix, r *Reservation) {
	entry := v1alpha1.ExclusiveRange{Policy: r.Policy}
	if r.For.Name != "" {
		entry.Service = r.For.String()
	}
	if t.enforced.Has(bestOwner(t.s.outside(prefix))) {
		t.add(prefix, entry)
	}
	for _, at := range t.s.inside(prefix) {
		if t.enforced.Has(bestOwner(t.s.outside(at.prefix))) {
			t.add(at.prefix, entry)
		}
	}
}

func (t *table) add(prefix netip.Prefix, entry v1alpha1.ExclusiveRange) {
	t.out.Ranges[prefix.String()] = entry
	lengths := &t.out.IPv6Lengths
	if prefix.Addr().Is4() {
		lengths = &t.out.IPv4Lengths
	}
	if bits := int32(prefix.Bits()); !slices.Contains(*lengths, bits) { //nolint:gosec // 128 at most
		*lengths = append(*lengths, bits)
	}
}

func (t *table) selector(p *Policy) int32 {
	i, ok := t.selectors[p]
	if !ok {
		i = int32(len(t.out.Selectors)) //nolint:gosec // as many as there are policies
		t.selectors[p] = i
		t.out.Selectors = append(t.out.Selectors, v1alpha1.ExclusiveSelector{
			Namespace: requirements(p.selector.namespaces), Service: requirements(p.selector.services),
		})
	}
	return i
}

// operators are those that selectors in API objects have; matchLabels become Equals.
var operators = map[selection.Operator]metav1.LabelSelectorOperator{
	selection.Equals: metav1.LabelSelectorOpIn, selection.In: metav1.LabelSelectorOpIn, selection.NotIn: metav1.LabelSelectorOpNotIn,
	selection.Exists: metav1.LabelSelectorOpExists, selection.DoesNotExist: metav1.LabelSelectorOpDoesNotExist,
}

func requirements(of labels.Selector) []metav1.LabelSelectorRequirement {
	list, _ := of.Requirements()
	out := make([]metav1.LabelSelectorRequirement, 0, len(list))
	for _, r := range list {
		values := slices.Sorted(slices.Values(r.ValuesUnsorted())) // nil where there are none
		out = append(out, metav1.LabelSelectorRequirement{Key: r.Key(), Operator: operators[r.Operator()], Values: values})
	}
	return out
}

// prefixesOf returns the fewest prefixes that have the addresses of a span.
func prefixesOf(sp allocator.Span) []netip.Prefix {
	var out []netip.Prefix
	for first := sp.First; first.IsValid() && !sp.Last.Less(first); {
		p := netip.PrefixFrom(first, first.BitLen())
		for p.Bits() > 0 {
			wider := netip.PrefixFrom(first, p.Bits()-1)
			if wider.Masked().Addr() != first || sp.Last.Less(SpanOf(wider).Last) {
				break
			}
			p = wider
		}
		out = append(out, p)
		first = SpanOf(p).Last.Next()
	}
	return out
}
