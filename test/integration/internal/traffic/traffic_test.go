package traffic

import (
	"encoding/json"
	"errors"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// The words of a real API server.
func TestChosenBy(t *testing.T) {
	const asked = "mutation.webhook.admission.k8s.io/round_0_index_0"
	answer := func(mutated string) string {
		return `{"configuration":"clusterip-operator","webhook":"service.clusterip-operator.io","mutated":` + mutated + `}`
	}
	for want, annotations := range map[string]map[string]string{
		ByWebhook:   {asked: answer("true")},
		ByAPIServer: {asked: answer("false")},
		FailedOpen:  {"failed-open." + asked: "service.clusterip-operator.io", asked: answer("false")},
	} {
		if got := chosenBy(annotations); got != want {
			t.Errorf("%v: got %q, want %q", annotations, got, want)
		}
	}
}

func TestEvent(t *testing.T) {
	at := func(micros int) time.Time { return time.Date(2026, 11, 22, 8, 0, 0, micros*1000, time.UTC).Local() }
	const when = `"requestReceivedTimestamp":"2026-11-22T08:00:00.000001Z","stageTimestamp":"2026-11-22T08:00:00.000002Z","annotations":{}}`
	for name, tc := range map[string]struct {
		line string
		want *Event
	}{
		"a name that the API server has made up": {
			`{"verb":"create","requestURI":"/api/v1/namespaces/a/services","user":{"username":"me"},"objectRef":{"resource":"services","namespace":"a"},
			"responseStatus":{"code":201},"responseObject":{"metadata":{"name":"web-x"},"spec":{"clusterIPs":["10.0.0.7","fd00::7"]}},` + when,
			&Event{at(1), at(2), "create", "services", "a", "web-x", "me", 201, ByAPIServer, []string{"10.0.0.7", "fd00::7"}, ""},
		},
		"a headless Service": {
			`{"verb":"create","objectRef":{"resource":"services","namespace":"a","name":"web"},"responseStatus":{"code":201},
			"responseObject":{"metadata":{"name":"web"},"spec":{"clusterIPs":["None"]}},` + when,
			&Event{at(1), at(2), "create", "services", "a", "web", "", 201, ByAPIServer, []string{}, ""},
		},
		"a Service that is deleted has no address": {
			`{"verb":"delete","objectRef":{"resource":"services","namespace":"a","name":"web"},"responseStatus":{"code":200},
			"responseObject":{"metadata":{"name":"web"},"spec":{"clusterIPs":["10.0.0.7"]}},` + when,
			&Event{at(1), at(2), "delete", "services", "a", "web", "", 200, ByAPIServer, nil, ""},
		},
		"an IPAddress": {
			`{"verb":"create","objectRef":{"resource":"ipaddresses","name":"10.0.0.7"},"responseStatus":{"code":201},
			"responseObject":{"metadata":{"name":"10.0.0.7"},"spec":{"parentRef":{"resource":"services","namespace":"a","name":"web"}}},` + when,
			&Event{at(1), at(2), "create", "ipaddresses", "", "10.0.0.7", "", 201, ByAPIServer, []string{}, "a/web"},
		},
		"a dry run":     {`{"verb":"create","requestURI":"/api/v1/namespaces/a/services?dryRun=All",` + when, nil},
		"a beginning":   {`{"stage":"RequestReceived","verb":"create","objectRef":{"resource":"services"},` + when, nil},
		"a subresource": {`{"verb":"update","objectRef":{"resource":"services","subresource":"status"},` + when, nil},
	} {
		t.Run(name, func(t *testing.T) {
			var r record
			if err := json.Unmarshal([]byte(tc.line), &r); err != nil {
				t.Fatal(err)
			}
			got, ok := r.event()
			if !ok && tc.want == nil {
				return
			}
			if tc.want == nil || !ok {
				t.Fatalf("got %+v, %t", got, ok)
			}
			if len(got.Addresses) == 0 && len(tc.want.Addresses) == 0 {
				got.Addresses = tc.want.Addresses
			}
			if diff := cmp.Diff(*tc.want, got); diff != "" {
				t.Errorf("-want +got:\n%s", diff)
			}
		})
	}
}

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
	event := func(name, chosen string) Event {
		return Event{Verb: "create", Resource: "services", Name: name, Chosen: chosen}
	}
	ours, others := w.Collisions([]Event{event("ours", ByWebhook), event("foreign", FailedOpen)})
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
