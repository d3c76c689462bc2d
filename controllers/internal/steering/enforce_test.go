package steering

import (
	"encoding/json"
	"fmt"
	"math/rand/v2"
	"net/netip"
	"slices"
	"testing"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/clusterip-operator/clusterip-operator/allocator"
	"github.com/clusterip-operator/clusterip-operator/api/v1alpha1"
)

const plenty = 1 << 20

// admits reads a table as the API server does.
func admits(t v1alpha1.ExclusiveRangesSpec, a netip.Addr, svc Service) (entry v1alpha1.ExclusiveRange, may bool) {
	lengths := t.IPv6Lengths
	if a.Is4() {
		lengths = t.IPv4Lengths
	}
	for _, bits := range lengths {
		p, _ := a.Prefix(int(bits))
		if entry, ok := t.Ranges[p.String()]; ok {
			return entry, entry.Open || entry.Service == svc.String() || slices.ContainsFunc(entry.Selectors, func(i int32) bool {
				return fulfils(t.Selectors[i].Namespace, svc.NamespaceLabels) && fulfils(t.Selectors[i].Service, svc.Labels)
			})
		}
	}
	return entry, true
}

func fulfils(required []metav1.LabelSelectorRequirement, labels map[string]string) bool {
	return !slices.ContainsFunc(required, func(r metav1.LabelSelectorRequirement) bool {
		value, has := labels[r.Key]
		switch r.Operator {
		case metav1.LabelSelectorOpIn:
			return !has || !slices.Contains(r.Values, value)
		case metav1.LabelSelectorOpNotIn:
			return has && slices.Contains(r.Values, value)
		case metav1.LabelSelectorOpExists:
			return !has
		default:
			return has
		}
	})
}

// expressions turns selectors by equality into others that say the same.
func expressions(random *rand.Rand, s *metav1.LabelSelector) {
	if s == nil || len(s.MatchLabels) == 0 || random.IntN(2) == 0 {
		return
	}
	value := s.MatchLabels["l"]
	s.MatchLabels = nil
	s.MatchExpressions = []metav1.LabelSelectorRequirement{
		{Key: "l", Operator: metav1.LabelSelectorOpExists}, {Key: "absent", Operator: metav1.LabelSelectorOpDoesNotExist},
		{Key: "l", Operator: metav1.LabelSelectorOpIn, Values: []string{value, "other"}},
		{Key: "l", Operator: metav1.LabelSelectorOpNotIn, Values: []string{"other"}},
	}
}

// What the API server enforces is what MayHold says, of every address that is closed, to every Service; and nothing of other addresses.
func TestEnforceSaysWhatMayHoldSays(t *testing.T) {
	closed := 0
	for seed := range uint64(120) {
		random := rand.New(rand.NewPCG(seed, 4))
		w := randomWorld(random)
		o := newOracle(w) // which knows equality alone
		for _, p := range w.Policies {
			p.Spec.Enforcement = []v1alpha1.Enforcement{v1alpha1.EnforcementAPIServer, v1alpha1.EnforcementAPIServer, v1alpha1.EnforcementWebhook, ""}[random.IntN(4)]
			expressions(random, p.Spec.NamespaceSelector)
			expressions(random, p.Spec.ServiceSelector)
		}
		s := Compile(w)
		enforced := s.Enforce(plenty)
		if len(enforced.LeftOut) > 0 {
			t.Fatalf("world %d: left out %v", seed, enforced.LeftOut)
		}
		for _, universe := range universes() {
			for _, a := range universe {
				f := o.look(a)
				enforces := f.closer >= 0 && o.ranked[f.closer].Spec.Enforcement == v1alpha1.EnforcementAPIServer
				for _, svc := range services() {
					want := !enforces || s.MayHold(a, svc) == nil
					entry, may := admits(enforced.Spec, a, svc)
					if may != want {
						t.Fatalf("world %d: %s for %s %v in %v: %v by %+v, want %v", seed, a, svc, svc.Labels, svc.NamespaceLabels, may, entry, want)
					}
					if !may {
						closed++
						if refusal := s.MayHold(a, svc); refusal.Policy != entry.Policy {
							t.Fatalf("world %d: %s is refused by %s, want %s", seed, a, entry.Policy, refusal.Policy)
						}
					}
				}
			}
		}
	}
	if closed < 1000 {
		t.Errorf("only %d refusals were compared", closed)
	}
}

// Whose an address is that a Service has is told without its labels where they make no difference.
func TestStrangerAgainstOracle(t *testing.T) {
	for seed := range uint64(60) {
		w := randomWorld(rand.New(rand.NewPCG(seed, 5)))
		s, o := Compile(w), newOracle(w)
		for _, universe := range universes() {
			for _, a := range universe {
				for _, svc := range services() {
					f := o.look(a)
					mine := f.of >= 0 && f.reservation.For == svc.String()
					want := !mine && !o.allowed(a, svc) && !slices.Contains(s.apiServer, a)
					if got, _ := s.Stranger(a, svc); got != want {
						t.Fatalf("world %d: %s of %s %v in %v: stranger %v, want %v", seed, a, svc, svc.Labels, svc.NamespaceLabels, got, want)
					}
					unlabelled := svc
					unlabelled.Labels = nil
					if got, sure := s.Stranger(a, unlabelled); sure && got != want {
						t.Fatalf("world %d: %s of %s in %v: stranger %v without labels, and sure; want %v", seed, a, svc, svc.NamespaceLabels, got, want)
					}
				}
			}
		}
	}
}

// A table that would be too large has the best policies; the others are named.
func TestEnforceHasRoomForTheBest(t *testing.T) {
	w := tenants(20, false)
	for i, p := range w.Policies {
		p.Spec.Enforcement, p.Spec.Priority = v1alpha1.EnforcementAPIServer, int32(100-i)
	}
	s := Compile(w)
	got := s.Enforce(5_000)
	if len(got.LeftOut) == 0 || len(got.LeftOut) == 20 || got.LeftOut[0] != fmt.Sprint("tenant-", 20-len(got.LeftOut)) {
		t.Fatalf("left out: %v", got.LeftOut)
	}
	if text, err := json.Marshal(got.Spec); err != nil || len(text) > 5_000 || len(text) < 2_000 {
		t.Errorf("%d bytes: %v", len(text), err)
	}
	for i := range 20 {
		a := addr(fmt.Sprintf("10.0.%d.7", i))
		if _, may := admits(got.Spec, a, Service{}); may != slices.Contains(got.LeftOut, fmt.Sprint("tenant-", i)) {
			t.Errorf("a stranger may have %s: %v", a, may)
		}
	}
}

func TestPrefixesOfASpan(t *testing.T) {
	for span, want := range map[string]string{
		"10.0.0.1-10.0.0.1":               "[10.0.0.1/32]",
		"10.0.0.0-10.0.0.255":             "[10.0.0.0/24]",
		"10.0.0.1-10.0.0.6":               "[10.0.0.1/32 10.0.0.2/31 10.0.0.4/31 10.0.0.6/32]",
		"0.0.0.0-255.255.255.255":         "[0.0.0.0/0]",
		"255.255.255.254-255.255.255.255": "[255.255.255.254/31]",
		"fd00::10-fd00::17":               "[fd00::10/125]",
		"ffff:ffff:ffff:ffff:ffff:ffff:ffff:ffff-ffff:ffff:ffff:ffff:ffff:ffff:ffff:ffff": "[ffff:ffff:ffff:ffff:ffff:ffff:ffff:ffff/128]",
	} {
		sp, err := ParseReservation(span)
		if err != nil {
			t.Fatal(err)
		}
		if got := fmt.Sprint(prefixesOf(sp)); got != want {
			t.Errorf("%s: %s, want %s", span, got, want)
		}
	}
	if got := prefixesOf(allocator.Span{}); got != nil {
		t.Errorf("an empty span: %v", got)
	}
}

// A closed range is closed from the moment it exists, whatever state it is in, and its addresses are, whatever other ServiceCIDR has them too.
func TestClosedFromExistence(t *testing.T) {
	in := func(change func(*ServiceCIDR)) ServiceCIDR {
		c := ready("blue", "10.0.1.0/24", "fd00::/120")
		change(&c)
		return c
	}
	states := map[string]ServiceCIDR{
		"ready": in(func(*ServiceCIDR) {}), "not ready": in(func(c *ServiceCIDR) { c.Ready = false }), "being deleted": in(func(c *ServiceCIDR) { c.Terminating = true }),
	}
	others := map[string][]ServiceCIDR{
		"alone": nil, "an equal one": {ready("twin", "10.0.1.0/24", "fd00::/120")}, "a wider one": {ready("wide", "10.0.0.0/23", "fd00::/119")},
		"a narrower one": {ready("narrow", "10.0.1.64/26", "fd00::40/122")},
	}
	for state, c := range states {
		for what, more := range others {
			t.Run(state+", "+what, func(t *testing.T) {
				s := Compile(world(append(more, c, ready("kubernetes", "10.96.0.0/24", "fd01::/120")), with(policy("closed", 0), of("blue"), exclusive, selecting("a"), rests(time.Hour))))
				for i, text := range []string{"10.0.1.70", "fd00::70"} {
					if refuser(s.MayHold(addr(text), team("b"))) != "closed" || s.MayHold(addr(text), team("a")) != nil {
						t.Errorf("%s: refused to a stranger by %v, to its own by %v", text, s.MayHold(addr(text), team("b")), s.MayHold(addr(text), team("a")))
					}
					is4 := i == 0
					if !s.Closes(is4) || s.Owner(addr(text)) != s.Policy("closed") {
						t.Errorf("nobody closes %s", text)
					}
					for _, tier := range s.Route(team("b"), is4).Tiers {
						if tier.Contains(addr(text)) {
							t.Errorf("%s is drawn for a stranger", text)
						}
					}
					for _, other := range more {
						tiers, _ := s.Additional(team("b"), other.Name, is4)
						for _, tier := range tiers {
							if tier.Contains(addr(text)) {
								t.Errorf("%s is an additional address of a stranger", text)
							}
						}
					}
				}
				if n := len(s.Policy("closed").Ranges); (n == 2) != (state == "ready") {
					t.Errorf("it draws from %d ranges", n)
				}
			})
		}
	}
}
