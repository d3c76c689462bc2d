package inspect

import (
	"net/netip"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/clusterip-operator/clusterip-operator/api/v1alpha1"
	"github.com/clusterip-operator/clusterip-operator/controllers/admission"
	"github.com/clusterip-operator/clusterip-operator/plugin/view"
)

// heldBy is the first address of a default range, which these Services have.
func heldBy(services ...string) view.Address {
	return view.Address{Address: netip.MustParseAddr("fd00::1"), State: "allocated", Services: services}
}

// conditionsAt are conditions of a ServiceCIDR, as TYPE STATUS REASON: MESSAGE.
func conditionsAt(t time.Time, all ...string) (out []metav1.Condition) {
	for _, text := range all {
		head, message, _ := strings.Cut(text, ": ")
		part := strings.Fields(head)
		out = append(out, metav1.Condition{Type: part[0], Status: metav1.ConditionStatus(part[1]), Reason: part[2], Message: message, LastTransitionTime: metav1.NewTime(t)})
	}
	return out
}

// Each fault of a range is told once, as check and status tell it.
func TestDescribeWhatIsWrongWithARange(t *testing.T) {
	now := time.Unix(1_700_000_000, 0)
	const nearly, full = v1alpha1.ConditionNearlyFull, v1alpha1.ConditionDynamicBandFull
	const six = "The dynamic band of fd00::/120 is over 90 % in use"
	for name, tc := range map[string]struct {
		conditions []string
		want       string
	}{
		"nothing": {[]string{"Ready True a: fine", nearly + " False EnoughFree: fine", "example.com/Watched True a: by a program of the platform"}, "Nothing is wrong with it.\n"},
		"a full band": {[]string{nearly + " True FewFree: The dynamic band of 10.97.0.0/29 is full. Create another ServiceCIDR before allocation fails.", full + " True NoAddressFree: create one."},
			full + " is True since 2023-11-14T22:13:20Z: create one.\n"},
		"a full band, and one that will be": {[]string{nearly + " True FewFree: The dynamic band of 10.97.0.0/29 is full. " + six + ". Create another ServiceCIDR.", full + " True NoAddressFree: create one."},
			nearly + " is True since 2023-11-14T22:13:20Z: The dynamic band of 10.97.0.0/29 is full. " + six + ". Create another ServiceCIDR.\n" + full + " is True since 2023-11-14T22:13:20Z: create one.\n"},
		"held": {[]string{"Ready False Terminating: it is being deleted", v1alpha1.ConditionDeletionBlocked + " True AddressesInUse: 10.97.0.1"},
			v1alpha1.ConditionDeletionBlocked + " is True since 2023-11-14T22:13:20Z: 10.97.0.1\n"},
	} {
		t.Run(name, func(t *testing.T) {
			var out strings.Builder
			Answer{Range: &rangeAnswer{Conditions: conditionsAt(now, tc.conditions...)}}.Describe(&out, now)
			if diff := cmp.Diff(tc.want, out.String()); diff != "" {
				t.Errorf("(-want +got):\n%s", diff)
			}
		})
	}
}

// What a status has of refusals is told in one line each, whichever client has written it.
// The user's text and the reason for admins stand apart.
func TestDescribeRefusals(t *testing.T) {
	now := time.Unix(1_700_000_000, 0)
	at := func(ago time.Duration) metav1.MicroTime { return metav1.NewMicroTime(now.Add(-ago)) }
	for name, tc := range map[string]struct {
		answer Answer
		want   string
	}{
		"one": {Answer{Refusals: []pastRefusal{{"blue", v1alpha1.PolicyRefusal{Time: at(time.Minute), Service: "shop/web", Message: "the range is closed"}}}},
			"shop/web was refused 60s ago by ServiceCIDRPolicy \"blue\": the range is closed\n"},
		"several for one reason": {
			Answer{Refusals: []pastRefusal{{"blue", v1alpha1.PolicyRefusal{Time: at(time.Second), First: new(at(time.Hour)), Count: 12, Service: "shop/web", Message: "full"}}}},
			"12 requests of namespace shop were refused in the last 60m, the last one for shop/web 1s ago, by ServiceCIDRPolicy \"blue\": full\n"},
		"what would steer a terminal, or forge a line": {
			Answer{Refusals: []pastRefusal{{"blue", v1alpha1.PolicyRefusal{Time: at(time.Second), Service: "shop/\x1b[2J", Message: "full\nall is well\u202e"}}}},
			"shop/\ufffd[2J was refused 1s ago by ServiceCIDRPolicy \"blue\": full\ufffdall is well\ufffd\n"},
		"what would happen, in the name of a policy": {
			Answer{IfCreated: &admission.Explanation{Refused: "provided IP is already allocated", Policy: "blue", Reason: "it is kept for Service shop/db"}},
			"The Service is refused: provided IP is already allocated\n  by ServiceCIDRPolicy \"blue\": it is kept for Service shop/db\n"},
		"what would happen, in no policy's name": {
			Answer{IfCreated: &admission.Explanation{Refused: "provided IP is already allocated", Reason: "Service shop/db has it"}},
			"The Service is refused: provided IP is already allocated\n  for admins: Service shop/db has it\n"},
		"the Service of API servers": {
			Answer{ByAPIServer: new(heldBy("default/kubernetes"))},
			"API servers create it themselves, within ten seconds of its deletion, with fd00::1, the first address of their --service-cluster-ip-range: no webhook and no policy is asked.\n"},
		"the Service of API servers, whose address another Service has": {
			Answer{Missing: true, ByAPIServer: new(heldBy("shop/web"))},
			"There is no such Service. API servers create it themselves, within ten seconds of its deletion, with fd00::1, the first address of their --service-cluster-ip-range: no webhook and no policy is asked.\n" +
				"  problem: Service shop/web has that address: until it is deleted, API servers cannot create the Service\n"},
		"what would happen, and the user is told all": {
			Answer{IfCreated: &admission.Explanation{Refused: "the annotation is wrong", Reason: "the annotation is wrong"}}, "The Service is refused: the annotation is wrong\n"},
	} {
		t.Run(name, func(t *testing.T) {
			var out strings.Builder
			tc.answer.Describe(&out, now)
			if diff := cmp.Diff(tc.want, out.String()); diff != "" {
				t.Errorf("(-want +got):\n%s", diff)
			}
		})
	}
}
