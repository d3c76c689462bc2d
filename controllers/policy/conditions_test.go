package policy

import (
	"fmt"
	"net/netip"
	"strings"
	"testing"
	"unicode/utf8"

	"github.com/google/go-cmp/cmp"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/clusterip-operator/clusterip-operator/allocator"
	"github.com/clusterip-operator/clusterip-operator/internal/steering"
)

// aRange is a range of a policy with so many addresses allocated in its dynamic band.
func aRange(cidr string, allocated uint64) rangeUse {
	r := allocator.MustParseRange(cidr)
	use := func(b allocator.Band) bandUse {
		return bandUse{Usage: allocator.Usage{Size: r.Band(b).Size(), Free: r.Band(b).Size()}}
	}
	out := rangeUse{PolicyRange: steering.PolicyRange{ServiceCIDR: "a", Range: r}, static: use(allocator.Static), dynamic: use(allocator.Dynamic)}
	out.dynamic.Allocated, out.dynamic.Free = allocated, out.dynamic.Free-allocated
	return out
}

func absent(a, why string) absentee { return absentee{netip.MustParseAddr(a), "front", why} }

// said is a condition as one line.
func said(c *metav1.Condition) string { return fmt.Sprintf("%s %s: %s", c.Status, c.Reason, c.Message) }

func TestConditions(t *testing.T) {
	both := []rangeUse{aRange("10.0.0.0/24", 0), aRange("fd00::/120", 0)}
	const (
		valid       = "True Valid: The policy can be followed."
		noConflict  = "False NoConflict: No other policy wants the same."
		allInPlace  = "True Programmed: The ranges are ready, and the reservations are in place."
		notAll      = "False Invalid: Not all of the spec can be followed; see the condition Accepted."
		whenItFrees = " An address is kept as soon as no Service and no IPAddress has it any more."
	)
	for name, tc := range map[string]struct {
		in                                            inputs
		wantAccepted, wantConflicting, wantProgrammed string // empty: all is well
	}{
		"all is well": {in: inputs{asks: true, ranges: both, reserved: 7}},
		"reservations alone": {
			in:           inputs{reserved: 2},
			wantAccepted: "True Valid: The policy names no ServiceCIDRs: it steers no Service, and keeps its reservations.",
		},
		"invalid": {
			in:             inputs{asks: true, ranges: both, policy: &steering.Policy{Invalid: []string{"coolDown: -1s is negative", `reservations[x]: "y" is no address`}}},
			wantAccepted:   `False Invalid: coolDown: -1s is negative; reservations[x]: "y" is no address. Correct this in the spec; until then what is wrong is left out.`,
			wantProgrammed: notAll,
		},
		"invalid, so that it has no range": {
			in:             inputs{asks: true, selects: true, policy: &steering.Policy{Invalid: []string{"serviceCIDRSelector: no"}}},
			wantAccepted:   `False Invalid: serviceCIDRSelector: no. Correct this in the spec; until then what is wrong is left out.`,
			wantProgrammed: "False NoRange: The policy has no range; see the condition Accepted.",
		},
		"selectors that cannot be read, after some that could": {
			in: inputs{asks: true, ranges: both, policy: &steering.Policy{Invalid: []string{"serviceSelector: no"}, Standing: steering.AsBefore, FollowedGeneration: 2}},
			wantAccepted: "False Invalid: serviceSelector: no. Correct this in the spec; until then the policy is followed as it was in generation 2, " +
				"the last whose selectors could be read.",
			wantProgrammed: notAll,
		},
		"selectors that cannot be read, and never could": {
			in: inputs{asks: true, ranges: both, policy: &steering.Policy{Invalid: []string{"serviceSelector: no"}, Standing: steering.Closed}},
			wantAccepted: "False Invalid: serviceSelector: no. Correct this in the spec; until then the policy selects no Service, and if it is exclusive its ranges " +
				"are closed to all: since the operator was started it has seen no form of the policy whose selectors could be read.",
			wantProgrammed: notAll,
		},
		"ranges by labels that cannot be read, and never could": {
			in: inputs{asks: true, policy: &steering.Policy{Invalid: []string{"serviceCIDRSelector: no"}, Standing: steering.ClosedUnknown}},
			wantAccepted: "False Invalid: serviceCIDRSelector: no. Correct this in the spec; until then the policy selects no Service and no range: since the operator " +
				"was started it has seen no form of the policy whose selectors could be read, so it cannot tell which ranges to close, and they are open; " +
				"name them in spec.serviceCIDRs instead.",
			wantProgrammed: "False NoRange: The policy has no range; see the condition Accepted.",
		},
		"outranked": {
			in:              inputs{asks: true, ranges: both, policy: &steering.Policy{Conflicts: []string{`ServiceCIDR a (10.0.0.0/24): ServiceCIDRPolicy "q" has it`}}},
			wantConflicting: `True Outranked: ServiceCIDR a (10.0.0.0/24): ServiceCIDRPolicy "q" has it. Change one of the policies, or the order of their priorities.`,
		},
		"outranked in everything": {
			in:              inputs{asks: true, policy: &steering.Policy{Conflicts: []string{"a"}}},
			wantConflicting: "True Outranked: a. Change one of the policies, or the order of their priorities.",
			wantProgrammed:  "False NoRange: The policy has no range left; see the condition Conflicting.",
		},
		"a reserved address and a range that better policies have": {
			in: inputs{asks: true, ranges: both, reserved: 3, policy: &steering.Policy{
				Conflicts: []string{`reservation front: ServiceCIDRPolicy "q" has fd00::5`, "shared with q"}, Lost: []string{`reservation front: ServiceCIDRPolicy "q" has fd00::5`},
			}},
			wantConflicting: `True Outranked: reservation front: ServiceCIDRPolicy "q" has fd00::5; shared with q. Change one of the policies, or the order of their priorities.`,
			wantProgrammed:  `False Outranked: The policy does not have all that it asks for: reservation front: ServiceCIDRPolicy "q" has fd00::5.`,
		},
		"a ServiceCIDR that does not exist": {
			in:             inputs{asks: true, policy: &steering.Policy{Missing: []string{"a"}}},
			wantProgrammed: `False ServiceCIDRNotFound: ServiceCIDR "a" does not exist; create what is missing, or take it out of spec.serviceCIDRs.`,
		},
		"one missing, one deleted, one not ready": {
			in: inputs{asks: true, policy: &steering.Policy{Missing: []string{"a", "b"}, Deleting: []string{"c"}, Unready: []string{"d"}}},
			wantProgrammed: `False ServiceCIDRNotFound: ServiceCIDRs "a", "b" do not exist; create what is missing, or take it out of spec.serviceCIDRs. ` +
				`ServiceCIDR "c" is being deleted, and gives out no address any more; give the policy another range. ServiceCIDR "d" is not ready yet; see the condition Ready there.`,
		},
		"labels that no ServiceCIDR has": {
			in:             inputs{asks: true, selects: true},
			wantProgrammed: "False NoRange: No ServiceCIDR has the labels of spec.serviceCIDRSelector; label one, or correct the selector.",
		},
		"a ServiceCIDR of which nothing can be read": {
			in:             inputs{asks: true},
			wantProgrammed: "False NoRange: The ServiceCIDRs of the policy have no usable range.",
		},
		"a reserved address that a Service has": {
			in:             inputs{asks: true, ranges: both, reserved: 12, absent: 1, first: []absentee{absent("10.0.0.5", "Service a/b has it")}},
			wantProgrammed: "False ReservationsNotInPlace: 1 of 12 reserved addresses is not in place: 10.0.0.5 of front (Service a/b has it)." + whenItFrees,
		},
		"more than can be named": {
			in: inputs{asks: true, ranges: both, reserved: 1024, absent: 1000, pending: 999, first: []absentee{
				absent("10.0.0.5", "Service a/b has it"), absent("10.0.0.6", ""), absent("fd00::6", "")}},
			wantProgrammed: "False ReservationsNotInPlace: 1000 of 1024 reserved addresses are not in place: 10.0.0.5 of front (Service a/b has it), " +
				"10.0.0.6 of front (it is being written), fd00::6 of front (it is being written), and 997 more." + whenItFrees,
		},
		"a lost range beside a missing one": {
			in:              inputs{asks: true, policy: &steering.Policy{Missing: []string{"a"}, Conflicts: []string{"b"}, Lost: []string{"b"}}},
			wantConflicting: "True Outranked: b. Change one of the policies, or the order of their priorities.",
			wantProgrammed: `False ServiceCIDRNotFound: ServiceCIDR "a" does not exist; create what is missing, or take it out of spec.serviceCIDRs. ` +
				"The policy does not have all that it asks for: b.",
		},
		"no range left, which Conflicting tells": {
			in:              inputs{asks: true, policy: &steering.Policy{Conflicts: []string{"b"}, Lost: []string{"b"}}},
			wantConflicting: "True Outranked: b. Change one of the policies, or the order of their priorities.",
			wantProgrammed:  "False NoRange: The policy has no range left; see the condition Conflicting.",
		},
		"reservations that are being written": {
			in:             inputs{asks: true, ranges: both, reserved: 12, absent: 1, pending: 1, first: []absentee{absent("fd00::5", "")}},
			wantProgrammed: "False ReservationsPending: 1 of 12 reserved addresses is not in place: fd00::5 of front (it is being written).",
		},
	} {
		t.Run(name, func(t *testing.T) {
			tc.in.generation = 3
			if tc.in.policy == nil {
				tc.in.policy = &steering.Policy{}
			}
			got := status(tc.in).Conditions
			for kind, want := range map[string][2]string{
				"Accepted": {tc.wantAccepted, valid}, "Conflicting": {tc.wantConflicting, noConflict}, "Programmed": {tc.wantProgrammed, allInPlace},
			} {
				text := want[0]
				if text == "" {
					text = want[1]
				}
				c := meta.FindStatusCondition(got, kind)
				if diff := cmp.Diff(text, said(c)); diff != "" {
					t.Errorf("%s (-want +got):\n%s", kind, diff)
				}
				if c.ObservedGeneration != 3 {
					t.Errorf("%s speaks of generation %d, want 3", kind, c.ObservedGeneration)
				}
			}
		})
	}
}

// The schema takes 32,768 characters for a message.
func TestNoMessageIsTooLong(t *testing.T) {
	long := inputs{policy: &steering.Policy{}, asks: true}
	for range 2000 {
		long.policy.Invalid = append(long.policy.Invalid, strings.Repeat("ü", 1000))
		long.policy.Conflicts = append(long.policy.Conflicts, strings.Repeat("ü", 1001))
		long.policy.Missing = append(long.policy.Missing, strings.Repeat("a", 253))
		long.policy.Deleting, long.policy.Unready = long.policy.Missing, long.policy.Missing
	}
	for _, c := range status(long).Conditions {
		if len(c.Message) > 32768 || !utf8.ValidString(c.Message) {
			t.Errorf("%s: %d bytes, valid %v", c.Type, len(c.Message), utf8.ValidString(c.Message))
		}
	}
}
