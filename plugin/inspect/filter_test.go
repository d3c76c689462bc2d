package inspect

import (
	"context"
	"fmt"
	"net/netip"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	networkingv1 "k8s.io/api/networking/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/interceptor"

	"github.com/clusterip-operator/clusterip-operator/api/v1alpha1"
	"github.com/clusterip-operator/clusterip-operator/plugin/cli"
	"github.com/clusterip-operator/clusterip-operator/plugin/internal/plugintest"
	"github.com/clusterip-operator/clusterip-operator/plugin/view"
)

// held is an address with the Services that have it, and what its IPAddress names, as
// RESOURCE/NAMESPACE/NAME.
func held(address, names string, services ...string) view.Address {
	a := view.Address{Address: netip.MustParseAddr(address), Services: services}
	if names != "" {
		part := strings.Split(names, "/")
		a.IPAddress = &networkingv1.IPAddress{Spec: networkingv1.IPAddressSpec{ParentRef: &networkingv1.ParentReference{Resource: part[0], Namespace: part[1], Name: part[2]}}}
		a.Parent = view.ParentOf(a.IPAddress).String()
	}
	return a
}

var heldAddresses = []view.Address{
	held("10.96.0.1", "services/shop/gateway", "shop/gateway"),
	held("10.96.0.2", "services/eshop/gateway", "eshop/gateway"),
	held("10.96.0.3", "services/shop/gateway"), // an additional one
	held("10.96.0.4", "servicecidrpolicies//shop"),
	held("10.96.0.5", "gateways/infra/gateway"),
	held("fd00::6", "", "shop/web"),
	held("fd00::7", ""),
	held("fd00::8", "services/shop/gone", "eshop/new"), // whose IPAddress names another Service
}

func TestAddressesOfAParent(t *testing.T) {
	for name, tc := range map[string]struct {
		filter filter
		want   string
	}{
		"all":                             {filter{}, "1 2 3 4 5 6 7 8"},
		"a Service, and no longer name":   {filter{parent: "shop/gateway"}, "1 3"},
		"a Service by its type":           {filter{parent: "svc/shop/gateway"}, "1 3"},
		"a Service of the namespace":      {filter{parent: "gateway", namespace: "eshop"}, "2"},
		"a Service of it, by its type":    {filter{parent: "service/gateway", namespace: "eshop"}, "2"},
		"a policy":                        {filter{parent: "shop"}, "4"},
		"a policy by its type":            {filter{parent: "policy/shop"}, "4"},
		"a policy as -o name has it":      {filter{parent: "servicecidrpolicy.clusterip-operator.io/shop"}, "4"},
		"an object of another manager":    {filter{parent: "gateways/infra/gateway"}, "5"},
		"it by its name alone":            {filter{parent: "infra/gateway"}, "5"},
		"part of a name":                  {filter{parent: "gate"}, ""},
		"a namespace, with what it added": {filter{namespace: "shop"}, "1 3 6 8"},
		"both parents count":              {filter{parent: "eshop/new"}, "8"},
		"two that exclude each other":     {filter{parent: "shop/gateway", namespace: "eshop"}, ""},
	} {
		t.Run(name, func(t *testing.T) {
			if err := tc.filter.validate(); err != nil {
				t.Fatal(err)
			}
			var got []string
			for _, a := range heldAddresses {
				if tc.filter.matches(a) {
					text := a.Address.String()
					got = append(got, text[len(text)-1:])
				}
			}
			if diff := cmp.Diff(strings.Fields(tc.want), got); diff != "" && len(got)+len(tc.want) > 0 {
				t.Errorf("(-want +got):\n%s", diff)
			}
		})
	}
}

func TestFiltersThatNoAddressPasses(t *testing.T) {
	for want, f := range map[string]filter{
		"--band":                           {band: "upper"},
		"--state":                          {state: "gone"},
		"names no ServiceCIDR; write":      {serviceCIDR: "10.96.0.0/24"},
		"names no servicecidr; write":      {serviceCIDR: "range/"},
		`"a//b" is none of NAMESPACE/NAME`: {parent: "a//b"},
		`"a/b/c/d" is none`:                {parent: "a/b/c/d"},
		"names no service; write":          {parent: "svc/web"},
		"no namespace can be called":       {parent: "svc/Shop/web"},
		`--parent: "namespace/x" has no`:   {parent: "namespace/x"},
		`--parent: "range/x" has no addre`: {parent: "range/x"},
		`"ip/fd00::1" has no addresses; n`: {parent: "ip/fd00::1"},
		"--parent: a policy is in no name": {parent: "policy/shop", namespace: "shop"},
	} {
		if err := f.validate(); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%+v: error %v, want %q", f, err, want)
		}
	}
}

// An empty list would say that what is not there has no addresses.
func TestFiltersThatNameWhatIsNotThere(t *testing.T) {
	s := &cli.Cluster{Policies: true, WithWatch: interceptor.NewClient(nil, interceptor.Funcs{
		List: func(_ context.Context, _ client.WithWatch, into client.ObjectList, _ ...client.ListOption) error {
			switch list := into.(type) {
			case *networkingv1.ServiceCIDRList:
				list.Items = []networkingv1.ServiceCIDR{*plugintest.ServiceCIDR("blue", "10.96.0.0/24"), *plugintest.ServiceCIDR("red", "fd00::/112")}
			case *v1alpha1.ServiceCIDRPolicyList:
				list.Items = somePolicies()
			}
			return nil
		},
	})}
	for name, tc := range map[string]struct {
		filter filter
		want   string
	}{
		"all are there":               {filter{serviceCIDR: "red", policy: "team", parent: "policy/team"}, ""},
		"a policy, by its name alone": {filter{parent: "team"}, ""},
		"a Service is not looked for": {filter{parent: "svc/shop/typo"}, ""},
		"no such range":               {filter{serviceCIDR: "blu"}, `ServiceCIDR "blu": there is no such object; did you mean blue?`},
		"no such policy":              {filter{policy: "typo"}, `ServiceCIDRPolicy "typo": there is no such object`},
		"no such parent":              {filter{parent: "policy/typo"}, `ServiceCIDRPolicy "typo": there is no such object`},
		"no such parent, by its name": {filter{parent: "tem"}, `ServiceCIDRPolicy "tem": there is no such object; did you mean team?`},
	} {
		t.Run(name, func(t *testing.T) {
			if err := tc.filter.validate(); err != nil {
				t.Fatal(err)
			}
			err := tc.filter.known(t.Context(), s)
			if (err == nil) != (tc.want == "") || err != nil && !strings.HasPrefix(err.Error(), tc.want) {
				t.Errorf("error %v, want %q", err, tc.want)
			}
			var out plugintest.Printed
			if code := cli.ExitCode(err, out.Streams()); err != nil && code != cli.ExitUnknown {
				t.Errorf("exit status %d", code)
			}
		})
	}
}

// A user who may look at one namespace is told of that one, and of no other.
func TestOwnAnswerOfANamespace(t *testing.T) {
	s := &cli.Cluster{WithWatch: interceptor.NewClient(nil, interceptor.Funcs{
		List: func(_ context.Context, _ client.WithWatch, into client.ObjectList, options ...client.ListOption) error {
			if with := (&client.ListOptions{}).ApplyOptions(options); with.Namespace != "rented" {
				return fmt.Errorf("it lists Services of %q", with.Namespace)
			}
			into.(*corev1.ServiceList).Items = []corev1.Service{{Spec: corev1.ServiceSpec{ClusterIPs: []string{"10.96.0.9", "fd00::9"}}}}
			return nil
		},
	})}
	for name, want := range map[string]int{"rented": 2, "other": 0} {
		got, err := ownAnswer(t.Context(), s, "rented", cli.Subject{Kind: cli.KindNamespace, Name: name}, newNodePortRange().Range)
		if err != nil || len(got.Addresses) != want {
			t.Errorf("namespace %s: %d addresses, error %v; want %d", name, len(got.Addresses), err, want)
		}
	}
}

func TestWhoHasAnAddress(t *testing.T) {
	var got []string
	for _, a := range heldAddresses {
		got = append(got, parentOf(a))
	}
	want := []string{"shop/gateway", "eshop/gateway", "shop/gateway", "servicecidrpolicy/shop", "gateways/infra/gateway", "shop/web", "<none>", "eshop/new"}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
}

func TestNear(t *testing.T) {
	known := []string{"kubernetes", "team-a", "team-b", "team-c", "team-d", "team-a", strings.Repeat("x", 253), ""}
	for name, want := range map[string]string{
		"kubernets": "kubernetes", "kubernetes2": "kubernetes", "team_a": "team-a team-b team-c", "team": "team-a team-b team-c", "nowhere": "", "": "", "x": strings.Repeat("x", 253),
		strings.Repeat("x", 1<<20): "",
	} {
		if got := near(name, slices.DeleteFunc(slices.Clone(known), func(s string) bool { return s == "" })); strings.Join(got, " ") != want {
			t.Errorf("%.20s: %v, want %s", name, got, want)
		}
	}
	if err := absent("ServiceCIDR", "kubernets", known[:2], "x"); err.Error() != `ServiceCIDR "kubernets": there is no such object; did you mean kubernetes?` {
		t.Error(err)
	}
	if err := absent("ServiceCIDR", "none", known[:2], "kubectl x"); err.Error() != "ServiceCIDR \"none\": there is no such object; `kubectl x` lists all" {
		t.Error(err)
	}
}
