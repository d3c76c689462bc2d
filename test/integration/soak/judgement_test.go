package soak_test

import (
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/clusterip-operator/clusterip-operator/test/integration/internal/traffic"
)

// at is a moment of a story, in seconds.
func at(seconds int) time.Time { return time.Unix(int64(seconds), 0) }

// wrote is a write of a Service that was asked for and answered at these moments.
func wrote(verb, service string, received, done int, addresses ...string) traffic.Event {
	namespace, name, _ := strings.Cut(service, "/")
	return traffic.Event{Received: at(received), Done: at(done), Verb: verb, Resource: "services", Namespace: namespace, Name: name,
		Code: 200, Chosen: traffic.ByWebhook, Addresses: addresses}
}

// wroteIP is a write of an IPAddress.
func wroteIP(verb, address, user, parent string, done int) traffic.Event {
	return traffic.Event{Received: at(done), Done: at(done), Verb: verb, Resource: "ipaddresses", Name: address, User: user, Code: 200, Parent: parent}
}

func failedOpenAt(e traffic.Event) traffic.Event {
	e.Chosen = traffic.FailedOpen
	return e
}

func refused(e traffic.Event, code int) traffic.Event {
	e.Code, e.Addresses = code, nil
	return e
}

func TestAcquisitions(t *testing.T) {
	for name, tc := range map[string]struct {
		events []traffic.Event
		want   []string // service, address and those who had it
	}{
		"one Service": {[]traffic.Event{wrote("create", "a/web", 1, 2, "10.0.0.7", "fd00::7")}, []string{"a/web 10.0.0.7", "a/web fd00::7"}},
		"two Services, one after the other": {[]traffic.Event{
			wrote("create", "a/web", 1, 2, "10.0.0.7"), wrote("delete", "a/web", 3, 6), wrote("create", "a/other", 4, 5, "10.0.0.7"),
		}, []string{"a/web 10.0.0.7", "a/other 10.0.0.7"}},
		"two Services at once": {[]traffic.Event{
			wrote("create", "a/web", 1, 2, "10.0.0.7"), wrote("create", "a/other", 3, 4, "10.0.0.7"), wrote("delete", "a/web", 5, 6),
		}, []string{"a/web 10.0.0.7", "a/other 10.0.0.7 a/web"}},
		"two Services at once, the logs one behind the other": {[]traffic.Event{
			wrote("create", "a/other", 3, 4, "10.0.0.7"), wrote("create", "a/web", 1, 2, "10.0.0.7"),
		}, []string{"a/web 10.0.0.7", "a/other 10.0.0.7 a/web"}},
		"an address that a change gave up": {[]traffic.Event{
			wrote("create", "a/web", 1, 2, "10.0.0.7", "fd00::7"), wrote("update", "a/web", 3, 6, "10.0.0.7"),
			wrote("create", "a/other", 4, 5, "fd00::7"),
		}, []string{"a/web 10.0.0.7", "a/web fd00::7", "a/other fd00::7"}},
		"an address that a change kept": {[]traffic.Event{
			wrote("create", "a/web", 1, 2, "10.0.0.7"), wrote("update", "a/web", 3, 4, "10.0.0.7"),
		}, []string{"a/web 10.0.0.7"}},
		"a creation that was refused": {[]traffic.Event{refused(wrote("create", "a/web", 1, 2, "10.0.0.7"), 422)}, nil},
		"a deletion that was refused": {[]traffic.Event{
			wrote("create", "a/web", 1, 2, "10.0.0.7"), refused(wrote("delete", "a/web", 3, 4), 403), wrote("create", "a/other", 5, 6, "10.0.0.7"),
		}, []string{"a/web 10.0.0.7", "a/other 10.0.0.7 a/web"}},
		"a deletion of which nobody knows what became": {[]traffic.Event{
			wrote("create", "a/web", 1, 2, "10.0.0.7"), refused(wrote("delete", "a/web", 3, 4), 504), wrote("create", "a/other", 5, 6, "10.0.0.7"),
		}, []string{"a/web 10.0.0.7", "a/other 10.0.0.7"}},
	} {
		t.Run(name, func(t *testing.T) {
			var got []string
			for _, a := range acquisitions(tc.events) {
				got = append(got, strings.Join(append([]string{a.service, a.address}, a.holders...), " "))
			}
			if diff := cmp.Diff(tc.want, got); diff != "" {
				t.Errorf("-want +got:\n%s", diff)
			}
		})
	}
}

func TestCauseOfADuplicate(t *testing.T) {
	const (
		address  = "10.0.0.7"
		api      = "system:apiserver"
		operator = "system:serviceaccount:clusterip-operator-system:clusterip-operator-manager"
	)
	first, allocated := wrote("create", "a/web", 1, 3, address), wroteIP("create", address, api, "a/web", 2)
	second, again := wrote("create", "a/other", 7, 9, address), wroteIP("create", address, api, "a/other", 8)
	for name, tc := range map[string]struct {
		events []traffic.Event
		want   string
	}{
		"the API server took it from a living Service": {[]traffic.Event{allocated, first, wroteIP("delete", address, api, "", 5), again, second}, byUpstream},
		"somebody did, and the webhook was asked":      {[]traffic.Event{allocated, first, wroteIP("delete", address, cleaner, "", 5), again, second}, byUs},
		"somebody did, and the webhook was away": {
			[]traffic.Event{allocated, first, wroteIP("delete", address, cleaner, "", 5), again, failedOpenAt(second)}, byOutage},
		"the operator did": {[]traffic.Event{allocated, first, wroteIP("delete", address, operator, "", 5), again, second}, byUs},
		"the API server took it from one that was gone, and it came back": {[]traffic.Event{
			wroteIP("create", address, api, "a/gone", 0), wroteIP("delete", address, api, "", 1), allocated, first,
			wroteIP("delete", address, cleaner, "", 5), again, second}, byUs},
		"the API server took what named another": {[]traffic.Event{
			allocated, first, wroteIP("delete", address, cleaner, "", 4), wroteIP("create", address, api, "a/third", 5),
			wroteIP("delete", address, api, "", 6), again, second}, byUs},
		"a deletion that was refused": {[]traffic.Event{allocated, first, refused(wroteIP("delete", address, api, "", 5), 409), again, second}, byUs},
		"the API server only did later": {[]traffic.Event{
			allocated, first, wroteIP("delete", address, cleaner, "", 5), again, second, wroteIP("delete", address, api, "", 10)}, byUs},
		"nothing was logged": {[]traffic.Event{first, second}, byUs},
	} {
		t.Run(name, func(t *testing.T) {
			got := duplicates(tc.events, acquisitions(tc.events))
			if len(got) != 1 || got[0].cause != tc.want {
				t.Errorf("got %v, want %s", got, tc.want)
			}
		})
	}
}

func TestJudge(t *testing.T) {
	o := judge([]traffic.Event{
		wrote("create", "tenant/a", 1, 2, "10.97.0.20", "fd00:10:97::20"),
		wrote("create", "stranger/b", 1, 2, "10.96.0.20"),
		wrote("create", "stranger/headless", 1, 2),
		failedOpenAt(wrote("create", "stranger/c", 1, 2, "fd00:10:97::30")),
		wrote("create", "stranger/d", 1, 2, "10.97.0.31", "fd00:10:97::31"),
		failedOpenAt(wrote("create", "tenant/e", 1, 2, "10.98.0.20")),
		wrote("update", "tenant/e", 3, 4, "10.98.0.20"),
	})
	if diff := cmp.Diff(map[string]int{isStranger: 2, isOutside: 1}, o.unsteered); diff != "" {
		t.Errorf("unsteered (-want +got):\n%s", diff)
	}
	if o.creations != 5 || o.share() != 0.6 {
		t.Errorf("%d creations, %v unsteered; want 5, 0.6", o.creations, o.share())
	}
	if len(o.unexcused) != 1 || !strings.Contains(o.unexcused[0], "stranger/d") {
		t.Errorf("the webhook answered, and they were unsteered: %q", o.unexcused)
	}
}
