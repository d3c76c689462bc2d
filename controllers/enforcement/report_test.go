package enforcement

import (
	"errors"
	"fmt"
	"net/netip"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"

	"github.com/clusterip-operator/clusterip-operator/api/v1alpha1"
	"github.com/clusterip-operator/clusterip-operator/controllers/internal/addressindex"
	"github.com/clusterip-operator/clusterip-operator/controllers/internal/steering"
)

func TestConditions(t *testing.T) {
	enforcing := &steering.Policy{Name: "p", Generation: 3, Exclusive: true, Enforcement: v1alpha1.EnforcementAPIServer}
	webhook := &steering.Policy{Name: "p", Generation: 3, Exclusive: true, Enforcement: v1alpha1.EnforcementWebhook}
	unknown := fmt.Errorf("writing it: %w", &meta.NoKindMatchError{GroupKind: schema.GroupKind{Group: "admissionregistration.k8s.io", Kind: "ValidatingAdmissionPolicy"}})
	for name, tc := range map[string]struct {
		policy *steering.Policy
		state  state
		n      int
		first  []string
		want   []string
	}{
		"the webhook enforces":         {policy: webhook, state: state{written: true}},
		"not written yet":              {policy: enforcing, want: []string{"Enforced=False Pending"}},
		"written":                      {policy: enforcing, state: state{written: true}, want: []string{"Enforced=True Enforced"}},
		"the kind is not served":       {policy: enforcing, state: state{err: unknown}, want: []string{"Enforced=False NotSupported"}},
		"it could not be written":      {policy: enforcing, state: state{err: errors.New("forbidden")}, want: []string{"Enforced=False NotWritten forbidden"}},
		"it is too large":              {policy: enforcing, state: state{written: true, leftOut: true}, want: []string{"Enforced=False TooLarge"}},
		"one has an address":           {policy: webhook, n: 1, first: []string{"Service a/b has 10.0.0.1"}, want: []string{"Violated=True ServicesOfOthers Service a/b has 10.0.0.1."}},
		"many have an address":         {policy: webhook, n: 9, first: []string{"Service a/b has 10.0.0.1", "x"}, want: []string{"Violated=True ServicesOfOthers 10.0.0.1, x and 7 more."}},
		"enforced, and one got in":     {policy: enforcing, state: state{written: true}, n: 1, first: []string{"x"}, want: []string{"Enforced=True Enforced", "Violated=True ServicesOfOthers"}},
		"a message of any length fits": {policy: enforcing, state: state{err: errors.New(strings.Repeat("x", 40_000))}, want: []string{"Enforced=False NotWritten"}},
	} {
		t.Run(name, func(t *testing.T) {
			got := conditions(tc.policy, tc.state, tc.n, tc.first)
			if len(got) != len(tc.want) {
				t.Fatalf("got %v, want %v", got, tc.want)
			}
			for i, c := range got {
				said := strings.SplitN(tc.want[i], " ", 3)
				if fmt.Sprintf("%s=%s", c.Type, c.Status) != said[0] || c.Reason != said[1] || !strings.Contains(c.Message, slices.Concat(said, []string{""})[2]) ||
					c.ObservedGeneration != 3 || len(c.Message) > messageLimit {
					t.Errorf("got %+v, want %s", c, tc.want[i])
				}
			}
		})
	}
}

// A violation is told of when it has lasted, once, and until it has gone.
func TestViolations(t *testing.T) {
	a, begin := netip.MustParseAddr("10.0.0.1"), time.Unix(1000, 0)
	seen := func(policy, uid string) *violation {
		return &violation{policy: policy, uid: types.UID(uid), service: types.NamespacedName{Namespace: "ns", Name: uid}}
	}
	var v violations
	for _, step := range []struct {
		what         string
		at           time.Duration
		seen         *violation
		wantPolicies []string
		wantNews     bool
		wantWait     time.Duration
		wantCount    int
	}{
		{"nothing", 0, nil, nil, false, 0, 0},
		{"seen for the first time", 0, seen("p", "a"), nil, false, confirm, 0},
		{"soon after", confirm / 2, seen("p", "a"), nil, false, confirm / 2, 0},
		{"it has lasted", confirm, seen("p", "a"), []string{"p"}, true, 0, 1},
		{"it lasts", 2 * confirm, seen("p", "a"), nil, false, 0, 1},
		{"another Service has it", 3 * confirm, seen("p", "b"), []string{"p"}, false, confirm, 0},
		{"that one lasts too", 4 * confirm, seen("p", "b"), []string{"p"}, true, 0, 1},
		{"another policy keeps it", 5 * confirm, seen("q", "b"), []string{"p"}, false, confirm, 0},
		{"it goes before it is told of", 5 * confirm, nil, nil, false, 0, 0},
		{"it comes back", 6 * confirm, seen("q", "b"), nil, false, confirm, 0},
		{"and lasts", 7 * confirm, seen("q", "b"), []string{"q"}, true, 0, 1},
		{"and goes", 8 * confirm, nil, []string{"q"}, false, 0, 0},
	} {
		policies, news, wait := v.note(a, step.seen, begin.Add(step.at))
		if d := cmp.Diff(step.wantPolicies, policies); d != "" || news != step.wantNews || wait != step.wantWait || v.count() != step.wantCount {
			t.Errorf("%s: news %v, wait %v, %d in all, policies (-want +got):\n%s", step.what, news, wait, v.count(), d)
		}
	}
}

func TestFirstViolationsByAddress(t *testing.T) {
	var v violations
	for i := range 20 {
		a := netip.AddrFrom4([4]byte{10, 0, 0, byte(i * 7 % 20)})
		for _, at := range []int64{0, 10} {
			v.note(a, &violation{policy: "p", service: types.NamespacedName{Namespace: "ns", Name: "s"}}, time.Unix(at, 0))
		}
	}
	n, first := v.of("p")
	if d := cmp.Diff([]string{"Service ns/s has 10.0.0.0", "Service ns/s has 10.0.0.1", "Service ns/s has 10.0.0.2"}, first); d != "" || n != 20 {
		t.Errorf("%d, the first (-want +got):\n%s", n, d)
	}
}

// What is written is gathered for a moment, written again from time to time, and told of when it is new.
func TestWhenObjectsAreDue(t *testing.T) {
	var o installed
	begin := time.Unix(1000, 0)
	one, two := &steering.Enforced{}, &steering.Enforced{LeftOut: []string{"x"}}
	rules := steering.Compile(steering.Inputs{})
	due := func(what string, want *steering.Enforced, at, wantWait time.Duration, wantChanged bool) {
		t.Helper()
		if wait, changed := o.due(want, begin.Add(at)); wait != wantWait || changed != wantChanged {
			t.Errorf("%s: in %v, changed %v; want %v, %v", what, wait, changed, wantWait, wantChanged)
		}
	}
	due("at the start, whoever ran before may have left something", nil, 0, 0, true)
	if !o.note(nil, rules, nil, begin) {
		t.Error("the first time is no news")
	}
	due("nothing is wanted, and nothing there", nil, time.Hour, 0, false)
	due("something is wanted", one, time.Hour, 0, true)
	o.note(one, rules, nil, begin)
	due("the same", one, time.Second, again-time.Second, false)
	due("something else, at once", two, 0, together, true)
	due("something else, later", two, time.Second, 0, true)
	if !o.note(two, rules, errors.New("x"), begin) {
		t.Error("a failure is no news")
	}
	due("what failed", two, time.Second, 0, true)
	if s := o.state(&steering.Policy{Name: "x"}); s.written || s.err == nil {
		t.Errorf("after a failure: %+v", s)
	}
}

// A policy is enforced when what was written was made of it as it is now.
func TestAPolicyThatHasChangedIsNotEnforcedYet(t *testing.T) {
	policy := func(generation int64) *v1alpha1.ServiceCIDRPolicy {
		return &v1alpha1.ServiceCIDRPolicy{ObjectMeta: metav1.ObjectMeta{Name: "p", UID: "u", Generation: generation}}
	}
	before, after := steering.Compile(steering.Inputs{Policies: []*v1alpha1.ServiceCIDRPolicy{policy(1)}}), steering.Compile(steering.Inputs{Policies: []*v1alpha1.ServiceCIDRPolicy{policy(2)}})
	var o installed
	o.note(&steering.Enforced{}, before, nil, time.Unix(1000, 0))
	if !o.state(before.Policy("p")).written || o.state(after.Policy("p")).written {
		t.Errorf("as it was: %+v, as it is: %+v", o.state(before.Policy("p")), o.state(after.Policy("p")))
	}
}

func TestWhatAChangeOfPoliciesMakesWorthALook(t *testing.T) {
	cidr := func(text string) addressindex.ServiceCIDR {
		return addressindex.ServiceCIDR{Name: text, Ready: true, Ranges: rangesOf(text)}
	}
	policy := func(name string, generation int64, cidrs ...string) *v1alpha1.ServiceCIDRPolicy {
		p := &v1alpha1.ServiceCIDRPolicy{ObjectMeta: metav1.ObjectMeta{Name: name, UID: types.UID(name), Generation: generation}}
		p.Spec.ServiceCIDRs, p.Spec.Exclusive = cidrs, true
		return p
	}
	cidrs := []addressindex.ServiceCIDR{cidr("10.0.0.0/24"), cidr("fd00::/120"), cidr("10.0.2.0/24")}
	before := steering.Compile(steering.Inputs{ServiceCIDRs: cidrs, Policies: []*v1alpha1.ServiceCIDRPolicy{policy("same", 1, "10.0.2.0/24"), policy("moved", 1, "10.0.0.0/24")}})
	after := steering.Compile(steering.Inputs{ServiceCIDRs: cidrs, Policies: []*v1alpha1.ServiceCIDRPolicy{policy("same", 1, "10.0.2.0/24"), policy("moved", 2, "fd00::/120")}})
	used := func(p netip.Prefix) []netip.Addr { return []netip.Addr{p.Addr().Next()} }
	var got []string
	for _, r := range between(before, after, used) {
		got = append(got, fmt.Sprint(r.Policy, r.Address))
	}
	slices.Sort(got)
	want := []string{"10.0.0.1", "fd00::1", "invalid IP", "movedinvalid IP"}
	if d := cmp.Diff(want, slices.Compact(got)); d != "" {
		t.Errorf("(-want +got):\n%s", d)
	}
}
