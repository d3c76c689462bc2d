package renumber

import (
	"encoding/json"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	networkingv1 "k8s.io/api/networking/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/clusterip-operator/clusterip-operator/api/v1alpha1"
)

// A tenant writes what it likes into its Service, and nothing into the status. None of it is a
// record.
func TestARecordProvesItself(t *testing.T) {
	s := service("a", "10.96.0.7,fd00:96::7")
	theirs, err := json.Marshal(record{Spec: corev1.ServiceSpec{
		Type: corev1.ServiceTypeLoadBalancer, ClusterIPs: s.Spec.ClusterIPs, LoadBalancerIP: "203.0.113.7", ExternalIPs: []string{"203.0.113.7"},
	}})
	if err != nil {
		t.Fatal(err)
	}
	writes := func(text string) func(*corev1.Service) {
		return func(s *corev1.Service) { s.Annotations[v1alpha1.AnnotationRenumbering] = text }
	}
	plain := service("a", "", func(s *corev1.Service) {
		s.Spec.Type, s.Spec.ExternalName, s.Annotations = corev1.ServiceTypeExternalName, v1alpha1.ExternalNameRenumbering, map[string]string{}
	})
	before := leave(t, &s) // of an earlier move, which is over
	for name, tc := range map[string]struct {
		service *corev1.Service
		write   func(*corev1.Service)
		want    bool
	}{
		"what the command has written":             {leave(t, &s), func(*corev1.Service) {}, true},
		"a record of the owner, without a move":    {&plain, writes(string(theirs)), false},
		"a record of the owner, in between":        {leave(t, &s), writes(string(theirs)), false},
		"one letter more":                          {leave(t, &s), func(s *corev1.Service) { s.Annotations[v1alpha1.AnnotationRenumbering] += " " }, false},
		"that of the move before":                  {leave(t, &s), writes(before.Annotations[v1alpha1.AnnotationRenumbering]), false},
		"that of another Service":                  {leave(t, &s), writes(leave(t, new(service("b", "10.96.0.8,fd00:96::8"))).Annotations[v1alpha1.AnnotationRenumbering]), false},
		"the digest of nothing":                    {&plain, writes(""), false},
		"no JSON":                                  {leave(t, &s), writes("{type"), false},
		"the same, after the move was settled":     {func() *corev1.Service { out, _, _ := settled(before); return out }(), writes(before.Annotations[v1alpha1.AnnotationRenumbering]), false},
		"a guess at the record before it is there": {proves(&plain, "a record whose nonce is not known"), writes(string(theirs)), false},
	} {
		now := tc.service.DeepCopy()
		if now.Annotations == nil {
			now.Annotations = map[string]string{}
		}
		tc.write(now)
		was, err := recordOf(now)
		if got := err == nil && was != nil; got != tc.want {
			t.Errorf("%s: it is believed: %t (%v)", name, got, err)
		}
	}
	if one, other := leave(t, &s).Annotations, leave(t, &s).Annotations; one[v1alpha1.AnnotationRenumbering] == other[v1alpha1.AnnotationRenumbering] {
		t.Error("a tenant that has seen one record knows the next")
	}
}

// An address is kept for a Service when its IPAddress says so, whatever the Service says.
func TestKeptFor(t *testing.T) {
	now := metav1.NewTime(time.Unix(1000, 0))
	s := service("a", "10.200.0.7", func(s *corev1.Service) { s.CreationTimestamp = now })
	for name, tc := range map[string]struct {
		change func(*networkingv1.IPAddress)
		want   bool
	}{
		"held, of the Service":                {func(*networkingv1.IPAddress) {}, true},
		"held, and the API server has let go": {func(ip *networkingv1.IPAddress) { ip.DeletionTimestamp = new(metav1.NewTime(now.Add(time.Second))) }, true},
		"held, of this very Service": {func(ip *networkingv1.IPAddress) {
			ip.Annotations = map[string]string{v1alpha1.AnnotationServiceUID: "uid of a"}
		}, true},
		"held, of another one of its name": {func(ip *networkingv1.IPAddress) {
			ip.Annotations = map[string]string{v1alpha1.AnnotationServiceUID: "x"}
		}, false},
		"held, of one of its name that is gone":    {func(ip *networkingv1.IPAddress) { ip.DeletionTimestamp = new(metav1.NewTime(now.Add(-time.Second))) }, false},
		"not held":                                 {func(ip *networkingv1.IPAddress) { ip.Finalizers = []string{"other"} }, false},
		"of another Service":                       {func(ip *networkingv1.IPAddress) { ip.Spec.ParentRef.Name = "b" }, false},
		"of a Service of the name, elsewhere":      {func(ip *networkingv1.IPAddress) { ip.Spec.ParentRef.Namespace = "theirs" }, false},
		"of something else that is called as much": {func(ip *networkingv1.IPAddress) { ip.Spec.ParentRef.Resource = "gateways" }, false},
	} {
		ip := &networkingv1.IPAddress{ObjectMeta: metav1.ObjectMeta{Name: "10.96.0.7", Finalizers: []string{v1alpha1.FinalizerFormer}}}
		ip.Spec.ParentRef = &networkingv1.ParentReference{Resource: "services", Namespace: "shop", Name: "a"}
		tc.change(ip)
		if got := keptFor(ip, &s); got != tc.want {
			t.Errorf("%s: %t", name, got)
		}
	}
	if keptFor(nil, &s) {
		t.Error("an address without an IPAddress is kept")
	}
}

// However long the list is, so many IPAddresses are read for it.
func TestFormerIsBounded(t *testing.T) {
	s := service("a", "10.200.0.7", func(s *corev1.Service) {
		s.Annotations = map[string]string{v1alpha1.AnnotationFormerIPs: strings.Repeat("203.0.113.7,", 20_000)}
	})
	if n := len(former(&s)); n != 8 {
		t.Errorf("%d addresses", n)
	}
}
