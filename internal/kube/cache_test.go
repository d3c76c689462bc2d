package kube

import (
	"fmt"
	"maps"
	"net/netip"
	"runtime"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	networkingv1 "k8s.io/api/networking/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	toolscache "k8s.io/client-go/tools/cache"

	"github.com/clusterip-operator/clusterip-operator/api/v1alpha1"
	"github.com/clusterip-operator/clusterip-operator/internal/compact"
	"github.com/clusterip-operator/clusterip-operator/internal/upstream"
	"github.com/clusterip-operator/clusterip-operator/test/framework/alone"
)

// fat is the metadata of an object as the API server sends it.
func fat() metav1.ObjectMeta {
	return metav1.ObjectMeta{
		Name: "n", Namespace: "ns", UID: "u", ResourceVersion: "1", Labels: map[string]string{"l": "1"},
		Annotations: map[string]string{"a": "1"}, Finalizers: []string{"f"},
		ManagedFields: []metav1.ManagedFieldsEntry{{Manager: "m"}},
	}
}

func slim() metav1.ObjectMeta {
	return metav1.ObjectMeta{Name: "n", Namespace: "ns", UID: "u", ResourceVersion: "1"}
}

func withFormer(m metav1.ObjectMeta) metav1.ObjectMeta {
	m.Annotations = map[string]string{v1alpha1.AnnotationFormerIPs: "10.0.0.5", v1alpha1.AnnotationRenumbering: ""}
	return m
}

func withLabels(m metav1.ObjectMeta, labels map[string]string) metav1.ObjectMeta {
	m.Labels = labels
	return m
}

func heldBy(m metav1.ObjectMeta, finalizers ...string) metav1.ObjectMeta {
	m.Finalizers = finalizers
	return m
}

func TestTheCacheKeepsOnlyWhatIsRead(t *testing.T) {
	ours := map[string]string{
		networkingv1.LabelManagedBy: "m", networkingv1.LabelIPAddressFamily: "IPv4", v1alpha1.LabelPurpose: "p", v1alpha1.LabelBand: "b",
	}
	more := maps.Clone(ours)
	more["l"] = "1"
	unmanaged := fat()
	unmanaged.ManagedFields = nil
	spec := networkingv1.ServiceCIDRSpec{CIDRs: []string{"10.0.0.0/16"}}

	for name, tc := range map[string]struct{ in, want any }{
		"Service": {
			&corev1.Service{ObjectMeta: fat(), Spec: corev1.ServiceSpec{Type: "ClusterIP", ClusterIPs: []string{"10.0.0.1"}, Ports: []corev1.ServicePort{{Port: 80}}}},
			&corev1.Service{ObjectMeta: slim(), Spec: corev1.ServiceSpec{Type: "ClusterIP", ClusterIPs: []string{"10.0.0.1"}}},
		},
		"Service with node ports": {
			&corev1.Service{ObjectMeta: fat(), Spec: corev1.ServiceSpec{
				Type: "LoadBalancer", HealthCheckNodePort: 30002, Ports: []corev1.ServicePort{{Name: "a", Port: 80, NodePort: 30001}, {Name: "b", Protocol: "UDP", Port: 80, NodePort: 30001}, {Port: 81}},
			}},
			&corev1.Service{ObjectMeta: slim(), Spec: corev1.ServiceSpec{Type: "LoadBalancer", Ports: []corev1.ServicePort{{NodePort: 30001}, {NodePort: 30002}}}},
		},
		"Service that is renumbered": {
			&corev1.Service{ObjectMeta: withFormer(fat()), Spec: corev1.ServiceSpec{Type: "ExternalName", ExternalName: v1alpha1.ExternalNameRenumbering}},
			&corev1.Service{ObjectMeta: withFormer(slim()), Spec: corev1.ServiceSpec{Type: "ExternalName", ExternalName: v1alpha1.ExternalNameRenumbering}},
		},
		"Service with an alias of its owner": {
			&corev1.Service{ObjectMeta: withFormer(fat()), Spec: corev1.ServiceSpec{Type: "ExternalName", ExternalName: "example.com"}},
			&corev1.Service{ObjectMeta: withFormer(slim()), Spec: corev1.ServiceSpec{Type: "ExternalName"}},
		},
		"Namespace": {
			&corev1.Namespace{ObjectMeta: fat(), Spec: corev1.NamespaceSpec{Finalizers: []corev1.FinalizerName{"f"}}}, &corev1.Namespace{ObjectMeta: withLabels(slim(), fat().Labels)},
		},
		"IPAddress of a former address": {
			&networkingv1.IPAddress{ObjectMeta: heldBy(fat(), "f", v1alpha1.FinalizerFormer)}, &networkingv1.IPAddress{ObjectMeta: heldBy(slim(), v1alpha1.FinalizerFormer)},
		},
		"Node": {
			&corev1.Node{ObjectMeta: fat(), Spec: corev1.NodeSpec{PodCIDRs: []string{"p"}, ProviderID: "x"}, Status: corev1.NodeStatus{Images: []corev1.ContainerImage{{}}}},
			&corev1.Node{ObjectMeta: slim(), Spec: corev1.NodeSpec{PodCIDRs: []string{"p"}}},
		},
		"IPAddress":   {&networkingv1.IPAddress{ObjectMeta: withLabels(fat(), more)}, &networkingv1.IPAddress{ObjectMeta: withLabels(slim(), ours)}},
		"ServiceCIDR": {&networkingv1.ServiceCIDR{ObjectMeta: fat(), Spec: spec}, &networkingv1.ServiceCIDR{ObjectMeta: unmanaged, Spec: spec}},
	} {
		t.Run(name, func(t *testing.T) {
			for kind, options := range CacheOptions(true).ByObject {
				if got, err := options.Transform(tc.in); err != nil {
					t.Fatal(err)
				} else if cmp.Equal(got, tc.want) {
					return
				} else if got != tc.in {
					t.Errorf("%T (-want +got):\n%s", kind, cmp.Diff(tc.want, got))
				}
			}
			t.Error("no transform takes it")
		})
	}
}

// As nearly all Services and IPAddresses are, the cache has them compact, and their copies in full.
func TestTheCacheKeepsUsualObjectsCompact(t *testing.T) {
	meta := fat()
	meta.UID, meta.ResourceVersion, meta.CreationTimestamp = "0123abcd-4567-89ef-0123-456789abcdef", "7", metav1.Unix(1_700_000_000, 0)
	meta.Labels = map[string]string{networkingv1.LabelManagedBy: v1alpha1.ManagedByAPIServer, networkingv1.LabelIPAddressFamily: "IPv6", v1alpha1.LabelBand: "static"}
	s := &corev1.Service{ObjectMeta: meta, Spec: corev1.ServiceSpec{
		Type: "ClusterIP", ClusterIP: "10.0.0.1", ClusterIPs: []string{"10.0.0.1", "fd00::1"}, Ports: []corev1.ServicePort{{Port: 80}}, Selector: map[string]string{"a": "b"},
	}}
	ip := &networkingv1.IPAddress{ObjectMeta: meta, Spec: networkingv1.IPAddressSpec{ParentRef: &networkingv1.ParentReference{Resource: "services", Namespace: "ns", Name: "n"}}}
	ip.Namespace = ""
	for kind, options := range CacheOptions(true).ByObject {
		switch kind.(type) {
		case *corev1.Service:
			kept, err := options.Transform(s)
			again, _ := options.Transform(kept) // client-go does so
			if _, ok := kept.(*compact.Service); !ok || err != nil || again != kept || *options.UnsafeDisableDeepCopy {
				t.Errorf("a Service is kept as %T, then as %T (%v)", kept, again, err)
			}
			if diff := cmp.Diff(trimService(s), compact.Expand(kept)); diff != "" {
				t.Errorf("(-want +got):\n%s", diff)
			}
		case *networkingv1.IPAddress:
			kept, err := options.Transform(ip)
			if _, ok := kept.(*compact.IPAddress); !ok || err != nil || *options.UnsafeDisableDeepCopy {
				t.Errorf("an IPAddress is kept as %T (%v)", kept, err)
			}
			if diff := cmp.Diff(trimIPAddress(ip), compact.Expand(kept)); diff != "" {
				t.Errorf("(-want +got):\n%s", diff)
			}
		}
	}
}

// Whatever is no object, such as the mark of a missed deletion, must pass.
func TestTransformsLetOthersPass(t *testing.T) {
	gone := toolscache.DeletedFinalStateUnknown{Key: "k"}
	for kind, options := range CacheOptions(true).ByObject {
		if got, err := options.Transform(gone); err != nil || got != any(gone) {
			t.Errorf("%T made %v of it (%v)", kind, got, err)
		}
	}
}

// A compact object is not what its copy is, so that client-go must not be given any to compare.
func TestTheMutationDetectorFindsNothing(t *testing.T) {
	if !alone.Runs(t, "KUBE_CACHE_MUTATION_DETECTOR=true") {
		return
	}
	d := toolscache.NewCacheMutationDetector("cache")
	for _, uid := range []types.UID{"u", "0123abcd-4567-89ef-0123-456789abcdef"} {
		meta := metav1.ObjectMeta{Name: "n", Namespace: "ns", UID: uid, ResourceVersion: "1", CreationTimestamp: metav1.Unix(1000, 0)}
		d.AddObject(keepService(&corev1.Service{ObjectMeta: meta, Spec: corev1.ServiceSpec{Type: corev1.ServiceTypeClusterIP, ClusterIPs: []string{"10.0.0.1", "fd00::1"}}}))
		meta.Namespace, meta.Labels = "", upstream.Labels(netip.MustParseAddr("fd00::1"))
		d.AddObject(keepIPAddress(&networkingv1.IPAddress{ObjectMeta: meta, Spec: networkingv1.IPAddressSpec{ParentRef: &networkingv1.ParentReference{Resource: "services", Namespace: "ns", Name: "n"}}}))
	}
	d.(interface{ CompareObjects() }).CompareObjects()
}

// worst is the Service that costs the most of all that an API server takes: names as long as they
// may be, as much of each annotation of ours as can be read, or all that cannot, and whatever else
// there is room for in 1.5 MiB.
func worst(n int, from, former string) *corev1.Service {
	junk := strings.Repeat("x", 64<<10)
	s := &corev1.Service{
		ObjectMeta: metav1.ObjectMeta{
			Name: fmt.Sprintf("s%062d", n), Namespace: fmt.Sprintf("n%062d", n), UID: types.UID(fmt.Sprintf("%036d", n)), ResourceVersion: fmt.Sprintf("%020d", n),
			Labels: map[string]string{}, Annotations: map[string]string{"junk": junk, v1alpha1.AnnotationRenumbering: junk},
			Finalizers: []string{junk}, ManagedFields: []metav1.ManagedFieldsEntry{{FieldsV1: metav1.NewFieldsV1(junk)}},
		},
		Spec: corev1.ServiceSpec{
			Type: corev1.ServiceTypeExternalName, ExternalName: v1alpha1.ExternalNameRenumbering, IPFamilies: []corev1.IPFamily{corev1.IPv4Protocol, corev1.IPv6Protocol},
			ClusterIPs: []string{fmt.Sprintf("255.255.255.%03d", n%256), fmt.Sprintf("fd00:1111:2222:3333:4444:5555:6666:%04x", n)},
		},
	}
	for i := range 1000 {
		s.Labels[fmt.Sprintf("l%062d", i)] = strings.Repeat("x", 63)
	}
	s.Annotations[v1alpha1.AnnotationAdditionalFrom], s.Annotations[v1alpha1.AnnotationFormerIPs] = strings.Clone(from), strings.Clone(former)
	return s
}

// A replica keeps all Services of the cluster. Whatever a tenant writes into one, it costs no more
// than 2 KiB here. The heap is measured in a process of its own: in this one the operator of the
// specs may have run before, and leaves garbage.
func TestAServiceCostsNoMoreThan2KiB(t *testing.T) {
	if !alone.Runs(t) {
		return
	}
	const services, limit = 300, 2 << 10
	var former []string
	for i := range 8 {
		former = append(former, fmt.Sprintf("fd00:1111:2222:3333:4444:5555:6666:%04x", 0x1000+i))
	}
	name63 := strings.Repeat("x", 63)
	for name, tc := range map[string]struct {
		from, former string
		readable     bool
	}{
		"as much as can be read": {strings.Repeat(name63+".", 3) + name63[2:], strings.Join(former, ","), true},
		"junk of 256 KiB":        {strings.Repeat("x,", 64<<10), strings.Repeat("x,", 64<<10), false},
	} {
		kept := make([]*corev1.Service, services)
		trimService(worst(0, tc.from, tc.former)) // what is allocated once, by the first of all
		before := alone.Heap()
		for i := range kept {
			s := worst(i, tc.from, tc.former)
			if kept[i] = trimService(s); tc.readable != (kept[i].Annotations[v1alpha1.AnnotationAdditionalFrom] == tc.from) {
				t.Fatalf("%s: %d characters are kept of the annotation", name, len(kept[i].Annotations[v1alpha1.AnnotationAdditionalFrom]))
			}
		}
		each := (alone.Heap() - before) / services
		t.Logf("%s: %d bytes", name, each)
		if each > limit {
			t.Errorf("%s: a Service costs %d bytes, more than %d", name, each, limit)
		}
		runtime.KeepAlive(kept)
	}
}
