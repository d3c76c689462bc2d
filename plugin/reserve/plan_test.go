package reserve

import (
	"fmt"
	"net/netip"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"

	"github.com/clusterip-operator/clusterip-operator/allocator"
	"github.com/clusterip-operator/clusterip-operator/api/v1alpha1"
	"github.com/clusterip-operator/clusterip-operator/internal/steering"
)

// service has a name, namespace/name, and its ClusterIPs.
func service(name string, addresses ...string) corev1.Service {
	namespace, name, _ := strings.Cut(name, "/")
	return corev1.Service{
		ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: name, Labels: map[string]string{"name": name}},
		Spec:       corev1.ServiceSpec{Type: corev1.ServiceTypeClusterIP, ClusterIPs: addresses},
	}
}

func as(s corev1.Service, of corev1.ServiceType, external string) corev1.Service {
	s.Spec.Type, s.Spec.ExternalName = of, external
	s.Annotations = map[string]string{v1alpha1.AnnotationRenumbering: "{}"}
	return s
}

// reserving is a policy with reservations, "ADDRESS for NAMESPACE/NAME"; of is the name of its set.
func reserving(name, of string, reservations ...string) v1alpha1.ServiceCIDRPolicy {
	o := v1alpha1.ServiceCIDRPolicy{ObjectMeta: metav1.ObjectMeta{Name: name}}
	if of != "" {
		o.Labels = map[string]string{v1alpha1.LabelReserve: of}
	}
	for i, text := range reservations {
		address, service, _ := strings.Cut(text, " for ")
		o.Spec.Reservations = append(o.Spec.Reservations, v1alpha1.Reservation{Name: fmt.Sprint("r", i), Address: address, For: service})
	}
	return o
}

// told is a plan in lines.
func told(p plan) (out []string) {
	for _, o := range p.policies {
		for _, r := range o.Spec.Reservations {
			out = append(out, strings.TrimSuffix(fmt.Sprintf("%s: %s for %s", o.Name, r.Address, r.For), " for "))
		}
		if len(o.Spec.Reservations) == 0 {
			out = append(out, o.Name+": nothing")
		}
	}
	for what, names := range map[string][]string{"gone": p.gone, "pruned": p.pruned, "elsewhere": p.elsewhere, "moved": p.moved} {
		for _, name := range names {
			out = append(out, what+" "+name)
		}
	}
	slices.Sort(out)
	return out
}

func TestNewPlan(t *testing.T) {
	web, db := service("shop/web", "10.96.0.9", "fd00::9"), service("shop/db", "10.96.0.10")
	label := func(text string) func(*inputs) {
		return func(in *inputs) { in.selector, _ = labels.Parse(text) }
	}
	for name, tc := range map[string]struct {
		services []corev1.Service
		policies []v1alpha1.ServiceCIDRPolicy
		change   func(*inputs)
		want     []string
	}{
		"nothing is there": {},
		"both families, in the order of addresses": {
			services: []corev1.Service{web, db},
			want:     []string{"services: 10.96.0.10 for shop/db", "services: 10.96.0.9 for shop/web", "services: fd00::9 for shop/web"},
		},
		"no address": {services: []corev1.Service{
			service("a/headless", "None"), as(service("a/alias"), corev1.ServiceTypeExternalName, "example.com"), service("default/kubernetes", "10.96.0.1"),
		}},
		"an address as it was written before 1.22": {
			services: []corev1.Service{service("a/old", "10.096.0.9")}, want: []string{"services: 10.96.0.9 for a/old"},
		},
		"by labels": {services: []corev1.Service{web, db}, change: label("name=db"), want: []string{"services: 10.96.0.10 for shop/db"}},
		"by range": {
			services: []corev1.Service{web, db}, want: []string{"services: fd00::9 for shop/web"},
			change: func(in *inputs) { in.ranges = []allocator.Range{allocator.MustParseRange("fd00::/120")} },
		},
		"what is reserved already stays, where it is and as it is called": {
			services: []corev1.Service{web, db},
			policies: []v1alpha1.ServiceCIDRPolicy{reserving("services-2", "services", "fd00::9 for shop/web"), reserving("services", "services", "10.96.0.9 for shop/web")},
			want:     []string{"services-2: fd00::9 for shop/web", "services: 10.96.0.10 for shop/db", "services: 10.96.0.9 for shop/web"},
		},
		"a Service is gone": {
			services: []corev1.Service{db}, policies: []v1alpha1.ServiceCIDRPolicy{reserving("services", "services", "10.96.0.9 for shop/web")},
			want: []string{"gone shop/web", "services: 10.96.0.10 for shop/db", "services: 10.96.0.9 for shop/web"},
		},
		"and pruned": {
			policies: []v1alpha1.ServiceCIDRPolicy{reserving("services", "services", "10.96.0.9 for shop/web", "fd00::9 for shop/web")},
			change:   func(in *inputs) { in.prune = true }, want: []string{"pruned shop/web", "services: nothing"},
		},
		"but not in another namespace": {
			policies: []v1alpha1.ServiceCIDRPolicy{reserving("services", "services", "10.96.0.9 for shop/web")},
			change:   func(in *inputs) { in.prune, in.namespace = true, "other" }, want: []string{"services: 10.96.0.9 for shop/web"},
		},
		"nor in another range": {
			policies: []v1alpha1.ServiceCIDRPolicy{reserving("services", "services", "10.96.0.9 for shop/web")}, want: []string{"services: 10.96.0.9 for shop/web"},
			change: func(in *inputs) {
				in.prune, in.ranges = true, []allocator.Range{allocator.MustParseRange("fd00::/120")}
			},
		},
		"nor is one that has not the labels": {
			services: []corev1.Service{web}, policies: []v1alpha1.ServiceCIDRPolicy{reserving("services", "services", "10.96.0.9 for shop/web")},
			change: func(in *inputs) { label("name=db")(in); in.prune = true }, want: []string{"services: 10.96.0.9 for shop/web"},
		},
		"a Service has another address now": {
			services: []corev1.Service{db}, policies: []v1alpha1.ServiceCIDRPolicy{reserving("services", "services", "10.96.0.77 for shop/db")},
			want: []string{"moved 10.96.0.77 from Service shop/db, which does not have it now", "services: 10.96.0.10 for shop/db"},
		},
		"a Service has none any more": {
			services: []corev1.Service{service("shop/db", "None")}, policies: []v1alpha1.ServiceCIDRPolicy{reserving("services", "services", "10.96.0.10 for shop/db")},
			want: []string{"moved 10.96.0.10 from Service shop/db, which does not have it now", "services: nothing"},
		},
		"a Service is being renumbered": {
			services: []corev1.Service{as(service("shop/db"), corev1.ServiceTypeExternalName, v1alpha1.ExternalNameRenumbering)},
			policies: []v1alpha1.ServiceCIDRPolicy{reserving("services", "services", "10.96.0.10 for shop/db")},
			want:     []string{"services: 10.96.0.10 for shop/db"},
		},
		"an address has become another Service's": {
			services: []corev1.Service{db}, policies: []v1alpha1.ServiceCIDRPolicy{reserving("services", "services"), reserving("services-2", "services", "10.96.0.10 for shop/old")},
			want: []string{"moved 10.96.0.10 from Service shop/old to shop/db", "services-2: 10.96.0.10 for shop/db", "services: nothing"},
		},
		"another policy reserves": {
			services: []corev1.Service{web, db}, policies: []v1alpha1.ServiceCIDRPolicy{reserving("dns", "", "10.96.0.10 for shop/db", "10.96.0.8-10.96.0.9"), reserving("shop", "shop", "fd00::9 for shop/web")},
			want: []string{"elsewhere 10.96.0.9 of Service shop/web (reservation r1 of ServiceCIDRPolicy dns)"},
		},
		"an admin has written into ours": {
			services: []corev1.Service{web, db}, policies: []v1alpha1.ServiceCIDRPolicy{reserving("services", "services", "10.96.0.10/31", "10.96.0.20")},
			want: []string{
				"elsewhere 10.96.0.10 of Service shop/db (reservation r0 of ServiceCIDRPolicy services)", "services: 10.96.0.10/31", "services: 10.96.0.20",
				"services: 10.96.0.9 for shop/web", "services: fd00::9 for shop/web",
			},
		},
	} {
		t.Run(name, func(t *testing.T) {
			in := inputs{name: "services", selector: labels.Everything(), services: tc.services, policies: tc.policies, byAPIServer: []netip.Addr{netip.MustParseAddr("10.96.0.1")}}
			if tc.change != nil {
				tc.change(&in)
			}
			p, err := newPlan(in)
			if err != nil {
				t.Fatal(err)
			}
			if diff := cmp.Diff(tc.want, told(p)); diff != "" {
				t.Errorf("(-want +got):\n%s", diff)
			}
			for _, o := range p.policies {
				if _, mistakes := steering.Validate(o); len(mistakes) > 0 {
					t.Errorf("%s has mistakes: %v", o.Name, mistakes)
				}
			}
			mustStay(t, in, p)
		})
	}
}

// mustStay plans again where the plan has been carried out: nothing changes.
func mustStay(t *testing.T, in inputs, p plan) {
	t.Helper()
	in.policies = slices.DeleteFunc(slices.Clone(in.policies), func(o v1alpha1.ServiceCIDRPolicy) bool { return in.mine(&o) })
	for _, o := range p.policies {
		in.policies = append(in.policies, *o)
	}
	again, err := newPlan(in)
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(documents(p.policies), documents(again.policies)); diff != "" {
		t.Errorf("another run changes it (-first +second):\n%s", diff)
	}
}

// TestManyServices has more addresses than a policy can reserve. Services that come later go where
// there is room, and no reservation moves.
func TestManyServices(t *testing.T) {
	var services []corev1.Service
	a, b := netip.MustParseAddr("10.96.1.0"), netip.MustParseAddr("fd00::1000")
	for i := range 1000 {
		services = append(services, service(fmt.Sprintf("n%d/s%d", i%7, i), a.String(), b.String()))
		a, b = a.Next(), b.Next()
	}
	in := inputs{name: "services", selector: labels.Everything(), services: services}
	p, err := newPlan(in)
	if err != nil {
		t.Fatal(err)
	}
	if p.addresses != 2000 || p.services != 1000 || len(p.policies) != 2 || len(p.policies[0].Spec.Reservations) != steering.MaxReserved || p.policies[1].Name != "services-2" {
		t.Errorf("%d addresses of %d Services in %d policies", p.addresses, p.services, len(p.policies))
	}
	mustStay(t, in, p)

	in.policies, in.prune = []v1alpha1.ServiceCIDRPolicy{*p.policies[1], *p.policies[0]}, true
	in.services = append(slices.Clone(services[10:]), service("new/one", "10.96.0.2"))
	later, err := newPlan(in)
	if err != nil {
		t.Fatal(err)
	}
	last := later.policies[0].Spec.Reservations
	if len(later.pruned) != 10 || len(last) != steering.MaxReserved-19 || last[len(last)-1].For != "new/one" {
		t.Errorf("%d are pruned, %d reserved, the last one for %s", len(later.pruned), len(last), last[len(last)-1].For)
	}
	mustStay(t, in, later)
}

// TestNames: a policy that this command has not made is in the way of the first, and no other.
func TestNames(t *testing.T) {
	in := inputs{name: "services", selector: labels.Everything(), services: []corev1.Service{service("a/b", "10.96.0.9")}}
	in.policies = []v1alpha1.ServiceCIDRPolicy{reserving("services", "")}
	if _, err := newPlan(in); err == nil || !strings.Contains(err.Error(), "give another --name") {
		t.Errorf("the error is %v", err)
	}
	in.policies = []v1alpha1.ServiceCIDRPolicy{reserving("services-2", ""), reserving("services", "services", "10.97.0.0/22")}
	p, err := newPlan(in)
	if err != nil || len(p.policies) != 2 || p.policies[1].Name != "services-3" {
		t.Errorf("%v, %v", told(p), err)
	}
}
