package renumber

import (
	"crypto/sha256"
	"fmt"
	"net/netip"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"
	discoveryv1 "k8s.io/api/discovery/v1"
	networkingv1 "k8s.io/api/networking/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/sets"

	"github.com/clusterip-operator/clusterip-operator/allocator"
	"github.com/clusterip-operator/clusterip-operator/api/v1alpha1"
	"github.com/clusterip-operator/clusterip-operator/internal/upstream"
)

// managedByEndpointSliceController is the label value of slices that follow a selector.
const managedByEndpointSliceController = "endpointslice-controller.k8s.io"

// secondName is the name of the Service that keeps an address of another one. Tenants can guess it:
// a Service of that name is ours only if it proves itself.
func secondName(i Item, a netip.Addr) types.NamespacedName {
	sum := sha256.Sum256([]byte(string(i.UID) + "/" + a.String()))
	return types.NamespacedName{Namespace: i.Namespace, Name: v1alpha1.SecondName(i.Name, fmt.Sprintf("%x", sum[:5]))}
}

// firstOf is the value of v1alpha1.AnnotationSecondOf for the second Services of an item.
func firstOf(i Item) string { return i.Name + "/" + string(i.UID) }

// newSecond is the Service that keeps an address of another one: what a client of that address can
// notice of the first one it has too. The first one's labels and annotations may mean something to
// other programs, so it has none of them but the name of its proxy.
func newSecond(i Item, s *corev1.Service, a netip.Addr, nonce string) *corev1.Service {
	name := secondName(i, a)
	out := &corev1.Service{
		ObjectMeta: metav1.ObjectMeta{
			Namespace: name.Namespace, Name: name.Name, OwnerReferences: ownedBy(i),
			Labels:      map[string]string{v1alpha1.LabelPurpose: v1alpha1.PurposeSecond},
			Annotations: map[string]string{v1alpha1.AnnotationSecondOf: firstOf(i), v1alpha1.AnnotationHandover: nonce},
		},
		Spec: corev1.ServiceSpec{
			Type: corev1.ServiceTypeClusterIP, ClusterIP: a.String(), ClusterIPs: []string{a.String()},
			IPFamilies: []corev1.IPFamily{corev1.IPFamily(allocator.FamilyOf(a).String())}, IPFamilyPolicy: new(corev1.IPFamilyPolicySingleStack),
			Selector: s.Spec.Selector, SessionAffinity: s.Spec.SessionAffinity, SessionAffinityConfig: s.Spec.SessionAffinityConfig,
			InternalTrafficPolicy: s.Spec.InternalTrafficPolicy, TrafficDistribution: s.Spec.TrafficDistribution,
			PublishNotReadyAddresses: s.Spec.PublishNotReadyAddresses,
		},
	}
	const proxy = "service.kubernetes.io/service-proxy-name"
	if by, has := s.Labels[proxy]; has {
		out.Labels[proxy] = by
	}
	for _, p := range s.Spec.Ports {
		p.NodePort = 0
		out.Spec.Ports = append(out.Spec.Ports, p)
	}
	return out
}

// withoutAddress returns a second Service as an ExternalName, with nothing else.
func withoutAddress(s *corev1.Service) *corev1.Service {
	out := s.DeepCopy()
	out.Spec = corev1.ServiceSpec{Type: corev1.ServiceTypeExternalName, ExternalName: v1alpha1.ExternalNameRenumbering}
	return out
}

// following returns a second Service with what clients can notice of the first one as that is now.
// A first Service that has no ports or no selector any more is none to follow.
func following(i Item, second, s *corev1.Service, a netip.Addr) *corev1.Service {
	out := second.DeepCopy()
	if noSecond(s) != "" || len(s.Spec.Ports) == 0 || s.Spec.Type == corev1.ServiceTypeExternalName {
		return out
	}
	want := newSecond(i, s, a, "").Spec
	out.Spec.Selector, out.Spec.Ports, out.Spec.PublishNotReadyAddresses = want.Selector, want.Ports, want.PublishNotReadyAddresses
	out.Spec.SessionAffinity, out.Spec.SessionAffinityConfig = want.SessionAffinity, want.SessionAffinityConfig
	out.Spec.InternalTrafficPolicy, out.Spec.TrafficDistribution = want.InternalTrafficPolicy, want.TrafficDistribution
	return out
}

// ownedBy has an object deleted with the first Service.
func ownedBy(i Item) []metav1.OwnerReference {
	return []metav1.OwnerReference{{APIVersion: "v1", Kind: "Service", Name: i.Name, UID: i.UID}}
}

// noSecond says why no second Service can keep an address of a Service, empty if one can.
func noSecond(s *corev1.Service) string {
	if len(s.Spec.Selector) == 0 {
		return "it has no selector, so that the endpoints of a second Service would not follow its own: plan it with --keep=agent or --keep=externalIPs"
	}
	return ""
}

// handing reports whether the first Service has an address that a second one has too, or is between
// its two updates. It may be nil.
func handing(i Item, a netip.Addr, s *corev1.Service) bool {
	return s != nil && s.UID == i.UID && (between(s) || slices.Contains(addresses(s), a))
}

func unfinished(i Item, a netip.Addr) string {
	return fmt.Sprintf("the handover of %s from %s is not finished: run the plan again", a, i.Name)
}

// vouches reports whether an IPAddress says that renumbering made the Service as a second one of an
// item. Only those who may write IPAddresses can have written that.
func vouches(i Item, ip *networkingv1.IPAddress, second *corev1.Service) bool {
	return ip != nil && second != nil && upstream.Service(ip) == nameOf(second) && ip.Labels[v1alpha1.LabelPurpose] == v1alpha1.PurposeSecond &&
		ip.Annotations[v1alpha1.AnnotationServiceUID] == string(second.UID) && ip.Annotations[v1alpha1.AnnotationSecondOf] == firstOf(i)
}

// marked returns the IPAddress of a second Service with the proof.
func marked(ip *networkingv1.IPAddress, i Item, second *corev1.Service, since string) *networkingv1.IPAddress {
	out := ip.DeepCopy()
	metav1.SetMetaDataLabel(&out.ObjectMeta, v1alpha1.LabelPurpose, v1alpha1.PurposeSecond)
	metav1.SetMetaDataAnnotation(&out.ObjectMeta, v1alpha1.AnnotationServiceUID, string(second.UID))
	metav1.SetMetaDataAnnotation(&out.ObjectMeta, v1alpha1.AnnotationSecondOf, firstOf(i))
	metav1.SetMetaDataAnnotation(&out.ObjectMeta, v1alpha1.AnnotationReleased, since)
	return out
}

// copiesFor are copies of the EndpointSlices of a Service, in the family of an address, for its
// second one, which has endpoints at once, before the EndpointSlice controller has looked at it.
func copiesFor(i Item, a netip.Addr, all []discoveryv1.EndpointSlice) (out []*discoveryv1.EndpointSlice) {
	second := secondName(i, a)
	for n, slice := range ofFamily(a, all) {
		next := &discoveryv1.EndpointSlice{
			ObjectMeta: metav1.ObjectMeta{
				Namespace: i.Namespace, Name: fmt.Sprintf("%s-%d", second.Name, n), OwnerReferences: ownedBy(i),
				Labels: map[string]string{discoveryv1.LabelServiceName: second.Name, discoveryv1.LabelManagedBy: v1alpha1.ManagerRenumbering},
			},
			AddressType: slice.AddressType, Endpoints: slice.Endpoints, Ports: slice.Ports,
		}
		out = append(out, next)
	}
	return out
}

// ofFamily are those slices that have addresses of the family of an address.
func ofFamily(a netip.Addr, all []discoveryv1.EndpointSlice) (out []discoveryv1.EndpointSlice) {
	for _, slice := range all {
		if strings.EqualFold(string(slice.AddressType), allocator.FamilyOf(a).String()) {
			out = append(out, slice)
		}
	}
	return out
}

// handWritten names a slice that no selector fills, empty if there is none.
func handWritten(all []discoveryv1.EndpointSlice) string {
	for i := range all {
		if by := all[i].Labels[discoveryv1.LabelManagedBy]; by != managedByEndpointSliceController && by != v1alpha1.ManagerRenumbering {
			return all[i].Name
		}
	}
	return ""
}

// covered reports whether the EndpointSlice controller has written all that serves a Service into
// the slices of its second one.
func covered(a netip.Addr, first, second []discoveryv1.EndpointSlice) bool {
	return serving(ofFamily(a, controlled(second))).IsSuperset(serving(ofFamily(a, controlled(first))))
}

// controlled are the slices of the EndpointSlice controller.
func controlled(all []discoveryv1.EndpointSlice) (out []discoveryv1.EndpointSlice) {
	for _, slice := range all {
		if slice.Labels[discoveryv1.LabelManagedBy] == managedByEndpointSliceController {
			out = append(out, slice)
		}
	}
	return out
}

// seen reports whether the EndpointSlice controller has seen a second Service: it writes a slice
// for one without endpoints too.
func seen(a netip.Addr, first, second []discoveryv1.EndpointSlice) bool {
	return len(ofFamily(a, first)) == 0 || slices.ContainsFunc(ofFamily(a, second), func(s discoveryv1.EndpointSlice) bool {
		return s.Labels[discoveryv1.LabelManagedBy] == managedByEndpointSliceController
	})
}

// serving are the addresses of endpoints, as texts.
func serving(all []discoveryv1.EndpointSlice) sets.Set[string] {
	out := sets.New[string]()
	for _, slice := range all {
		for _, e := range slice.Endpoints {
			out.Insert(e.Addresses...)
		}
	}
	return out
}
