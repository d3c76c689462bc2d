package traffic

import (
	"errors"
	"net/http"
	"strings"
	"testing"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/clusterip-operator/clusterip-operator/test/integration/internal/history"
)

func TestCollisionsAreOursUnlessTheAPIServerHadAPart(t *testing.T) {
	at := func(seconds int) time.Time { return time.Unix(int64(seconds), 0) }
	w := &Crowd{
		stays: map[string]*stay{
			"ours":    {[]string{"10.96.0.7"}, at(1), time.Time{}},
			"foreign": {[]string{"10.96.0.8"}, at(1), time.Time{}},
			"gone":    {[]string{"10.96.0.7"}, at(1), at(2)},
			"prefix":  {[]string{"10.96.0.70"}, at(1), time.Time{}},
		},
		lost: []loss{
			{"a", "failed to allocate IP 10.96.0.7: provided IP is already allocated", at(3), at(4)},
			{"b", "failed to allocate IP 10.96.0.8: provided IP is already allocated", at(3), at(4)},
		},
	}
	event := func(name, chosen string) history.Request {
		return history.Request{Verb: "create", Resource: "services", Name: name, Chosen: chosen}
	}
	ours, others := w.Collisions([]history.Request{event("ours", history.ByWebhook), event("foreign", history.FailedOpen)})
	if len(ours) != 1 || !strings.HasPrefix(ours[0], "a: ") || strings.Contains(ours[0], "gone") || strings.Contains(ours[0], "prefix") {
		t.Errorf("ours: %q", ours)
	}
	if len(others) != 1 || !strings.HasPrefix(others[0], "b: ") {
		t.Errorf("others: %q", others)
	}
}

// The answers of a real API server, word for word.
func TestOutcomeOf(t *testing.T) {
	status := func(code int32, reason metav1.StatusReason, message string) error {
		return &apierrors.StatusError{ErrStatus: metav1.Status{Status: metav1.StatusFailure, Code: code, Reason: reason, Message: message}}
	}
	for name, tc := range map[string]struct {
		err  error
		want Outcome
	}{
		"no complaint": {nil, Created},
		"the address has an owner": {status(http.StatusUnprocessableEntity, metav1.StatusReasonInvalid,
			`Service "web" is invalid: spec.clusterIPs: Invalid value: ["10.96.0.9"]: failed to allocate IP 10.96.0.9: provided IP is already allocated`), Collided},
		"the range has no address left": {status(http.StatusInternalServerError, metav1.StatusReasonInternalError,
			`Internal error occurred: failed to allocate a serviceIP: range is full`), Full},
		"a policy says no": {status(http.StatusForbidden, metav1.StatusReasonForbidden,
			`admission webhook "service.clusterip-operator.io" denied the request: ServiceCIDRPolicy "a": no free address is left`), Refused},
		"a policy says no inside the API server": {status(http.StatusUnprocessableEntity, metav1.StatusReasonInvalid,
			`services "web" is forbidden: ValidatingAdmissionPolicy 'clusterip-operator-exclusive' with binding 'clusterip-operator-exclusive' denied request: `+
				`ServiceCIDRPolicy a keeps these addresses for the Services that it selects`), Refused},
		"the webhook was demanded": {status(http.StatusInternalServerError, metav1.StatusReasonInternalError,
			`Internal error occurred: failed calling webhook "service.clusterip-operator.io": connection refused`), Gated},
		"somebody else says no": {status(http.StatusForbidden, metav1.StatusReasonForbidden, `services is forbidden: User "eve" cannot create`), Other},
		"nobody answers":        {errors.New("connection refused"), Other},
	} {
		t.Run(name, func(t *testing.T) {
			if got := OutcomeOf(tc.err); got != tc.want {
				t.Errorf("got %q, want %q", got, tc.want)
			}
		})
	}
}
