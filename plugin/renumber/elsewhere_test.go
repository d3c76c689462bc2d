package renumber

import (
	"errors"
	"fmt"
	"net/netip"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	"k8s.io/apimachinery/pkg/runtime/schema"
)

var (
	fromBoth = []netip.Prefix{netip.MustParsePrefix("10.96.0.0/24"), netip.MustParsePrefix("fd00:10:96::/120")}
	toBoth   = []netip.Prefix{netip.MustParsePrefix("10.200.0.0/22"), netip.MustParsePrefix("fd00:10:200::/118")}
)

func TestElsewhere(t *testing.T) {
	for name, tc := range map[string]struct {
		value string
		want  string
	}{
		"the old range":                         {"10.96.0.0/24", "10.96.0.0/24"},
		"a larger one":                          {"10.96.0.0/12", "10.96.0.0/12"},
		"a part of it, and an address":          {"10.96.0.128/25 10.96.0.10", "10.96.0.128/25,10.96.0.10/32"},
		"both families":                         {"10.96.0.0/24,fd00:10:96::/120", "10.96.0.0/24,fd00:10:96::/120"},
		"IPv6 alone":                            {"fd00:10:96::/64", "fd00:10:96::/64"},
		"not masked":                            {"10.96.0.7/24", "10.96.0.0/24"},
		"one that begins alike":                 {"10.96.0.0/24x,110.96.0.0/24,10.96.1.0/24,10.96.0.1000", ""},
		"names and words":                       {".svc,cluster.local,localhost", ""},
		"nothing":                               {"", ""},
		"the old and the new one":               {"10.96.0.0/24,10.200.0.0/16", ""},
		"one that has both":                     {"10.0.0.0/8", ""},
		"the new one of the other family alone": {"10.96.0.0/24,fd00::/8", "10.96.0.0/24"},
		"a part of the new one":                 {"10.96.0.0/24,10.200.0.0/23", "10.96.0.0/24"},
		"beyond what is looked at":              {strings.Repeat("x,", mostValue) + "10.96.0.0/24", ""},
	} {
		t.Run(name, func(t *testing.T) {
			var want []Elsewhere
			if tc.want != "" {
				want = []Elsewhere{{Where: "here", What: tc.want, Change: "this"}}
			}
			if diff := cmp.Diff(want, elsewhere(fromBoth, toBoth, []names{{where: "here", value: tc.value, change: "this"}})); diff != "" {
				t.Error(diff)
			}
		})
	}
}

func TestElsewhereIsBounded(t *testing.T) {
	var all []names
	for i := range 3 * mostElsewhere {
		all = append(all, names{where: fmt.Sprint(i), value: "10.96.0.0/24"})
	}
	if got := elsewhere(fromBoth, toBoth, all); len(got) != mostElsewhere+1 || got[mostElsewhere].Where != "others" {
		t.Errorf("%d places, the last %v", len(got), got[len(got)-1])
	}
	if got := prefixesIn(strings.Repeat("10.96.0.1,", 2*mostPrefixes)); len(got) != mostPrefixes {
		t.Errorf("%d ranges of one value", len(got))
	}
}

func TestNamesInPod(t *testing.T) {
	pod := &corev1.PodSpec{Containers: []corev1.Container{
		{Name: "router", Command: []string{"kube-router", "--advertise-cluster-ip=true"}, Args: []string{"--service-cluster-ip-range", "10.96.0.0/12", "--run-router", "--v=2"}},
		{Name: "quiet", Args: []string{"--advertise-cluster-ip=false", "10.96.0.1", "--service-cluster-ip-range=10.96.0.0/24,fd00:10:96::/120"}},
		{Name: "proxied", Env: []corev1.EnvVar{{Name: "no_proxy", Value: "10.96.0.0/24,.svc"}, {Name: "NO_PROXY", Value: ".svc"}, {Name: "HTTP_PROXY", Value: "10.96.0.9"}}},
	}}
	want := []Elsewhere{
		{Where: "it, container router, --advertise-cluster-ip", Change: changeAdvertise},
		{Where: "it, container router, --service-cluster-ip-range", What: "10.96.0.0/12", Change: changeArgument},
		{Where: "it, container quiet, --service-cluster-ip-range", What: "10.96.0.0/24,fd00:10:96::/120", Change: changeArgument},
		{Where: "it, container proxied, variable no_proxy", What: "10.96.0.0/24", Change: changeProxy},
	}
	if diff := cmp.Diff(want, elsewhere(fromBoth, toBoth, namesInPod("it", pod))); diff != "" {
		t.Error(diff)
	}
}

func TestValuesAt(t *testing.T) {
	in := map[string]any{"spec": map[string]any{
		"serviceClusterIPs": []any{map[string]any{"cidr": "10.96.0.0/12"}, map[string]any{"cidr": "fd00::/8"}, map[string]any{"other": 1}, "text"},
		"serviceCIDR":       "10.96.0.0/16", "number": int64(7),
	}}
	for _, tc := range []struct {
		path []string
		want string
	}{
		{[]string{"spec", "serviceClusterIPs", "cidr"}, "10.96.0.0/12,fd00::/8"}, {[]string{"spec", "serviceCIDR"}, "10.96.0.0/16"},
		{[]string{"spec", "number"}, ""}, {[]string{"status", "none"}, ""}, {nil, ""},
	} {
		if got := strings.Join(valuesAt(in, tc.path...), ","); got != tc.want {
			t.Errorf("%v: %q, want %q", tc.path, got, tc.want)
		}
	}
}

func TestNotLookedAt(t *testing.T) {
	var k known
	k.note("BGPConfigurations", &meta.NoKindMatchError{}, "")
	k.note("ConfigMap a/b", apierrors.NewNotFound(schema.GroupResource{Resource: "configmaps"}, "b"), "")
	k.note("DaemonSets", nil, "")
	k.note("Pods", nil, "more")
	k.note("Deployments", apierrors.NewForbidden(schema.GroupResource{Resource: "deployments"}, "", nil), "")
	k.note("StatefulSets", apierrors.NewInternalError(errors.New("boom")), "")
	if diff := cmp.Diff([]string{"Pods beyond the first 500", "Deployments: you may not read them", "StatefulSets: Internal error occurred: boom"}, k.unseen); diff != "" {
		t.Error(diff)
	}
}
