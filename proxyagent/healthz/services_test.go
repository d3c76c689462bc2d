package healthz

import (
	"fmt"
	"io"
	"net"
	"net/http"
	"net/netip"
	"runtime"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	clocktesting "k8s.io/utils/clock/testing"

	"github.com/clusterip-operator/clusterip-operator/proxyagent/model"
)

var (
	web = model.ServiceName{Namespace: "default", Name: "web"}
	dns = model.ServiceName{Namespace: "kube-system", Name: "dns"}

	loopback = []netip.Addr{netip.MustParseAddr("127.0.0.1")}
)

// bench is a set of Services that listens on loopback, and what it reported.
type bench struct {
	*Services
	clock   *clocktesting.FakeClock
	healthy atomic.Bool
	failed  chan string
}

func newBench(t *testing.T, addrs []netip.Addr) *bench {
	t.Helper()
	b := &bench{clock: clocktesting.NewFakeClock(noon), failed: make(chan string, 100)}
	b.healthy.Store(true)
	b.Services = NewServices(ServicesOptions{
		Healthy: b.healthy.Load, Addresses: addrs, Clock: b.clock,
		Failed: func(n model.ServiceName, port uint16, err error) { b.failed <- fmt.Sprintf("%s %d %v", n, port, err) },
	})
	t.Cleanup(b.Close)
	return b
}

// freePort is free on every address at the moment.
func freePort(t *testing.T) uint16 {
	t.Helper()
	l := listen(t, ":0")
	defer func() { _ = l.Close() }()
	return portOf(l)
}

// twoFreePorts are different ones.
func twoFreePorts(t *testing.T) (one, two uint16) {
	t.Helper()
	l := listen(t, ":0")
	defer func() { _ = l.Close() }()
	return portOf(l), freePort(t)
}

func portOf(l net.Listener) uint16 { return uint16(l.Addr().(*net.TCPAddr).Port) }

func at(port uint16) string { return fmt.Sprintf("127.0.0.1:%d", port) }

func TestALoadBalancerHearsWhetherANodeHasEndpoints(t *testing.T) {
	for name, tc := range map[string]struct {
		endpoints int
		healthy   bool
		wantCode  int
	}{
		"endpoints here":                 {2, true, 200},
		"none here":                      {0, true, 503},
		"endpoints, but an ill agent":    {2, false, 503},
		"neither endpoints nor an agent": {0, false, 503},
	} {
		t.Run(name, func(t *testing.T) {
			b := newBench(t, loopback)
			b.healthy.Store(tc.healthy)
			port := freePort(t)
			b.Set(web, port, tc.endpoints)
			code, header, body := get(at(port), "/any/path?x=y")
			if code != tc.wantCode {
				t.Errorf("the status is %d, want %d", code, tc.wantCode)
			}
			if w := header.Get("X-Load-Balancing-Endpoint-Weight"); w != fmt.Sprint(tc.endpoints) {
				t.Errorf("the weight is %q, want %d", w, tc.endpoints)
			}
			want := checkReport{LocalEndpoints: int64(tc.endpoints), ServiceProxyHealthy: tc.healthy}
			want.Service.Namespace, want.Service.Name = "default", "web"
			if diff := cmp.Diff(want, decoded(t, body)); diff != "" {
				t.Errorf("the body (-want +got):\n%s", diff)
			}
			for _, field := range []string{`"service"`, `"namespace"`, `"name"`, `"localEndpoints"`, `"serviceProxyHealthy"`} {
				if !strings.Contains(body, field) {
					t.Errorf("the body lacks %s: %s", field, body)
				}
			}
		})
	}
}

func TestEndpointsChangeWithoutANewPort(t *testing.T) {
	b := newBench(t, loopback)
	port := freePort(t)
	b.Set(web, port, 1)
	server := b.checks[web].server
	b.Set(web, port, 0)
	if code, _, _ := get(at(port), "/"); code != http.StatusServiceUnavailable {
		t.Errorf("without endpoints the status is %d", code)
	}
	if b.checks[web].server != server {
		t.Error("the port was reopened, which loses probes in flight")
	}
}

func TestAServiceMovesToAnotherPortAndGoes(t *testing.T) {
	b := newBench(t, loopback)
	one, two := twoFreePorts(t)
	b.Set(web, one, 1)
	b.Set(web, two, 1)
	if status(at(one)) != 0 || status(at(two)) != 200 {
		t.Errorf("the old port answers %d, the new one %d", status(at(one)), status(at(two)))
	}
	b.Set(web, 0, 1)
	b.Set(dns, 0, 0) // was never there
	if status(at(two)) != 0 {
		t.Error("a Service without the port is still answered for")
	}
}

func TestAPortOfSomebodyElseIsTakenOnceItIsFree(t *testing.T) {
	taken := listen(t, "127.0.0.1:0")
	port := portOf(taken)
	b := newBench(t, loopback)
	b.Set(web, port, 1)
	b.Set(web, port, 1)
	if got := <-b.failed; !strings.HasPrefix(got, fmt.Sprintf("default/web %d listening on the health check port", port)) {
		t.Errorf("the failure reads %q", got)
	}
	until(t, "the ticker runs", b.clock.HasWaiters)
	b.clock.Step(listenAgainEvery)
	_ = taken.Close()
	until(t, "the port answers", func() bool {
		b.clock.Step(listenAgainEvery)
		return status(at(port)) == http.StatusOK
	})
	if len(b.failed) != 0 {
		t.Errorf("one failure was reported again: %s", <-b.failed)
	}
}

func TestTwoServicesThatSwapTheirPortsAreBothServed(t *testing.T) {
	b := newBench(t, loopback)
	one, two := twoFreePorts(t)
	b.Set(web, one, 1)
	b.Set(dns, two, 2)
	b.Set(web, two, 1) // still that of dns
	b.Set(dns, one, 2)
	for port, want := range map[uint16]string{one: "dns", two: "web"} {
		if _, _, body := get(at(port), "/"); decoded(t, body).Service.Name != want {
			t.Errorf("port %d answers %s, want the Service %s", port, body, want)
		}
	}
}

func TestAllAddressesOfBothFamiliesAnswer(t *testing.T) {
	b := newBench(t, nil)
	port := freePort(t)
	b.Set(web, port, 1)
	for _, addr := range []string{"127.0.0.1", "127.0.0.2", "::1"} {
		if code := status(net.JoinHostPort(addr, fmt.Sprint(port))); code != http.StatusOK {
			t.Errorf("%s answers %d", addr, code)
		}
	}
}

func TestOnlyTheAddressesAskedForAnswer(t *testing.T) {
	b := newBench(t, []netip.Addr{netip.MustParseAddr("127.0.0.2"), netip.MustParseAddr("::1")})
	port := freePort(t)
	b.Set(web, port, 1)
	for addr, want := range map[string]int{"127.0.0.1": 0, "127.0.0.2": 200, "::1": 200} {
		if code := status(net.JoinHostPort(addr, fmt.Sprint(port))); code != want {
			t.Errorf("%s answers %d, want %d", addr, code, want)
		}
	}
}

func TestOneAddressThatCannotBeBoundFreesTheOthers(t *testing.T) {
	free := listen(t, "127.0.0.1:0") // where connections of others have their ports
	port := portOf(free)
	taken := listen(t, fmt.Sprintf("127.0.0.2:%d", port))
	defer func() { _ = taken.Close() }()
	_ = free.Close()
	b := newBench(t, []netip.Addr{netip.MustParseAddr("127.0.0.1"), netip.MustParseAddr("127.0.0.2")})
	b.Set(web, port, 1)
	<-b.failed
	if code := status(at(port)); code != 0 {
		t.Errorf("half of a check answers %d", code)
	}
	_ = listen(t, at(port)).Close()
}

func TestFailedMayCallBack(t *testing.T) {
	taken := listen(t, "127.0.0.1:0")
	defer func() { _ = taken.Close() }()
	port := portOf(taken)
	done := make(chan struct{})
	var s *Services
	s = NewServices(ServicesOptions{Addresses: loopback, Failed: func(n model.ServiceName, _ uint16, _ error) { s.Set(n, 0, 0) }})
	defer s.Close()
	go func() {
		s.Set(web, port, 1)
		close(done)
	}()
	wait(t, done, "the end of Set")
}

func TestCloseFreesPortsAndGoroutines(t *testing.T) {
	before := runtime.NumGoroutine()
	b := newBench(t, loopback)
	var ports []uint16
	for i := range 20 {
		ports = append(ports, freePort(t))
		b.Set(model.ServiceName{Namespace: "n", Name: fmt.Sprint(i)}, ports[i], 1)
	}
	idle, err := net.Dial("tcp", at(ports[0])) // a client that says nothing
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = idle.Close() }()
	b.Close()
	b.Close()
	b.Set(web, ports[0], 1)
	for _, p := range ports {
		_ = listen(t, at(p)).Close()
	}
	until(t, "no goroutine is left", func() bool { return runtime.NumGoroutine() <= before })
}

func TestAPortThatStopsAcceptingIsOpenedAnew(t *testing.T) {
	b := newBench(t, loopback)
	port := freePort(t)
	b.Set(web, port, 1)
	c := b.checks[web]
	l := listen(t, "127.0.0.1:0")
	_ = l.Close()
	c.serve(newHTTPServer(c), l) // what happens when one of its listeners ends
	if c.open() {
		t.Fatal("a check that accepts no more is taken for open")
	}
	b.Set(web, port, 1)
	if !c.open() || status(at(port)) != http.StatusOK {
		t.Error("it was not reopened")
	}
}

// Everybody who reaches the node reaches these ports.
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
