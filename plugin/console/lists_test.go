package console

import (
	"context"
	"errors"
	"net/netip"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	networkingv1 "k8s.io/api/networking/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/clusterip-operator/clusterip-operator/api/v1alpha1"
	"github.com/clusterip-operator/clusterip-operator/plugin/view"
)

// ipOf is an IPAddress that names a parent.
func ipOf(address, resource, namespace, name string, finalizers ...string) networkingv1.IPAddress {
	return networkingv1.IPAddress{
		ObjectMeta: metav1.ObjectMeta{Name: address, Finalizers: finalizers, CreationTimestamp: metav1.Unix(1000, 0)},
		Spec:       networkingv1.IPAddressSpec{ParentRef: &networkingv1.ParentReference{Resource: resource, Namespace: namespace, Name: name}},
	}
}

func TestAddressesOfThePage(t *testing.T) {
	of := func(text string, ip networkingv1.IPAddress) view.Address {
		return view.Address{Address: netip.MustParseAddr(text), State: "allocated", IPAddress: &ip}
	}
	claimed := of("10.96.0.1", ipOf("10.96.0.1", "services", "shop", "old"))
	claimed.Services, claimed.ServiceCIDRs, claimed.Band, claimed.Wrong = []string{"shop/web"}, []string{"kubernetes"}, "static", []string{"wrong_owner"}
	cooling := of("fd00::7", ipOf("fd00::7", "servicecidrpolicies", "", "blue"))
	cooling.State, cooling.Policy, cooling.LastService = "cooling", "blue", "blue/gone"
	reserved := cooling
	reserved.LastService, reserved.Reservation, reserved.ReservationFor = "", "database", "blue/db"
	strange := of("10.96.0.9", ipOf("10.96.0.9", "gateways", "net", "edge"))
	lost := view.Address{Address: netip.MustParseAddr("10.96.0.2"), State: "allocated", Services: []string{"shop/lost"}}

	want := addressList{Of: 6, Rows: []address{
		{Address: "10.96.0.1", State: "allocated", Parents: []string{"service/shop/web"}, Ranges: []string{"kubernetes"}, Band: "static", Wrong: []string{"wrong_owner"}, Since: 1000},
		{Address: "fd00::7", State: "cooling", Parents: []string{"policy/blue"}, Policy: "blue", Note: "was service/blue/gone", Since: 1000},
		{Address: "fd00::7", State: "cooling", Parents: []string{"policy/blue"}, Policy: "blue", Note: "database for service/blue/db", Since: 1000},
		{Address: "10.96.0.9", State: "allocated", Parents: []string{"gateways/net/edge"}, Since: 1000},
		{Address: "10.96.0.2", State: "allocated", Parents: []string{"service/shop/lost"}},
	}}
	all := []view.Address{claimed, cooling, reserved, strange, lost, lost}
	got, err := newAddresses(t.Context(), 5, through(all...))
	if diff := cmp.Diff(want, got.list); diff != "" || err != nil {
		t.Error(diff, err)
	}
	if diff := cmp.Diff([]netip.Addr{claimed.Address}, got.wrong, cmp.Comparer(func(a, b netip.Addr) bool { return a == b })); diff != "" {
		t.Error(diff)
	}
}

// through goes through addresses as a view does.
func through(all ...view.Address) func(context.Context, func(view.Address) error) error {
	return func(_ context.Context, f func(view.Address) error) error {
		for _, a := range all {
			if err := f(a); err != nil {
				return err
			}
		}
		return nil
	}
}

func TestManyPagesAreSentOneList(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		asked := 0
		source := listed(t.Context(), func() (addresses, error) {
			asked++
			if asked == 2 {
				return addresses{}, errors.New("not now")
			}
			return newAddresses(t.Context(), 5, through(view.Address{Address: netip.MustParseAddr("10.96.0.1"), State: "allocated"}, view.Address{Address: netip.MustParseAddr("fd00::1"), State: "cooling"}))
		})
		const want = `{"of":2,"rows":[{"address":"10.96.0.1","state":"allocated"},{"address":"fd00::1","state":"cooling"}]}`
		first := only1(source(t.Context(), nil)).(body)
		for range 2 {
			if again := only1(source(t.Context(), nil)).(body); string(again.text) != want || again.tag != first.tag || asked != 1 {
				t.Fatalf("after %d computations a page is sent %s, tag %s", asked, again.text, again.tag)
			}
		}
		time.Sleep(time.Second)
		if _, err := source(t.Context(), nil); err == nil {
			t.Error("what failed is an answer")
		}
		if last := only1(source(t.Context(), nil)).(body); last.tag != first.tag || asked != 3 {
			t.Errorf("after a second there were %d computations; the tag of the same list was %s and is %s", asked, first.tag, last.tag)
		}
	})
}

func TestRenumberings(t *testing.T) {
	service := func(name string, of corev1.ServiceType, ips ...string) corev1.Service {
		return corev1.Service{ObjectMeta: metav1.ObjectMeta{Namespace: "shop", Name: name}, Spec: corev1.ServiceSpec{Type: of, ClusterIPs: ips}}
	}
	kept := func(address, name string) networkingv1.IPAddress {
		ip := ipOf(address, "services", "shop", name, v1alpha1.FinalizerFormer)
		ip.DeletionTimestamp = new(metav1.NewTime(time.Unix(2000, 0)))
		return ip
	}
	forged := service("forged", corev1.ServiceTypeExternalName)
	forged.Annotations = map[string]string{v1alpha1.AnnotationRenumbering: "{}", v1alpha1.AnnotationFormerIPs: "10.96.0.1"}
	services := []corev1.Service{
		service("web", corev1.ServiceTypeClusterIP, "10.200.0.1", "fd00:200::1"), service("next", corev1.ServiceTypeClusterIP, "10.96.0.2"),
		service("between", corev1.ServiceTypeExternalName), service("other", corev1.ServiceTypeClusterIP, "10.96.0.9"), forged,
	}
	all := heldFor{}
	for _, ip := range []networkingv1.IPAddress{
		kept("fd00:96::1", "web"), kept("10.96.0.1", "web"), ipOf("10.96.0.2", "services", "shop", "next", v1alpha1.FinalizerFormer), kept("10.96.0.3", "between"), kept("10.96.0.4", "deleted"),
		ipOf("10.96.0.9", "services", "shop", "other"),
	} {
		all.note(&ip)
	}
	got, err := all.renumberings(func(name types.NamespacedName) (*corev1.Service, error) {
		for i := range services {
			if services[i].Name == name.Name && services[i].Namespace == name.Namespace {
				return &services[i], nil
			}
		}
		return nil, nil
	})
	want := []renumbering{
		{Service: "shop/between", Stage: between, Now: []string{}, Held: []held{{"10.96.0.3", 2000}}},
		{Service: "shop/deleted", Stage: gone, Now: []string{}, Held: []held{{"10.96.0.4", 2000}}},
		{Service: "shop/next", Stage: waiting, Now: []string{"10.96.0.2"}, Held: []held{{"10.96.0.2", 0}}},
		{Service: "shop/web", Stage: moved, Now: []string{"10.200.0.1", "fd00:200::1"}, Held: []held{{"10.96.0.1", 2000}, {"fd00:96::1", 2000}}},
	}
	if diff := cmp.Diff(want, got); diff != "" || err != nil {
		t.Error(diff, err)
	}
}

func TestSuggestions(t *testing.T) {
	in := names{
		namespaces: []string{"shop", "eshop", "default"}, services: []string{"shop/web", "shop/api", "eshop/web"}, ranges: []string{"kubernetes", "team"}, policies: []string{"blue", "team"},
		addresses: []netip.Addr{netip.MustParseAddr("10.96.0.10"), netip.MustParseAddr("fd00::a")},
	}
	for text, want := range map[string][]string{
		"":                 {"namespace/", "policy/", "range/", "service/"},
		"s":                {"service/eshop/web", "service/shop/api", "service/shop/web", "namespace/shop"},
		"service/":         {"service/default/", "service/eshop/", "service/shop/"},
		"service/sh":       {"service/shop/"},
		"service/shop/":    {"service/shop/api", "service/shop/web"},
		"service/shop/w":   {"service/shop/web"},
		"web":              {"service/eshop/web", "service/shop/web"},
		"range/t":          {"range/team"},
		"policy/":          {"policy/blue", "policy/team"},
		"pol":              {"policy/blue", "policy/team"},
		"team":             {"policy/team", "range/team"},
		"namespace/":       {"namespace/default", "namespace/eshop", "namespace/shop"},
		"10.96":            {"10.96.0.10"},
		"fd00::":           {"fd00::a"},
		"nothing/of/this/": {},
	} {
		if diff := cmp.Diff(want, suggest(text, in, 4)); diff != "" {
			t.Errorf("%q: %s", text, diff)
		}
	}
}
