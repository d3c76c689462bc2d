package dualstack

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"

	"github.com/clusterip-operator/clusterip-operator/internal/batch"
)

const (
	v4 = corev1.IPv4Protocol
	v6 = corev1.IPv6Protocol
)

// short is a Service that prefers two families and has one.
func short(family corev1.IPFamily, changes ...func(*corev1.Service)) *corev1.Service {
	prefer := corev1.IPFamilyPolicyPreferDualStack
	s := &corev1.Service{ObjectMeta: metav1.ObjectMeta{Namespace: "ns", Name: "a", UID: "one"}, Spec: corev1.ServiceSpec{
		Type: corev1.ServiceTypeClusterIP, IPFamilyPolicy: &prefer, IPFamilies: []corev1.IPFamily{family}, ClusterIP: "some", Selector: map[string]string{"app": "a"},
	}}
	for _, change := range changes {
		change(s)
	}
	return s
}

func headless(s *corev1.Service)     { s.Spec.ClusterIP = corev1.ClusterIPNone }
func selectorless(s *corev1.Service) { s.Spec.Selector = nil }
func doubled(s *corev1.Service)      { s.Spec.IPFamilies = []corev1.IPFamily{v4, v6} }

func policy(p corev1.IPFamilyPolicy) func(*corev1.Service) {
	return func(s *corev1.Service) { s.Spec.IPFamilyPolicy = &p }
}

// written has a field manager of these fields.
func written(fields string) func(*corev1.Service) {
	return func(s *corev1.Service) {
		s.ManagedFields = []metav1.ManagedFieldsEntry{
			{Manager: "kubelet"}, {Manager: "helm", FieldsV1: metav1.NewFieldsV1(fields)},
		}
	}
}

func TestDecide(t *testing.T) {
	for name, tc := range map[string]struct {
		s      *corev1.Service
		has    reach
		want   outcome
		reason string // a piece of it
	}{
		"one family":                    {s: short(v4), want: gains},
		"the other one":                 {s: short(v6), want: gains},
		"two families":                  {s: short(v4, doubled), want: complete},
		"no policy":                     {s: short(v4, func(s *corev1.Service) { s.Spec.IPFamilyPolicy = nil }), want: unwanted, reason: "not PreferDualStack"},
		"one is wanted":                 {s: short(v4, policy(corev1.IPFamilyPolicySingleStack)), want: unwanted, reason: "not PreferDualStack"},
		"two are required":              {s: short(v4, doubled, policy(corev1.IPFamilyPolicyRequireDualStack)), want: unwanted, reason: "not PreferDualStack"},
		"a name elsewhere":              {s: short(v4, func(s *corev1.Service) { s.Spec.Type, s.Spec.IPFamilies = corev1.ServiceTypeExternalName, nil }), want: unwanted, reason: "ExternalName"},
		"on its way out":                {s: short(v4, func(s *corev1.Service) { s.DeletionTimestamp = &metav1.Time{Time: time.Unix(1, 0)} }), want: unwanted, reason: "being deleted"},
		"node ports":                    {s: short(v4, func(s *corev1.Service) { s.Spec.Type = corev1.ServiceTypeNodePort }), want: gains},
		"its families are of a chart":   {s: short(v4, written(`{"f:spec":{"f:ipFamilies":{},"f:type":{}}}`)), want: left, reason: "helm has written spec.ipFamilies"},
		"its policy is of a chart":      {s: short(v4, written(`{"f:spec":{"f:ipFamilyPolicy":{}}}`)), want: gains},
		"its status is somebody's":      {s: short(v4, written(`{"f:status":{"f:ipFamilies":{}}}`)), want: gains},
		"fields that nobody can read":   {s: short(v4, written(`?`)), want: gains},
		"pods of both families":         {s: short(v4), has: reach{v4: true, v6: true}, want: gains},
		"pods of its family alone":      {s: short(v4), has: reach{v4: true}, want: left, reason: "none of its pods has an address of IPv6"},
		"pods of IPv6 alone":            {s: short(v6), has: reach{v6: true}, want: left, reason: "none of its pods has an address of IPv4"},
		"pods of the family it lacks":   {s: short(v4), has: reach{v6: true}, want: gains},
		"slices of its family alone":    {s: short(v4, selectorless), has: reach{v4: true}, want: left, reason: "it has no selector, and none of its EndpointSlices"},
		"slices of names":               {s: short(v4, selectorless), has: reach{"FQDN": true}, want: gains},
		"no slices":                     {s: short(v4, selectorless), want: gains},
		"headless, of one family":       {s: short(v4, headless), has: reach{v4: true}, want: gains},
		"headless, families of a chart": {s: short(v4, headless, written(`{"f:spec":{"f:ipFamilies":{}}}`)), want: left, reason: "helm"},
	} {
		t.Run(name, func(t *testing.T) {
			got, reason := decide(tc.s, tc.has)
			if got != tc.want || !strings.Contains(reason, tc.reason) || (reason == "") != (tc.reason == "") {
				t.Errorf("outcome %d, %q; want %d, %q", got, reason, tc.want, tc.reason)
			}
		})
	}
}

// What a plan says is done to the Service that it was made for, as that is now.
func TestDecideItem(t *testing.T) {
	i := Item{Namespace: "ns", Name: "a", UID: "one", Gains: v6}
	for name, tc := range map[string]struct {
		s      *corev1.Service
		want   outcome
		reason string
	}{
		"as it was":       {s: short(v4), want: gains},
		"done already":    {s: short(v4, doubled), want: complete},
		"gone":            {want: unwanted, reason: "it is gone"},
		"another":         {s: short(v4, func(s *corev1.Service) { s.UID = "two" }), want: unwanted, reason: "it was created anew"},
		"one is wanted":   {s: short(v4, policy(corev1.IPFamilyPolicySingleStack)), want: unwanted, reason: "its ipFamilyPolicy is not PreferDualStack"},
		"somebody's list": {s: short(v4, written(`{"f:spec":{"f:ipFamilies":{}}}`)), want: left, reason: "helm has written"},
	} {
		if got, reason := decideItem(i, tc.s); got != tc.want || !strings.HasPrefix(reason, tc.reason) || (reason == "") != (tc.reason == "") {
			t.Errorf("%s: outcome %d, %q", name, got, reason)
		}
	}
}

func named(name string) func(*corev1.Service) { return func(s *corev1.Service) { s.Name = name } }

func TestNewPlan(t *testing.T) {
	got := newPlan("this", []candidate{
		{service: short(v4, named("b"))},
		{service: short(v4, named("lonely")), has: reach{v4: true}},
		{service: short(v6, named("a"))},
		{service: short(v4, doubled)},
		{service: short(v4, policy(corev1.IPFamilyPolicySingleStack))},
	})
	want := Plan{
		Head:     batch.Head{APIVersion: "dualstack.clusterip-operator.io/v1alpha1", Kind: "DualStackPlan", Cluster: "this"},
		Services: []Item{{"ns", "a", "one", v4, ""}, {"ns", "b", "one", v6, ""}},
		LeftOut:  []Item{{"ns", "lonely", "one", v6, "none of its pods has an address of IPv6; create them anew, then plan again"}},
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
	for _, name := range []string{"plan.yaml", "plan.json"} {
		file := filepath.Join(t.TempDir(), name)
		if err := batch.Save(file, want); err != nil {
			t.Fatal(err)
		}
		if read, err := LoadPlan(file); err != nil || !cmp.Equal(read, want) {
			t.Errorf("%s reads back as %+v, %v", name, read, err)
		}
	}
}

func TestLoadPlanRefuses(t *testing.T) {
	const head = "apiVersion: dualstack.clusterip-operator.io/v1alpha1\nkind: DualStackPlan\n"
	for name, tc := range map[string]struct{ text, want string }{
		"nothing":          {"", "it names no kind"},
		"another plan":     {strings.Replace(head, "DualStack", "Migration", 1), "is of kind MigrationPlan, not DualStackPlan"},
		"an unknown field": {head + "force: true\n", `"force"`},
		"no UID":           {head + "services:\n- {namespace: ns, name: a}\n", "Service 1 needs a namespace, a name and a uid"},
	} {
		file := filepath.Join(t.TempDir(), "plan.yaml")
		if err := os.WriteFile(file, []byte(tc.text), 0o600); err != nil {
			t.Fatal(err)
		}
		if _, err := LoadPlan(file); err == nil || !strings.Contains(err.Error(), tc.want) || !strings.Contains(err.Error(), file) {
			t.Errorf("%s: %v", name, err)
		}
	}
}

// The pods of a Service are those with all of its labels, in its namespace.
func TestReach(t *testing.T) {
	index := podIndex{}
	add := func(namespace string, of labels.Set, addresses ...string) {
		p := &pod{labels: of, has: reach{}}
		for _, a := range addresses {
			p.has.add(a)
		}
		for key, value := range of {
			index[[3]string{namespace, key, value}] = append(index[[3]string{namespace, key, value}], p)
		}
	}
	add("ns", labels.Set{"app": "a", "tier": "web"}, "10.0.0.1")
	add("ns", labels.Set{"app": "a", "tier": "db"}, "10.0.0.2", "fd00::2")
	add("other", labels.Set{"app": "c"}, "fd00::3")
	for name, tc := range map[string]struct {
		selector map[string]string
		want     reach
	}{
		"all of an app": {map[string]string{"app": "a"}, reach{v4: true, v6: true}},
		"one tier":      {map[string]string{"app": "a", "tier": "web"}, reach{v4: true}},
		"nobody":        {map[string]string{"app": "a", "tier": "none"}, reach{}},
		"elsewhere":     {map[string]string{"app": "c"}, reach{}},
	} {
		s := short(v4, func(s *corev1.Service) { s.Spec.Selector = tc.selector })
		if diff := cmp.Diff(tc.want, index.reach(s)); diff != "" {
			t.Errorf("%s (-want +got):\n%s", name, diff)
		}
	}
}
