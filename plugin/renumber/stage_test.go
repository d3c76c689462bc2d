package renumber

import (
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/clusterip-operator/clusterip-operator/api/v1alpha1"
)

func TestStageOf(t *testing.T) {
	const old, next = "10.96.0.7,fd00:96::7", "10.200.0.7,fd00:200::7"
	has := func(addresses string, changes ...func(*corev1.Service)) *corev1.Service {
		s := service("a", addresses, changes...)
		return &s
	}
	former := func(s *corev1.Service) {
		metav1.SetMetaDataAnnotation(&s.ObjectMeta, v1alpha1.AnnotationFormerIPs, old)
	}
	saved := func(s *corev1.Service) { // an annotation that a tenant may have written
		metav1.SetMetaDataAnnotation(&s.ObjectMeta, v1alpha1.AnnotationRenumbering, "{}")
	}
	left := func(addresses string, changes ...func(*corev1.Service)) *corev1.Service {
		s := leave(t, has(addresses))
		for _, change := range changes {
			change(s)
		}
		return s
	}
	balancer := func(s *corev1.Service) { s.Spec.Type = corev1.ServiceTypeLoadBalancer }
	named := func(name string) func(*corev1.Service) {
		return func(s *corev1.Service) { s.Spec.Type, s.Spec.ExternalName = corev1.ServiceTypeExternalName, name }
	}
	for name, tc := range map[string]struct {
		service  *corev1.Service
		want     Stage
		wantBack Stage // of the way back
		wantWhy  string
	}{
		"as it was":                               {has(old), Waiting, Done, ""},
		"as it was, and moved before":             {has(old, former), Waiting, Moved, ""},
		"in between":                              {left(old), Between, Between, ""},
		"in between, from the new addresses":      {left(next), Between, Between, ""},
		"in between, of another plan":             {left("10.96.0.8,fd00:96::8"), Left, Left, "another plan"},
		"its owner says so":                       {has("", named(v1alpha1.ExternalNameRenumbering), former, saved), Left, Left, "its status does not prove"},
		"its owner has changed the record":        {left(old, saved), Left, Left, "its status does not prove"},
		"a load balancer, and its owner says so":  {has(old, balancer, saved), Waiting, Done, ""},
		"a load balancer without its status":      {left(old, balancer, func(s *corev1.Service) { s.Spec.ClusterIPs = strings.Split(next, ",") }), Between, Between, ""},
		"moved":                                   {has(next, former), Moved, Waiting, ""},
		"moved, and nothing is kept":              {has(next), Done, Waiting, ""},
		"gone":                                    {nil, Left, Left, "it was deleted"},
		"another one":                             {has(old, func(s *corev1.Service) { s.UID = "x" }), Left, Left, "another one of its name was created"},
		"another one, in between":                 {has("", named(v1alpha1.ExternalNameRenumbering), saved, func(s *corev1.Service) { s.UID = "x" }), Left, Left, "another one"},
		"going":                                   {has(next, func(s *corev1.Service) { s.DeletionTimestamp = new(metav1.Now()) }), Left, Left, "it is being deleted"},
		"an ExternalName of its owner":            {has("", named("example.com")), Left, Left, "its owner has made it an ExternalName"},
		"an ExternalName of its owner, halfway":   {has("", named("example.com"), former, saved), Left, Left, "its owner has made it an ExternalName"},
		"in between, its annotation was taken":    {has("", named(v1alpha1.ExternalNameRenumbering), former), Left, Left, "its owner has made it an ExternalName"},
		"its owner gave it its type back":         {has("10.200.0.99,fd00:200::99", former, saved), Left, Left, "10.200.0.99,fd00:200::99"},
		"its owner gave it the type, with old IP": {has(old, saved), Waiting, Done, ""},
		"headless":                                {has("None"), Left, Left, "other addresses than the plan knows"},
		"one family less":                         {has("10.96.0.7"), Left, Left, "10.96.0.7"},
		"the families are exchanged":              {has("fd00:96::7,10.96.0.7"), Left, Left, "other addresses"},
	} {
		t.Run(name, func(t *testing.T) {
			i := Item{Namespace: "shop", Name: "a", UID: "uid of a", Old: addrs(old), New: addrs(next)}
			got, why := stageOf(i, tc.service)
			if got != tc.want || !strings.Contains(why, tc.wantWhy) || (why != "") != (got == Left) {
				t.Errorf("%s %q, want %s %q", got, why, tc.want, tc.wantWhy)
			}
			if got, _ := stageOf(i.Back(), tc.service); got != tc.wantBack {
				t.Errorf("on the way back %s, want %s", got, tc.wantBack)
			}
		})
	}
}

func TestDue(t *testing.T) {
	d := Drain{TTL: 30 * time.Second, Quiet: 10 * time.Second, Limit: time.Minute}
	for name, tc := range map[string]struct {
		age, quiet time.Duration
		want       bool
	}{
		"unused, but younger than the TTL": {29 * time.Second, 29 * time.Second, false},
		"unused":                           {30 * time.Second, 10 * time.Second, true},
		"used a moment ago":                {59 * time.Second, 9 * time.Second, false},
		"used, but over the limit":         {60 * time.Second, 0, true},
	} {
		now := time.Unix(1000, 0)
		if got := d.due(now, now.Add(-tc.age), now.Add(-tc.quiet)); got != tc.want {
			t.Errorf("%s: due %t", name, got)
		}
	}
	if now := time.Unix(1000, 0); !(Drain{}).due(now, now, now) {
		t.Error("without any time it is not due at once")
	}
}
