package healthz

import (
	"context"
	"errors"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"net/netip"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/clusterip-operator/clusterip-operator/proxyagent/model"
)

func init() { bindAgainAfter, listenAgainEvery = 10*time.Millisecond, 10*time.Millisecond }

var both = []model.Family{model.IPv4, model.IPv6}

// step is what happens to a Server of both families.
type step func(s *Server)

func updated(families ...model.Family) step {
	return func(s *Server) {
		for _, f := range families {
			s.Updated(f)
		}
	}
}

func queued(f model.Family) step    { return func(s *Server) { s.Queued(f) } }
func after(d time.Duration) step    { return func(*Server) { time.Sleep(d) } }
func nodeLeaving(leaving bool) step { return func(s *Server) { s.SetNodeLeaving(leaving) } }

func TestProbesTellWhetherTheNodeForwards(t *testing.T) {
	all := updated(both...)
	for name, tc := range map[string]struct {
		steps                 []step
		wantHealthz, wantLive int
		wantHealthy           bool
	}{
		"an agent that starts is alive and not ready": {nil, 503, 200, false},
		"one family is not enough":                    {[]step{updated(model.IPv4)}, 503, 200, false},
		"both families are":                           {[]step{all}, 200, 200, true},
		"a queued change may wait":                    {[]step{all, queued(model.IPv4), after(59 * time.Second)}, 200, 200, true},
		"but not for a minute":                        {[]step{all, queued(model.IPv4), after(time.Minute)}, 503, 503, false},
		"the oldest change counts": {
			[]step{all, queued(model.IPv6), after(50 * time.Second), queued(model.IPv6), after(10 * time.Second)}, 503, 503, false,
		},
		"a sync takes all of them": {[]step{all, queued(model.IPv4), after(time.Hour), updated(model.IPv4)}, 200, 200, true},
		"a sync of the other family does not": {
			[]step{all, queued(model.IPv4), after(time.Hour), updated(model.IPv6)}, 503, 503, false,
		},
		"quiet hours are no illness":                         {[]step{all, after(100 * time.Hour)}, 200, 200, true},
		"a change before the first sync is not late":         {[]step{queued(model.IPv4), queued(model.IPv6), after(time.Hour)}, 503, 200, false},
		"a leaving node is alive, healthy and to be avoided": {[]step{all, nodeLeaving(true)}, 503, 200, true},
		"a node that stays after all is not":                 {[]step{all, nodeLeaving(true), nodeLeaving(false)}, 200, 200, true},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				answers := map[string]int{}
				s := New(both, "nftables", func(path string, code int) { answers[path] = code })
				for _, happens := range tc.steps {
					happens(s)
				}
				healthz, _ := ask(t, s, "/healthz")
				livez, body := ask(t, s, "/livez")
				if healthz != tc.wantHealthz || livez != tc.wantLive || s.Healthy() != tc.wantHealthy {
					t.Errorf("/healthz %d, /livez %d, Healthy %t; want %d, %d, %t",
						healthz, livez, s.Healthy(), tc.wantHealthz, tc.wantLive, tc.wantHealthy)
				}
				if !strings.HasSuffix(body, `,"mode":"nftables"}`) {
					t.Errorf("it does not tell its mode: %s", body)
				}
				if diff := cmp.Diff(map[string]int{"healthz": tc.wantHealthz, "livez": tc.wantLive}, answers); diff != "" {
					t.Errorf("answers counted (-want +got):\n%s", diff)
				}
			})
		})
	}
}

func ask(t *testing.T, s *Server, path string) (code int, body string) {
	t.Helper()
	w := httptest.NewRecorder()
	s.Handler().ServeHTTP(w, httptest.NewRequest(http.MethodGet, path, nil))
	if kind, sniff := w.Header().Get("Content-Type"), w.Header().Get("X-Content-Type-Options"); kind != "application/json" || sniff != "nosniff" {
		t.Errorf("%s has Content-Type %q and X-Content-Type-Options %q", path, kind, sniff)
	}
	return w.Code, strings.TrimSpace(w.Body.String())
}

// Fields, their order and the forms of time are those that kube-proxy 1.37.2 declares.
func TestBodiesAreThoseOfKubeProxy(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := New(both, "", func(string, int) {})
		want := func(path, want string) {
			t.Helper()
			if _, body := ask(t, s, path); body != want {
				t.Errorf("%s answers\n%s, want\n%s", path, body, want)
			}
		}
		want("/healthz", `{"lastUpdated":"0001-01-01T00:00:00Z","currentTime":"2000-01-01T00:00:00Z","nodeEligible":true,"healthy":false,`+
			`"status":{"IPv4":{"lastUpdated":"0001-01-01T00:00:00Z","healthy":false},"IPv6":{"lastUpdated":"0001-01-01T00:00:00Z","healthy":false}}}`)
		want("/livez", `{"lastUpdated":"2000-01-01T00:00:00Z","currentTime":"2000-01-01T00:00:00Z","healthy":true,`+
			`"status":{"IPv4":{"lastUpdated":"0001-01-01T00:00:00Z","healthy":true},"IPv6":{"lastUpdated":"0001-01-01T00:00:00Z","healthy":true}}}`)
		for _, happens := range []step{updated(both...), queued(model.IPv6), after(2 * time.Minute), updated(model.IPv4), after(time.Second)} {
			happens(s)
		}
		want("/healthz", `{"lastUpdated":"2000-01-01T00:02:00Z","currentTime":"2000-01-01T00:02:01Z","nodeEligible":true,"healthy":false,`+
			`"status":{"IPv4":{"lastUpdated":"2000-01-01T00:02:00Z","healthy":true},"IPv6":{"lastUpdated":"2000-01-01T00:00:00Z","healthy":false}}}`)
	})
}

// TestFormer has what the command that gives Services other ClusterIPs reads.
func TestFormer(t *testing.T) {
	s := New(both, "", func(path string, _ int) { t.Errorf("an answer of %s is counted", path) })
	want := func(wantCode int, want string) {
		t.Helper()
		if code, body := ask(t, s, "/former"); code != wantCode || body != want {
			t.Errorf("/former answers %d\n%s, want %d\n%s", code, body, wantCode, want)
		}
	}
	want(503, `{"reason":"nothing has been counted yet"}`)
	at := time.Date(2026, 1, 2, 14, 0, 0, 5e8, time.FixedZone("elsewhere", 7200))
	s.Counted(at, map[netip.Addr]int{netip.MustParseAddr("fd00::5"): 0, netip.MustParseAddr("10.96.0.5"): 3}, nil)
	want(200, `{"countedAt":"2026-01-02T12:00:00.5Z","addresses":{"10.96.0.5":3,"fd00::5":0}}`)
	s.Counted(at, nil, errors.New("no memory"))
	want(503, `{"reason":"no memory"}`)
	s.Counted(at, map[netip.Addr]int{}, nil)
	want(200, `{"countedAt":"2026-01-02T12:00:00.5Z","addresses":{}}`)
}

func TestRunBindsAgainUntilItWorksAndLeavesNothingBehind(t *testing.T) {
	taken := listen(t, "127.0.0.1:0")
	address := taken.Addr().String()
	failed, ended := make(chan error, 1000), make(chan error, 1)
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	go func() {
		ended <- New(nil, "", func(string, int) {}).Run(ctx, address, func(err error) { failed <- err })
	}()
	if err := <-failed; !strings.Contains(err.Error(), "listening on "+address) || !strings.Contains(err.Error(), "address already in use") {
		t.Errorf("the failure reads %q", err)
	}
	_ = taken.Close()
	until(t, "the port answers", func() bool { return status(address) == http.StatusOK })
	open, err := net.Dial("tcp", address) // a client that keeps its connection
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = open.Close() }()
	cancel()
	if err := <-ended; err != nil {
		t.Errorf("Run ends with %v", err)
	}
	_ = listen(t, address).Close()
}

func TestServeEndsWhileItWaitsToBindAgainAndServesNothingAtZero(t *testing.T) {
	taken := listen(t, "127.0.0.1:0")
	defer func() { _ = taken.Close() }()
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	for _, address := range []string{"0", "", taken.Addr().String()} {
		if err := Serve(ctx, address, &http.Server{}, func(error) { cancel() }); err != nil || (ctx.Err() != nil) != (len(address) > 1) {
			t.Errorf("%q: %v, %v", address, err, ctx.Err())
		}
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

func until(t *testing.T, what string, ok func() bool) {
	t.Helper()
	for end := time.Now().Add(5 * time.Second); !ok(); time.Sleep(5 * time.Millisecond) {
		if time.Now().After(end) {
			t.Fatalf("waited in vain: %s", what)
		}
	}
}
