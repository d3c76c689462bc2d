package steering

import (
	"strings"
	"testing"

	"github.com/clusterip-operator/clusterip-operator/allocator"
	"github.com/clusterip-operator/clusterip-operator/api/v1alpha1"
)

func allocates(a v1alpha1.Allocation) func(*v1alpha1.ServiceCIDRPolicySpec) {
	return func(s *v1alpha1.ServiceCIDRPolicySpec) { s.Allocation = a }
}

var cordon, byRequest = allocates(v1alpha1.AllocationCordoned), allocates(v1alpha1.AllocationByRequest)

// The strictest of the policies that have a range counts, whatever their priorities.
func TestRestriction(t *testing.T) {
	red, part := ready("red", "10.0.1.0/24", "fd00:1::/120"), ready("part", "10.0.1.128/25", "fd00:1::80/121")
	for name, tc := range map[string]struct {
		policies []*v1alpha1.ServiceCIDRPolicy
		want     string // the policy of 10.0.1.200 and of fd00:1::c8
	}{
		"none":                  {[]*v1alpha1.ServiceCIDRPolicy{with(policy("a", 0), of("red"))}, ""},
		"by request":            {[]*v1alpha1.ServiceCIDRPolicy{with(policy("a", 0), of("red"), byRequest)}, "a"},
		"of a range around":     {[]*v1alpha1.ServiceCIDRPolicy{with(policy("a", 9), of("part")), with(policy("b", 0), of("red"), cordon)}, "b"},
		"the strictest":         {[]*v1alpha1.ServiceCIDRPolicy{with(policy("a", 9), of("red"), byRequest), with(policy("b", 0), of("red"), cordon)}, "b"},
		"of equals the best":    {[]*v1alpha1.ServiceCIDRPolicy{with(policy("a", 0), of("red"), cordon), with(policy("b", 9), of("part"), cordon)}, "b"},
		"not of a lost range":   {[]*v1alpha1.ServiceCIDRPolicy{with(policy("a", 9), of("red"), exclusive), with(policy("b", 0), of("red"), cordon)}, ""},
		"of the owner":          {[]*v1alpha1.ServiceCIDRPolicy{with(policy("a", 9), of("red"), exclusive, cordon), with(policy("b", 0), of("red"))}, "a"},
		"not of another range":  {[]*v1alpha1.ServiceCIDRPolicy{with(policy("a", 9), of("elsewhere"), cordon)}, ""},
		"of no range at all":    {[]*v1alpha1.ServiceCIDRPolicy{with(policy("a", 9), cordon)}, ""},
		"whomever it selects":   {[]*v1alpha1.ServiceCIDRPolicy{with(policy("a", 9), of("red"), cordon, selecting("red"))}, "a"},
		"of a policy as before": {[]*v1alpha1.ServiceCIDRPolicy{with(policy("a", 9), of("red"), allocates(""))}, ""},
	} {
		t.Run(name, func(t *testing.T) {
			s := Compile(inputs(serviceCIDRs{red, part, ready("elsewhere", "10.9.0.0/24")}, tc.policies...))
			for _, a := range []string{"10.0.1.200", "fd00:1::c8"} {
				got := ""
				if by := s.Restriction(addr(a)); by != nil {
					got = by.Name
				}
				if got != tc.want {
					t.Errorf("%s is restricted by %q, want %q", a, got, tc.want)
				}
			}
		})
	}
}

// A refusal says what can be done: to the user, and to admins who have a policy to change.
func TestWhatIsSaidOfWithheldRanges(t *testing.T) {
	red := ready("red", "10.0.1.0/24", "fd00:1::/120")
	for name, tc := range map[string]struct {
		do           func(*v1alpha1.ServiceCIDRPolicySpec)
		told, reason string
	}{
		"cordoned": {cordon, `ServiceCIDRPolicy "a": no IPv6 address is drawn for this Service: its range is cordoned; ask an administrator`,
			`no IPv6 address is drawn from its ranges (fd00:1::/120), which are cordoned by ServiceCIDRPolicy "a"; set allocation: Automatic there`},
		"by request": {byRequest, `ServiceCIDRPolicy "a": no IPv6 address is drawn for this Service: its range gives addresses by request only; choose one in spec.clusterIPs`,
			`which are by request only by ServiceCIDRPolicy "a"`},
	} {
		t.Run(name, func(t *testing.T) {
			s := Compile(inputs(serviceCIDRs{red}, with(policy("a", 0), of("red"), fails, tc.do)))
			r := s.Full(s.Route(team("x"), allocator.IPv6), allocator.IPv6)
			if r == nil || !strings.HasPrefix(r.Message, tc.told) || !strings.Contains(r.Reason, tc.reason) {
				t.Errorf("got %+v", r)
			}
		})
	}
	t.Run("no policy refuses, and the API server may not look by itself", func(t *testing.T) {
		s := Compile(inputs(serviceCIDRs{red}, with(policy("a", 0), of("red"), cordon)))
		if r := s.Full(s.Route(team("x"), allocator.IPv4), allocator.IPv4); r == nil || !strings.Contains(r.Reason, "cordoned") {
			t.Errorf("got %+v", r)
		}
	})
	t.Run("an additional address", func(t *testing.T) {
		additional := func(s *v1alpha1.ServiceCIDRPolicySpec) { s.AdditionalAddresses = true }
		s := Compile(inputs(serviceCIDRs{red}, with(policy("a", 0), of("red"), additional, cordon)))
		if _, r := s.Additional(team("x"), "red", allocator.IPv4); r == nil || !strings.Contains(r.Message, `"a": ServiceCIDR red is cordoned`) {
			t.Errorf("cordoned: got %+v", r)
		}
		s = Compile(inputs(serviceCIDRs{red}, with(policy("a", 0), of("red"), additional, byRequest)))
		if tiers, r := s.Additional(team("x"), "red", allocator.IPv4); r != nil || len(tiers) == 0 {
			t.Errorf("by request: got %v, %+v", tiers, r)
		}
	})
}
