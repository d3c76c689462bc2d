package healthz

import (
	"context"
	"encoding/json"
	"errors"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	clocktesting "k8s.io/utils/clock/testing"

	"github.com/clusterip-operator/clusterip-operator/proxyagent/model"
)

var noon = time.Date(2026, 1, 2, 12, 0, 0, 0, time.UTC)

// story is what happens to a Server of both families, one sentence each.
type story func(s *Server, c *clocktesting.FakeClock)

func updated(families ...model.Family) story {
	return func(s *Server, _ *clocktesting.FakeClock) {
		for _, f := range families {
			s.Updated(f)
		}
	}
}

func queued(f model.Family) story { return func(s *Server, _ *clocktesting.FakeClock) { s.Queued(f) } }
func after(d time.Duration) story { return func(_ *Server, c *clocktesting.FakeClock) { c.Step(d) } }
func nodeLeaving(leaving bool) story {
	return func(s *Server, _ *clocktesting.FakeClock) { s.SetNodeLeaving(leaving) }
}

func TestProbesTellWhetherTheNodeForwards(t *testing.T) {
	both := updated(model.IPv4, model.IPv6)
	for name, tc := range map[string]struct {
		story                 []story
		wantHealthz, wantLive int
		wantHealthy           bool
	}{
		"an agent that starts is alive and not ready": {nil, 503, 200, false},
		"one family is not enough":                    {[]story{updated(model.IPv4)}, 503, 200, false},
		"both families are":                           {[]story{both}, 200, 200, true},
		"a queued change may wait":                    {[]story{both, queued(model.IPv4), after(59 * time.Second)}, 200, 200, true},
		"but not for a minute":                        {[]story{both, queued(model.IPv4), after(time.Minute)}, 503, 503, false},
		"the oldest change counts": {
			[]story{both, queued(model.IPv6), after(50 * time.Second), queued(model.IPv6), after(10 * time.Second)}, 503, 503, false,
		},
		"a sync takes all of them": {
			[]story{both, queued(model.IPv4), after(time.Hour), updated(model.IPv4)}, 200, 200, true,
		},
		"a sync of the other family does not": {
			[]story{both, queued(model.IPv4), after(time.Hour), updated(model.IPv6)}, 503, 503, false,
		},
		"quiet hours are no illness": {[]story{both, after(100 * time.Hour)}, 200, 200, true},
		"a change before the first sync is not late": {
			[]story{queued(model.IPv4), queued(model.IPv6), after(time.Hour)}, 503, 200, false,
		},
		"a leaving node is alive, healthy and to be avoided": {[]story{both, nodeLeaving(true)}, 503, 200, true},
		"a node that stays after all is not":                 {[]story{both, nodeLeaving(true), nodeLeaving(false)}, 200, 200, true},
	} {
		t.Run(name, func(t *testing.T) {
			clock := clocktesting.NewFakeClock(noon)
			var answers []string
			s := New(Options{
				Clock: clock, Families: []model.Family{model.IPv4, model.IPv6},
				Answered: func(path string, code int) { answers = append(answers, path, http.StatusText(code)) },
			})
			for _, happens := range tc.story {
				happens(s, clock)
			}
			healthz, _ := ask(t, s.Handler(), "/healthz")
			livez, _ := ask(t, s.Handler(), "/livez")
			if healthz != tc.wantHealthz || livez != tc.wantLive || s.Healthy() != tc.wantHealthy {
				t.Errorf("/healthz %d, /livez %d, Healthy %t; want %d, %d, %t",
					healthz, livez, s.Healthy(), tc.wantHealthz, tc.wantLive, tc.wantHealthy)
			}
			want := []string{"healthz", http.StatusText(tc.wantHealthz), "livez", http.StatusText(tc.wantLive)}
			if diff := cmp.Diff(want, answers); diff != "" {
				t.Errorf("answers counted (-want +got):\n%s", diff)
			}
		})
	}
}

func ask(t *testing.T, h http.Handler, path string) (code int, body string) {
	t.Helper()
	w := httptest.NewRecorder()
	h.ServeHTTP(w, httptest.NewRequest(http.MethodGet, path, nil))
	if got := w.Header().Get("Content-Type"); got != "application/json" {
		t.Errorf("%s has Content-Type %q", path, got)
	}
	if got := w.Header().Get("X-Content-Type-Options"); got != "nosniff" {
		t.Errorf("%s has X-Content-Type-Options %q", path, got)
	}
	return w.Code, strings.TrimSpace(w.Body.String())
}

// Fields, their order and the forms of time are those that kube-proxy 1.36.3 declares.
func TestBodiesAreThoseOfKubeProxy(t *testing.T) {
	clock := clocktesting.NewFakeClock(noon)
	s := New(Options{Clock: clock, Families: []model.Family{model.IPv4, model.IPv6}})
	for _, step := range []struct{ path, want string }{
		{"/healthz", `{"lastUpdated":"0001-01-01T00:00:00Z","currentTime":"2026-01-02T12:00:00Z","nodeEligible":true,"healthy":false,` +
			`"status":{"IPv4":{"lastUpdated":"0001-01-01T00:00:00Z","healthy":false},` +
			`"IPv6":{"lastUpdated":"0001-01-01T00:00:00Z","healthy":false}}}`},
		{"/livez", `{"lastUpdated":"2026-01-02T12:00:00Z","currentTime":"2026-01-02T12:00:00Z","healthy":true,` +
			`"status":{"IPv4":{"lastUpdated":"0001-01-01T00:00:00Z","healthy":true},"IPv6":{"lastUpdated":"0001-01-01T00:00:00Z","healthy":true}}}`},
	} {
		if _, body := ask(t, s.Handler(), step.path); body != step.want {
			t.Errorf("%s answers\n%s, want\n%s", step.path, body, step.want)
		}
	}
	s.Updated(model.IPv4)
	s.Updated(model.IPv6)
	s.Queued(model.IPv6)
	clock.Step(2 * time.Minute)
	s.Updated(model.IPv4)
	clock.Step(time.Second)
	_, body := ask(t, s.Handler(), "/healthz")
	want := `{"lastUpdated":"2026-01-02T12:02:00Z","currentTime":"2026-01-02T12:02:01Z","nodeEligible":true,"healthy":false,` +
		`"status":{"IPv4":{"lastUpdated":"2026-01-02T12:02:00Z","healthy":true},"IPv6":{"lastUpdated":"2026-01-02T12:00:00Z","healthy":false}}}`
	if body != want {
		t.Errorf("a late family answers\n%s, want\n%s", body, want)
	}
}

// failures collects errors from any goroutine.
type failures struct {
	mu   sync.Mutex
	errs []error
	more chan struct{}
}

func newFailures() *failures { return &failures{more: make(chan struct{}, 100)} }

func (f *failures) add(err error) {
	f.mu.Lock()
	f.errs = append(f.errs, err)
	f.mu.Unlock()
	f.more <- struct{}{}
}

func TestRunBindsAgainUntilItWorksAndLeavesNothingBehind(t *testing.T) {
	taken := listen(t, "127.0.0.1:0")
	clock := clocktesting.NewFakeClock(noon)
	failed := newFailures()
	s := New(Options{BindAddress: taken.Addr().String(), Clock: clock, Failed: failed.add})
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	ended := make(chan error, 1)
	go func() { ended <- s.Run(ctx) }()

	wait(t, failed.more, "the first failure")
	if err := failed.errs[0]; !strings.Contains(err.Error(), "listening on 127.0.0.1:") || !isInUse(err) {
		t.Errorf("the failure reads %q", err)
	}
	_ = taken.Close()
	until(t, "the server asks the clock", clock.HasWaiters)
	until(t, "the port answers", func() bool { // at the second try, if somebody was faster
		clock.Step(bindAgainAfter)
		return status(taken.Addr().String()) == http.StatusOK
	})

	open, err := net.Dial("tcp", taken.Addr().String())
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = open.Close() }()
	cancel()
	select {
	case err := <-ended:
		if err != nil {
			t.Errorf("Run ends with %v", err)
		}
	case <-time.After(5 * time.Second):
		t.Fatal("Run does not end while a client keeps its connection")
	}
	_ = listen(t, taken.Addr().String()).Close()
}

func TestRunEndsWhileItWaitsToBindAgain(t *testing.T) {
	taken := listen(t, "127.0.0.1:0")
	defer func() { _ = taken.Close() }()
	failed := newFailures()
	s := New(Options{BindAddress: taken.Addr().String(), Clock: clocktesting.NewFakeClock(noon), Failed: failed.add})
	ctx, cancel := context.WithCancel(t.Context())
	ended := make(chan error, 1)
	go func() { ended <- s.Run(ctx) }()
	wait(t, failed.more, "the first failure")
	cancel()
	select {
	case err := <-ended:
		if err != nil {
			t.Errorf("Run ends with %v", err)
		}
	case <-time.After(5 * time.Second):
		t.Fatal("Run does not end")
	}
}

func listen(t *testing.T, addr string) net.Listener {
	t.Helper()
	l, err := net.Listen("tcp", addr)
	if err != nil {
		t.Fatal(err)
	}
	return l
}

func isInUse(err error) bool {
	var op *net.OpError
	return errors.As(err, &op) && strings.Contains(op.Error(), "address already in use")
}

// status is the code that an address answers with, zero when it does not.
func status(addr string) int {
	code, _, _ := get(addr, "/healthz")
	return code
}

// get sends a request without keeping the connection.
func get(addr, path string) (code int, h http.Header, body string) {
	client := &http.Client{Transport: &http.Transport{DisableKeepAlives: true}, Timeout: 5 * time.Second}
	r, err := client.Get("http://" + addr + path)
	if err != nil {
		return 0, nil, ""
	}
	defer func() { _ = r.Body.Close() }()
	text, _ := io.ReadAll(r.Body)
	return r.StatusCode, r.Header, string(text)
}

func wait(t *testing.T, c <-chan struct{}, what string) {
	t.Helper()
	select {
	case <-c:
	case <-time.After(5 * time.Second):
		t.Fatalf("%s did not come", what)
	}
}

func until(t *testing.T, what string, ok func() bool) {
	t.Helper()
	for end := time.Now().Add(5 * time.Second); !ok(); time.Sleep(5 * time.Millisecond) {
		if time.Now().After(end) {
			t.Fatalf("waited in vain: %s", what)
		}
	}
}

func decoded(t *testing.T, body string) (r checkReport) {
	t.Helper()
	if err := json.Unmarshal([]byte(body), &r); err != nil {
		t.Fatalf("reading the answer %q: %v", body, err)
	}
	return r
}
