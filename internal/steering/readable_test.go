package steering

import (
	"fmt"
	"testing"
	"time"

	gocmp "github.com/google/go-cmp/cmp"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/clusterip-operator/clusterip-operator/allocator"
	"github.com/clusterip-operator/clusterip-operator/api/v1alpha1"
)

// badSelector is a selector that the schema takes, and that says nothing.
var badSelector = &metav1.LabelSelector{MatchExpressions: []metav1.LabelSelectorRequirement{{Key: "team", Operator: metav1.LabelSelectorOpIn}}}

// Of equal priorities the first by name wins, whatever the ages: a restore from a backup changes
// those.
func TestEqualPrioritiesGoByName(t *testing.T) {
	for ages := range 2 {
		newer, older := with(policy("a-new-one", 3), of("blue"), exclusive), with(policy("red", 3), of("blue"), exclusive)
		newer.CreationTimestamp = metav1.NewTime(time.Unix(int64(9*ages), 0))
		older.CreationTimestamp = metav1.NewTime(time.Unix(int64(9-9*ages), 0))
		s := Compile(inputs(serviceCIDRs{ready("blue", "10.0.0.0/24", "fd00::/120")}, older, newer))
		for _, a := range []string{"10.0.0.9", "fd00::9"} {
			if owner := s.Owner(addr(a)); owner == nil || owner.Name != "a-new-one" {
				t.Errorf("%s is kept by %v, want a-new-one", a, owner)
			}
		}
	}
}

// What cannot be read closes, and opens nothing. An earlier form that could be read is followed as
// a whole.
func TestUnreadableSelectorsClose(t *testing.T) {
	blue, red := ready("blue", "10.0.0.0/24", "fd00::/120"), ready("red", "10.0.1.0/24", "fd00:1::/120")
	blue.Labels = map[string]string{"of": "blue"}
	byLabel := func(s *v1alpha1.ServiceCIDRPolicySpec) {
		s.ServiceCIDRSelector = &metav1.LabelSelector{MatchLabels: map[string]string{"of": "blue"}}
	}
	for name, tc := range map[string]struct {
		before, now *v1alpha1.ServiceCIDRPolicy
		// may say who gets an address of blue and of red: a is the team that the policy selected, b
		// another one.
		blue, red string
		standing  Standing
	}{
		"the namespaceSelector, as never before": {
			nil, with(policy("p", 0), of("blue"), exclusive, selecting("a"), func(s *v1alpha1.ServiceCIDRPolicySpec) { s.NamespaceSelector = badSelector }), "", "ab", Closed,
		},
		"the serviceSelector, as never before": {
			nil, with(policy("p", 0), of("blue"), exclusive, func(s *v1alpha1.ServiceCIDRPolicySpec) { s.ServiceSelector = badSelector }), "", "ab", Closed,
		},
		"the serviceSelector of ranges by their labels, as never before": {
			nil, with(policy("p", 0), byLabel, exclusive, func(s *v1alpha1.ServiceCIDRPolicySpec) { s.ServiceSelector = badSelector }), "", "ab", Closed,
		},
		"the serviceCIDRSelector, as never before": {
			nil, with(policy("p", 0), exclusive, func(s *v1alpha1.ServiceCIDRPolicySpec) { s.ServiceCIDRSelector = badSelector }), "ab", "ab", ClosedUnknown,
		},
		"names and labels of ranges at once": {
			nil, with(policy("p", 0), of("red"), byLabel, exclusive, selecting("a")), "", "", Closed,
		},
		"names of ranges, and labels that cannot be read": {
			nil, with(policy("p", 0), of("red"), exclusive, func(s *v1alpha1.ServiceCIDRPolicySpec) { s.ServiceCIDRSelector = badSelector }), "ab", "", Closed,
		},
		"the serviceSelector, after a form that could be read": {
			with(policy("p", 0), of("blue"), exclusive, selecting("a")), with(policy("p", 0), of("red"), func(s *v1alpha1.ServiceCIDRPolicySpec) { s.ServiceSelector = badSelector }), "a", "ab", AsBefore,
		},
		"the serviceCIDRSelector, after a form that could be read": {
			with(policy("p", 0), byLabel, exclusive, selecting("a")), with(policy("p", 0), exclusive, func(s *v1alpha1.ServiceCIDRPolicySpec) { s.ServiceCIDRSelector = badSelector }), "a", "ab", AsBefore,
		},
		"of a policy that is not exclusive": {
			nil, with(policy("p", 0), of("blue"), fails, func(s *v1alpha1.ServiceCIDRPolicySpec) { s.ServiceSelector = badSelector }), "ab", "ab", Closed,
		},
	} {
		t.Run(name, func(t *testing.T) {
			c := NewCache()
			if tc.before != nil {
				c.Set(inputs(serviceCIDRs{blue, red}, tc.before))
			}
			tc.now.Generation++
			for range 2 { // it is remembered from form to form
				c.Set(inputs(serviceCIDRs{blue, red}, tc.now))
			}
			s := c.Current()
			for _, a := range []string{"10.0.0.9", "fd00::9", "10.0.1.9", "fd00:1::9"} {
				want := tc.blue
				if addr(a) == addr("10.0.1.9") || addr(a) == addr("fd00:1::9") {
					want = tc.red
				}
				got := ""
				for _, who := range []string{"a", "b"} {
					if s.MayHold(addr(a), team(who)) == nil {
						got += who
					}
				}
				if got != want {
					t.Errorf("%s may be had by %q, want %q", a, got, want)
				}
			}
			p := s.Policy("p")
			if p.Standing != tc.standing || len(p.Invalid) == 0 || p.Generation != tc.now.Generation {
				t.Errorf("standing %v, invalid %q, generation %d; want %v", p.Standing, p.Invalid, p.Generation, tc.standing)
			}
			for _, f := range allocator.Families {
				if r := s.Route(team("b"), f); r.Fails || len(r.Policies) > 0 {
					t.Errorf("it steers a Service that it does not select: %+v", r)
				}
			}
		})
	}
}

// The API server is told the same: a policy that selects no Service admits none.
func TestUnreadableSelectorsAreEnforced(t *testing.T) {
	p := with(policy("p", 0), of("blue"), exclusive, func(s *v1alpha1.ServiceCIDRPolicySpec) { s.NamespaceSelector = badSelector })
	p.Spec.Enforcement = v1alpha1.EnforcementAPIServer
	s := Compile(inputs(serviceCIDRs{ready("blue", "10.0.0.0/24", "fd00::/120")}, p))
	for _, a := range []string{"10.0.0.9", "fd00::9"} {
		if _, may := admits(t, s.Enforce(plenty).Data, addr(a), team("a")); may {
			t.Errorf("the API server lets a Service have %s", a)
		}
	}
}

// A policy that was deleted, or was made anew, has no earlier form; one that is mended is followed
// as it is.
func TestEarlierFormsAreForgotten(t *testing.T) {
	blue := serviceCIDRs{ready("blue", "10.0.0.0/24")}
	good := with(policy("p", 0), of("blue"), exclusive, selecting("a"))
	bad := with(policy("p", 0), of("blue"), exclusive, func(s *v1alpha1.ServiceCIDRPolicySpec) { s.ServiceSelector = badSelector })
	anew := bad.DeepCopy()
	anew.UID = "another"
	mended := with(policy("p", 0), of("blue"), exclusive, selecting("b"))
	for name, tc := range map[string]struct {
		forms    []*v1alpha1.ServiceCIDRPolicy
		want     Standing
		followed *v1alpha1.ServiceCIDRPolicy
	}{
		"kept":        {[]*v1alpha1.ServiceCIDRPolicy{good, bad, bad}, AsBefore, good},
		"made anew":   {[]*v1alpha1.ServiceCIDRPolicy{good, anew}, Closed, nil},
		"deleted":     {[]*v1alpha1.ServiceCIDRPolicy{good, bad, nil, bad}, Closed, nil},
		"mended":      {[]*v1alpha1.ServiceCIDRPolicy{good, bad, mended}, AsWritten, mended},
		"broken anew": {[]*v1alpha1.ServiceCIDRPolicy{good, bad, mended, bad}, AsBefore, mended},
	} {
		t.Run(name, func(t *testing.T) {
			c := NewCache()
			for _, form := range tc.forms {
				in := inputs(blue)
				if form != nil {
					in.Policies = append(in.Policies, form)
				}
				c.Set(in)
			}
			if got := c.Current().Policy("p").Standing; got != tc.want {
				t.Errorf("standing %v, want %v", got, tc.want)
			}
			if got := c.Current().Policy("p").form; (got == nil) != (tc.followed == nil) || got != nil && got.Spec.ServiceSelector != tc.followed.Spec.ServiceSelector {
				t.Errorf("followed is %v, want %v", got, tc.followed)
			}
		})
	}
}

// A reservation whose Service cannot be read keeps its addresses, from all.
func TestAReservationForAnUnreadableServiceKeepsItsAddresses(t *testing.T) {
	s := Compile(inputs(nil, with(policy("p", 0), reserves("r", "10.0.0.9", "no Service"), reserves("six", "fd00::9", "A/b"))))
	for _, a := range []string{"10.0.0.9", "fd00::9"} {
		if s.MayHold(addr(a), team("a")) == nil {
			t.Errorf("%s is open", a)
		}
	}
	if n := len(s.Policy("p").Invalid); n != 2 {
		t.Errorf("%d mistakes are told of, want 2", n)
	}
}

// The ranges of an origin are those that its tier has addresses of.
func TestRangesOfATier(t *testing.T) {
	s := Compile(inputs(serviceCIDRs{
		ready("kubernetes", "10.0.0.0/24", "fd00::/120"), ready("blue", "10.0.1.0/24", "fd00:1::/120"), ready("wide", "10.0.2.0/23"), ready("part", "10.0.3.0/24"), ready("small", "10.0.9.0/28"),
	}, with(policy("blue", 1), of("blue", "part"), exclusive, selecting("blue")), with(policy("red", 0), of("wide", "part"), selecting("red"))))
	got := map[string][]string{}
	for _, who := range []string{"blue", "red", "nobody"} {
		for _, f := range allocator.Families {
			r := s.Route(team(who), f)
			for i, tier := range r.Tiers {
				from := "open"
				if p := r.Origins[i].Policy; p != nil {
					from = p.Name
				}
				key := fmt.Sprint(who, " ", f, " ", from, " ", r.Origins[i].Band)
				got[key] = s.RangesOf(r.Origins[i], f, tier)
			}
		}
	}
	open4, open6 := []string{"10.0.0.0/24", "10.0.2.0/23", "10.0.9.0/28"}, []string{"fd00::/120"}
	static4 := []string{"10.0.0.0/24", "10.0.2.0/23"}
	want := map[string][]string{
		"blue IPv4 blue dynamic": {"10.0.1.0/24", "10.0.3.0/24"}, "blue IPv4 blue static": {"10.0.1.0/24", "10.0.3.0/24"},
		"blue IPv6 blue dynamic": {"fd00:1::/120"}, "blue IPv6 blue static": {"fd00:1::/120"},
		"red IPv4 red dynamic": {"10.0.2.0/23"}, "red IPv4 red static": {"10.0.2.0/23"},
	}
	for _, who := range []string{"blue", "red", "nobody"} {
		for band, ranges := range map[string][]string{"IPv4 open dynamic": open4, "IPv4 open static": static4, "IPv6 open dynamic": open6, "IPv6 open static": open6} {
			want[who+" "+band] = ranges
		}
	}
	if d := gocmp.Diff(want, got); d != "" {
		t.Errorf("(-want +got):\n%s", d)
	}
}
