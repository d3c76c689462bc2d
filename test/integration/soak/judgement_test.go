package soak_test

import (
	"net/netip"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/clusterip-operator/clusterip-operator/test/integration/internal/history"
)

// at is a moment of a story, in seconds.
func at(seconds int) time.Time { return time.Unix(int64(seconds), 0) }

// wrote is a write of a Service that was asked for and answered at these moments.
func wrote(verb, service string, received, done int, addresses ...string) history.Request {
	namespace, name, _ := strings.Cut(service, "/")
	answer := new(history.Object)
	for _, a := range addresses {
		answer.Addresses = append(answer.Addresses, netip.MustParseAddr(a))
	}
	return history.Request{Received: at(received), Done: at(done), Verb: verb, Resource: "services", Namespace: namespace, Name: name,
		Code: 200, Chosen: history.ByWebhook, Answer: answer}
}

func failedOpenAt(r history.Request) history.Request {
	r.Chosen = history.FailedOpen
	return r
}

func refused(r history.Request, code int) history.Request {
	r.Code, r.Answer = code, nil
	return r
}

func TestAcquisitions(t *testing.T) {
	for name, tc := range map[string]struct {
		requests []history.Request
		want     []string // service and address
	}{
		"one Service": {[]history.Request{wrote("create", "a/web", 1, 2, "10.0.0.7", "fd00::7")}, []string{"a/web 10.0.0.7", "a/web fd00::7"}},
		"an address that a change gave up, and one that it kept": {[]history.Request{
			wrote("create", "a/web", 1, 2, "10.0.0.7", "fd00::7"), wrote("update", "a/web", 3, 6, "10.0.0.7"), wrote("update", "a/web", 7, 8, "10.0.0.7", "fd00::7"),
		}, []string{"a/web 10.0.0.7", "a/web fd00::7", "a/web fd00::7"}},
		"a Service of the same name": {[]history.Request{
			wrote("create", "a/web", 1, 2, "10.0.0.7"), wrote("delete", "a/web", 3, 4), wrote("create", "a/web", 5, 6, "10.0.0.7"),
		}, []string{"a/web 10.0.0.7", "a/web 10.0.0.7"}},
		"a creation that was refused": {[]history.Request{refused(wrote("create", "a/web", 1, 2, "10.0.0.7"), 422)}, nil},
	} {
		t.Run(name, func(t *testing.T) {
			var got []string
			for _, a := range acquisitions(tc.requests) {
				got = append(got, a.service+" "+a.address.String())
			}
			if diff := cmp.Diff(tc.want, got); diff != "" {
				t.Errorf("-want +got:\n%s", diff)
			}
		})
	}
}

func TestJudge(t *testing.T) {
	o := judge([]history.Request{
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
