package controllers

import (
	"testing"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	networkingv1 "k8s.io/api/networking/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	toolscache "k8s.io/client-go/tools/cache"

	"github.com/clusterip-operator/clusterip-operator/api/v1alpha1"
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
	m.Annotations = map[string]string{v1alpha1.AnnotationFormerIPs: "10.0.0.5", v1alpha1.AnnotationRenumbering: "{}"}
	return m
}

func heldBy(m metav1.ObjectMeta, finalizers ...string) metav1.ObjectMeta {
	m.Finalizers = finalizers
	return m
}

func TestTheCacheKeepsOnlyWhatIsRead(t *testing.T) {
	withLabels, unmanaged := slim(), fat()
	withLabels.Labels, unmanaged.ManagedFields = fat().Labels, nil
	spec := networkingv1.ServiceCIDRSpec{CIDRs: []string{"10.0.0.0/16"}}

	for name, tc := range map[string]struct{ in, want any }{
		"Service": {
			&corev1.Service{ObjectMeta: fat(), Spec: corev1.ServiceSpec{Type: "ClusterIP", ClusterIPs: []string{"10.0.0.1"}, Ports: []corev1.ServicePort{{Port: 80}}}},
			&corev1.Service{ObjectMeta: slim(), Spec: corev1.ServiceSpec{Type: "ClusterIP", ClusterIPs: []string{"10.0.0.1"}}},
		},
		"Service that is renumbered": {
			&corev1.Service{ObjectMeta: withFormer(fat())}, &corev1.Service{ObjectMeta: withFormer(withLabels)},
		},
		"IPAddress of a former address": {
			&networkingv1.IPAddress{ObjectMeta: heldBy(fat(), "f", v1alpha1.FinalizerFormer)}, &networkingv1.IPAddress{ObjectMeta: heldBy(withLabels, v1alpha1.FinalizerFormer)},
		},
		"Node": {
			&corev1.Node{ObjectMeta: fat(), Spec: corev1.NodeSpec{PodCIDRs: []string{"p"}, ProviderID: "x"}, Status: corev1.NodeStatus{Images: []corev1.ContainerImage{{}}}},
			&corev1.Node{ObjectMeta: slim(), Spec: corev1.NodeSpec{PodCIDRs: []string{"p"}}},
		},
		"IPAddress":   {&networkingv1.IPAddress{ObjectMeta: fat()}, &networkingv1.IPAddress{ObjectMeta: withLabels}},
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

// Whatever is no object, such as the mark of a missed deletion, must pass.
func TestTransformsLetOthersPass(t *testing.T) {
	gone := toolscache.DeletedFinalStateUnknown{Key: "k"}
	for kind, options := range CacheOptions(true).ByObject {
		if got, err := options.Transform(gone); err != nil || got != any(gone) {
			t.Errorf("%T made %v of it (%v)", kind, got, err)
		}
	}
}
