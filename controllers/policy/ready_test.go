package policy

import (
	"testing"

	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/clusterip-operator/clusterip-operator/api/v1alpha1"
	"github.com/clusterip-operator/clusterip-operator/internal/steering"
)

// kstatus is what tools that go by kstatus make of a status. Without a condition Ready a policy
// would be Current to them before the operator has looked at it.
func kstatus(generation int64, s v1alpha1.ServiceCIDRPolicyStatus) string {
	if s.ObservedGeneration != generation || !meta.IsStatusConditionTrue(s.Conditions, "Ready") && meta.FindStatusCondition(s.Conditions, "Ready") != nil {
		return "InProgress"
	}
	return "Current"
}

func TestReady(t *testing.T) {
	both := []rangeUse{aRange("10.0.0.0/24", 0), aRange("fd00::/120", 0)}
	enforced := func(status metav1.ConditionStatus, generation int64) *metav1.Condition {
		return &metav1.Condition{Type: v1alpha1.PolicyEnforced, Status: status, Reason: "PolicyMissing", Message: "It is missing.", ObservedGeneration: generation}
	}
	pending := &metav1.Condition{Type: v1alpha1.PolicyEnforced, Status: "False", Reason: v1alpha1.ReasonPending, Message: "Soon.", ObservedGeneration: 3}
	unready := &steering.Policy{Unready: []string{"a"}}
	const unreadyText = `ServiceCIDR "a" is not ready yet; see the condition Ready there.`
	for name, tc := range map[string]struct {
		in   inputs
		want string
	}{
		"all is well":                {inputs{asks: true, ranges: both}, "True Ready: The policy is followed, and all that it asks for is in place."},
		"a mistake":                  {inputs{policy: &steering.Policy{Invalid: []string{"x"}}}, "False Invalid: x. Correct this in the spec; until then what is wrong is left out."},
		"no range":                   {inputs{asks: true, selects: true}, "False NoRange: No ServiceCIDR has the labels of spec.serviceCIDRSelector; label one, or correct the selector."},
		"a range that is on its way": {inputs{policy: &steering.Policy{Unready: []string{"a"}}}, `Unknown ServiceCIDRNotReady: ServiceCIDR "a" is not ready yet; see the condition Ready there.`},
		"a lesser conflict":          {inputs{asks: true, ranges: both, policy: &steering.Policy{Conflicts: []string{"shared"}}}, "True Ready: The policy is followed, and all that it asks for is in place."},
		"a range lost":               {inputs{asks: true, ranges: both, policy: &steering.Policy{Conflicts: []string{"b"}, Lost: []string{"b"}}}, "False Outranked: The policy does not have all that it asks for: b."},
		"enforced":                   {inputs{asks: true, ranges: both, enforces: true, enforced: enforced("True", 3)}, "True Ready: The policy is followed, and all that it asks for is in place."},
		"not enforced":               {inputs{asks: true, ranges: both, enforces: true, enforced: enforced("False", 3)}, "False PolicyMissing: It is missing."},
		"not enforced, nor programmed": {inputs{asks: true, policy: &steering.Policy{Missing: []string{"a"}}, enforces: true, enforced: enforced("False", 3)},
			`False ServiceCIDRNotFound: ServiceCIDR "a" does not exist; create what is missing, or take it out of spec.serviceCIDRs.`},
		"enforcement that is on its way":       {inputs{asks: true, ranges: both, enforces: true, enforced: pending}, "Unknown Pending: Soon."},
		"a range and enforcement on their way": {inputs{asks: true, ranges: both, policy: unready, enforces: true, enforced: pending}, "Unknown ServiceCIDRNotReady: " + unreadyText},
		"a mistake, and enforcement on its way": {inputs{policy: &steering.Policy{Invalid: []string{"x"}}, enforces: true, enforced: pending},
			"False Invalid: x. Correct this in the spec; until then what is wrong is left out."},
		"a range on its way, and not enforced": {inputs{asks: true, ranges: both, policy: unready, enforces: true, enforced: enforced("False", 3)}, "False PolicyMissing: It is missing."},
		"a range on its way, and an address that is taken": {inputs{asks: true, ranges: both, policy: unready, reserved: 2, absent: 1, first: []absentee{absent("10.0.0.5", "Service a/b has it")}},
			"False ReservationsNotInPlace: " + unreadyText + " 1 of 2 reserved addresses is not in place: 10.0.0.5 of front (Service a/b has it). " +
				"An address is kept as soon as no Service and no IPAddress has it any more."},
		"a range on its way, and an address that is being written": {inputs{asks: true, ranges: both, policy: unready, reserved: 2, absent: 1, pending: 1, first: []absentee{absent("fd00::5", "")}},
			"Unknown ServiceCIDRNotReady: " + unreadyText + " 1 of 2 reserved addresses is not in place: fd00::5 of front (it is being written)."},
		"a range on its way, and another one lost": {inputs{asks: true, ranges: both, policy: &steering.Policy{Unready: []string{"a"}, Conflicts: []string{"b"}, Lost: []string{"b"}}},
			"False Outranked: " + unreadyText + " The policy does not have all that it asks for: b."},
		"the last generation was enforced": {inputs{asks: true, ranges: both, enforces: true, enforced: enforced("True", 2)},
			"Unknown EnforcementPending: The condition Enforced does not speak of this generation yet."},
		"enforcement has not looked":      {inputs{asks: true, ranges: both, enforces: true}, "Unknown EnforcementPending: The condition Enforced does not speak of this generation yet."},
		"enforcement that was taken back": {inputs{asks: true, ranges: both, enforced: enforced("False", 3)}, "True Ready: The policy is followed, and all that it asks for is in place."},
		"a reserved address that is taken": {inputs{reserved: 1, absent: 1, first: []absentee{absent("fd00::5", "Service a/b has it")}},
			"False ReservationsNotInPlace: 1 of 1 reserved addresses is not in place: fd00::5 of front (Service a/b has it). An address is kept as soon as no Service and no IPAddress has it any more."},
	} {
		t.Run(name, func(t *testing.T) {
			tc.in.generation = 3
			if tc.in.policy == nil {
				tc.in.policy = &steering.Policy{}
			}
			got := status(tc.in)
			c := meta.FindStatusCondition(got.Conditions, v1alpha1.PolicyReady)
			if said(c) != tc.want || c.ObservedGeneration != 3 {
				t.Errorf("got %s of generation %d, want %s", said(c), c.ObservedGeneration, tc.want)
			}
			if is := kstatus(3, got) == "Current"; is != (c.Status == metav1.ConditionTrue) {
				t.Errorf("it is Current: %v", is)
			}
			if kstatus(4, got) != "InProgress" || kstatus(3, v1alpha1.ServiceCIDRPolicyStatus{}) != "InProgress" {
				t.Error("what the status does not speak of is Current")
			}
		})
	}
}
