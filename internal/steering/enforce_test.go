package steering

import (
	"fmt"
	"math/rand/v2"
	"net/netip"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"

	"github.com/clusterip-operator/clusterip-operator/allocator"
	"github.com/clusterip-operator/clusterip-operator/api/v1alpha1"
	"github.com/clusterip-operator/clusterip-operator/internal/addressindex"
)

const plenty = 1 << 20

// admits reads the data as the API server does for a chosen address, and returns the policy of the
// line by which it decides.
func admits(t *testing.T, data map[string]string, a netip.Addr, svc Service) (policy string, may bool) {
	t.Helper()
	return decides(t, data, a, svc, false)
}

// decides is admits for an address that the Service chose, or that the API server drew.
func decides(t *testing.T, data map[string]string, a netip.Addr, svc Service, drawn bool) (policy string, may bool) {
	t.Helper()
	family := "ipv6-lengths"
	if a.Is4() {
		family = "ipv4-lengths"
	}
	for length := range strings.FieldsSeq(data[family]) {
		var bits, part int
		if _, err := fmt.Sscanf(length, "%d/%d", &bits, &part); err != nil {
			t.Fatal(err)
		}
		p, _ := a.Prefix(bits)
		network, _ := a.Prefix(part)
		key := strings.ReplaceAll(strings.ReplaceAll(network.String(), "/", "-"), ":", "_")
		_, after, found := strings.Cut(data[fmt.Sprintf("%d-%s", bits, key)], "\n"+p.String()+" ")
		if !found {
			continue
		}
		line, _, _ := strings.Cut(after, "\n")
		words := strings.SplitN(line, " ", 3)
		if words[1] == "asked" {
			if drawn {
				return words[0], false
			}
			words = strings.SplitN(words[2], " ", 3)
		}
		switch words[1] {
		case "cordoned":
			return words[0], false
		case "open":
			return words[0], true
		case "closed":
			return words[0], false
		case "service":
			return words[0], words[2] == svc.String()
		}
		all := strings.Split(data["selectors"], "\n\n")
		return words[0], slices.ContainsFunc(strings.Split(words[2], " "), func(position string) bool {
			i, err := strconv.Atoi(position)
			return err == nil && fulfils(strings.Split(all[i], "\n"), svc)
		})
	}
	return "", true
}

func fulfils(lines []string, svc Service) bool {
	return !slices.ContainsFunc(lines, func(line string) bool {
		words := strings.Split(line, " ")
		labels := map[string]map[string]string{"namespace": svc.NamespaceLabels, "service": svc.Labels}[words[0]]
		value, has := labels[words[2]]
		switch words[1] {
		case "In":
			return !has || !slices.Contains(strings.Split(words[3], ","), value)
		case "NotIn":
			return has && slices.Contains(strings.Split(words[3], ","), value)
		case "Exists":
			return !has
		case "DoesNotExist":
			return has
		default:
			panic(line)
		}
	})
}

// expressions turns selectors by equality into expressions that say the same.
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

// enforced is what the API server should say of an address that a Service chose, or that it drew:
// the policy that refuses, empty if none does.
func (o oracle) enforced(s *Compiled, a netip.Addr, svc Service, drawn bool) string {
	f := o.facts(a)
	byAPIServer := func(i int) bool { return o.ranked[i].Spec.Enforcement != v1alpha1.EnforcementWebhook }
	allocation, by := o.strictest(a, byAPIServer)
	enforces := f.owner >= 0 && byAPIServer(f.owner)
	switch {
	case allocation == v1alpha1.AllocationCordoned:
		return o.ranked[by].Name
	case f.of >= 0 && (enforces || by >= 0):
		if f.reservation.For != svc.String() {
			return o.ranked[f.of].Name
		}
	case allocation == v1alpha1.AllocationByRequest && drawn:
		return o.ranked[by].Name
	case enforces && s.Keeps(a, svc) != nil: // by selectors of which the oracle knows equality alone
		return o.ranked[f.owner].Name
	}
	return ""
}

// The API server enforces what MayHold says, of every closed address to every Service, and no more;
// and refuses what it draws where nothing is drawn.
func TestEnforceSaysWhatMayHoldSays(t *testing.T) {
	closed, seeds := map[bool]int{}, uint64(120)
	if testing.Short() {
		seeds = 40
	}
	for seed := range seeds {
		random := rand.New(rand.NewPCG(seed, 4))
		w := randomInputs(random)
		o := newOracle(w) // which knows equality alone
		for _, p := range w.Policies {
			p.Spec.Enforcement = []v1alpha1.Enforcement{v1alpha1.EnforcementAPIServer, "", v1alpha1.EnforcementWebhook}[random.IntN(3)]
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
				for _, svc := range services() {
					for _, drawn := range []bool{false, true} {
						want := o.enforced(s, a, svc, drawn)
						policy, may := decides(t, enforced.Data, a, svc, drawn)
						if may != (want == "") || !may && policy != want {
							t.Fatalf("inputs %d: %s for %s %v in %v, drawn %v: %v by %s, want a refusal by %q of %v", seed, a, svc, svc.Labels, svc.NamespaceLabels, drawn, may, policy, want, enforced.Data)
						}
						if !may && !drawn && s.MayHold(a, svc) == nil {
							t.Fatalf("inputs %d: %s is refused to %s by %s, but not by MayHold", seed, a, svc, policy)
						}
						if !may {
							closed[drawn]++
						}
					}
				}
			}
		}
	}
	if closed[false] < 1000 || closed[true] < closed[false]+1000 {
		t.Errorf("only %v refusals were compared", closed)
	}
}

// A table that would be too large has the best policies; the rest are named.
func TestEnforceHasRoomForTheBest(t *testing.T) {
	w := tenants(20)
	for i, p := range w.Policies {
		p.Spec.Enforcement, p.Spec.Priority = v1alpha1.EnforcementAPIServer, int32(100-i)
	}
	s := Compile(w)
	got := s.Enforce(1_500)
	if len(got.LeftOut) == 0 || len(got.LeftOut) == 20 || got.LeftOut[0] != fmt.Sprint("tenant-", 20-len(got.LeftOut)) {
		t.Fatalf("left out: %v", got.LeftOut)
	}
	if n := size(got.Data); n > 1_500 || n < 700 { // selectors have an eighth of the room
		t.Errorf("%d bytes", n)
	}
	for i := range 20 {
		a := addr(fmt.Sprintf("10.0.%d.7", i))
		if _, may := admits(t, got.Data, a, Service{}); may != slices.Contains(got.LeftOut, fmt.Sprint("tenant-", i)) {
			t.Errorf("a stranger may have %s: %v", a, may)
		}
	}
}

func size(data map[string]string) (n int) {
	for key, value := range data {
		n += len(key) + len(value)
	}
	return n
}

// The API server searches a short text, however many ranges there are, and copies few keys.
func TestEnforceWritesParts(t *testing.T) {
	w := tenants(1000)
	for _, p := range w.Policies {
		p.Spec.Enforcement = v1alpha1.EnforcementAPIServer
	}
	data := Compile(w).Enforce(plenty).Data
	if data["ipv4-lengths"] != "32/19 24/19" || data["ipv6-lengths"] != "112/107" || len(data) != 3*parts+3 {
		t.Errorf("%d keys, lengths %q and %q", len(data), data["ipv4-lengths"], data["ipv6-lengths"])
	}
	for key, text := range data {
		if key != selectorsKey && len(text) > 5_000 {
			t.Errorf("%s has %d bytes", key, len(text))
		}
	}
	for i := range 1000 {
		a := addr(fmt.Sprintf("10.%d.%d.7", i/256, i%256))
		own := Service{NamespaceLabels: map[string]string{"tenant": fmt.Sprint("tenant-", i)}}
		_, stranger := admits(t, data, a, Service{})
		if _, may := admits(t, data, a, own); stranger || !may {
			t.Errorf("%s: a stranger %v, its own Service %v", a, stranger, may)
		}
	}
}

// What users write has no place in the data but between the separators.
func TestEnforceWritesLines(t *testing.T) {
	w := Inputs{ServiceCIDRs: []addressindex.ServiceCIDR{ready("red", "10.120.0.0/25", "fd00:120::/112")}}
	p := with(policy("red", 0), of("red"), exclusive, reserves("dns", "10.120.0.9", "team/web"), reserves("later", "fd00:120::10/127", ""))
	p.Spec.NamespaceSelector = &metav1.LabelSelector{
		MatchLabels: map[string]string{"tenant": "red"},
		MatchExpressions: []metav1.LabelSelectorRequirement{
			{Key: "example.com/zone", Operator: metav1.LabelSelectorOpNotIn, Values: []string{"b", "", "a"}},
			{Key: "old", Operator: metav1.LabelSelectorOpDoesNotExist},
		},
	}
	p.Spec.ServiceSelector = &metav1.LabelSelector{MatchLabels: map[string]string{"empty": ""}}
	w.Policies = append(w.Policies, p)
	want := map[string]string{
		"ipv4-lengths": "32/0 25/0", "ipv6-lengths": "127/0 112/0",
		"25-0.0.0.0-0": "\n10.120.0.0/25 red selectors 0",
		"32-0.0.0.0-0": "\n10.120.0.9/32 red service team/web",
		"112-__-0":     "\nfd00:120::/112 red selectors 0",
		"127-__-0":     "\nfd00:120::10/127 red closed",
		"selectors": "namespace NotIn example.com/zone ,a,b\nnamespace DoesNotExist old\nnamespace In tenant red\n" +
			"service In empty ",
	}
	if diff := cmp.Diff(want, Compile(w).Enforce(plenty).Data); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
}

// A selector that selects nothing has no requirements, as one that selects everything has none.
func TestASelectorOfNothingOpensNothing(t *testing.T) {
	for _, nothing := range []selector{
		{namespaces: labels.Nothing(), services: labels.Everything()}, {namespaces: labels.Everything(), services: labels.Nothing()},
	} {
		if i, ok := (&table{}).selector(&Policy{selector: nothing}); ok {
			t.Errorf("%v has the selector %d", nothing, i)
		}
	}
}

// Ranges that are closed by the webhook alone take no room, unless they lie in one that is
// enforced.
func TestEnforceLeavesOutWhatIsNotEnforced(t *testing.T) {
	w := tenants(3)
	for i, p := range w.Policies {
		p.Spec.Enforcement = []v1alpha1.Enforcement{v1alpha1.EnforcementAPIServer, v1alpha1.EnforcementWebhook, v1alpha1.EnforcementWebhook}[i]
	}
	inner := with(policy("inner", 9), of("inner"), exclusive, selecting("b"))
	inner.Spec.Enforcement = v1alpha1.EnforcementWebhook
	w.Policies = append(w.Policies, inner)
	w.ServiceCIDRs = append(w.ServiceCIDRs, ready("inner", "10.0.0.128/28", "fd00::8000/124"))
	data := Compile(w).Enforce(plenty).Data
	for text, want := range map[string]bool{
		"10.0.0.0/24": true, "fd00::/112": true, "10.0.0.128/28 inner open": true, "fd00::8000/124 inner open": true,
		"10.0.1.0/24": false, "fd00::1:0/112": false, "10.0.2.0/24": false,
	} {
		got := false
		for _, lines := range data {
			got = got || strings.Contains(lines, "\n"+text)
		}
		if got != want {
			t.Errorf("%s is entered: %v, want %v", text, got, want)
		}
	}
}

// Selectors have a part of the room, for what their evaluation costs has a limit, too.
func TestEnforceBoundsWhatSelectorsCost(t *testing.T) {
	w := tenants(20)
	for i, p := range w.Policies {
		p.Spec.Priority = int32(100 - i)
		for j := range 100 {
			values := []string{strings.Repeat("v", 63), fmt.Sprint("v", j)}
			p.Spec.NamespaceSelector.MatchExpressions = append(p.Spec.NamespaceSelector.MatchExpressions,
				metav1.LabelSelectorRequirement{Key: fmt.Sprint("k", j), Operator: metav1.LabelSelectorOpIn, Values: values})
		}
	}
	got := Compile(w).Enforce(100_000)
	if n := len(got.Data[selectorsKey]); n > 12_500 || n < 5_000 || len(got.LeftOut) < 15 {
		t.Errorf("%d bytes of selectors, left out %v", n, got.LeftOut)
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

// tenants are many policies, each with a range of both families for its own namespaces.
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
