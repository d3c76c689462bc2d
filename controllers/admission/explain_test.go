package admission

import (
	"fmt"
	"math/rand/v2"
	"net/netip"
	"slices"
	"testing"

	corev1 "k8s.io/api/core/v1"
	networkingv1 "k8s.io/api/networking/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/clusterip-operator/clusterip-operator/api/v1alpha1"
	"github.com/clusterip-operator/clusterip-operator/internal/addressindex"
)

// randomSetting has small ranges of both families, and policies that want them.
func randomSetting(r *rand.Rand) setting {
	s := setting{cidrs: []*networkingv1.ServiceCIDR{rangeOf("kubernetes", "10.0.0.0/28", "fd00::/124"), rangeOf("blue", "10.0.1.0/29", "fd00:1::/125"), rangeOf("green", "10.0.2.0/29")}}
	names := []string{"kubernetes", "blue", "green", "gone"}
	for i := range r.IntN(4) {
		s.policies = append(s.policies, policyOfRanges(fmt.Sprint("p", i), func(spec *v1alpha1.ServiceCIDRPolicySpec) {
			spec.Exclusive, spec.Priority = r.IntN(2) == 0, int32(r.IntN(3))
			spec.OnFull = []v1alpha1.OnFull{v1alpha1.OnFullFail, v1alpha1.OnFullFallback, ""}[r.IntN(3)]
			if r.IntN(3) == 0 {
				spec.NamespaceSelector = &metav1.LabelSelector{MatchLabels: map[string]string{"team": []string{"ns", "other"}[r.IntN(2)]}}
			}
			if r.IntN(2) == 0 {
				spec.ServiceSelector = &metav1.LabelSelector{MatchLabels: map[string]string{"tier": "web"}}
			}
			spec.AdditionalAddresses = r.IntN(2) == 0
			if r.IntN(3) == 0 {
				spec.Reservations = []v1alpha1.Reservation{{Name: "r", Address: fmt.Sprint("10.0.", r.IntN(3), ".", 1+r.IntN(6)), For: []string{"", "ns/s3"}[r.IntN(2)]}}
			}
		}, names[r.IntN(4)], names[r.IntN(2)]))
	}
	return s
}

func randomService(r *rand.Rand, name string) *corev1.Service {
	s := corev1Service(name)
	switch r.IntN(8) {
	case 0:
		s = corev1Service(name, fmt.Sprint("10.0.", r.IntN(3), ".", 1+r.IntN(6)))
	case 1:
		s = corev1Service(name, corev1.ClusterIPNone)
	case 2:
		s.Annotations = map[string]string{v1alpha1.AnnotationAdditionalFrom: "blue"}
	case 3, 4:
		s = dualStack(s)
	}
	if r.IntN(2) == 0 {
		s.Labels = map[string]string{"tier": "web"}
	}
	return s
}

// TestExplainedAsAnswered fills random clusters with Services. Each is explained, then answered.
func TestExplainedAsAnswered(t *testing.T) {
	refused, drawn := 0, 0
	for seed := range uint64(25) {
		r := rand.New(rand.NewPCG(seed, 1))
		c := newCluster(t, randomSetting(r))
		for i := range 40 {
			s := randomService(r, fmt.Sprint("s", i))
			explained, err := c.steerer.Explain(t.Context(), s)
			if err != nil {
				t.Fatal(err)
			}
			got := c.create(t, s)
			if got.Allowed != (explained.Refused == "") || !got.Allowed && got.Message != explained.Refused || !slices.Equal(got.Warnings, explained.Warnings) {
				t.Fatalf("seed %d, %s: answered %+v, explained %+v", seed, s.Name, got, explained)
			}
			if !got.Allowed {
				refused++
				continue
			}
			drawn += expectDrawnAsExplained(t, explained, got)
			ips := got.IPs
			if len(ips) == 0 && len(explained.Chosen) > 0 {
				ips = s.Spec.ClusterIPs
			}
			if len(ips) > 0 && c.accept(s.Name, ips...) == nil {
				await(t, "the IPAddresses and the Service have arrived", func() bool {
					index := c.steerer.Index
					return index.InFlight() == 0 && !slices.ContainsFunc(ips, func(ip string) bool { return len(index.Claims(netip.MustParseAddr(ip))) == 0 })
				})
			}
		}
	}
	if refused < 50 || drawn < 200 {
		t.Errorf("%d refusals and %d addresses show little", refused, drawn)
	}
}

// What is in flight is not free to be drawn, so the step that has nothing else is not the first.
func TestExplainedWhileInFlight(t *testing.T) {
	for family, prefix := range map[corev1.IPFamily]string{corev1.IPv4Protocol: "10.0.1.0/29", corev1.IPv6Protocol: "fd00:1::/125"} {
		c := newCluster(t, blue(func(s *v1alpha1.ServiceCIDRPolicySpec) { s.OnFull = v1alpha1.OnFullFallback }))
		for _, ip := range usableOf(prefix) {
			c.steerer.Index.Take(netip.MustParseAddr(ip), addressindex.Holder{Service: types.NamespacedName{Namespace: "other", Name: "s"}})
		}
		service := corev1Service("a")
		service.Spec.IPFamilies = []corev1.IPFamily{family}
		explained, err := c.steerer.Explain(t.Context(), service)
		if err != nil {
			t.Fatal(err)
		}
		order := explained.Drawn[0].Order
		if i := slices.IndexFunc(order, func(s Step) bool { return s.Free > 0 }); i < 0 || order[i].Policy != "" {
			t.Errorf("all of %s is in flight, and explained is %+v", prefix, order)
		}
		if got := c.create(t, service); slices.Contains(usableOf(prefix), got.IP) || got.IP == "" {
			t.Errorf("the answer is %+v", got)
		}
	}
}

// expectDrawnAsExplained returns how many addresses were drawn.
func expectDrawnAsExplained(t *testing.T, e Explanation, got answer) (drawn int) {
	t.Helper()
	fresh := got.IPs[min(len(got.IPs), len(e.Chosen)):]
	for i, ip := range fresh {
		from, a := e.Drawn[i], netip.MustParseAddr(ip)
		if len(from.Reserved) > 0 {
			if from.Reserved[0] != a {
				t.Errorf("%s is given, of the reserved %v", ip, from.Reserved)
			}
			continue
		}
		first := slices.IndexFunc(from.Order, func(s Step) bool { return s.Free > 0 })
		if first < 0 || !from.Order[first].Contains(a) {
			t.Errorf("%s is given, explained was %+v", ip, from)
		}
		if !slices.ContainsFunc(from.Order[max(first, 0)].Ranges, func(text string) bool { return netip.MustParsePrefix(text).Contains(a) }) {
			t.Errorf("%s is given, the ranges were to be %v", ip, from.Order[max(first, 0)].Ranges)
		}
		for _, v := range from.Policies {
			if v.Policy == from.Order[max(first, 0)].Policy && !v.Steers {
				t.Errorf("%s came from policy %s, which %s", ip, v.Policy, v.Why)
			}
		}
	}
	return len(fresh)
}
