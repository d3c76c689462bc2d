package inspect

import (
	"io"
	"net/netip"
	"strings"
	"testing"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/clusterip-operator/clusterip-operator/api/v1alpha1"
	"github.com/clusterip-operator/clusterip-operator/controllers/admission"
	"github.com/clusterip-operator/clusterip-operator/controllers/ipaddress"
	"github.com/clusterip-operator/clusterip-operator/plugin/check"
	"github.com/clusterip-operator/clusterip-operator/plugin/view"
)

// Texts that come from objects stay in their line: a tenant writes the events of its namespace, and
// names in it stand in conditions and refusals. A line of its own would be taken for one of ours.
func TestTextsOfObjectsForgeNoLine(t *testing.T) {
	const forged, want = "10.96.0.9\n10.96.0.1 is free\x1b[2J\r\u202e", "10.96.0.9\ufffd10.96.0.1 is free\ufffd[2J\ufffd\ufffd"
	now := time.Unix(1_700_000_000, 0)
	event := func(reason, message string) pastEvent { return pastEvent{now.Add(-time.Minute), reason, message} }
	notReady := metav1.Condition{Type: "Ready", Status: metav1.ConditionFalse, Message: forged}
	programmed := metav1.Condition{Type: v1alpha1.PolicyProgrammed, Status: metav1.ConditionFalse, Message: forged}
	var drift view.Drift
	drift.Addresses = []ipaddress.Finding{{Address: netip.MustParseAddr("fd00::1"), Drift: "wrong_parent", Note: forged}}
	for name, tc := range map[string]struct {
		print func(w io.Writer)
		lines int
	}{
		"the reason of an event":      {func(w io.Writer) { describeEvents(w, []pastEvent{event(forged, "x")}, now) }, 1},
		"the message of an event":     {func(w io.Writer) { describeEvents(w, []pastEvent{event("x", forged), event("y", "z")}, now) }, 2},
		"what is wrong with a policy": {func(w io.Writer) { describePolicy(w, policyAnswer{Wrong: []check.Item{{Check: "x", Message: forged}}}) }, 2},
		"a condition of a policy": {func(w io.Writer) {
			describePolicy(w, policyAnswer{Status: v1alpha1.ServiceCIDRPolicyStatus{Conditions: []metav1.Condition{programmed}}})
		}, 3},
		"a condition of a ServiceCIDR": {func(w io.Writer) { describeRange(w, rangeAnswer{Conditions: []metav1.Condition{notReady}}) }, 1},
		"what is wrong with an address": {func(w io.Writer) {
			describeAddress(w, view.Address{Address: netip.MustParseAddr("fd00::1"), Drift: drift}, now)
		}, 3},
		"a refusal": {func(w io.Writer) { describeExplanation(w, admission.Explanation{Refused: forged, Reason: "x"}, nil) }, 2},
		"its reason, of a policy": {func(w io.Writer) {
			describeExplanation(w, admission.Explanation{Refused: "x", Policy: "p", Reason: forged}, nil)
		}, 2},
		"its reason, of none": {func(w io.Writer) { describeExplanation(w, admission.Explanation{Refused: "x", Reason: forged}, nil) }, 2},
		"a warning": {func(w io.Writer) {
			describeExplanation(w, admission.Explanation{Refused: "x", Warnings: []string{forged}}, nil)
		}, 2},
	} {
		t.Run(name, func(t *testing.T) {
			var out strings.Builder
			tc.print(&out)
			if strings.Count(out.String(), "\n") != tc.lines || !strings.Contains(out.String(), want) {
				t.Errorf("printed %q, want %d lines with %q", out.String(), tc.lines, want)
			}
		})
	}
}
