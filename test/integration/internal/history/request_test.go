package history

import (
	"encoding/json"
	"net/netip"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"
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

func TestRequests(t *testing.T) {
	at := func(micros int) time.Time { return time.Date(2026, 11, 22, 8, 0, 0, micros*1000, time.UTC) }
	const (
		when  = `"auditID":"a","requestReceivedTimestamp":"2026-11-22T08:00:00.000001Z","stageTimestamp":"2026-11-22T08:00:00.000002Z","annotations":{}}`
		begun = `{"stage":"RequestReceived","verb":"create","user":{"username":"me"},"objectRef":{"resource":"services","namespace":"a"},` + when
	)
	has := []netip.Addr{netip.MustParseAddr("10.0.0.7"), netip.MustParseAddr("fd00::7")}
	for name, tc := range map[string]struct {
		lines []string
		want  []Request
	}{
		"a beginning": {[]string{begun}, []Request{{Received: at(1), Verb: "create", Resource: "services", Namespace: "a", User: "me"}}},
		"a beginning and its answer, with a name that the API server has made up": {
			[]string{begun, `{"stage":"ResponseComplete","verb":"create","requestURI":"/api/v1/namespaces/a/services","user":{"username":"me"},
			"objectRef":{"resource":"services","namespace":"a"},"responseStatus":{"code":201},
			"responseObject":{"metadata":{"namespace":"a","name":"web-x"},"spec":{"clusterIPs":["10.0.0.7","fd00::7"]}},` + when},
			[]Request{{Received: at(1), Done: at(2), Verb: "create", Resource: "services", Namespace: "a", Name: "web-x", User: "me", Code: 201,
				Chosen: ByAPIServer, Answer: &Object{Name: "a/web-x", Addresses: has}}},
		},
		"a headless Service": {
			[]string{`{"verb":"create","objectRef":{"resource":"services","namespace":"a","name":"web"},"responseStatus":{"code":201},
			"responseObject":{"metadata":{"namespace":"a","name":"web"},"spec":{"clusterIPs":["None"]}},` + when},
			[]Request{{Received: at(1), Done: at(2), Verb: "create", Resource: "services", Namespace: "a", Name: "web", Code: 201,
				Chosen: ByAPIServer, Answer: &Object{Name: "a/web"}}},
		},
		"a refusal": {
			[]string{`{"verb":"create","objectRef":{"resource":"services","namespace":"a","name":"web"},"responseStatus":{"code":422,"message":"no"},
			"requestObject":{"spec":{"clusterIPs":["10.0.0.7"]}},"responseObject":{"kind":"Status","message":"no"},` + when},
			[]Request{{Received: at(1), Done: at(2), Verb: "create", Resource: "services", Namespace: "a", Name: "web", Code: 422, Message: "no",
				Chosen: ByAPIServer, Asked: has[:1]}},
		},
		"an IPAddress": {
			[]string{`{"verb":"create","objectRef":{"resource":"ipaddresses","name":"10.0.0.7"},"responseStatus":{"code":201},
			"responseObject":{"metadata":{"name":"10.0.0.7"},"spec":{"parentRef":{"resource":"services","namespace":"a","name":"web"}}},` + when},
			[]Request{{Received: at(1), Done: at(2), Verb: "create", Resource: "ipaddresses", Name: "10.0.0.7", Code: 201,
				Chosen: ByAPIServer, Answer: &Object{Name: "10.0.0.7", Parent: "a/web", Beside: true}}},
		},
		"a dry run":     {[]string{`{"verb":"create","requestURI":"/api/v1/namespaces/a/services?dryRun=All",` + when}, nil},
		"a subresource": {[]string{`{"verb":"update","objectRef":{"resource":"services","subresource":"status"},` + when}, nil},
	} {
		t.Run(name, func(t *testing.T) {
			var records []record
			for _, line := range tc.lines {
				var r record
				if err := json.Unmarshal([]byte(line), &r); err != nil {
					t.Fatal(err)
				}
				records = append(records, r)
			}
			if diff := cmp.Diff(tc.want, requests(records), cmpopts.EquateComparable(netip.Addr{})); diff != "" {
				t.Errorf("-want +got:\n%s", diff)
			}
		})
	}
}

func TestAServiceThatIsDeletedOrRefusedHasNoAddress(t *testing.T) {
	has := &Object{Addresses: []netip.Addr{netip.MustParseAddr("fd00::7")}}
	for _, tc := range []struct {
		r    Request
		want int
	}{{Request{Verb: "create", Answer: has}, 1}, {Request{Verb: "delete", Answer: has}, 0}, {Request{Verb: "create"}, 0}} {
		if got := tc.r.Addresses(); len(got) != tc.want {
			t.Errorf("%s: %v", tc.r, got)
		}
	}
}
