package renumber

import (
	"net/netip"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	discoveryv1 "k8s.io/api/discovery/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/intstr"
	"k8s.io/apimachinery/pkg/util/validation"

	"github.com/clusterip-operator/clusterip-operator/api/v1alpha1"
	"github.com/clusterip-operator/clusterip-operator/internal/upstream"
)

var (
	web   = Item{Namespace: "shop", Name: "web", UID: "1"}
	four  = netip.MustParseAddr("10.96.0.7")
	six   = netip.MustParseAddr("fd00:10:96::7")
	first = &corev1.Service{
		ObjectMeta: metav1.ObjectMeta{Namespace: "shop", Name: "web", UID: "1", Labels: map[string]string{"app": "web", "service.kubernetes.io/service-proxy-name": "other"},
			Annotations: map[string]string{"internet-facing": "true"}},
		Spec: corev1.ServiceSpec{
			Type: corev1.ServiceTypeLoadBalancer, ClusterIPs: []string{"10.96.0.7", "fd00:10:96::7"}, Selector: map[string]string{"app": "web"}, ExternalIPs: []string{"192.0.2.1"},
			Ports:           []corev1.ServicePort{{Name: "http", Port: 80, TargetPort: intstr.FromString("http"), NodePort: 30080, AppProtocol: new("http")}},
			SessionAffinity: corev1.ServiceAffinityClientIP, InternalTrafficPolicy: new(corev1.ServiceInternalTrafficPolicyLocal), ExternalTrafficPolicy: corev1.ServiceExternalTrafficPolicyLocal,
		},
	}
)

func TestSecondName(t *testing.T) {
	long := web
	long.Name = strings.Repeat("a", validation.DNS1035LabelMaxLength)
	other := long
	other.UID = "2"
	seen := map[string]bool{}
	for _, i := range []Item{web, long, other} {
		for _, a := range []netip.Addr{four, six} {
			name := secondName(i, a)
			if bad := validation.IsDNS1035Label(name.Name); len(bad) > 0 || name.Namespace != "shop" || seen[name.Name] || name != secondName(i, a) {
				t.Errorf("%s: %v", name, bad)
			}
			seen[name.Name] = true
		}
	}
}

func TestNewSecond(t *testing.T) {
	for a, family := range map[netip.Addr]corev1.IPFamily{four: corev1.IPv4Protocol, six: corev1.IPv6Protocol} {
		got := newSecond(web, first, a, "nonce")
		want := corev1.ServiceSpec{
			Type: corev1.ServiceTypeClusterIP, ClusterIP: a.String(), ClusterIPs: []string{a.String()}, IPFamilies: []corev1.IPFamily{family}, IPFamilyPolicy: new(corev1.IPFamilyPolicySingleStack),
			Selector: map[string]string{"app": "web"}, Ports: []corev1.ServicePort{{Name: "http", Port: 80, TargetPort: intstr.FromString("http"), AppProtocol: new("http")}},
			SessionAffinity: corev1.ServiceAffinityClientIP, InternalTrafficPolicy: new(corev1.ServiceInternalTrafficPolicyLocal),
		}
		if diff := cmp.Diff(want, got.Spec); diff != "" {
			t.Error(diff)
		}
		labels := map[string]string{v1alpha1.LabelPurpose: v1alpha1.PurposeSecond, "service.kubernetes.io/service-proxy-name": "other"}
		annotations := map[string]string{v1alpha1.AnnotationSecondOf: "web/1", v1alpha1.AnnotationHandover: "nonce"}
		if diff := cmp.Diff([]map[string]string{labels, annotations}, []map[string]string{got.Labels, got.Annotations}); diff != "" {
			t.Error(diff)
		}
	}
}

// What is believed of a second Service is what only the command and those who may write IPAddresses
// can have written.
func TestVouches(t *testing.T) {
	second := newSecond(web, first, four, "nonce")
	second.UID = "s"
	good := marked(upstream.NewIPAddress(four, nameOf(second)), web, second, "2026-11-28T00:00:00Z")
	for name, change := range map[string]func() bool{
		"the IPAddress has no label": func() bool {
			ip := good.DeepCopy()
			delete(ip.Labels, v1alpha1.LabelPurpose)
			return vouches(web, ip, second)
		},
		"the IPAddress is of another": func() bool {
			return vouches(web, marked(upstream.NewIPAddress(four, web.Key()), web, second, ""), second)
		},
		"the Service was created anew":       func() bool { s := second.DeepCopy(); s.UID = "t"; return vouches(web, good, s) },
		"the first Service was created anew": func() bool { i := web; i.UID = "9"; return vouches(i, good, second) },
		"there is no IPAddress":              func() bool { return vouches(web, nil, second) },
		"there is no Service":                func() bool { return vouches(web, good, nil) },
	} {
		if change() {
			t.Errorf("vouched for although %s", name)
		}
	}
	if !vouches(web, good, second) {
		t.Error("not vouched for")
	}
	h := handover{Address: four, First: web.Key(), Second: nameOf(second), Nonce: "nonce"}
	forged := second.DeepCopy()
	forged.Annotations[v1alpha1.AnnotationHandover] = "guess"
	switch {
	case !h.of(second), h.of(forged), h.of(nil), (handover{Second: h.Second}).of(&corev1.Service{ObjectMeta: metav1.ObjectMeta{Namespace: "shop", Name: second.Name}}):
		t.Error("a nonce decides, and an empty one nothing")
	}
	if h.UID = "s"; !h.of(forged) {
		t.Error("a UID decides once it is recorded")
	}
}

func TestFollowing(t *testing.T) {
	second, changed := newSecond(web, first, four, "nonce"), first.DeepCopy()
	changed.Spec.Selector, changed.Spec.SessionAffinity, changed.Spec.InternalTrafficPolicy = map[string]string{"app": "green"}, corev1.ServiceAffinityNone, nil
	changed.Spec.Ports[0].Port, changed.Spec.TrafficDistribution = 81, new("PreferSameZone")
	if diff := cmp.Diff(newSecond(web, changed, four, "nonce"), following(web, second, changed, four)); diff != "" {
		t.Error(diff)
	}
	changed.Spec.Selector = nil
	if diff := cmp.Diff(second, following(web, second, changed, four)); diff != "" {
		t.Error("without a selector: ", diff)
	}
}

func TestRecordName(t *testing.T) {
	for _, text := range []string{"10.96.0.7", "fd00::", "::1", "fd00:10:96::ffff"} {
		if bad := validation.IsDNS1123Subdomain(recordName(netip.MustParseAddr(text))); len(bad) > 0 {
			t.Errorf("%s: %v", text, bad)
		}
		h := handover{Address: netip.MustParseAddr(text)}
		if got, err := addressOf(h.policy()); err != nil || got != h.Address {
			t.Errorf("%s of %s: %v", got, text, err)
		}
	}
}

func TestEndpointsOfSeconds(t *testing.T) {
	slice := func(name string, by string, kind discoveryv1.AddressType, addresses ...string) discoveryv1.EndpointSlice {
		return discoveryv1.EndpointSlice{ObjectMeta: metav1.ObjectMeta{Name: name, Labels: map[string]string{discoveryv1.LabelManagedBy: by}}, AddressType: kind,
			Endpoints: []discoveryv1.Endpoint{{Addresses: addresses}}}
	}
	const controller = managedByEndpointSliceController
	all := []discoveryv1.EndpointSlice{
		slice("a", controller, discoveryv1.AddressTypeIPv4, "10.1.0.1", "10.1.0.2"), slice("b", controller, discoveryv1.AddressTypeIPv6, "fd00::1"), slice("c", controller, discoveryv1.AddressTypeIPv4, "10.1.0.3"),
	}
	if copies := copiesFor(web, four, all); len(copies) != 2 || copies[0].Name == copies[1].Name || copies[1].Labels[discoveryv1.LabelServiceName] != secondName(web, four).Name {
		t.Errorf("copies: %v", copies)
	}
	copies := []discoveryv1.EndpointSlice{slice("x", v1alpha1.ManagerRenumbering, discoveryv1.AddressTypeIPv4, "10.1.0.1", "10.1.0.2", "10.1.0.3")}
	part, whole := append(copies, slice("y", controller, discoveryv1.AddressTypeIPv4, "10.1.0.1")), append(copies, slice("y", controller, discoveryv1.AddressTypeIPv4, "10.1.0.1", "10.1.0.2", "10.1.0.3", "10.1.0.4"))
	if covered(four, all, copies) || covered(four, all, part) || !covered(four, all, whole) || covered(six, all, whole) || !covered(four, nil, nil) {
		t.Error("only the controller's own slices, in the family, cover")
	}
	if seen(four, all, copies) || !seen(four, all, part) || seen(six, all, whole) || !seen(six, nil, nil) {
		t.Error("any slice of the controller's, in the family, says that it has seen the Service")
	}
	if handWritten(all) != "" || handWritten(append(all, slice("mine", "me", discoveryv1.AddressTypeIPv4))) != "mine" {
		t.Error("a slice of another manager is not seen")
	}
}
