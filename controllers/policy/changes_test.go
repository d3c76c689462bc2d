package policy

import (
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/clusterip-operator/clusterip-operator/allocator"
	"github.com/clusterip-operator/clusterip-operator/api/v1alpha1"
	"github.com/clusterip-operator/clusterip-operator/controllers/internal/addressindex"
	"github.com/clusterip-operator/clusterip-operator/controllers/internal/steering"
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
		c.Ranges = append(c.Ranges, mustRange(text))
	}
	return c
}

func mustRange(text string) allocator.Range {
	r, err := allocator.ParseRange(text)
	if err != nil {
		panic(err)
	}
	return r
}

// sceneOf is a scene of ServiceCIDRs and policies.
func sceneOf(cidrs []addressindex.ServiceCIDR, policies ...*v1alpha1.ServiceCIDRPolicy) scene {
	s := scene{rules: steering.Compile(steering.Inputs{Policies: policies, ServiceCIDRs: cidrs}), ranges: map[string]addressindex.ServiceCIDR{}}
	for _, c := range cidrs {
		s.ranges[c.Name] = addressindex.ServiceCIDR{Name: c.Name, Ranges: c.Ranges, Terminating: c.Terminating}
	}
	return s
}

func TestWhatTheKeeperLooksAtWhenPoliciesChange(t *testing.T) {
	a := readyRange("a", "10.0.0.0/24", "fd00::/120")
	closing := a
	closing.Terminating = true
	one := []addressindex.ServiceCIDR{a}
	again := policyOn("p", "a")
	again.UID = "another"

	for name, tc := range map[string]struct {
		before, after             scene
		wantReserved, wantCooling string
	}{
		"nothing": {before: sceneOf(one, policyOn("p", "a")), after: sceneOf(one, policyOn("p", "a"))},
		"a policy with reservations comes": {
			before: sceneOf(one), after: sceneOf(one, reserving(policyOn("p"), "10.0.0.5", "fd00::5-fd00::7")),
			wantReserved: "10.0.0.5-10.0.0.5 fd00::5-fd00::7",
		},
		"and goes": {
			before: sceneOf(one, reserving(policyOn("p"), "10.0.0.5")), after: sceneOf(one),
			wantReserved: "10.0.0.5-10.0.0.5",
		},
		"one of its reservations moves, the other stays": {
			before: sceneOf(one, reserving(policyOn("p"), "10.0.0.5", "10.0.0.6")), after: sceneOf(one, reserving(policyOn("p"), "10.0.0.6", "10.0.0.7")),
			wantReserved: "10.0.0.5-10.0.0.5 10.0.0.7-10.0.0.7",
		},
		"a cool-down begins": {
			before: sceneOf(one, policyOn("p", "a")), after: sceneOf(one, coolingFor(policyOn("p", "a"), time.Hour)),
			wantCooling: "10.0.0.1-10.0.0.254 fd00::1-fd00::ff",
		},
		"a cool-down is shortened, a neighbour's stays": {
			before:      sceneOf([]addressindex.ServiceCIDR{a, readyRange("b", "10.1.0.0/24")}, coolingFor(policyOn("p", "a"), time.Hour), coolingFor(policyOn("q", "b"), time.Hour)),
			after:       sceneOf([]addressindex.ServiceCIDR{a, readyRange("b", "10.1.0.0/24")}, coolingFor(policyOn("p", "a"), time.Minute), coolingFor(policyOn("q", "b"), time.Hour)),
			wantCooling: "10.0.0.1-10.0.0.254 fd00::1-fd00::ff",
		},
		"a policy with a cool-down goes": {
			before: sceneOf(one, coolingFor(policyOn("p", "a"), time.Hour)), after: sceneOf(one),
			wantCooling: "10.0.0.1-10.0.0.254 fd00::1-fd00::ff",
		},
		"another policy of the same name": {
			before: sceneOf(one, coolingFor(policyOn("p", "a"), time.Hour)), after: sceneOf(one, coolingFor(again, time.Hour)),
			wantCooling: "10.0.0.1-10.0.0.254 fd00::1-fd00::ff",
		},
		"a policy without either comes": {before: sceneOf(one), after: sceneOf(one, policyOn("p", "a"))},
		"a range comes under a reservation outside of the policy's ranges": {
			before: sceneOf(nil, reserving(policyOn("p"), "10.0.0.5", "10.9.0.5")), after: sceneOf(one, reserving(policyOn("p"), "10.0.0.5", "10.9.0.5")),
			wantReserved: "10.0.0.5-10.0.0.5",
		},
		"a range is deleted under a reservation": {
			before: sceneOf(one, reserving(policyOn("p"), "fd00::5")), after: sceneOf([]addressindex.ServiceCIDR{closing}, reserving(policyOn("p"), "fd00::5")),
			wantReserved: "fd00::5-fd00::5",
		},
		"a range is gone under a reservation": {
			before: sceneOf(one, reserving(policyOn("p"), "fd00::5")), after: sceneOf(nil, reserving(policyOn("p"), "fd00::5")),
			wantReserved: "fd00::5-fd00::5",
		},
	} {
		t.Run(name, func(t *testing.T) {
			reserved, cooling := tc.before.differ(tc.after)
			if got := text(reserved); got != tc.wantReserved {
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

func TestEachAddressOfASpan(t *testing.T) {
	for name, tc := range map[string]struct{ text, want string }{
		"one":                {"10.0.0.5", "10.0.0.5"},
		"some":               {"fd00::fe-fd00::101", "fd00::fe fd00::ff fd00::100 fd00::101"},
		"the last there are": {"255.255.255.254-255.255.255.255", "255.255.255.254 255.255.255.255"},
	} {
		t.Run(name, func(t *testing.T) {
			span, err := steering.ParseReservation(tc.text)
			if err != nil {
				t.Fatal(err)
			}
			var got []string
			for _, a := range each(span) {
				got = append(got, a.String())
			}
			if diff := cmp.Diff(tc.want, strings.Join(got, " ")); diff != "" {
				t.Errorf("(-want +got):\n%s", diff)
			}
		})
	}
}

func TestWhatOfASpanIsReserved(t *testing.T) {
	s := sceneOf(nil, reserving(policyOn("p"), "10.0.0.5", "10.0.0.16/28", "fd00::10-fd00::1f"), reserving(policyOn("q"), "10.0.0.6"))
	x := newIndex(s.rules)
	for name, tc := range map[string]struct{ span, want string }{
		"nothing":               {"10.0.0.7-10.0.0.15", ""},
		"all of it":             {"10.0.0.1-10.0.0.254", "10.0.0.16-10.0.0.31 10.0.0.5-10.0.0.5 10.0.0.6-10.0.0.6"},
		"ends cut off":          {"10.0.0.6-10.0.0.20", "10.0.0.16-10.0.0.20 10.0.0.6-10.0.0.6"},
		"inside of one":         {"fd00::12-fd00::13", "fd00::12-fd00::13"},
		"beyond the last":       {"fd00::20-fd00::ff", ""},
		"the other family only": {"11.0.0.0-11.0.0.9", ""},
	} {
		t.Run(name, func(t *testing.T) {
			span, err := steering.ParseReservation(tc.span)
			if err != nil {
				t.Fatal(err)
			}
			if diff := cmp.Diff(tc.want, text(x.within(span))); diff != "" {
				t.Errorf("(-want +got):\n%s", diff)
			}
		})
	}
	if got := x.within(allocator.Span{}); got != nil {
		t.Errorf("of no addresses %v are reserved", got)
	}
}
