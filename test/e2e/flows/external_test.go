package flows_test

import (
	"encoding/json"
	"fmt"
	"io"
	"net/netip"
	"time"

	corev1 "k8s.io/api/core/v1"

	"github.com/clusterip-operator/clusterip-operator/proxyagent/model"
	"github.com/clusterip-operator/clusterip-operator/test/e2e/internal/environment"
	"github.com/clusterip-operator/clusterip-operator/test/framework/network"
)

const primaryOnly = "its nftables mode serves node ports at the primary node IPs alone, by default"

// clientRange is the one of the client's further addresses.
func clientRange(t *T) string {
	return netip.PrefixFrom(t.Client.Extra(t.F, 0), map[model.Family]int{model.IPv4: 16, model.IPv6: 64}[t.F]).String()
}

// fromRange sends from one of the client's further addresses.
func fromRange(t *T, f Flow) Flow { return bound(t.Client.Extra(t.F, 5), 0, f) }

var loadBalancerScenarios = []scenario{
	{number: "47", name: "a load balancer IP is served to clients, pods and the node", run: func(t *T) {
		s := t.create(spec{lb: t.virtual()}, t.local, t.remote)
		for _, from := range []*network.Namespace{t.Client, t.Pod1, t.Node} {
			t.expect("from "+from.Host(), flow(from, s.lb(), 80), reaches(t.local, t.remote).masqueraded())
		}
	}},
	{number: "47b", name: "load balancer IPs come, change and go", run: func(t *T) {
		s := t.create(spec{typ: corev1.ServiceTypeLoadBalancer}, t.local)
		first, second := virtualAddr(t.F), virtualAddr(t.F)
		t.SetIngress(t.ctx, s.Name, environment.Ingress(first.String())...)
		t.expect("the first", flow(t.Client, first, 80), reaches(t.local))
		t.SetIngress(t.ctx, s.Name, environment.Ingress(second.String())...)
		t.expect("the second", flow(t.Client, second, 80), reaches(t.local))
		t.expect("not the first any more", flow(t.Client, first, 80), dropped)
		t.SetIngress(t.ctx, s.Name)
		t.expect("none", flow(t.Client, second, 80), dropped)
		t.expect("the ClusterIP stays", flow(t.Client, s.clusterIP(), 80), reaches(t.local))
	}},
	{number: "48", name: "several load balancer IPs and external IPs, with several protocols", run: func(t *T) {
		lb, external := append(t.virtual(), t.virtual()...), append(t.virtual(), t.virtual()...)
		t.create(spec{lb: lb, externalIPs: external, ports: []port{{name: "t"}, {name: "u", protocol: model.UDP, port: 81}}}, t.local)
		for _, ip := range append(lb, external...) {
			t.expect("TCP", flow(t.Client, netip.MustParseAddr(ip), 80), reaches(t.local))
			t.expect("UDP", over(model.UDP, flow(t.Client, netip.MustParseAddr(ip), 81)), reaches(t.local))
		}
	}},
	{number: "48c", name: "an external IP that is the node's own takes its port and leaves the others", run: func(t *T) {
		alt := network.AltNodeAddr(t.F)
		number := 7000 + uint16(t.F)
		s := t.create(spec{externalIPs: []string{alt.String()}, nodePort: true, ports: []port{{port: int32(number)}}}, t.local)
		t.expect("its port", flow(t.Client, alt, number), reaches(t.local))
		t.expect("its port, from a pod", flow(t.Pod1, alt, number), reaches(t.local))
		own := flow(t.Client, alt, 8080)
		t.expect("a program of the node", own, itself.preserved())
		t.expect("its node port there", flow(t.Client, alt, s.nodePort(0)), reaches(t.local), kubeProxyNFTables(refused, primaryOnly))
	}},
	{number: "48d", name: "Services share a load balancer IP by ports, and other ports of it go their way", run: func(t *T) {
		a, b := on(t.Pod2, 1), on(t.Pod2, 2)
		shared := t.virtual()
		one := t.create(spec{lb: shared, sourceRanges: []string{clientRange(t)}}, a)
		t.create(spec{lb: shared, ports: []port{{port: 81}}}, b)
		t.create(spec{lb: shared, ports: []port{{port: 80, protocol: model.UDP}}})
		t.expect("the first, inside of its range", fromRange(t, flow(t.Client, one.lb(), 80)), reaches(a))
		t.expect("the second, which has none", flow(t.Client, one.lb(), 81), reaches(b))
		t.expect("the third, which has no endpoints", over(model.UDP, flow(t.Client, one.lb(), 80)), refused)
		t.expect("the first, outside of its range", flow(t.Client, one.lb(), 80), dropped)
		other := t.answerOutside(one.lb())
		t.expect("a port of none", other, itself, ipvs(refused, "a virtual IP is an address of the node"))
	}},
	{number: "49", name: "a load balancer IP of ipMode Proxy is left alone", run: func(t *T) {
		s := t.create(spec{lb: t.virtual(), ipMode: corev1.LoadBalancerIPModeProxy}, t.local)
		t.expect("the node port", flow(t.Client, t.Node.Addr(t.F), s.nodePort(0)), reaches(t.local))
		t.expect("the load balancer IP", flow(t.Client, s.lb(), 80), dropped)
		t.expect("from a pod", flow(t.Pod1, s.lb(), 80), dropped)
		v := t.create(spec{lb: t.virtual(), ipMode: corev1.LoadBalancerIPModeVIP}, t.local)
		t.expect("ipMode VIP", flow(t.Client, v.lb(), 80), reaches(t.local))
	}},
	{number: "49b", kinds: atRandom, // IPVS ends connections with their virtual IP
		name: "the ipMode of a load balancer changes, and connections live on", run: func(t *T) {
			s := t.create(spec{lb: t.virtual()}, t.local)
			as := func(mode corev1.LoadBalancerIPMode) {
				ingress := environment.Ingress(s.lb().String())
				ingress[0].IPMode = &mode
				t.SetIngress(t.ctx, s.Name, ingress...)
			}
			t.expect("by default", flow(t.Client, s.lb(), 80), reaches(t.local))
			conn := t.connect(flow(t.Client, s.lb(), 80))
			as(corev1.LoadBalancerIPModeProxy)
			t.expect("Proxy", flow(t.Client, s.lb(), 80), dropped)
			t.expect("Proxy, from a pod", flow(t.Pod1, s.lb(), 80), dropped)
			t.expect("Proxy, the node port", flow(t.Client, t.Node.Addr(t.F), s.nodePort(0)), reaches(t.local))
			t.echo(conn)
			as(corev1.LoadBalancerIPModeVIP)
			t.expect("VIP", flow(t.Client, s.lb(), 80), reaches(t.local))
			t.echo(conn)
		}},
	{number: "50", name: "source ranges let in who is inside", run: func(t *T) {
		s := t.create(spec{lb: t.virtual(), sourceRanges: []string{clientRange(t)}, ports: everyProtocol}, t.local)
		for _, p := range model.Protocols {
			t.expect(p.String(), over(p, fromRange(t, flow(t.Client, s.lb(), 80))), reaches(t.local))
		}
	}},
	{number: "51", name: "source ranges drop who is outside", run: func(t *T) {
		s := t.create(spec{lb: t.virtual(), sourceRanges: []string{clientRange(t)}, ports: everyProtocol}, t.local)
		for _, p := range model.Protocols {
			t.expect(p.String()+" inside", over(p, fromRange(t, flow(t.Client, s.lb(), 80))), reaches(t.local))
			t.expect(p.String()+" outside", over(p, flow(t.Client, s.lb(), 80)), dropped)
		}
		s.update(func(o *corev1.Service) { o.Spec.LoadBalancerSourceRanges = nil })
		t.expect("without ranges", flow(t.Client, s.lb(), 80), reaches(t.local))
	}},
	{number: "51b", kinds: everyOurs, name: "source ranges are tightened: connections and flows that are there live on, new ones have to be inside", run: func(t *T) {
		s := t.create(spec{lb: t.virtual(), ports: []port{{name: "t"}, {name: "u", protocol: model.UDP}}}, t.local)
		flow := flow(t.Client, s.lb(), 80)
		t.expect("without ranges", flow, reaches(t.local))
		inside, outside, datagrams := t.connect(fromRange(t, flow)), t.connect(flow), t.udp(t.Client, s.lb(), 80)
		t.expect("without ranges, datagrams", datagrams, reaches(t.local))
		s.update(func(o *corev1.Service) { o.Spec.LoadBalancerSourceRanges = []string{clientRange(t)} })
		t.expect("a new one outside", flow, dropped)
		t.expect("a new one inside", fromRange(t, flow), reaches(t.local))
		t.echo(inside)
		t.echo(outside)
		t.expect("the datagrams that began before", datagrams, reaches(t.local))
		t.expect("datagrams that begin now", over(model.UDP, flow), dropped)
	}},
	{number: "52", name: "source ranges drop pods that are outside", run: func(t *T) {
		only := netip.PrefixFrom(t.Pod1.Addr(t.F), t.F.Bits()).String()
		s := t.create(spec{lb: t.virtual(), sourceRanges: []string{only}}, t.local)
		t.expect("a pod inside", flow(t.Pod1, s.lb(), 80), reaches(t.local))
		t.expect("a pod outside", flow(t.Pod2, s.lb(), 80), dropped)
		t.expect("a client", flow(t.Client, s.lb(), 80), dropped)
		t.expect("the ClusterIP is open to all", flow(t.Client, s.clusterIP(), 80), reaches(t.local))
	}},
	{number: "53", name: "source ranges let in the node by its own address", run: func(t *T) {
		node := netip.PrefixFrom(t.Node.Addr(t.F), t.F.Bits()).String()
		s := t.create(spec{lb: t.virtual(), sourceRanges: []string{node}}, t.remote)
		t.expect("the node", flow(t.Node, s.lb(), 80), reaches(t.remote))
		t.expect("a client", flow(t.Client, s.lb(), 80), dropped)
		s = t.create(spec{lb: t.virtual(), sourceRanges: []string{clientRange(t)}}, t.remote)
		t.expect("a client inside", fromRange(t, flow(t.Client, s.lb(), 80)), reaches(t.remote))
		t.expect("the node outside", flow(t.Node, s.lb(), 80), dropped)
	}},
	{number: "54", name: "source ranges with the node let in the load balancer IP itself, when it is on the node", run: func(t *T) {
		node := netip.PrefixFrom(t.Node.Addr(t.F), t.F.Bits()).String()
		s := t.create(spec{lb: t.virtual(), sourceRanges: []string{node}}, t.remote)
		_, err := t.Node.Run(t.ctx, "ip", "addr", "add", netip.PrefixFrom(s.lb(), t.F.Bits()).String(), "dev", "lo")
		t.must(err)
		t.expect("from the node, whose address is the same", bound(s.lb(), 0, flow(t.Node, s.lb(), 80)), reaches(t.remote))
		t.expect("a client", flow(t.Client, s.lb(), 80), dropped)
	}},
	{number: "55", name: "source ranges do not apply to node ports and external IPs", run: func(t *T) {
		s := t.create(spec{lb: t.virtual(), externalIPs: t.virtual(), sourceRanges: []string{clientRange(t)}}, t.local)
		t.expect("the node port", flow(t.Client, t.Node.Addr(t.F), s.nodePort(0)), reaches(t.local))
		t.expect("the external IP", flow(t.Client, s.externalIP(), 80), reaches(t.local))
		t.expect("the load balancer IP", flow(t.Client, s.lb(), 80), dropped)
	}},
	{number: "55b", name: "a load balancer without node ports", run: func(t *T) {
		s := t.create(spec{lb: t.virtual(), change: func(o *corev1.Service) { o.Spec.AllocateLoadBalancerNodePorts = new(false) }}, t.local)
		t.expect("the load balancer IP", flow(t.Client, s.lb(), 80), reaches(t.local))
		s.setEndpoints()
		t.expect("without endpoints", flow(t.Client, s.lb(), 80), refused)
		if s.nodePort(0) != 0 {
			t.fail("it has node port %d", s.nodePort(0))
		}
	}},
	{number: "56", name: "several source ranges, with blanks around them", run: func(t *T) {
		one := netip.PrefixFrom(t.Pod1.Addr(t.F), t.F.Bits()).String()
		s := t.create(spec{lb: t.virtual(), sourceRanges: []string{" " + clientRange(t) + " ", one}}, t.local)
		t.expect("a client inside", fromRange(t, flow(t.Client, s.lb(), 80)), reaches(t.local))
		t.expect("a pod inside", flow(t.Pod1, s.lb(), 80), reaches(t.local))
		t.expect("a client outside", flow(t.Client, s.lb(), 80), dropped)
	}},
	{number: "57", name: "a source range of length 0 lets in everybody", run: func(t *T) {
		all := map[model.Family]string{model.IPv4: "0.0.0.0/0", model.IPv6: "::/0"}[t.F]
		s := t.create(spec{lb: t.virtual(), sourceRanges: []string{clientRange(t), all}}, t.local)
		t.expect("a client", flow(t.Client, s.lb(), 80), reaches(t.local))
		t.expect("a pod", flow(t.Pod1, s.lb(), 80), reaches(t.local))
	}},
	{number: "58", name: "source ranges of the other family alone let in everybody", run: func(t *T) {
		other := map[model.Family]string{model.IPv4: "2001:db8:18::/64", model.IPv6: "198.18.0.0/16"}[t.F]
		s := t.create(spec{lb: t.virtual(), sourceRanges: []string{other}}, t.local)
		t.expect("a client", flow(t.Client, s.lb(), 80), reaches(t.local))
	}},
	{number: "58b", kinds: everyOurs, name: "a Service with more source ranges than a node takes is closed and told, and others are as they ask", run: func(t *T) {
		other, many := t.create(spec{lb: t.virtual(), sourceRanges: []string{clientRange(t)}}, t.local), []string{clientRange(t)}
		for a := netip.MustParseAddr(map[model.Family]string{model.IPv4: "20.0.0.1", model.IPv6: "2001:db8:20::1"}[t.F]); len(many) <= model.MaxSources; a = a.Next().Next() {
			many = append(many, netip.PrefixFrom(a, t.F.Bits()).String())
		}
		s := t.create(spec{lb: t.virtual(), sourceRanges: many}, t.local)
		t.told(s, model.SourcesUnusable)
		for _, from := range []*network.Namespace{t.Client, t.Pod1, t.Node} {
			t.expect("from "+from.Host(), flow(from, s.lb(), 80), dropped)
		}
		t.expect("inside of a range", fromRange(t, flow(t.Client, s.lb(), 80)), dropped)
		t.expect("the ClusterIP", flow(t.Client, s.clusterIP(), 80), reaches(t.local))
		t.expect("another Service", fromRange(t, flow(t.Client, other.lb(), 80)), reaches(t.local))
		s.update(func(o *corev1.Service) { o.Spec.LoadBalancerSourceRanges = many[:100] })
		t.expect("with fewer, inside of a range", fromRange(t, flow(t.Client, s.lb(), 80)), reaches(t.local))
		t.expect("with fewer, outside", flow(t.Client, s.lb(), 80), dropped)
	}},
}

var nodePortScenarios = []scenario{
	{number: "59", name: "a node port is served at all addresses of the node", run: func(t *T) {
		s := t.create(spec{nodePort: true}, t.local, t.remote)
		want := reaches(t.local, t.remote).masqueraded()
		t.expect("primary", flow(t.Client, t.Node.Addr(t.F), s.nodePort(0)), want)
		t.expect("from a pod", flow(t.Pod1, t.Node.Addr(t.F), s.nodePort(0)), want)
		t.expect("from a remote pod", flow(t.RemotePod, t.Node.Addr(t.F), s.nodePort(0)), want)
		t.expect("from the node", flow(t.Node, t.Node.Addr(t.F), s.nodePort(0)), want)
		t.expect("alt", flow(t.Client, network.AltNodeAddr(t.F), s.nodePort(0)), want, kubeProxyNFTables(refused, primaryOnly))
	}},
	{number: "60", name: "a node port with every protocol", run: func(t *T) {
		s := t.create(spec{nodePort: true, ports: everyProtocol}, t.local)
		for i, p := range model.Protocols {
			t.expect(p.String(), over(p, flow(t.Client, t.Node.Addr(t.F), s.nodePort(i))), reaches(t.local))
		}
	}},
	{number: "63", name: "a node port is served on localhost, but never on ::1", run: func(t *T) {
		s := t.create(spec{nodePort: true, ports: []port{{name: "t"}, {name: "u", protocol: model.UDP}}}, t.local, t.remote)
		t.expect("its own address", flow(t.Node, t.Node.Addr(t.F), s.nodePort(0)), reaches(t.local, t.remote))
		want := reaches(t.local, t.remote).masqueraded()
		if t.F == model.IPv6 {
			want = refused
		}
		t.expect("localhost", flow(t.Node, network.Loopback(t.F), s.nodePort(0)), want, kubeProxyNFTables(refused, noLocalhost), ipvs(refused, noLocalhostInIPVS))
		t.expect("over UDP", over(model.UDP, flow(t.Node, network.Loopback(t.F), s.nodePort(1))), want,
			kubeProxyNFTables(refused, noLocalhost), ipvs(refused, noLocalhostInIPVS))
	}},
	{number: "66", name: "a neighbour does not reach what listens on localhost", only: model.IPv4, run: func(t *T) {
		s := t.create(spec{nodePort: true}, on(t.Pod2, 0))
		t.expect("the node port", flow(t.Client, t.Node.Addr(t.F), s.nodePort(0)), reaches(on(t.Pod2, 0)))
		t.must(t.Node.Sysctl(map[string]string{"net/ipv4/conf/all/route_localnet": "1"})) // in case that the proxy does not need it
		server, err := t.Node.Serve(model.UDP, 9000)
		t.must(err)
		defer func() { _ = server.Close() }()
		own := over(model.UDP, flow(t.Node, network.Loopback(t.F), 9000))
		t.expect("the server", own, itself)
		before := server.Seen()
		packet := network.UDPPacket(netip.AddrPortFrom(t.Client.Addr(t.F), 4000), netip.AddrPortFrom(network.Loopback(t.F), 9000), "?")
		for range 5 {
			t.must(t.Client.SendRaw("eth0", t.Node, "eth0", packet))
		}
		time.Sleep(300 * time.Millisecond) // nothing tells that a packet was dropped
		reached := server.Seen() > before
		if wanted := t.kind == withNFTables || t.kind == withIPVS; reached != wanted {
			t.fail("reached: %t, want %t", reached, wanted)
		}
	}},
}

var externalPolicyScenarios = []scenario{
	{number: "67", name: "eTP Local: a node port leads to local endpoints, which see the client", run: func(t *T) {
		s := t.create(spec{nodePort: true, eTPLocal: true}, t.local, t.remote)
		t.expect("from a client", flow(t.Client, t.Node.Addr(t.F), s.nodePort(0)), reaches(t.local).preserved())
		t.expect("from the remote node", flow(t.Remote, t.Node.Addr(t.F), s.nodePort(0)), reaches(t.local).preserved())
	}},
	{number: "68", name: "eTP Local: so do load balancer IPs and external IPs", run: func(t *T) {
		a, b, remote := on(t.Pod2, 1), on(t.Pod2, 2), on(t.RemotePod, 0)
		s := t.create(spec{lb: t.virtual(), externalIPs: t.virtual(), eTPLocal: true,
			ports: []port{{name: "t"}, {name: "u", protocol: model.UDP}}}, a, b, remote)
		t.expect("load balancer IP", flow(t.Client, s.lb(), 80), reaches(a, b).preserved())
		t.expect("external IP", flow(t.Client, s.externalIP(), 80), reaches(a, b).preserved())
		t.expect("over UDP", over(model.UDP, flow(t.Client, s.lb(), 80)), reaches(a, b).preserved())
	}},
	{number: "69", name: "eTP Local: without local endpoints clients get no answer", run: func(t *T) {
		s := t.create(spec{lb: t.virtual(), eTPLocal: true}, t.remote)
		t.expect("the ClusterIP", flow(t.Client, s.clusterIP(), 80), reaches(t.remote))
		elsewhere := kubeProxyIPVS(reaches(t.remote).preserved(), elsewhereInstead)
		t.expect("load balancer IP", flow(t.Client, s.lb(), 80), dropped, elsewhere)
		t.expect("node port", flow(t.Client, t.Node.Addr(t.F), s.nodePort(0)), dropped, elsewhere)
		s.setEndpoints()
		t.expect("without any endpoint", flow(t.Client, s.lb(), 80), refused)
	}},
	{number: "70", name: "eTP Local: pods take the short way to all endpoints", run: func(t *T) {
		s := t.create(spec{lb: t.virtual(), externalIPs: t.virtual(), eTPLocal: true}, t.remote)
		t.expect("load balancer IP", flow(t.Pod1, s.lb(), 80), reaches(t.remote).preserved())
		t.expect("external IP", flow(t.Pod1, s.externalIP(), 80), reaches(t.remote).preserved())
		t.expect("node port", flow(t.Pod1, t.Node.Addr(t.F), s.nodePort(0)), reaches(t.remote).preserved())
	}},
	{number: "71", name: "eTP Local: the node takes the short way to all endpoints", run: func(t *T) {
		s := t.create(spec{lb: t.virtual(), externalIPs: t.virtual(), eTPLocal: true}, t.remote)
		t.expect("node port", flow(t.Node, t.Node.Addr(t.F), s.nodePort(0)), reaches(t.remote))
		t.expect("load balancer IP", flow(t.Node, s.lb(), 80), reaches(t.remote))
		t.expect("external IP", flow(t.Node, s.externalIP(), 80), reaches(t.remote))
	}},
	{number: "72", name: "eTP Local: the health check node port tells of local endpoints", run: healthCheckNodePort},
	{number: "72b", name: "eTP Local: so it does at a load balancer IP that is on the node", differs: map[kind]string{withNFTables: primaryOnly}, run: func(t *T) {
		s := t.create(spec{lb: t.virtual(), eTPLocal: true}, t.local)
		if t.kind != oursIPVS && t.kind != withIPVS { // which give it to the node themselves
			_, err := t.Node.Run(t.ctx, "ip", "addr", "add", netip.PrefixFrom(s.lb(), t.F.Bits()).String(), "dev", "lo")
			t.must(err)
		}
		t.healthy(netip.AddrPortFrom(s.lb(), uint16(s.Spec.HealthCheckNodePort)))
		t.expect("the Service", flow(t.Client, s.lb(), 80), reaches(t.local).preserved())
		t.expect("another port", flow(t.Client, s.lb(), 81), refused)
	}},
	{number: "72c", name: "eTP Local: so it does where INPUT drops what no rule accepts", differs: map[kind]string{
		oursNative: dropsStay, oursIPVS: dropsStay, withNFTables: dropsStay},
		run: func(t *T) {
			s := t.create(spec{lb: t.virtual(), eTPLocal: true}, t.local)
			at := netip.AddrPortFrom(t.Node.Addr(t.F), uint16(s.Spec.HealthCheckNodePort))
			t.healthy(at)
			t.Run(t.ctx, t.iptables(t.F), "-w", "-A", "INPUT", "-p", "tcp", "--dport", fmt.Sprint(at.Port()), "-j", "DROP")
			_, err := t.askHealth(at)
			for range 3 {
				if err != nil {
					_, err = t.askHealth(at)
				}
			}
			t.must(err)
		}},
}

const dropsStay = "what one table of nftables accepts, another one may drop"

// healthy waits until a health check node port tells of one endpoint.
func (t *T) healthy(at netip.AddrPort) {
	t.eventually("health", func() error {
		if got, err := t.askHealth(at); err != nil || got.body.LocalEndpoints != 1 {
			return fmt.Errorf("got %+v, %w", got, err)
		}
		return nil
	})
}

// health is what a health check node port says.
type health struct {
	status, weight string
	body           struct {
		Service             struct{ Namespace, Name string }
		LocalEndpoints      int
		ServiceProxyHealthy bool
	}
}

func healthCheckNodePort(t *T) {
	a, b, remote := on(t.Pod2, 1), on(t.Pod2, 2), on(t.RemotePod, 0)
	s := t.create(spec{lb: t.virtual(), eTPLocal: true, ports: []port{{name: "one", port: 80}, {name: "two", port: 81}}}, a, b, remote)
	port := uint16(s.Spec.HealthCheckNodePort)
	tells := func(what string, status, local int) {
		t.eventually(what, func() error {
			got, err := t.askHealth(netip.AddrPortFrom(t.Node.Addr(t.F), port))
			if err != nil {
				return err
			}
			if got.status != fmt.Sprint(status) || got.weight != fmt.Sprint(local) || got.body.LocalEndpoints != local ||
				!got.body.ServiceProxyHealthy || got.body.Service.Name != s.Name || got.body.Service.Namespace != t.Name {
				return fmt.Errorf("got %+v, want status %d and %d endpoints", got, status, local)
			}
			return nil
		})
	}
	tells("two local ones", 200, 2)
	s.setEndpoints(a, terminating(b), unready(on(t.Pod2, 3)), remote)
	tells("one is ready, one terminates", 200, 1)
	s.setEndpoints(terminating(a), remote)
	tells("one terminates", 503, 0)
	t.expect("and is used", flow(t.Client, s.lb(), 80), reaches(a))
	s.setEndpoints(a, remote)
	tells("one is back", 200, 1)
	s.update(func(o *corev1.Service) {
		o.Spec.ExternalTrafficPolicy, o.Spec.HealthCheckNodePort = corev1.ServiceExternalTrafficPolicyCluster, 0
	})
	t.expect("with policy Cluster nobody listens", flow(t.Client, t.Node.Addr(t.F), port), refused)
}

func (t *T) askHealth(at netip.AddrPort) (h health, err error) {
	client := t.Client.HTTPClient()
	client.Timeout = time.Second
	response, err := client.Get(fmt.Sprintf("http://%s/any/path", at))
	if err != nil {
		return h, err
	}
	defer func() { _ = response.Body.Close() }()
	text, err := io.ReadAll(response.Body)
	if err != nil {
		return h, err
	}
	h.status, h.weight = fmt.Sprint(response.StatusCode), response.Header.Get("X-Load-Balancing-Endpoint-Weight")
	if kind := response.Header.Get("Content-Type"); kind != "application/json" {
		return h, fmt.Errorf("Content-Type is %q", kind)
	}
	return h, json.Unmarshal(text, &h.body)
}

var internalPolicyScenarios = []scenario{
	{number: "73", name: "iTP Local: a pod reaches local endpoints alone", run: func(t *T) {
		s := t.create(spec{iTPLocal: true}, t.local, t.remote)
		t.expect("from a pod", flow(t.Pod1, s.clusterIP(), 80), reaches(t.local).preserved())
		host := on(t.Node, 0)
		h := t.create(spec{iTPLocal: true}, host, on(t.Remote, 0))
		t.expect("on the host's network", flow(t.Pod1, h.clusterIP(), 80), reaches(host).preserved())
	}},
	{number: "74", name: "iTP Local: so do the node and clients, masqueraded", run: func(t *T) {
		s := t.create(spec{iTPLocal: true}, t.local, t.remote)
		t.expect("from the node", flow(t.Node, s.clusterIP(), 80), reaches(t.local).masqueraded())
		t.expect("from a client", flow(t.Client, s.clusterIP(), 80), reaches(t.local).masqueraded())
	}},
	{number: "75", name: "iTP Local: without local endpoints there is no answer", run: func(t *T) {
		s := t.create(spec{iTPLocal: true, nodePort: true}, t.remote)
		t.expect("the node port", flow(t.Client, t.Node.Addr(t.F), s.nodePort(0)), reaches(t.remote))
		t.everywhere(s.clusterIP(), 80, dropped, kubeProxyIPVS(reaches(t.remote), elsewhereInstead))
	}},
	{number: "76", name: "iTP Local: without any endpoint there is a refusal", run: func(t *T) {
		s := t.create(spec{iTPLocal: true}, t.local, t.remote)
		t.expect("with one", flow(t.Pod1, s.clusterIP(), 80), reaches(t.local))
		s.setEndpoints(t.remote)
		t.expect("with a remote one", flow(t.Pod1, s.clusterIP(), 80), dropped, kubeProxyIPVS(refused, "its ipvs mode has a virtual server without endpoints then"))
		s.setEndpoints()
		t.expect("with none", flow(t.Pod1, s.clusterIP(), 80), refused)
		s.setEndpoints(t.local)
		t.expect("with one again", flow(t.Pod1, s.clusterIP(), 80), reaches(t.local))
	}},
}
