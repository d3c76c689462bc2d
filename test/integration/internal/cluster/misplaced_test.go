package cluster

import (
	"testing"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	networkingv1 "k8s.io/api/networking/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/yaml"

	"github.com/clusterip-operator/clusterip-operator/api/v1alpha1"
	"github.com/clusterip-operator/clusterip-operator/test/framework"
)

func TestMisplaced(t *testing.T) {
	policy := func(name, spec string) v1alpha1.ServiceCIDRPolicy {
		p := newPolicy(name)
		if err := yaml.UnmarshalStrict([]byte(spec), &p.Spec); err != nil {
			t.Fatal(err)
		}
		return *p
	}
	blue := policy("blue", "{serviceCIDRs: [a], namespaceSelector: {matchLabels: {tenant: blue}}, exclusive: true}")
	red := policy("red", "{serviceCIDRs: [a], namespaceSelector: {matchLabels: {tenant: red}}}")
	open := policy("open", "{serviceCIDRs: [b], namespaceSelector: {matchLabels: {tenant: blue}}}")
	keeper := policy("keeper", `{reservations: [{name: one, address: 10.2.0.7, for: red/web},
		{name: some, address: "fd00:2::10-fd00:2::1f"}, {name: net, address: 10.2.0.32/28}]}`)
	labelled := policy("labelled", "{serviceCIDRSelector: {matchLabels: {of: blue}}, serviceSelector: {matchLabels: {app: db}}, exclusive: true}")
	type policies = []v1alpha1.ServiceCIDRPolicy
	for name, tc := range map[string]struct {
		policies policies
		service  *corev1.Service
		want     []string
	}{
		"no policy":                       {nil, Asking("red", "web", "10.1.0.5"), nil},
		"in one's own exclusive range":    {policies{blue}, Asking("blue", "web", "10.1.0.5"), nil},
		"in an open range of others":      {policies{open}, Asking("red", "web", "10.2.0.5"), nil},
		"in a range that two share":       {policies{blue, red}, Asking("red", "web", "10.1.0.5"), nil},
		"headless":                        {policies{blue}, framework.NewService("red", "web", framework.Headless()), nil},
		"the API server's own":            {policies{blue}, Asking("default", "kubernetes", "10.1.0.1"), nil},
		"the one that it is reserved for": {policies{keeper}, Asking("red", "web", "10.2.0.7"), nil},
		"selected by its labels":          {policies{labelled}, framework.NewService("red", "web", framework.WithLabel("app", "db"), framework.WithClusterIPs("10.1.0.7")), nil},
		"not selected by its labels": {policies{labelled}, Asking("red", "web", "10.1.0.7"),
			[]string{"red/web has 10.1.0.7 of the exclusive range of [labelled]"}},
		"in an exclusive range of others": {policies{blue}, Asking("red", "web", "10.1.0.5", "fd00:1::5"),
			[]string{"red/web has 10.1.0.5 of the exclusive range of [blue]", "red/web has fd00:1::5 of the exclusive range of [blue]"}},
		"another than it is reserved for": {policies{keeper}, Asking("blue", "web", "10.2.0.7"),
			[]string{`blue/web has 10.2.0.7 which is reserved for "red/web"`}},
		"in a reserved range of addresses": {policies{keeper}, Asking("red", "web", "fd00:2::1f", "10.2.0.47"),
			[]string{`red/web has fd00:2::1f which is reserved for ""`, `red/web has 10.2.0.47 which is reserved for ""`}},
	} {
		t.Run(name, func(t *testing.T) {
			a := *framework.NewServiceCIDR("a", "10.1.0.0/24", "fd00:1::/120")
			a.Labels = map[string]string{"of": "blue"}
			s := snapshot{
				policies:     tc.policies,
				serviceCIDRs: []networkingv1.ServiceCIDR{a, *framework.NewServiceCIDR("b", "10.2.0.0/24", "fd00:2::/120")},
				services:     []corev1.Service{*tc.service},
			}
			for _, tenant := range []string{"blue", "red"} {
				s.namespaces = append(s.namespaces, corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: tenant, Labels: map[string]string{"tenant": tenant}}})
			}
			if diff := cmp.Diff(tc.want, s.misplaced()); diff != "" {
				t.Errorf("-want +got:\n%s", diff)
			}
		})
	}
}
