package steering

import (
	"net/netip"
	"slices"
	"testing"
	"time"

	gocmp "github.com/google/go-cmp/cmp"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/clusterip-operator/clusterip-operator/allocator"
	"github.com/clusterip-operator/clusterip-operator/api/v1alpha1"
	"github.com/clusterip-operator/clusterip-operator/internal/addressindex"
)

// with changes a policy, and returns it.
func with(p *v1alpha1.ServiceCIDRPolicy, do ...func(*v1alpha1.ServiceCIDRPolicySpec)) *v1alpha1.ServiceCIDRPolicy {
	for _, f := range do {
		f(&p.Spec)
	}
	return p
}

func of(names ...string) func(*v1alpha1.ServiceCIDRPolicySpec) {
	return func(s *v1alpha1.ServiceCIDRPolicySpec) { s.ServiceCIDRs = names }
}

func exclusive(s *v1alpha1.ServiceCIDRPolicySpec) { s.Exclusive = true }

func fails(s *v1alpha1.ServiceCIDRPolicySpec) { s.OnFull = v1alpha1.OnFullFail }

func coolsFor(d time.Duration) func(*v1alpha1.ServiceCIDRPolicySpec) {
	return func(s *v1alpha1.ServiceCIDRPolicySpec) { s.CoolDown = &metav1.Duration{Duration: d} }
}

func selecting(label string) func(*v1alpha1.ServiceCIDRPolicySpec) {
	return func(s *v1alpha1.ServiceCIDRPolicySpec) {
		s.ServiceSelector = &metav1.LabelSelector{MatchLabels: map[string]string{"team": label}}
	}
}

func reserves(name, address, service string) func(*v1alpha1.ServiceCIDRPolicySpec) {
	return func(s *v1alpha1.ServiceCIDRPolicySpec) {
		s.Reservations = append(s.Reservations, v1alpha1.Reservation{Name: name, Address: address, For: service})
	}
}

func ready(name string, cidrs ...string) addressindex.ServiceCIDR {
	c := addressindex.ServiceCIDR{Name: name, Ready: true}
	for _, text := range cidrs {
		c.Ranges = append(c.Ranges, allocator.MustParseRange(text))
	}
	return c
}

func team(label string) Service {
	return Service{NamespacedName: types.NamespacedName{Namespace: "ns", Name: label}, Labels: map[string]string{"team": label}}
}

func addr(text string) netip.Addr { return netip.MustParseAddr(text) }

type serviceCIDRs = []addressindex.ServiceCIDR

func inputs(cidrs serviceCIDRs, policies ...*v1alpha1.ServiceCIDRPolicy) Inputs {
	return Inputs{Policies: policies, ServiceCIDRs: cidrs}
}

// summary is a Policy for people.
func summary(p *Policy) []string {
	var out []string
	for _, r := range p.Ranges {
		out = append(out, "has "+r.ServiceCIDR+" "+r.Range.String())
	}
	for _, r := range p.Reservations {
		out = append(out, "reserves "+r.Name+" "+r.Span.String())
	}
	for what, list := range map[string][]string{"missing ": p.Missing, "unready ": p.Unready, "deleting ": p.Deleting, "invalid ": p.Invalid} {
		for _, text := range list {
			out = append(out, what+text)
		}
	}
	slices.Sort(out)
	for _, c := range p.Conflicts {
		kind := "conflict "
		if slices.Contains(p.Lost, c) {
			kind = "lost "
		}
		out = append(out, kind+c)
	}
	return out
}

// Which policy wins which range, what the losers are told, and that what is missing is named.
func TestConflicts(t *testing.T) {
	blue, red := ready("blue", "10.0.0.0/24", "fd00::/120"), ready("red", "10.0.1.0/24")
	for name, tc := range map[string]struct {
		inputs Inputs
		of     string
		want   []string
	}{
		"an exclusive range is lost to the better policy": {
			inputs(serviceCIDRs{blue, red}, with(policy("best", 9), of("blue"), exclusive), with(policy("worse", 1), of("blue", "red"))), "worse",
			[]string{
				"has red 10.0.1.0/24",
				`lost ServiceCIDR blue (10.0.0.0/24): ServiceCIDRPolicy "best" has 10.0.0.0/24 for itself, and outranks this one`,
				`lost ServiceCIDR blue (fd00::/120): ServiceCIDRPolicy "best" has fd00::/120 for itself, and outranks this one`,
			}},
		"the winner hears nothing of it": {
			inputs(serviceCIDRs{blue}, with(policy("best", 9), of("blue"), exclusive), with(policy("worse", 1), of("blue"))), "best",
			[]string{"has blue 10.0.0.0/24", "has blue fd00::/120"}},
		"an exclusive policy shares with a better one that is not": {
			inputs(serviceCIDRs{red}, with(policy("best", 9), of("red")), with(policy("worse", 1), of("red"), exclusive)), "worse",
			[]string{"has red 10.0.1.0/24", `conflict ServiceCIDR red (10.0.1.0/24): it is shared with ServiceCIDRPolicy "best", which outranks this one and has 10.0.1.0/24`}},
		"two that want nothing for themselves have no conflict": {
			inputs(serviceCIDRs{red}, with(policy("best", 9), of("red")), with(policy("worse", 1), of("red"))), "worse", []string{"has red 10.0.1.0/24"}},
		"an equal range of another ServiceCIDR is the same range": {
			inputs(serviceCIDRs{red, ready("twin", "10.0.1.0/24")}, with(policy("best", 9), of("red"), exclusive), with(policy("worse", 1), of("twin"))), "worse",
			[]string{`lost ServiceCIDR twin (10.0.1.0/24): ServiceCIDRPolicy "best" has 10.0.1.0/24 for itself, and outranks this one`}},
		"a range inside of an exclusive one is lost": {
			inputs(serviceCIDRs{red, ready("part", "10.0.1.128/25")}, with(policy("best", 9), of("red"), exclusive), with(policy("worse", 1), of("part"))), "worse",
			[]string{`lost ServiceCIDR part (10.0.1.128/25): ServiceCIDRPolicy "best" has 10.0.1.0/24 for itself, and outranks this one`}},
		"a range around an exclusive one is kept, without the part": {
			inputs(serviceCIDRs{red, ready("part", "10.0.1.128/25")}, with(policy("best", 9), of("part"), exclusive), with(policy("worse", 1), of("red"))), "worse",
			[]string{"has red 10.0.1.0/24",
				`conflict ServiceCIDR red (10.0.1.0/24): its part 10.0.1.128/25 belongs to ServiceCIDRPolicy "best", which outranks this one`}},
		"what is not there is named": {
			inputs(serviceCIDRs{red, {Name: "new", Ranges: blue.Ranges}, {Name: "old", Ranges: blue.Ranges, Ready: true, Terminating: true}},
				with(policy("it", 0), of("red", "new", "old", "gone"))), "it",
			[]string{"deleting old", "has red 10.0.1.0/24", "missing gone", "unready new"}},
		"the same policy twice selects once": {
			inputs(serviceCIDRs{red}, with(policy("it", 0), of("red", "red"))), "it", []string{"has red 10.0.1.0/24"}},
		"a reservation that a better policy has a part of": {
			inputs(nil, with(policy("best", 9), reserves("r", "10.0.0.4-10.0.0.5", "")), with(policy("worse", 1), reserves("s", "10.0.0.2-10.0.0.9", "ns/a"))), "worse",
			[]string{"reserves s 10.0.0.2-10.0.0.3", "reserves s 10.0.0.6-10.0.0.9",
				`lost reservation s: ServiceCIDRPolicy "best", which outranks this one, has 10.0.0.4-10.0.0.5`}},
		"a reservation in what is not ready": {
			inputs(serviceCIDRs{red, {Name: "new", Ranges: blue.Ranges}, {Name: "old", Ranges: blue.Ranges, Terminating: true}},
				with(policy("it", 0), of("red"), reserves("r", "10.0.0.4", "ns/a"), reserves("six", "fd00::4", ""), reserves("s", "10.0.1.4", ""), reserves("t", "10.9.9.9", ""))), "it",
			[]string{"has red 10.0.1.0/24", "reserves r 10.0.0.4-10.0.0.4", "reserves s 10.0.1.4-10.0.1.4", "reserves six fd00::4-fd00::4", "reserves t 10.9.9.9-10.9.9.9", "unready new"}},
		"a reservation in what one ServiceCIDR offers and another one will": {
			inputs(serviceCIDRs{blue, {Name: "new", Ranges: blue.Ranges}}, with(policy("it", 0), reserves("r", "10.0.0.4", ""))), "it", []string{"reserves r 10.0.0.4-10.0.0.4"}},
		"a second choice": {
			inputs(serviceCIDRs{blue, red}, with(policy("best", 9), of("blue")), with(policy("worse", 1), of("red"))), "worse", []string{"has red 10.0.1.0/24"}},
	} {
		t.Run(name, func(t *testing.T) {
			if d := gocmp.Diff(tc.want, summary(Compile(tc.inputs).Policy(tc.of))); d != "" {
				t.Errorf("%s (-want +got):\n%s", tc.of, d)
			}
		})
	}
}

func TestNothingToCompile(t *testing.T) {
	s := Compile(Inputs{})
	if r := s.Route(team("a"), allocator.IPv4); len(r.Tiers) != 0 || r.Fails || len(r.Policies) != 0 {
		t.Errorf("a route without any range: %+v", r)
	}
	if r := s.MayHold(addr("10.0.0.1"), team("a")); r != nil {
		t.Errorf("refused without policies: %v", r)
	}
	if tiers, r := s.Additional(team("a"), "none", allocator.IPv6); tiers != nil || r == nil || s.Knows("none") || s.closes[allocator.IPv4] > 0 || len(s.Families()) != 0 {
		t.Errorf("additional from nowhere: %v, %v", tiers, r)
	}
}

func TestFamiliesAreThoseOfTheDefaultServiceCIDR(t *testing.T) {
	four, six := "10.0.0.0/16", "fd00::/112"
	for _, tc := range []struct {
		cidrs []string
		want  []allocator.Family
	}{
		{[]string{four}, []allocator.Family{allocator.IPv4}},
		{[]string{six}, []allocator.Family{allocator.IPv6}},
		{[]string{four, six}, []allocator.Family{allocator.IPv4, allocator.IPv6}},
		{[]string{six, four}, []allocator.Family{allocator.IPv6, allocator.IPv4}},
	} {
		s := Compile(inputs(serviceCIDRs{ready("other", "10.1.0.0/16", "fd01::/112"), ready("kubernetes", tc.cidrs...)}))
		if got := s.Families(); !slices.Equal(got, tc.want) {
			t.Errorf("%v: families %v, want %v", tc.cidrs, got, tc.want)
		}
	}
}

// The user is told no more than the API server would tell, and which policy refuses where the API
// server would not. Admins are told the rest.
func TestRefusalTexts(t *testing.T) {
	s := Compile(inputs(serviceCIDRs{
		ready("red", "10.0.1.0/24"), ready("red-2", "10.0.2.0/24"), ready("red-3", "10.0.3.0/24"), ready("red-4", "10.0.4.0/24"), ready("blue", "10.0.9.0/24", "fd00:9::/120"),
	},
		with(policy("closed", 9), of("blue"), exclusive, selecting("b"), reserves("dns", "10.0.0.10", "kube-system/dns"), reserves("nobody", "fd00::11", "")),
		with(policy("full", 1), of("red", "red-2", "red-3", "red-4"), fails, selecting("a")),
		with(policy("absent", 0), of("gone"), fails, selecting("c")),
		with(policy("more", -1), of("blue"), selecting("a"), func(s *v1alpha1.ServiceCIDRPolicySpec) { s.AdditionalAddresses = true })))
	const elsewhere = "; choose another address, leave the choice to the cluster, or ask an administrator"
	_, additional := s.Additional(team("a"), "blue", allocator.IPv6)
	for name, tc := range map[string]struct {
		got               *Refusal
		policy, told, why string
	}{
		"closed": {s.MayHold(addr("10.0.9.1"), team("a")), "closed", `ServiceCIDRPolicy "closed": the address 10.0.9.1 is not open to this Service` + elsewhere,
			"the address 10.0.9.1 lies in a range that the policy keeps for the Services that it selects"},
		"reserved": {s.MayHold(addr("10.0.0.10"), team("b")), "closed", "failed to allocate IP 10.0.0.10: provided IP is already allocated" + elsewhere,
			`the address 10.0.0.10 is kept for Service kube-system/dns by the reservation "dns"`},
		"reserved for nobody": {s.MayHold(addr("fd00::11"), team("b")), "closed", "failed to allocate IP fd00::11: provided IP is already allocated" + elsewhere,
			`the address fd00::11 is kept from all by the reservation "nobody"`},
		"full": {s.Full(s.Route(team("a"), allocator.IPv4), allocator.IPv4), "full",
			`ServiceCIDRPolicy "full": no IPv4 address is left for this Service: range is full; delete Services that are not needed, or ask an administrator`,
			"no IPv4 address is left in its ranges (10.0.1.0/24, 10.0.2.0/24, 10.0.3.0/24 and 1 more); delete Services there, add a ServiceCIDR to the policy, or set onFull: Fallback"},
		"no range": {s.Full(s.Route(team("c"), allocator.IPv6), allocator.IPv6), "absent",
			`ServiceCIDRPolicy "absent": no IPv6 address is left for this Service: range is full; delete Services that are not needed, or ask an administrator`,
			"no IPv6 address is left in its ranges (it has no ready range); delete Services there, add a ServiceCIDR to the policy, or set onFull: Fallback"},
		"what is left is closed": {s.Full(s.Route(team("d"), allocator.IPv6), allocator.IPv6), "",
			"no IPv6 address is left for this Service: range is full; delete Services that are not needed, or ask an administrator",
			"no IPv6 address is left in the ranges that are open to this Service; other ranges are kept by ServiceCIDRPolicies for the Services that they select, by request only, or cordoned: " +
				"delete Services, or add a ServiceCIDR"},
		"additional": {additional, "closed", `ServiceCIDRPolicy "closed": ServiceCIDR blue is not open to this Service`, "the policy keeps fd00:9::/120 for the Services that it selects"},
	} {
		t.Run(name, func(t *testing.T) {
			if d := gocmp.Diff(&Refusal{tc.policy, tc.told, tc.why}, tc.got); d != "" {
				t.Errorf("(-want +got):\n%s", d)
			}
		})
	}
}

// The static band of the widest range lies around those of two more, and all of the fourth range.
func TestAnAddressThatIsStaticInAWiderRangeIsStatic(t *testing.T) {
	s := Compile(Inputs{ServiceCIDRs: serviceCIDRs{
		ready("a", "10.0.0.0/16"), ready("b", "10.0.0.0/24"), ready("c", "10.0.0.32/27"), ready("d", "10.0.0.128/26"),
	}})
	b := s.bandsOf(s.cidrs["d"].Ranges, nil)
	if len(b.dynamic) != 0 || len(b.static) != 1 || b.static[0].Size() != 62 {
		t.Errorf("dynamic %v, static %v, want 62 static addresses", b.dynamic, b.static)
	}
}
