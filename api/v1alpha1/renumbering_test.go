package v1alpha1_test

import (
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"

	"github.com/clusterip-operator/clusterip-operator/api/v1alpha1"
)

func TestBeingRenumbered(t *testing.T) {
	says := map[string]string{v1alpha1.AnnotationRenumbering: ""}
	for name, tc := range map[string]struct {
		annotations  map[string]string
		kind         corev1.ServiceType
		externalName string
		ingress      []corev1.LoadBalancerIngress
		want         bool
	}{
		"between":                              {annotations: says, kind: "ExternalName", externalName: "being-renumbered.invalid", want: true},
		"an alias of its owner":                {annotations: says, kind: "ExternalName", externalName: "example.com"},
		"the name without the annotation":      {kind: "ExternalName", externalName: "being-renumbered.invalid"},
		"a load balancer without its status":   {annotations: says, kind: "LoadBalancer", want: true},
		"a load balancer with its status":      {annotations: says, kind: "LoadBalancer", ingress: []corev1.LoadBalancerIngress{{IP: "192.0.2.1"}}},
		"a load balancer that was never moved": {kind: "LoadBalancer"},
		"its owner gave it its type back":      {annotations: says, kind: "ClusterIP"},
		"of no type, as a stub":                {annotations: says},
	} {
		s := &corev1.Service{Spec: corev1.ServiceSpec{Type: tc.kind, ExternalName: tc.externalName}}
		s.Annotations, s.Status.LoadBalancer.Ingress = tc.annotations, tc.ingress
		if got := v1alpha1.BeingRenumbered(s); got != tc.want {
			t.Errorf("%s: %t", name, got)
		}
	}
}

func TestHasNameOfSecond(t *testing.T) {
	long := strings.Repeat("a", 63)
	for _, tc := range []struct {
		second, first string
		want          bool
	}{
		{v1alpha1.SecondName("web", "0123456789"), "web", true}, {v1alpha1.SecondName(long, "0123456789"), long, true}, {v1alpha1.SecondName("web", "0123456789"), "db", false},
		{"web-former-", "web", false}, {"web-former-012345678", "web", false}, {"web", "web", false}, {"", "", false}, {"-former-0123456789", "", true},
	} {
		if got := v1alpha1.HasNameOfSecond(tc.second, tc.first); got != tc.want || len(tc.second) > 63 {
			t.Errorf("%s of %s: %v", tc.second, tc.first, got)
		}
	}
}
