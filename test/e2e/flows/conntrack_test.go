package flows_test

import (
	"bufio"
	"context"
	"fmt"
	"net"
	"net/netip"
	"sync/atomic"
	"time"

	"github.com/gopacket/gopacket/layers"
	. "github.com/onsi/gomega"
	"k8s.io/apimachinery/pkg/util/intstr"

	"github.com/clusterip-operator/clusterip-operator/proxyagent/model"
	"github.com/clusterip-operator/clusterip-operator/test/framework/network"
)

const (
	zeroStale    = "flows to the node port of a UDP Service that loses its last endpoint stay (kubernetes/kubernetes#139628 was mended for its addresses)"
	deletedStale = "flows of a UDP Service that is deleted stay (kubernetes/kubernetes#141371)"
)

// udpFlows is how many there were.
var udpFlows atomic.Uint32

// udp is a flow with a source port of its own, so that conntrack knows it. A port of another
// scenario would confuse IPVS, which takes flows of one source port and endpoint for the same.
func (t *T) udp(from *network.Namespace, to netip.Addr, port uint16) Flow {
	return over(model.UDP, bound(from.Addr(t.F), uint16(21000+udpFlows.Add(1)), flow(from, to, port)))
}

// busy keeps a flow alive with datagrams until stop is called: conntrack keeps what is used.
func (t *T) busy(f Flow) (stop func()) {
	quit, done := make(chan struct{}), make(chan struct{})
	go func() {
		defer close(done)
		for {
			f.Timeout = 50 * time.Millisecond
			f.dial()
			select {
			case <-quit:
				return
			case <-time.After(50 * time.Millisecond):
			}
		}
	}()
	return func() { close(quit); <-done }
}

var udpPort = []port{{protocol: model.UDP}}

// swap is a scenario of a busy UDP flow whose endpoints change.
func swap(from func(*T) *network.Namespace, to func(*T, service) (netip.Addr, uint16)) func(*T) {
	return func(t *T) {
		a, b := on(t.Pod2, 1), on(t.RemotePod, 1)
		s := t.create(spec{nodePort: true, ports: udpPort}, a)
		ip, port := to(t, s)
		f := t.udp(from(t), ip, port)
		t.expect("the first endpoint", f, reaches(a))
		stop := t.busy(f)
		s.setEndpoints(b)
		stop()
		t.expect("the second one, for the same flow", f, reaches(b))
		s.setEndpoints(terminating(b), a)
		t.expect("the first one again; a terminating one may finish what it has", f, reachesSome(a, b))
		s.setEndpoints(a)
		t.expect("the first one again", f, reaches(a))
	}
}

func toClusterIP(_ *T, s service) (netip.Addr, uint16) { return s.clusterIP(), 80 }

func toNodePort(t *T, s service) (netip.Addr, uint16) { return t.Node.Addr(t.F), s.nodePort(0) }

var conntrackScenarios = []scenario{
	{number: "113", name: "UDP: a flow follows when the endpoint of a ClusterIP is replaced",
		run: swap(func(t *T) *network.Namespace { return t.Pod1 }, toClusterIP)},
	{number: "114", name: "UDP: a flow follows when the endpoint of a node port is replaced",
		run: swap(func(t *T) *network.Namespace { return t.Client }, toNodePort)},
	{number: "115", name: "UDP: a flow from the host's network follows when the endpoint is replaced",
		run: swap(func(t *T) *network.Namespace { return t.Node }, toClusterIP)},
	{number: "116", name: "UDP: a flow that began before an endpoint was ready reaches it then", run: func(t *T) {
		a := on(t.Pod2, 1)
		s := t.create(spec{nodePort: true, ports: udpPort}, unready(a))
		f, n := t.udp(t.Pod1, s.clusterIP(), 80), t.udp(t.Client, t.Node.Addr(t.F), s.nodePort(0))
		t.expect("none is ready", f, refused)
		stop, stopNode := t.busy(f), t.busy(n)
		s.setEndpoints(a)
		stop()
		stopNode()
		t.expect("one is ready", f, reaches(a))
		t.expect("one is ready, at the node port", n, reaches(a))
	}},
	{number: "117", name: "UDP: a flow follows when the target port changes", run: func(t *T) {
		a := on(t.Pod2, 1)
		s := t.create(spec{ports: udpPort}, a)
		f := t.udp(t.Pod1, s.clusterIP(), 80)
		t.expect("the first port", f, reachesAt(at(a, 8080)))
		s.Spec.Ports[0].TargetPort = intstr.FromInt32(8081)
		stop := t.busy(f)
		s.setEndpoints(a)
		stop()
		t.expect("the second port, for the same flow", f, reachesAt(at(a, 8081)))
	}},
	{number: "118", name: "UDP: flows end when the last endpoint goes", run: func(t *T) {
		a := on(t.Pod2, 1)
		s := t.create(spec{nodePort: true, ports: udpPort}, a)
		f, outside := t.udp(t.Pod1, s.clusterIP(), 80), t.udp(t.Client, t.Node.Addr(t.F), s.nodePort(0))
		t.expect("with an endpoint", f, reaches(a))
		t.expect("with an endpoint, at the node port", outside, reaches(a).masqueraded())
		stop, stopOutside := t.busy(f), t.busy(outside)
		s.setEndpoints()
		t.settle()
		stop()
		stopOutside()
		t.expect("a new flow", over(model.UDP, flow(t.Pod1, s.clusterIP(), 80)), refused)
		t.expect("the old one", f, refused)
		t.expect("the old one at the node port", outside, refused, kubeProxy(reaches(a).masqueraded(), zeroStale))
	}},
	{number: "119", name: "UDP: a flow ends when the Service is deleted", run: func(t *T) {
		a := on(t.Pod2, 1)
		s := t.create(spec{ports: udpPort}, a)
		f := t.udp(t.Pod1, s.clusterIP(), 80)
		t.expect("with an endpoint", f, reaches(a))
		stop := t.busy(f)
		t.Delete(t.ctx, s.Name)
		t.settle()
		stop()
		t.expect("a new flow", over(model.UDP, flow(t.Pod1, s.clusterIP(), 80)), dropped)
		t.expect("the old one", f, dropped, kubeProxy(reaches(a), deletedStale))
	}},
	{number: "121", name: "packets of no connection are dropped on their way through the node", only: model.IPv4, run: func(t *T) {
		t.invalid(t.kind == withNFTables)
		want := t.kind == withNFTables || t.kind == withIPVS
		if got := t.broken(want); got != want {
			t.fail("a broken segment arrived: %t, want %t", got, want)
		}
	}},
}

// invalid sends from an endpoint, in the name of a connection, a segment far outside of its window.
// Conntrack cannot place it and does not translate it: unless it is dropped, it arrives with the
// endpoint's own address, and the client resets what it believes to be a stranger.
func (t *T) invalid(wanted bool) {
	s := t.create(spec{eTPLocal: true, nodePort: true}, t.local)
	f := flow(t.Client, t.Node.Addr(t.F), s.nodePort(0))
	t.expect("the Service", f, reaches(t.local).preserved())
	conn := t.connect(f)
	server, client := netip.AddrPortFrom(t.local.Addr(t.F), 8080), conn.LocalAddr().(*net.TCPAddr).AddrPort()
	heard := t.hear(server)
	for quarter := range uint32(4) { // conntrack forgives what may be old; of four numbers around the clock two are not
		segment := network.TCPSegment(server, client, layers.TCP{ACK: true, Ack: 1, Seq: quarter << 30, Window: 256})
		t.must(t.Pod2.SendRaw("eth0", t.Node, "pod2", segment))
	}
	if got := arrives(heard, wanted); got != wanted {
		t.fail("the segment arrived: %t, want %t", got, wanted)
	}
	if !wanted {
		t.echo(conn)
	}
}

// connect opens a connection that stays until the end of the scenario; echo uses it.
func (t *T) connect(f Flow) net.Conn {
	conn, err := f.from.DialContext(t.ctx, "tcp", f.To.String())
	t.must(err)
	context.AfterFunc(t.ctx, func() { _ = conn.Close() })
	t.echo(conn)
	return conn
}

func (t *T) echo(conn net.Conn) {
	_ = conn.SetDeadline(time.Now().Add(patient))
	_, err := fmt.Fprintln(conn, "still there?")
	t.must(err)
	for lines := bufio.NewScanner(conn); lines.Text() != "still there?"; {
		t.Expect(lines.Scan()).To(BeTrue(), "the connection suffered: %v", lines.Err())
	}
}

// broken sends a segment with a wrong checksum through the node, which conntrack calls invalid
// however liberal it is, and tells whether it arrives.
func (t *T) broken(wanted bool) bool {
	from, to := netip.AddrPortFrom(t.Pod2.Addr(t.F), 1234), netip.AddrPortFrom(t.Client.Addr(t.F), 1234)
	heard := t.hear(from)
	segment := network.TCPSegment(from, to, layers.TCP{SYN: true, Seq: 1, Window: 256})
	segment[len(segment)-4] ^= 1
	for range 3 {
		t.must(t.Pod2.SendRaw("eth0", t.Node, "pod2", segment))
	}
	return arrives(heard, wanted)
}

// arrives tells whether something is heard in time. What is wanted gets more time, at no cost.
func arrives(heard <-chan struct{}, wanted bool) bool {
	changeTimeout := network.DropTimeout
	if wanted {
		changeTimeout = network.DefaultTimeout
	}
	select {
	case <-heard:
		return true
	case <-time.After(changeTimeout):
		return false
	}
}

// hear tells when a TCP segment with this source arrives at the client.
func (t *T) hear(source netip.AddrPort) <-chan struct{} {
	var conn *net.IPConn
	t.must(t.Client.Do(func() (err error) {
		conn, err = net.ListenIP("ip4:tcp", nil)
		return err
	}))
	heard := make(chan struct{}, 1)
	_ = conn.SetReadDeadline(time.Now().Add(2 * network.DefaultTimeout))
	go func() {
		defer func() { _ = conn.Close() }()
		var buffer [2048]byte
		for {
			length, from, err := conn.ReadFromIP(buffer[:])
			if err != nil {
				return
			}
			if a, _ := netip.AddrFromSlice(from.IP); length > 2 && a.Unmap() == source.Addr() &&
				int(buffer[0])<<8+int(buffer[1]) == int(source.Port()) {
				heard <- struct{}{}
				return
			}
		}
	}()
	return heard
}

// restart: a proxy's restart moves no good flow, and new connections find their way meanwhile.
func restart(t *T) {
	all := t.six()
	s := t.create(spec{ports: []port{{name: "u", protocol: model.UDP}, {name: "t"}}}, all...)
	t.expect("the Service", flow(t.Pod1, s.clusterIP(), 80), reaches(all...))
	flows, before := make([]Flow, 8), make([]netip.AddrPort, 8)
	for i := range flows {
		flows[i] = t.udp(t.Pod1, s.clusterIP(), 80)
		t.eventually("a flow", func() error {
			got := t.Pod1.Dial(flows[i].Probe)
			before[i] = got.Endpoint
			return got.Err
		})
	}
	conn := t.connect(flow(t.Pod1, s.clusterIP(), 80))
	var stops []func()
	for _, f := range flows { // conntrack may forget a flow that is silent for half a minute
		stops = append(stops, t.busy(f))
	}
	t.must(t.proxy.Stop())
	t.expect("without a proxy", flow(t.Pod1, s.clusterIP(), 80), reaches(all...))
	t.must(t.proxy.Start(t.ctx))
	extra := t.create(spec{}, all[:1]...)
	t.expect("a new Service", flow(t.Pod1, extra.clusterIP(), 80), reaches(all[0]))
	for i, f := range flows {
		stops[i]()
		if got := t.Pod1.Dial(f.Probe); got.Endpoint != before[i] {
			t.fail("flow %d: got %s, want %s as before", i, got, before[i])
		}
	}
	t.echo(conn)
}
