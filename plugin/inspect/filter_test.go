package inspect

import (
	"net/netip"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	networkingv1 "k8s.io/api/networking/v1"

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
	} {
		if err := f.validate(); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%+v: error %v, want %q", f, err, want)
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
