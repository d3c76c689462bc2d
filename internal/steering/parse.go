package steering

import (
	"cmp"
	"fmt"
	"net/netip"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/validation"

	"github.com/clusterip-operator/clusterip-operator/allocator"
	"github.com/clusterip-operator/clusterip-operator/api/v1alpha1"
)

// MaxReserved is how many addresses the reservations of one policy may have.
const MaxReserved = 1024

// ParseReservation reads an address, a range of addresses (10.0.0.1-10.0.0.9) or a CIDR, which
// means all of its addresses; those that no Service can have, as the network address, do no harm.
func ParseReservation(text string) (allocator.Span, error) {
	first, last, isRange := strings.Cut(text, "-")
	if !isRange && strings.Contains(text, "/") {
		return parseCIDR(text)
	}
	if !isRange {
		last = first
	}
	span := allocator.Span{}
	var err error
	if span.First, err = parseAddress(first); err != nil {
		return allocator.Span{}, err
	}
	if span.Last, err = parseAddress(last); err != nil {
		return allocator.Span{}, err
	}
	if span.First.Is4() != span.Last.Is4() || span.Last.Less(span.First) {
		return allocator.Span{}, fmt.Errorf("%q: give the lower address first, and both of one family", text)
	}
	return span, nil
}

func parseAddress(text string) (netip.Addr, error) {
	a, err := netip.ParseAddr(text)
	if err != nil || a.Zone() != "" || a.Is4In6() {
		return a, fmt.Errorf("%q is no address; write an IPv4 or IPv6 address, FIRST-LAST, or a CIDR", text)
	}
	return a, nil
}

func parseCIDR(text string) (allocator.Span, error) {
	p, err := netip.ParsePrefix(text)
	if err != nil || p.Addr().Is4In6() {
		return allocator.Span{}, fmt.Errorf("%q is no CIDR; write for example 10.96.0.16/28 or fd00::10/124", text)
	}
	if p != p.Masked() {
		return allocator.Span{}, fmt.Errorf("%q has bits behind its prefix; %s is meant, or a single address", text, p.Masked())
	}
	return SpanOf(p), nil
}

// SpanOf returns all addresses of a prefix.
func SpanOf(p netip.Prefix) allocator.Span {
	var room [16]byte
	bytes := append(room[:0], p.Addr().AsSlice()...)
	for bit := p.Bits(); bit < len(bytes)*8; bit++ {
		bytes[bit/8] |= 1 << (7 - bit%8)
	}
	last, _ := netip.AddrFromSlice(bytes)
	return allocator.Span{First: p.Addr(), Last: last}
}

// parseFor reads namespace/name; nothing is the zero name.
func parseFor(text string) (types.NamespacedName, error) {
	if text == "" {
		return types.NamespacedName{}, nil
	}
	namespace, name, ok := strings.Cut(text, "/")
	if !ok || len(validation.IsDNS1123Label(namespace)) > 0 || len(validation.IsDNS1035Label(name)) > 0 && len(validation.IsDNS1123Label(name)) > 0 {
		return types.NamespacedName{}, fmt.Errorf("for: %q is no Service; write NAMESPACE/NAME", text)
	}
	return types.NamespacedName{Namespace: namespace, Name: name}, nil
}

// selector tells which Services a policy steers, and by which labels it asks for ServiceCIDRs.
type selector struct {
	namespaces, services, cidrs labels.Selector
}

func (s selector) matches(svc Service) bool {
	return s.inNamespace(svc.NamespaceLabels) && s.services.Matches(labels.Set(svc.Labels))
}

func (s selector) inNamespace(of map[string]string) bool { return s.namespaces.Matches(labels.Set(of)) }

// newPolicy reads what a policy says by itself, without the rest of the cluster. One with an
// unreadable selector selects no Service and keeps the ranges that it asks for, so an exclusive one
// closes them to all: a slip of the pen must not open them to every tenant.
//
// It keeps the spec alone: compilations share a Policy for as long as its spec stays, through any
// number of statuses and managed fields, which are larger.
func newPolicy(o *v1alpha1.ServiceCIDRPolicy) *Policy {
	o = &v1alpha1.ServiceCIDRPolicy{ObjectMeta: metav1.ObjectMeta{Name: o.Name, UID: o.UID, Generation: o.Generation}, Spec: o.Spec}
	p := &Policy{
		Name: o.Name, UID: o.UID, Generation: o.Generation, Exclusive: o.Spec.Exclusive,
		Allocation:  cmp.Or(o.Spec.Allocation, v1alpha1.AllocationAutomatic),
		Enforcement: cmp.Or(o.Spec.Enforcement, v1alpha1.EnforcementAPIServer),
		OnFull:      cmp.Or(o.Spec.OnFull, v1alpha1.OnFullFallback), object: o, form: o, bands: map[allocator.Family]*policyBands{},
		Grows: o.Spec.Growth != nil, steers: len(o.Spec.ServiceCIDRs) > 0 || o.Spec.ServiceCIDRSelector != nil,
		AdditionalAddresses: o.Spec.AdditionalAddresses, priority: o.Spec.Priority, FollowedGeneration: o.Generation,
	}
	selectorOf := func(field string, from *metav1.LabelSelector) labels.Selector {
		if from == nil {
			return labels.Everything()
		}
		s, err := metav1.LabelSelectorAsSelector(from)
		if err != nil {
			p.Invalid = append(p.Invalid, fmt.Sprintf("%s: %v", field, err))
			return labels.Nothing()
		}
		return s
	}
	p.selector.namespaces = selectorOf("namespaceSelector", o.Spec.NamespaceSelector)
	p.selector.services = selectorOf("serviceSelector", o.Spec.ServiceSelector)
	p.selector.cidrs = selectorOf("serviceCIDRSelector", o.Spec.ServiceCIDRSelector)
	if o.Spec.ServiceCIDRSelector != nil && len(o.Spec.ServiceCIDRs) > 0 {
		p.Invalid = append(p.Invalid, "serviceCIDRSelector: not together with serviceCIDRs; leave out one of them")
	}
	if len(p.Invalid) > 0 {
		p.closeToAll()
	}
	if d := o.Spec.CoolDown; d != nil {
		p.CoolDown = max(0, d.Duration)
		if d.Duration < 0 {
			p.Invalid = append(p.Invalid, fmt.Sprintf("coolDown: %s is negative; 0s is none", d.Duration))
		}
	}
	p.parseReservations(o)
	return p
}

// parseReservations reads what can be read, and refuses what cannot, is too much or overlaps. It
// costs a look-up for each: a webhook, too, reads policies.
func (p *Policy) parseReservations(o *v1alpha1.ServiceCIDRPolicy) {
	left := uint64(MaxReserved)
	var order []int // of p.Reservations, by first address
	for _, r := range o.Spec.Reservations {
		span, err := ParseReservation(r.Address)
		service, forErr := parseFor(r.For)
		at, same := p.place(order, span)
		switch {
		case err != nil:
		case same >= 0:
			err = fmt.Errorf("%s overlaps the reservation %s of this policy", r.Address, p.Reservations[same].Name)
		case span.Size() > left:
			err = fmt.Errorf("%s has too many addresses; %d are left of the %d that a policy may reserve", r.Address, left, MaxReserved)
		}
		if err != nil {
			p.Invalid = append(p.Invalid, fmt.Sprintf("reservations[%s]: %v", r.Name, err))
			continue
		}
		if forErr != nil { // the addresses can be read: they are kept, and no Service may have them
			p.Invalid = append(p.Invalid, fmt.Sprintf("reservations[%s]: %v", r.Name, forErr))
		}
		left -= span.Size()
		order = slices.Insert(order, at, len(p.Reservations))
		p.Reservations = append(p.Reservations, Reservation{Policy: o.Name, PolicyUID: o.UID, Name: r.Name, Span: span, For: service})
	}
}

// place returns where a span belongs in an order of disjoint reservations, and one of these that it
// overlaps, -1 for none.
func (p *Policy) place(order []int, span allocator.Span) (at, overlapped int) {
	at, _ = slices.BinarySearchFunc(order, span.First, func(i int, a netip.Addr) int { return p.Reservations[i].Span.First.Compare(a) })
	for _, i := range order[max(0, at-1):min(at+1, len(order))] {
		if span.Overlaps(p.Reservations[i].Span) {
			return at, i
		}
	}
	return at, -1
}

// Validate returns all mistakes in a policy that show without the rest of the cluster, in the order
// of the spec. None: the policy can be followed, and the reservations are those of the spec.
func Validate(o *v1alpha1.ServiceCIDRPolicy) (reservations []Reservation, mistakes []string) {
	p := newPolicy(o)
	return p.Reservations, p.Invalid
}

// What one Service may ask for in its annotations. Every replica keeps what Services ask for, so
// that the bounds are the price of a Service: see Remembered.
const (
	// MaxFrom is how many ServiceCIDRs one Service may name in v1alpha1.AnnotationAdditionalFrom.
	// From each it gets an address of each family, so that it has twice as many at most.
	MaxFrom = 4
	// MaxFormer is how many addresses one Service may name in v1alpha1.AnnotationFormerIPs.
	MaxFormer = 8
	// maxFromText is how long v1alpha1.AnnotationAdditionalFrom may be: a ServiceCIDR's longest name.
	maxFromText = 253
)

// ParseFrom reads the value of v1alpha1.AnnotationAdditionalFrom: names of ServiceCIDRs, separated
// by commas, in their order. Blanks around a name do not matter, and a value of blanks names none.
// The error tells users what is wrong with the first wrong item; then there are no names.
func ParseFrom(annotation string) ([]string, error) {
	if strings.TrimSpace(annotation) == "" {
		return nil, nil
	}
	if len(annotation) > maxFromText {
		return nil, fmt.Errorf("it has more than %d characters", maxFromText)
	}
	var names []string
	for part := range strings.SplitSeq(annotation, ",") {
		name := strings.TrimSpace(part)
		switch {
		case len(validation.IsDNS1123Subdomain(name)) > 0:
			return nil, fmt.Errorf("%q is no name of a ServiceCIDR", shortened(name))
		case slices.Contains(names, name):
			return nil, fmt.Errorf("it names ServiceCIDR %q twice", name)
		case len(names) == MaxFrom:
			return nil, fmt.Errorf("it names more than %d ServiceCIDRs", MaxFrom)
		}
		names = append(names, name)
	}
	return names, nil
}

// ParseFormer reads the value of v1alpha1.AnnotationFormerIPs: addresses as their IPAddresses are
// named, separated by commas. Blanks around an address do not matter. Errors are as of ParseFrom.
func ParseFormer(annotation string) ([]netip.Addr, error) {
	if strings.TrimSpace(annotation) == "" {
		return nil, nil
	}
	var all []netip.Addr
	for part := range strings.SplitSeq(annotation, ",") {
		text := strings.TrimSpace(part)
		switch a, err := netip.ParseAddr(text); {
		case err != nil || a.Zone() != "" || a.Is4In6() || a.String() != text:
			return nil, fmt.Errorf("%q is no address as the name of an IPAddress has it", shortened(text))
		case len(all) == MaxFormer:
			return nil, fmt.Errorf("it has more than %d addresses", MaxFormer)
		case slices.Contains(all, a):
			return nil, fmt.Errorf("it has %s twice", a)
		default:
			all = append(all, a)
		}
	}
	return all, nil
}

// shortened keeps a piece of an annotation, which may have 256 KiB, fit for a message.
func shortened(text string) string {
	const limit = 64
	if len(text) <= limit {
		return text
	}
	return strings.ToValidUTF8(text[:limit], "") + "..."
}

// AdditionalRequest is what a Service asks for beside its ClusterIPs: by default nothing.
type AdditionalRequest struct {
	// From are the ServiceCIDRs that an address is wanted from.
	From []string
	// Families are the Service's, IPv4 first: it wants one address of each from each ServiceCIDR.
	// None where it asks for nothing.
	Families []allocator.Family
	// FromError says why the annotation cannot be read; From is empty then.
	FromError error
	// Former are the addresses from before renumbering; FormerError says why they cannot be read.
	Former      []netip.Addr
	FormerError error
	// Renumbering: the Service is between the two updates that exchange its addresses. It has none,
	// and keeps its additional and former ones.
	Renumbering bool
}

// AdditionalRequestOf reads what a Service asks for. Headless and ExternalName Services have no
// address of their own and so get and keep no additional one; but one that is being renumbered is
// of type ExternalName for a moment only.
func AdditionalRequestOf(s *corev1.Service) AdditionalRequest {
	external := s.Spec.Type == corev1.ServiceTypeExternalName
	r := AdditionalRequest{Renumbering: external && v1alpha1.BeingRenumbered(s)}
	if external && !r.Renumbering || slices.Contains(s.Spec.ClusterIPs, corev1.ClusterIPNone) {
		return AdditionalRequest{}
	}
	r.Former, r.FormerError = ParseFormer(s.Annotations[v1alpha1.AnnotationFormerIPs])
	if external {
		return r
	}
	r.From, r.FromError = ParseFrom(s.Annotations[v1alpha1.AnnotationAdditionalFrom])
	if len(r.From) > 0 || r.FromError != nil { // of most Services there is nothing to ask, at each event
		r.Families = slices.DeleteFunc(slices.Clone(allocator.Families), func(f allocator.Family) bool { return !slices.Contains(s.Spec.IPFamilies, corev1.IPFamily(f.String())) })
	}
	return r
}

// Keeps reports whether a Service that asks for this may keep an address of the family from the
// ServiceCIDR. With an unreadable annotation it keeps all: a mistake takes nothing out of service.
func (r AdditionalRequest) Keeps(serviceCIDR string, f allocator.Family) bool {
	return r.Renumbering || slices.Contains(r.Families, f) && (r.FromError != nil || slices.Contains(r.From, serviceCIDR))
}

// KeepsFormer is Keeps for an address that renumbering holds for the Service.
func (r AdditionalRequest) KeepsFormer(a netip.Addr) bool {
	return r.FormerError != nil || slices.Contains(r.Former, a)
}

// mostSecondOf is how long v1alpha1.AnnotationSecondOf may be: a name has 63 characters, a UID 36.
const mostSecondOf = 128

// unreadable stands for an annotation that cannot be read. No parser here takes it.
const unreadable = ","

// Remembered returns what a cache keeps of the annotations of a Service: those that
// AdditionalRequestOf reads, and of which Service it is a second one, as long as they can be read.
// Of one that cannot be read it keeps that, and nothing of its text, which may have 256 KiB: the
// controller that tells people what is wrong reads the Service from the API server. Nil, if there
// are none.
func Remembered(s *corev1.Service) map[string]string {
	var out map[string]string
	keep := func(name string, read func(string) (string, error)) {
		value, has := s.Annotations[name]
		if !has {
			return
		}
		kept, err := read(value)
		if err != nil {
			kept = unreadable
		}
		if out == nil {
			out = map[string]string{}
		}
		out[name] = kept
	}
	keep(v1alpha1.AnnotationAdditionalFrom, func(text string) (string, error) {
		names, err := ParseFrom(text)
		return strings.Join(names, ","), err
	})
	keep(v1alpha1.AnnotationFormerIPs, func(text string) (string, error) {
		all, err := ParseFormer(text)
		texts := make([]string, 0, len(all))
		for _, a := range all {
			texts = append(texts, a.String())
		}
		return strings.Join(texts, ","), err
	})
	// It counts that the annotation is there, whatever it says.
	keep(v1alpha1.AnnotationRenumbering, func(string) (string, error) { return "", nil })
	keep(v1alpha1.AnnotationSecondOf, func(text string) (string, error) {
		if len(text) > mostSecondOf {
			return "", fmt.Errorf("it has more than %d characters", mostSecondOf)
		}
		return text, nil
	})
	return out
}
