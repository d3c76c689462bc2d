package reservation

import (
	"slices"
	"strings"
	"testing"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/clusterip-operator/clusterip-operator/allocator"
	"github.com/clusterip-operator/clusterip-operator/api/v1alpha1"
	"github.com/clusterip-operator/clusterip-operator/internal/addressindex"
	"github.com/clusterip-operator/clusterip-operator/internal/steering"
)

// policyOn is a policy with ranges, whose UID is its name.
func policyOn(name string, cidrs ...string) *v1alpha1.ServiceCIDRPolicy {
	return &v1alpha1.ServiceCIDRPolicy{
		ObjectMeta: metav1.ObjectMeta{Name: name, UID: types.UID(name), Generation: 1},
		Spec:       v1alpha1.ServiceCIDRPolicySpec{ServiceCIDRs: cidrs},
	}
}

func reserving(p *v1alpha1.ServiceCIDRPolicy, addresses ...string) *v1alpha1.ServiceCIDRPolicy {
	for _, a := range addresses {
		p.Spec.Reservations = append(p.Spec.Reservations, v1alpha1.Reservation{Name: "r" + a, Address: a, For: shop.String()})
	}
	return p
}

func coolingFor(p *v1alpha1.ServiceCIDRPolicy, d time.Duration) *v1alpha1.ServiceCIDRPolicy {
	p.Spec.CoolDown = &metav1.Duration{Duration: d}
	return p
}

// readyRange is a ServiceCIDR that is ready.
func readyRange(name string, cidrs ...string) addressindex.ServiceCIDR {
	c := addressindex.ServiceCIDR{Name: name, Ready: true}
	for _, text := range cidrs {
		c.Ranges = append(c.Ranges, allocator.MustParseRange(text))
	}
	return c
}

// observed are policies and ServiceCIDRs at one time.
type observed struct {
	policies *steering.Compiled
	cidrs    []addressindex.ServiceCIDR
}

// observe compiles ServiceCIDRs and policies.
func observe(cidrs []addressindex.ServiceCIDR, policies ...*v1alpha1.ServiceCIDRPolicy) observed {
	return observed{policies: steering.Compile(steering.Inputs{Policies: policies, ServiceCIDRs: cidrs}), cidrs: cidrs}
}

// serviceCIDR is the one of a name, as the address index tells it.
func (o observed) serviceCIDR(name string) (addressindex.ServiceCIDR, bool) {
	if i := slices.IndexFunc(o.cidrs, func(c addressindex.ServiceCIDR) bool { return c.Name == name }); i >= 0 {
		return o.cidrs[i], true
	}
	return addressindex.ServiceCIDR{}, false
}

func TestWhichAddressesAreLookedAtWhenPoliciesChange(t *testing.T) {
	a := readyRange("a", "10.0.0.0/24", "fd00::/120")
	closing := a
	closing.Terminating = true
	one := []addressindex.ServiceCIDR{a}
	three := []addressindex.ServiceCIDR{a, readyRange("b", "10.1.0.0/24"), readyRange("c", "10.2.0.0/24")}
	again := policyOn("p", "a")
	again.UID = "another"

	for name, tc := range map[string]struct {
		before, after             observed
		wantReserved, wantCooling string
	}{
		"nothing": {before: observe(one, policyOn("p", "a")), after: observe(one, policyOn("p", "a"))},
		"a policy with reservations comes": {
			before: observe(one), after: observe(one, reserving(policyOn("p"), "10.0.0.5", "fd00::5-fd00::7")),
			wantReserved: "10.0.0.5-10.0.0.5 fd00::5-fd00::7",
		},
		"and goes": {
			before: observe(one, reserving(policyOn("p"), "10.0.0.5")), after: observe(one),
			wantReserved: "10.0.0.5-10.0.0.5",
		},
		"one of its reservations moves: all are looked at": {
			before: observe(one, reserving(policyOn("p"), "10.0.0.5", "10.0.0.6")), after: observe(one, reserving(policyOn("p"), "10.0.0.6", "10.0.0.7")),
			wantReserved: "10.0.0.5-10.0.0.5 10.0.0.6-10.0.0.6 10.0.0.7-10.0.0.7",
		},
		"a cool-down begins": {
			before: observe(one, policyOn("p", "a")), after: observe(one, coolingFor(policyOn("p", "a"), time.Hour)),
			wantCooling: "10.0.0.1-10.0.0.254 fd00::1-fd00::ff",
		},
		"a cool-down is shortened, a neighbour's stays": {
			before:      observe([]addressindex.ServiceCIDR{a, readyRange("b", "10.1.0.0/24")}, coolingFor(policyOn("p", "a"), time.Hour), coolingFor(policyOn("q", "b"), time.Hour)),
			after:       observe([]addressindex.ServiceCIDR{a, readyRange("b", "10.1.0.0/24")}, coolingFor(policyOn("p", "a"), time.Minute), coolingFor(policyOn("q", "b"), time.Hour)),
			wantCooling: "10.0.0.1-10.0.0.254 fd00::1-fd00::ff",
		},
		"a policy with a cool-down goes": {
			before: observe(one, coolingFor(policyOn("p", "a"), time.Hour)), after: observe(one),
			wantCooling: "10.0.0.1-10.0.0.254 fd00::1-fd00::ff",
		},
		"another policy of the same name": {
			before: observe(one, coolingFor(policyOn("p", "a"), time.Hour)), after: observe(one, coolingFor(again, time.Hour)),
			wantCooling: "10.0.0.1-10.0.0.254 fd00::1-fd00::ff",
		},
		"a policy without either comes": {before: observe(one), after: observe(one, policyOn("p", "a"))},
		"a range comes under a reservation outside of the policy's ranges": {
			before: observe(nil, reserving(policyOn("p"), "10.0.0.5", "10.9.0.5")), after: observe(one, reserving(policyOn("p"), "10.0.0.5", "10.9.0.5")),
			wantReserved: "10.0.0.5-10.0.0.5",
		},
		"a range is deleted under a reservation": {
			before: observe(one, reserving(policyOn("p"), "fd00::5")), after: observe([]addressindex.ServiceCIDR{closing}, reserving(policyOn("p"), "fd00::5")),
			wantReserved: "fd00::5-fd00::5",
		},
		"a range is gone under a reservation": {
			before: observe(one, reserving(policyOn("p"), "fd00::5")), after: observe(nil, reserving(policyOn("p"), "fd00::5")),
			wantReserved: "fd00::5-fd00::5",
		},
		"a range goes from among others": {
			before:       observe(three, reserving(policyOn("p"), "10.0.0.5", "10.1.0.5", "10.2.0.5")),
			after:        observe(slices.Delete(slices.Clone(three), 1, 2), reserving(policyOn("p"), "10.0.0.5", "10.1.0.5", "10.2.0.5")),
			wantReserved: "10.1.0.5-10.1.0.5",
		},
		"a range among others is another one": {
			before:       observe(three, reserving(policyOn("p"), "10.0.0.5", "10.1.0.5", "10.3.0.5")),
			after:        observe([]addressindex.ServiceCIDR{a, readyRange("b", "10.3.0.0/24"), three[2]}, reserving(policyOn("p"), "10.0.0.5", "10.1.0.5", "10.3.0.5")),
			wantReserved: "10.1.0.5-10.1.0.5 10.3.0.5-10.3.0.5",
		},
	} {
		t.Run(name, func(t *testing.T) {
			var m moves
			for _, c := range tc.before.cidrs {
				m.note(c.Name, tc.before.serviceCIDR)
			}
			m.take()
			for _, c := range slices.Concat(tc.before.cidrs, tc.after.cidrs) {
				m.note(c.Name, tc.after.serviceCIDR)
			}
			reserved, cooling := differ(tc.before.policies, tc.after.policies, m.take())
			var spans []allocator.Span
			for _, r := range reserved {
				spans = append(spans, r.Span)
			}
			if got := text(spans); got != tc.wantReserved {
				t.Errorf("reserved %q, want %q", got, tc.wantReserved)
			}
			if got := text(cooling); got != tc.wantCooling {
				t.Errorf("cooling %q, want %q", got, tc.wantCooling)
			}
		})
	}
}

// text lists spans, each once, in order.
func text(spans []allocator.Span) string {
	var out []string
	for _, s := range spans {
		out = append(out, s.First.String()+"-"+s.Last.String())
	}
	slices.Sort(out)
	return strings.Join(slices.Compact(out), " ")
}
