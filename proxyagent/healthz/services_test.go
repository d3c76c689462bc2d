package healthz

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net"
	"net/http"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/clusterip-operator/clusterip-operator/proxyagent/model"
)

var (
	web = model.ServiceName{Namespace: "default", Name: "web"}
	dns = model.ServiceName{Namespace: "kube-system", Name: "dns"}
)

// fixture is Services that run, with what they reported.
type fixture struct {
	*Services
	healthy atomic.Bool
	failed  chan string
	stop    func()
}

func newFixture(t *testing.T) *fixture {
	t.Helper()
	f := &fixture{failed: make(chan string, 100)}
	f.healthy.Store(true)
	f.Services = NewServices(f.healthy.Load, func(n model.ServiceName, port uint16, err error) { f.failed <- fmt.Sprintf("%s %d %v", n, port, err) })
	ctx, cancel := context.WithCancel(context.Background())
	var running sync.WaitGroup
	running.Go(func() { _ = f.Run(ctx) })
	f.stop = func() {
		cancel()
		running.Wait()
	}
	t.Cleanup(f.stop)
	return f
}

// freePorts are free on every address at the moment.
func freePorts(t *testing.T) (one, two uint16) {
	t.Helper()
	a, b := listen(t, ":0"), listen(t, ":0")
	defer func() { _, _ = a.Close(), b.Close() }()
	return portOf(a), portOf(b)
}

func portOf(l net.Listener) uint16 { return uint16(l.Addr().(*net.TCPAddr).Port) }

func at(port uint16) string { return fmt.Sprintf("127.0.0.1:%d", port) }

func TestALoadBalancerHearsWhetherANodeHasEndpoints(t *testing.T) {
	f := newFixture(t)
	port, _ := freePorts(t)
	for _, tc := range []struct {
		endpoints int
		healthy   bool
		wantCode  int
	}{{2, true, 200}, {0, true, 503}, {2, false, 503}, {0, false, 503}} {
		f.healthy.Store(tc.healthy)
		f.Set(web, port, tc.endpoints)
		server := f.checks[web].server
		code, header, body := get(at(port), "/any/path?x=y")
		if weight := header.Get("X-Load-Balancing-Endpoint-Weight"); code != tc.wantCode || weight != fmt.Sprint(tc.endpoints) {
			t.Errorf("%+v: the status is %d, the weight %q", tc, code, weight)
		}
		want := fmt.Sprintf(`{"service":{"namespace":"default","name":"web"},"localEndpoints":%d,"serviceProxyHealthy":%t}`+"\n", tc.endpoints, tc.healthy)
		if diff := cmp.Diff(want, body); diff != "" {
			t.Errorf("the body (-want +got):\n%s", diff)
		}
		f.Set(web, port, 7)
		if f.checks[web].server != server {
			t.Error("the port was reopened, which loses probes in flight")
		}
	}
}

func TestAServiceMovesToAnotherPortAndGoes(t *testing.T) {
	f := newFixture(t)
	one, two := freePorts(t)
	f.Set(web, one, 1)
	f.Set(web, two, 1)
	if status(at(one)) != 0 || status(at(two)) != 200 {
		t.Errorf("the old port answers %d, the new one %d", status(at(one)), status(at(two)))
	}
	f.Set(web, 0, 1)
	f.Set(dns, 0, 0) // was never there
	if status(at(two)) != 0 {
		t.Error("a Service without the port is still answered for")
	}
}

func TestAPortOfAnotherProgramIsTakenOnceItIsFree(t *testing.T) {
	taken := listen(t, ":0")
	port := portOf(taken)
	f := newFixture(t)
	f.Set(web, port, 1)
	f.Set(web, port, 1)
	if got := <-f.failed; !strings.HasPrefix(got, fmt.Sprintf("default/web %d listening on the health check port", port)) {
		t.Errorf("the failure reads %q", got)
	}
	time.Sleep(3 * listenAgainEvery)
	_ = taken.Close()
	until(t, "the port answers", func() bool { return status(at(port)) == http.StatusOK })
	if len(f.failed) != 0 {
		t.Errorf("one failure was reported again: %s", <-f.failed)
	}
}

func TestTwoServicesThatSwapTheirPortsAreBothServed(t *testing.T) {
	f := newFixture(t)
	one, two := freePorts(t)
	f.Set(web, one, 1)
	f.Set(dns, two, 2)
	f.Set(web, two, 1) // still that of dns
	f.Set(dns, one, 2)
	for port, want := range map[uint16]string{one: "dns", two: "web"} {
		var got checkReport
		if _, _, body := get(at(port), "/"); json.Unmarshal([]byte(body), &got) != nil || got.Service.Name != want {
			t.Errorf("port %d answers %s, want the Service %s", port, body, want)
		}
	}
}

func TestAllAddressesAnswerUntilTheEnd(t *testing.T) {
	f := newFixture(t)
	port, _ := freePorts(t)
	f.Set(web, port, 1)
	for _, addr := range []string{"127.0.0.1", "127.0.0.2", "::1"} {
		if code := status(net.JoinHostPort(addr, fmt.Sprint(port))); code != http.StatusOK {
			t.Errorf("%s answers %d", addr, code)
		}
	}
	idle, err := net.Dial("tcp", at(port)) // a client that says nothing
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = idle.Close() }()
	f.stop()
	f.Set(web, port, 1)
	_ = listen(t, fmt.Sprintf(":%d", port)).Close()
}

// Any client that reaches the node reaches these ports.
func TestAClientThatSendsNothingIsCutOff(t *testing.T) {
	server := newHTTPServer(http.NotFoundHandler())
	for name, d := range map[string]time.Duration{
		"headers": server.ReadHeaderTimeout, "request": server.ReadTimeout, "answer": server.WriteTimeout, "pause": server.IdleTimeout,
	} {
		if d <= 0 || d > time.Minute {
			t.Errorf("the %s may take %v", name, d)
		}
	}
	server.ReadHeaderTimeout = 20 * time.Millisecond
	l := listen(t, "127.0.0.1:0")
	go func() { _ = server.Serve(l) }()
	defer func() { _ = server.Close() }()
	c, err := net.Dial("tcp", l.Addr().String())
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = c.Close() }()
	_ = c.SetReadDeadline(time.Now().Add(5 * time.Second))
	if _, err := io.ReadAll(c); err != nil {
		t.Errorf("the connection was not closed: %v", err)
	}
}
