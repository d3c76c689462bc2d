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
		w := randomInputs(random)
		o := newOracle(w) // which knows equality alone
		for _, p := range w.Policies {
			p.Spec.Enforcement = []v1alpha1.Enforcement{v1alpha1.EnforcementAPIServer, v1alpha1.EnforcementAPIServer, v1alpha1.EnforcementWebhook, ""}[random.IntN(4)]
			expressions(random, p.Spec.NamespaceSelector)
			expressions(random, p.Spec.ServiceSelector)
		}
		s := Compile(w)
		enforced := s.Enforce(plenty)
		if len(enforced.LeftOut) > 0 {
			t.Fatalf("inputs %d: left out %v", seed, enforced.LeftOut)
		}
		for _, universe := range universes() {
			for _, a := range universe {
				f := o.facts(a)
				enforces := f.owner >= 0 && o.ranked[f.owner].Spec.Enforcement == v1alpha1.EnforcementAPIServer
				for _, svc := range services() {
					want := !enforces || s.MayHold(a, svc) == nil
					entry, may := admits(enforced.Spec, a, svc)
					if may != want {
						t.Fatalf("inputs %d: %s for %s %v in %v: %v by %+v, want %v", seed, a, svc, svc.Labels, svc.NamespaceLabels, may, entry, want)
					}
					if !may {
						closed++
						if refusal := s.MayHold(a, svc); refusal.Policy != entry.Policy {
							t.Fatalf("inputs %d: %s is refused by %s, want %s", seed, a, entry.Policy, refusal.Policy)
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

// A table that would be too large has the best policies; the others are named.
func TestEnforceHasRoomForTheBest(t *testing.T) {
	w := tenants(20)
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

// tenants are the inputs of many policies, each with a range of both families for its own namespaces.
func tenants(policies int) Inputs {
	var w Inputs
	for i := range policies {
		name := fmt.Sprint("tenant-", i)
		w.ServiceCIDRs = append(w.ServiceCIDRs, ready(name, fmt.Sprintf("10.%d.%d.0/24", i/256, i%256), fmt.Sprintf("fd00::%x:0/112", i)))
		p := with(policy(name, 0), of(name), exclusive, coolsFor(time.Hour), reserves("r", fmt.Sprintf("10.%d.%d.9", i/256, i%256), "ns/a"))
		p.Spec.NamespaceSelector = &metav1.LabelSelector{MatchLabels: map[string]string{"tenant": name}}
		w.Policies = append(w.Policies, p)
	}
	w.ServiceCIDRs = append(w.ServiceCIDRs, ready("kubernetes", "10.96.0.0/12", "fd01::/112"))
	return w
}
