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
	admissionregistrationv1 "k8s.io/api/admissionregistration/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/clusterip-operator/clusterip-operator/api/v1alpha1"
	"github.com/clusterip-operator/clusterip-operator/internal/addressindex"
	"github.com/clusterip-operator/clusterip-operator/internal/conditions"
	"github.com/clusterip-operator/clusterip-operator/internal/steering"
)

func TestConditions(t *testing.T) {
	enforcing := &steering.Policy{Name: "p", Generation: 3, Exclusive: true, Enforcement: v1alpha1.EnforcementAPIServer}
	webhook := &steering.Policy{Name: "p", Generation: 3, Exclusive: true, Enforcement: v1alpha1.EnforcementWebhook}
	told := state{told: true, policy: policyShipped}
	for name, tc := range map[string]struct {
		policy *steering.Policy
		state  state
		n      int
		first  []string
		want   []string
	}{
		"the webhook enforces":         {policy: webhook, state: told},
		"not written yet":              {policy: enforcing, want: []string{"Enforced=False Pending"}},
		"written":                      {policy: enforcing, state: told, want: []string{"Enforced=True Enforced"}},
		"the expressions are missing":  {policy: enforcing, state: state{told: true}, want: []string{"Enforced=False PolicyMissing kubectl apply --server-side -k config/default"}},
		"they are others":              {policy: enforcing, state: state{told: true, policy: policyDiffers}, want: []string{"Enforced=False PolicyDiffers --force-conflicts"}},
		"it could not be written":      {policy: enforcing, state: state{problem: "forbidden"}, want: []string{"Enforced=False NotWritten forbidden"}},
		"it is too large":              {policy: enforcing, state: state{told: true, policy: policyShipped, leftOut: true}, want: []string{"Enforced=False TooLarge"}},
		"one has an address":           {policy: webhook, n: 1, first: []string{"Service a/b has 10.0.0.1"}, want: []string{"Violated=True ServicesOfOthers Service a/b has 10.0.0.1."}},
		"many have an address":         {policy: webhook, n: 9, first: []string{"Service a/b has 10.0.0.1", "x"}, want: []string{"Violated=True ServicesOfOthers 10.0.0.1, x and 7 more."}},
		"enforced, and one got in":     {policy: enforcing, state: told, n: 1, first: []string{"x"}, want: []string{"Enforced=True Enforced", "Violated=True ServicesOfOthers"}},
		"a message of any length fits": {policy: enforcing, state: state{problem: strings.Repeat("x", 40_000)}, want: []string{"Enforced=False NotWritten"}},
	} {
		t.Run(name, func(t *testing.T) {
			got := conditionsOf(tc.policy, tc.state, tc.n, tc.first)
			if len(got) != len(tc.want) {
				t.Fatalf("got %v, want %v", got, tc.want)
			}
			for i, c := range got {
				said := strings.SplitN(tc.want[i], " ", 3)
				if fmt.Sprintf("%s=%s", c.Type, c.Status) != said[0] || c.Reason != said[1] || !strings.Contains(c.Message, slices.Concat(said, []string{""})[2]) ||
					c.ObservedGeneration != 3 || len(c.Message) > conditions.MessageLimit {
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

func TestWritesAreGathered(t *testing.T) {
	var e enforcing
	begin := time.Unix(1000, 0)
	if wait := e.wait(begin); wait != 0 {
		t.Errorf("the first waits %v", wait)
	}
	e.wrote(begin)
	if wait := e.wait(begin.Add(together / 4)); wait != 3*together/4 {
		t.Errorf("the second waits %v", wait)
	}
	if wait := e.wait(begin.Add(time.Hour)); wait != 0 {
		t.Errorf("the third waits %v", wait)
	}
}

// API servers take up a new policy or binding within a second, and what its ConfigMap says at once.
func TestNewPoliciesAndBindingsSettle(t *testing.T) {
	var e enforcing
	rules, begin := steering.Compile(steering.Inputs{}), time.Unix(1000, 0)
	shippedAs := func(uid types.UID, generation int64) *admissionregistrationv1.ValidatingAdmissionPolicy {
		return &admissionregistrationv1.ValidatingAdmissionPolicy{ObjectMeta: metav1.ObjectMeta{UID: uid, Generation: generation}, Spec: shipped.Spec}
	}
	bound := func(uid types.UID) *admissionregistrationv1.ValidatingAdmissionPolicyBinding {
		return &admissionregistrationv1.ValidatingAdmissionPolicyBinding{ObjectMeta: metav1.ObjectMeta{UID: uid, Generation: 1}}
	}
	for _, step := range []struct {
		what string
		at   time.Duration
		f    found
		want time.Duration
	}{
		{"it is written, and the cache does not have it yet", 0, found{policy: shippedAs("p", 1)}, settle},
		{"and for long", 10 * settle, found{policy: shippedAs("p", 1)}, settle},
		{"it is there", 11 * settle, found{policy: shippedAs("p", 1), binding: bound("a")}, settle},
		{"its data change", 11*settle + settle/3, found{policy: shippedAs("p", 1), binding: bound("a"), data: &corev1.ConfigMap{}}, settle - settle/3},
		{"it has settled", 12 * settle, found{policy: shippedAs("p", 1), binding: bound("a")}, 0},
		{"another user has created it anew", 13 * settle, found{policy: shippedAs("p", 1), binding: bound("b")}, settle},
		{"an update brings other expressions", 15 * settle, found{policy: shippedAs("p", 2), binding: bound("b")}, settle},
		{"they have settled", 16 * settle, found{policy: shippedAs("p", 2), binding: bound("b")}, 0},
	} {
		now := begin.Add(step.at)
		e.note(rules, nil, step.f, nil, now)
		if wait := e.settles(now); wait != step.want {
			t.Errorf("%s: it settles for %v, want %v", step.what, wait, step.want)
		}
	}
}

// What was said of enforcement stays until it can be said anew; a violation is told at once.
func TestHeld(t *testing.T) {
	is := func(kind string, generation int64) metav1.Condition {
		return metav1.Condition{Type: kind, Status: metav1.ConditionTrue, ObservedGeneration: generation}
	}
	next := []metav1.Condition{is(v1alpha1.PolicyEnforced, 2), is(v1alpha1.PolicyViolated, 2)}
	if d := cmp.Diff([]metav1.Condition{is(v1alpha1.PolicyEnforced, 1), next[1]}, held([]metav1.Condition{is(v1alpha1.PolicyEnforced, 1)}, next)); d != "" {
		t.Errorf("where it was said (-want +got):\n%s", d)
	}
	if d := cmp.Diff(next[1:], held(nil, next)); d != "" {
		t.Errorf("where it was not (-want +got):\n%s", d)
	}
}

// A policy is told of whenever its condition is another one, or of another generation.
func TestWhatThereIsToTell(t *testing.T) {
	rules := func(generation int64) *steering.Compiled {
		p := &v1alpha1.ServiceCIDRPolicy{ObjectMeta: metav1.ObjectMeta{Name: "p", UID: "u", Generation: generation}}
		p.Spec.Exclusive = true
		webhook := &v1alpha1.ServiceCIDRPolicy{ObjectMeta: metav1.ObjectMeta{Name: "webhook", Generation: generation}}
		webhook.Spec.Exclusive, webhook.Spec.Enforcement = true, v1alpha1.EnforcementWebhook
		return steering.Compile(steering.Inputs{Policies: []*v1alpha1.ServiceCIDRPolicy{p, webhook}})
	}
	first, second := rules(1), rules(2)
	var e enforcing
	for _, step := range []struct {
		what     string
		rules    *steering.Compiled
		leftOut  []string
		policy   policyState
		err      error
		wantNews []string
	}{
		{"the first time", first, nil, policyShipped, nil, []string{"p"}},
		{"nothing has changed", first, nil, policyShipped, nil, nil},
		{"an edit that changes nothing else", second, nil, policyShipped, nil, []string{"p"}},
		{"it has no room", second, []string{"p"}, policyShipped, nil, []string{"p"}},
		{"the expressions are gone", second, []string{"p"}, policyMissing, nil, []string{"p"}},
		{"a failure", second, []string{"p"}, policyMissing, errors.New("x"), []string{"p"}},
		{"the same failure", second, []string{"p"}, policyMissing, errors.New("x"), nil},
		{"all is well", second, nil, policyShipped, nil, []string{"p"}},
	} {
		if diff := cmp.Diff(step.wantNews, e.note(step.rules, step.leftOut, foundAs(step.policy), step.err, time.Unix(0, 0))); diff != "" {
			t.Errorf("%s (-want +got):\n%s", step.what, diff)
		}
	}
	if !e.state(second.Policy("p")).told || e.state(first.Policy("p")).told {
		t.Errorf("as it is: %+v, as it was: %+v", e.state(second.Policy("p")), e.state(first.Policy("p")))
	}
}

// foundAs has the ValidatingAdmissionPolicy in a state.
func foundAs(state policyState) found {
	switch state {
	case policyMissing:
		return found{}
	case policyShipped:
		return found{policy: shipped.DeepCopy()}
	default:
		return found{policy: &admissionregistrationv1.ValidatingAdmissionPolicy{}}
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

// What the API server is given is made anew when a policy that it enforces comes, changes or goes,
// and at no other change.
func TestWantedIsMadeAnewForEnforcedPolicies(t *testing.T) {
	exclusive := func(generation int64, enforcement v1alpha1.Enforcement) *v1alpha1.ServiceCIDRPolicy {
		p := &v1alpha1.ServiceCIDRPolicy{ObjectMeta: metav1.ObjectMeta{Name: string(enforcement), Generation: generation}}
		p.Spec.ServiceCIDRs, p.Spec.Exclusive, p.Spec.Enforcement = []string{string(enforcement)}, true, enforcement
		return p
	}
	cidrs := []addressindex.ServiceCIDR{
		{Name: string(v1alpha1.EnforcementAPIServer), Ready: true, Ranges: rangesOf("10.0.0.0/24", "fd00::/120")},
		{Name: string(v1alpha1.EnforcementWebhook), Ready: true, Ranges: rangesOf("10.0.1.0/24")},
	}
	rules, w := steering.Compile(steering.Inputs{ServiceCIDRs: cidrs}), wanted{}
	for _, step := range []struct {
		what     string
		policies []*v1alpha1.ServiceCIDRPolicy
		anew     bool
		ranges   int
	}{
		{"no policy", nil, false, 0},
		{"one comes", []*v1alpha1.ServiceCIDRPolicy{exclusive(1, v1alpha1.EnforcementAPIServer)}, true, 2},
		{"nothing changes", []*v1alpha1.ServiceCIDRPolicy{exclusive(1, v1alpha1.EnforcementAPIServer)}, false, 2},
		{"one for the webhook comes", []*v1alpha1.ServiceCIDRPolicy{exclusive(1, v1alpha1.EnforcementAPIServer), exclusive(1, v1alpha1.EnforcementWebhook)}, false, 2},
		{"it changes", []*v1alpha1.ServiceCIDRPolicy{exclusive(2, v1alpha1.EnforcementAPIServer), exclusive(1, v1alpha1.EnforcementWebhook)}, true, 2},
		{"it goes", []*v1alpha1.ServiceCIDRPolicy{exclusive(1, v1alpha1.EnforcementWebhook)}, true, 0},
	} {
		rules = rules.Recompile(steering.Inputs{ServiceCIDRs: cidrs, Policies: step.policies})
		w.enforced.LeftOut = []string{"as before"}
		got := w.by(rules)
		if anew := !slices.Contains(got.LeftOut, "as before"); anew != step.anew {
			t.Errorf("%s: made anew: %v, want %v", step.what, anew, step.anew)
		}
		ranges := 0
		for key, lines := range got.Data {
			if !strings.HasSuffix(key, "-lengths") && key != "selectors" {
				ranges += strings.Count(lines, "\n")
			}
		}
		if ranges != step.ranges {
			t.Errorf("%s: %d ranges are given, want %d: %v", step.what, ranges, step.ranges, got.Data)
		}
	}
}
