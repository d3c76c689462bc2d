package traffic

import (
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
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

func TestParseEvent(t *testing.T) {
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
		"a subresource": {`{"verb":"update","objectRef":{"resource":"services","subresource":"status"},` + when, nil},
		"half a line":   {`{"verb":"cre`, nil},
	} {
		t.Run(name, func(t *testing.T) {
			got, ok := parseEvent(tc.line)
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
