package addressindex

import (
	"testing"

	networkingv1 "k8s.io/api/networking/v1"

	"github.com/clusterip-operator/clusterip-operator/api/v1alpha1"
)

// naming is an IPAddress that names Service ns/a.
func naming(address, manager string) *networkingv1.IPAddress {
	o := object(address, manager)
	o.Spec.ParentRef = &networkingv1.ParentReference{Resource: "services", Namespace: "ns", Name: "a"}
	return o
}

func TestOrphan(t *testing.T) {
	for _, address := range []string{"10.0.0.5", "fd00::5"} {
		for name, tc := range map[string]struct {
			do   func(index)
			want bool
		}{
			"an IPAddress before its Service": {func(b index) { b.objects.OnAdd(naming(address, v1alpha1.ManagedByAPIServer), true) }, true},
			"nothing":                         {func(index) {}, false},
			"one that names no Service":       {func(b index) { b.objects.OnAdd(object(address, v1alpha1.ManagedByAPIServer), true) }, false},
			"of another manager":              {func(b index) { b.objects.OnAdd(naming(address, "acme"), true) }, false},
			"of the operator":                 {func(b index) { b.objects.OnAdd(naming(address, v1alpha1.ManagedByOperator), true) }, false},
			"its Service is there": {func(b index) {
				b.objects.OnAdd(naming(address, v1alpha1.ManagedByAPIServer), true)
				b.services.OnAdd(service("a", address), true)
			}, false},
			"another Service has the address": {func(b index) {
				b.objects.OnAdd(naming(address, v1alpha1.ManagedByAPIServer), true)
				b.services.OnAdd(service("b", address), true)
			}, false},
			"its Service has just gone": {func(b index) {
				b.objects.OnAdd(naming(address, v1alpha1.ManagedByAPIServer), true)
				b.services.OnAdd(service("a", address), false)
				b.services.OnDelete(service("a", address))
			}, false},
		} {
			t.Run(name+" "+address, func(t *testing.T) {
				b := newIndex()
				tc.do(b)
				if of, got := b.Orphan(addr(address)); got != tc.want || got && of.String() != "ns/a" {
					t.Errorf("got %v of %v, want %v", got, of, tc.want)
				}
			})
		}
	}
}
