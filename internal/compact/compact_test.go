package compact

import (
	"maps"
	"testing"
	"time"
	"unsafe"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	networkingv1 "k8s.io/api/networking/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/client-go/kubernetes/scheme"
	"sigs.k8s.io/controller-runtime/pkg/client"
)

// usual are metadata as trimming leaves them.
func usual() metav1.ObjectMeta {
	return metav1.ObjectMeta{
		Name: "a", UID: "0123abcd-4567-89ef-0123-456789abcdef", ResourceVersion: "18446744073709551615",
		CreationTimestamp: metav1.NewTime(time.Unix(1_700_000_000, 0)),
	}
}

func service(claims ...string) *corev1.Service {
	s := &corev1.Service{ObjectMeta: usual(), Spec: corev1.ServiceSpec{Type: corev1.ServiceTypeClusterIP, ClusterIPs: claims}}
	s.Namespace = "ns"
	return s
}

func address() *networkingv1.IPAddress {
	ip := &networkingv1.IPAddress{ObjectMeta: usual()}
	ip.Labels = maps.Clone(allocated[1])
	ip.Spec.ParentRef = &networkingv1.ParentReference{Resource: "services", Namespace: "ns", Name: "a"}
	return ip
}

func TestWhatIsUsualComesBack(t *testing.T) {
	for _, claims := range [][]string{
		nil, {"None"}, {"10.0.0.1"}, {"fd00::1"}, {"10.0.0.1", "fd00::1"}, {"fd00::1", "10.0.0.1"}, {"0.0.0.0", "::"}, {"255.255.255.255", "ff::"},
	} {
		for _, kind := range kinds {
			s := service(claims...)
			s.Spec.Type = kind
			back(t, s, OfService(s))
		}
	}
	for _, labels := range allocated {
		ip := address()
		ip.Labels = maps.Clone(labels)
		back(t, ip, OfIPAddress(ip))
	}
}

// back tests a compact object against the full one, also as handlers of events read it.
func back[T interface {
	comparable
	client.Object
}](t *testing.T, full client.Object, kept T) {
	t.Helper()
	var none T
	if kept == none {
		t.Fatalf("%+v is not kept", full)
	}
	if diff := cmp.Diff(full, Expand(kept)); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
	for name, read := range map[string]func(client.Object) any{
		"name": func(o client.Object) any { return client.ObjectKeyFromObject(o) }, "UID": func(o client.Object) any { return o.GetUID() },
		"version": func(o client.Object) any { return o.GetResourceVersion() }, "creation": func(o client.Object) any { return o.GetCreationTimestamp() },
		"labels": func(o client.Object) any { return o.GetLabels() }, "annotations": func(o client.Object) any { return o.GetAnnotations() },
		"finalizers": func(o client.Object) any { return o.GetFinalizers() }, "deletion": func(o client.Object) any { return o.GetDeletionTimestamp() },
	} {
		if diff := cmp.Diff(read(full), read(kept)); diff != "" {
			t.Errorf("%s (-want +got):\n%s", name, diff)
		}
	}
}

// Nothing that a compact object has no room for may be lost.
func TestWhatIsUnusualStays(t *testing.T) {
	for name, change := range map[string]func(*metav1.ObjectMeta){
		"a UID of capital letters": func(m *metav1.ObjectMeta) { m.UID = "0123ABCD-4567-89ef-0123-456789abcdef" },
		"a UID of an old tool":     func(m *metav1.ObjectMeta) { m.UID = "u" },
		"hyphens elsewhere":        func(m *metav1.ObjectMeta) { m.UID = "0123abc-d4567-89ef-0123-456789abcdef" },
		"a version with a zero":    func(m *metav1.ObjectMeta) { m.ResourceVersion = "01" },
		"no version":               func(m *metav1.ObjectMeta) { m.ResourceVersion = "" },
		"no creation":              func(m *metav1.ObjectMeta) { m.CreationTimestamp = metav1.Time{} },
		"a fine creation":          func(m *metav1.ObjectMeta) { m.CreationTimestamp.Time = m.CreationTimestamp.Add(1) },
		"a creation in 2106":       func(m *metav1.ObjectMeta) { m.CreationTimestamp.Time = time.Unix(1<<32, 0) },
		"being deleted":            func(m *metav1.ObjectMeta) { m.DeletionTimestamp = new(metav1.Now()) },
		"annotations":              func(m *metav1.ObjectMeta) { m.Annotations = map[string]string{"a": ""} },
		"other labels":             func(m *metav1.ObjectMeta) { m.Labels = map[string]string{"a": ""} },
		"finalizers":               func(m *metav1.ObjectMeta) { m.Finalizers = []string{"f"} },
		"owners":                   func(m *metav1.ObjectMeta) { m.OwnerReferences = []metav1.OwnerReference{{}} },
		"a generation":             func(m *metav1.ObjectMeta) { m.Generation = 1 },
	} {
		s, ip := service("10.0.0.1"), address()
		change(&s.ObjectMeta)
		change(&ip.ObjectMeta)
		if OfService(s) != nil || OfIPAddress(ip) != nil {
			t.Errorf("%s: a Service is kept: %t, an IPAddress %t", name, OfService(s) != nil, OfIPAddress(ip) != nil)
		}
	}
	for name, change := range map[string]func(*corev1.ServiceSpec){
		"leading zeros":       func(s *corev1.ServiceSpec) { s.ClusterIPs = []string{"10.096.0.1"} },
		"a long IPv6":         func(s *corev1.ServiceSpec) { s.ClusterIPs = []string{"fd00::00AC"} },
		"an embedded IPv4":    func(s *corev1.ServiceSpec) { s.ClusterIPs = []string{"::ffff:10.0.0.1"} },
		"two of one family":   func(s *corev1.ServiceSpec) { s.ClusterIPs = []string{"10.0.0.1", "10.0.0.2"} },
		"two of IPv6":         func(s *corev1.ServiceSpec) { s.ClusterIPs = []string{"fd00::1", "fd00::2"} },
		"three":               func(s *corev1.ServiceSpec) { s.ClusterIPs = []string{"10.0.0.1", "fd00::1", "fd00::2"} },
		"None and an address": func(s *corev1.ServiceSpec) { s.ClusterIPs = []string{"None", "fd00::1"} },
		"another type":        func(s *corev1.ServiceSpec) { s.Type = "Other" },
		"node ports":          func(s *corev1.ServiceSpec) { s.Ports = []corev1.ServicePort{{NodePort: 30000}} },
		"families":            func(s *corev1.ServiceSpec) { s.IPFamilies = []corev1.IPFamily{corev1.IPv4Protocol} },
		"an alias":            func(s *corev1.ServiceSpec) { s.ExternalName = "a" },
	} {
		s := service("10.0.0.1")
		change(&s.Spec)
		if OfService(s) != nil {
			t.Errorf("%s: kept", name)
		}
	}
	for name, ref := range map[string]*networkingv1.ParentReference{
		"no parent": nil, "a gateway": {Group: "g", Resource: "gateways", Name: "a"}, "of another group": {Group: "g", Resource: "services", Namespace: "ns", Name: "a"},
	} {
		ip := address()
		ip.Spec.ParentRef = ref
		if OfIPAddress(ip) != nil {
			t.Errorf("%s: kept", name)
		}
	}
}

// Of these there are as many as addresses.
func TestSizes(t *testing.T) {
	if a, b := unsafe.Sizeof(Service{}), unsafe.Sizeof(IPAddress{}); a != 80 || b != 80 {
		t.Errorf("a Service has %d bytes, an IPAddress %d; want 80, which is a size of the allocator", a, b)
	}
}

// What is not full is written nowhere: no client finds out its kind, and no caller can change it.
func TestACompactObjectIsNotWritten(t *testing.T) {
	for _, o := range []client.Object{OfService(service("10.0.0.1")), OfIPAddress(address())} {
		if kinds, _, err := scheme.Scheme.ObjectKinds(o); !runtime.IsNotRegisteredError(err) {
			t.Errorf("%T is sent as %v (%v)", o, kinds, err)
		}
		func() {
			defer func() {
				if recover() == nil {
					t.Errorf("%T lets itself be changed", o)
				}
			}()
			o.SetLabels(nil)
		}()
	}
}

// A copy is the caller's to change: what objects share must not be in it.
func TestCopiesShareNothing(t *testing.T) {
	kept := OfIPAddress(address())
	Expand(kept).(*networkingv1.IPAddress).Labels["a"] = "b"
	if diff := cmp.Diff(address().Labels, kept.GetLabels()); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
}
