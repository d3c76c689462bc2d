//go:build linux

package flows_test

import (
	"encoding/json"
	"fmt"
	"io"
	"net/netip"
	"time"

	corev1 "k8s.io/api/core/v1"

	"github.com/clusterip-operator/clusterip-operator/proxyagent/model"
	"github.com/clusterip-operator/clusterip-operator/test/e2e/internal/flowtest"
	"github.com/clusterip-operator/clusterip-operator/test/framework/network"
)

const primaryOnly = "its nftables mode serves node ports at the primary node IPs alone, by default"

// clientRange is the one of the client's further addresses.
func clientRange(t *T) string {
	return netip.PrefixFrom(t.Client.Extra(t.F, 0), map[model.Family]int{model.IPv4: 16, model.IPv6: 64}[t.F]).String()
}

// fromRange sends from one of the client's further addresses.
func fromRange(t *T, f flowtest.Flow) flowtest.Flow { return bound(t.Client.Extra(t.F, 5), 0, f) }

var loadBalancerScenarios = []scenario{
	{number: "47", name: "a load balancer IP is served to clients, pods and the node", run: func(t *T) {
		local, remote := t.on(t.Pod2, 0), t.on(t.RemotePod, 0)
		s := t.create(flowtest.Service{LoadBalancerIPs: t.virtual(), Endpoints: []flowtest.Endpoint{local, remote}})
		for _, from := range []*network.Namespace{t.Client, t.Pod1, t.Node} {
			t.expect("from "+from.Host(), flow(from, s.lb(), 80), reaches(local, remote).Masqueraded())
		}
	}},
	{number: "47b", name: "load balancer IPs come, change and go", run: func(t *T) {
		pod := t.on(t.Pod2, 0)
		s := t.create(flowtest.Service{Type: corev1.ServiceTypeLoadBalancer, Endpoints: []flowtest.Endpoint{pod}})
		first, second := t.Cluster.VirtualAddr(t.F), t.Cluster.VirtualAddr(t.F)
		t.must(t.SetLoadBalancerIPs(t.ctx, s.Name, first.String()))
		t.expect("the first", flow(t.Client, first, 80), reaches(pod))
		t.must(t.SetLoadBalancerIPs(t.ctx, s.Name, second.String()))
		t.expect("the second", flow(t.Client, second, 80), reaches(pod))
		t.expect("not the first any more", flow(t.Client, first, 80), flowtest.Dropped())
		t.must(t.SetLoadBalancerIPs(t.ctx, s.Name))
		t.expect("none", flow(t.Client, second, 80), flowtest.Dropped())
		t.expect("the ClusterIP stays", flow(t.Client, s.clusterIP(), 80), reaches(pod))
	}},
	{number: "48", name: "several load balancer IPs and external IPs, with several protocols", run: func(t *T) {
		pod := t.on(t.Pod2, 0)
		s := t.create(flowtest.Service{
			LoadBalancerIPs: append(t.virtual(), t.virtual()...), ExternalIPs: append(t.virtual(), t.virtual()...),
			Ports:     []flowtest.Port{{Name: "t", Protocol: model.TCP}, {Name: "u", Protocol: model.UDP, Port: 81}},
			Endpoints: []flowtest.Endpoint{pod}})
		for _, ip := range append(s.LoadBalancerIPs, s.ExternalIPs...) {
			t.expect("TCP", flow(t.Client, netip.MustParseAddr(ip), 80), reaches(pod))
			t.expect("UDP", over(model.UDP, flow(t.Client, netip.MustParseAddr(ip), 81)), reaches(pod))
		}
	}},
	{number: "48c", name: "an external IP that is the node's own takes its port and leaves the others", run: func(t *T) {
		pod := t.on(t.Pod2, 0)
		alt := network.AltNodeAddr(t.F)
		port := 7000 + uint16(t.F)
		s := t.create(flowtest.Service{ExternalIPs: []string{alt.String()}, NodePort: true, Ports: []flowtest.Port{{Port: port}},
			Endpoints: []flowtest.Endpoint{pod}})
		t.expect("its port", flow(t.Client, alt, port), reaches(pod))
		t.expect("its port, from a pod", flow(t.Pod1, alt, port), reaches(pod))
		own := flow(t.Client, alt, 8080)
		t.expect("a program of the node", own, flowtest.Reaches(own.To).Preserved())
		t.expect("its node port there", flow(t.Client, alt, s.nodePort(0)), reaches(pod), kubeProxyNFTables(flowtest.Refused(), primaryOnly))
	}},
	{number: "48d", name: "Services share a load balancer IP by ports, and other ports of it go their way", run: func(t *T) {
		a, b := t.on(t.Pod2, 1), t.on(t.Pod2, 2)
		shared := t.virtual()
		one := t.create(flowtest.Service{LoadBalancerIPs: shared, SourceRanges: []string{clientRange(t)}, Endpoints: []flowtest.Endpoint{a}})
		t.create(flowtest.Service{LoadBalancerIPs: shared, Ports: []flowtest.Port{{Port: 81}}, Endpoints: []flowtest.Endpoint{b}})
		t.create(flowtest.Service{LoadBalancerIPs: shared, Ports: []flowtest.Port{{Port: 80, Protocol: model.UDP}}})
		t.expect("the first, inside of its range", fromRange(t, flow(t.Client, one.lb(), 80)), reaches(a))
		t.expect("the second, which has none", flow(t.Client, one.lb(), 81), reaches(b))
		t.expect("the third, which has no endpoints", over(model.UDP, flow(t.Client, one.lb(), 80)), flowtest.Refused())
		t.expect("the first, outside of its range", flow(t.Client, one.lb(), 80), flowtest.Dropped())
		other := t.answerOutside(one.lb())
		t.expect("a port of none", other, flowtest.Reaches(other.To))
	}},
	{number: "49", name: "a load balancer IP of ipMode Proxy is left alone", run: func(t *T) {
		pod := t.on(t.Pod2, 0)
		s := t.create(flowtest.Service{LoadBalancerIPs: t.virtual(), IPMode: corev1.LoadBalancerIPModeProxy, Endpoints: []flowtest.Endpoint{pod}})
		t.expect("the node port", flow(t.Client, t.Node.Addr(t.F), s.nodePort(0)), reaches(pod))
		t.expect("the load balancer IP", flow(t.Client, s.lb(), 80), flowtest.Dropped())
		t.expect("from a pod", flow(t.Pod1, s.lb(), 80), flowtest.Dropped())
		v := t.create(flowtest.Service{LoadBalancerIPs: t.virtual(), IPMode: corev1.LoadBalancerIPModeVIP, Endpoints: []flowtest.Endpoint{pod}})
		t.expect("ipMode VIP", flow(t.Client, v.lb(), 80), reaches(pod))
	}},
	{number: "50", name: "source ranges let in who is inside", run: func(t *T) {
		pod := t.on(t.Pod2, 0)
		s := t.create(flowtest.Service{LoadBalancerIPs: t.virtual(), SourceRanges: []string{clientRange(t)}, Endpoints: []flowtest.Endpoint{pod},
			Ports: []flowtest.Port{{Name: "t"}, {Name: "u", Protocol: model.UDP}, {Name: "s", Protocol: model.SCTP}}})
		for _, p := range model.Protocols {
			t.expect(p.String(), over(p, fromRange(t, flow(t.Client, s.lb(), 80))), reaches(pod))
		}
	}},
	{number: "51", name: "source ranges drop who is outside", run: func(t *T) {
		pod := t.on(t.Pod2, 0)
		s := t.create(flowtest.Service{LoadBalancerIPs: t.virtual(), SourceRanges: []string{clientRange(t)}, Endpoints: []flowtest.Endpoint{pod},
			Ports: []flowtest.Port{{Name: "t"}, {Name: "u", Protocol: model.UDP}, {Name: "s", Protocol: model.SCTP}}})
		for _, p := range model.Protocols {
			t.expect(p.String()+" inside", over(p, fromRange(t, flow(t.Client, s.lb(), 80))), reaches(pod))
			t.expect(p.String()+" outside", over(p, flow(t.Client, s.lb(), 80)), flowtest.Dropped())
		}
		s.update(func(o *corev1.Service) { o.Spec.LoadBalancerSourceRanges = nil })
		t.expect("without ranges", flow(t.Client, s.lb(), 80), reaches(pod))
	}},
	{number: "52", name: "source ranges drop pods that are outside", run: func(t *T) {
		pod := t.on(t.Pod2, 0)
		only := netip.PrefixFrom(t.Pod1.Addr(t.F), t.F.Bits()).String()
		s := t.create(flowtest.Service{LoadBalancerIPs: t.virtual(), SourceRanges: []string{only}, Endpoints: []flowtest.Endpoint{pod}})
		t.expect("a pod inside", flow(t.Pod1, s.lb(), 80), reaches(pod))
		t.expect("a pod outside", flow(t.Pod2, s.lb(), 80), flowtest.Dropped())
		t.expect("a client", flow(t.Client, s.lb(), 80), flowtest.Dropped())
		t.expect("the ClusterIP is open to all", flow(t.Client, s.clusterIP(), 80), reaches(pod))
	}},
	{number: "53", name: "source ranges let in the node by its own address", run: func(t *T) {
		pod := t.on(t.RemotePod, 0)
		node := netip.PrefixFrom(t.Node.Addr(t.F), t.F.Bits()).String()
		s := t.create(flowtest.Service{LoadBalancerIPs: t.virtual(), SourceRanges: []string{node}, Endpoints: []flowtest.Endpoint{pod}})
		t.expect("the node", flow(t.Node, s.lb(), 80), reaches(pod))
		t.expect("a client", flow(t.Client, s.lb(), 80), flowtest.Dropped())
		s = t.create(flowtest.Service{LoadBalancerIPs: t.virtual(), SourceRanges: []string{clientRange(t)}, Endpoints: []flowtest.Endpoint{pod}})
		t.expect("a client inside", fromRange(t, flow(t.Client, s.lb(), 80)), reaches(pod))
		t.expect("the node outside", flow(t.Node, s.lb(), 80), flowtest.Dropped())
	}},
	{number: "54", name: "source ranges with the node let in the load balancer IP itself, when it is on the node", run: func(t *T) {
		pod := t.on(t.RemotePod, 0)
		node := netip.PrefixFrom(t.Node.Addr(t.F), t.F.Bits()).String()
		s := t.create(flowtest.Service{LoadBalancerIPs: t.virtual(), SourceRanges: []string{node}, Endpoints: []flowtest.Endpoint{pod}})
		_, err := t.Node.Run(t.ctx, "ip", "addr", "add", netip.PrefixFrom(s.lb(), t.F.Bits()).String(), "dev", "lo")
		t.must(err)
		t.expect("from the node, whose address is the same", bound(s.lb(), 0, flow(t.Node, s.lb(), 80)), reaches(pod))
		t.expect("a client", flow(t.Client, s.lb(), 80), flowtest.Dropped())
	}},
	{number: "55", name: "source ranges do not apply to node ports and external IPs", run: func(t *T) {
		pod := t.on(t.Pod2, 0)
		s := t.create(flowtest.Service{LoadBalancerIPs: t.virtual(), ExternalIPs: t.virtual(), SourceRanges: []string{clientRange(t)},
			Endpoints: []flowtest.Endpoint{pod}})
		t.expect("the node port", flow(t.Client, t.Node.Addr(t.F), s.nodePort(0)), reaches(pod))
		t.expect("the external IP", flow(t.Client, s.externalIP(), 80), reaches(pod))
		t.expect("the load balancer IP", flow(t.Client, s.lb(), 80), flowtest.Dropped())
	}},
	{number: "55b", name: "a load balancer without node ports", run: func(t *T) {
		pod := t.on(t.Pod2, 0)
		s := t.create(flowtest.Service{LoadBalancerIPs: t.virtual(), Endpoints: []flowtest.Endpoint{pod},
			Change: func(o *corev1.Service) { o.Spec.AllocateLoadBalancerNodePorts = new(false) }})
		t.expect("the load balancer IP", flow(t.Client, s.lb(), 80), reaches(pod))
		s.setEndpoints()
		t.expect("without endpoints", flow(t.Client, s.lb(), 80), flowtest.Refused())
		if s.nodePort(0) != 0 {
			t.fail("it has node port %d", s.nodePort(0))
		}
	}},
	{number: "56", name: "several source ranges, with blanks around them", run: func(t *T) {
		pod := t.on(t.Pod2, 0)
		one := netip.PrefixFrom(t.Pod1.Addr(t.F), t.F.Bits()).String()
		s := t.create(flowtest.Service{LoadBalancerIPs: t.virtual(), SourceRanges: []string{" " + clientRange(t) + " ", one},
			Endpoints: []flowtest.Endpoint{pod}})
		t.expect("a client inside", fromRange(t, flow(t.Client, s.lb(), 80)), reaches(pod))
		t.expect("a pod inside", flow(t.Pod1, s.lb(), 80), reaches(pod))
		t.expect("a client outside", flow(t.Client, s.lb(), 80), flowtest.Dropped())
	}},
	{number: "57", name: "a source range of length 0 lets in everybody", run: func(t *T) {
		pod := t.on(t.Pod2, 0)
		all := map[model.Family]string{model.IPv4: "0.0.0.0/0", model.IPv6: "::/0"}[t.F]
		s := t.create(flowtest.Service{LoadBalancerIPs: t.virtual(), SourceRanges: []string{clientRange(t), all}, Endpoints: []flowtest.Endpoint{pod}})
		t.expect("a client", flow(t.Client, s.lb(), 80), reaches(pod))
		t.expect("a pod", flow(t.Pod1, s.lb(), 80), reaches(pod))
	}},
	{number: "58", name: "source ranges of the other family alone let in everybody", run: func(t *T) {
		pod := t.on(t.Pod2, 0)
		other := map[model.Family]string{model.IPv4: "2001:db8:18::/64", model.IPv6: "198.18.0.0/16"}[t.F]
		s := t.create(flowtest.Service{LoadBalancerIPs: t.virtual(), SourceRanges: []string{other}, Endpoints: []flowtest.Endpoint{pod}})
		t.expect("a client", flow(t.Client, s.lb(), 80), reaches(pod))
	}},
}

var nodePortScenarios = []scenario{
	{number: "59", name: "a node port is served at all addresses of the node", run: func(t *T) {
		local, remote := t.on(t.Pod2, 0), t.on(t.RemotePod, 0)
		s := t.create(flowtest.Service{NodePort: true, Endpoints: []flowtest.Endpoint{local, remote}})
		want := reaches(local, remote).Masqueraded()
		t.expect("primary", flow(t.Client, t.Node.Addr(t.F), s.nodePort(0)), want)
		t.expect("from a pod", flow(t.Pod1, t.Node.Addr(t.F), s.nodePort(0)), want)
		t.expect("from a remote pod", flow(t.RemotePod, t.Node.Addr(t.F), s.nodePort(0)), want)
		t.expect("from the node", flow(t.Node, t.Node.Addr(t.F), s.nodePort(0)), want)
		t.expect("alt", flow(t.Client, network.AltNodeAddr(t.F), s.nodePort(0)), want, kubeProxyNFTables(flowtest.Refused(), primaryOnly))
	}},
	{number: "60", name: "a node port with every protocol", run: func(t *T) {
		pod := t.on(t.Pod2, 0)
		s := t.create(flowtest.Service{NodePort: true, Endpoints: []flowtest.Endpoint{pod},
			Ports: []flowtest.Port{{Name: "t"}, {Name: "u", Protocol: model.UDP}, {Name: "s", Protocol: model.SCTP}}})
		for i, p := range model.Protocols {
			t.expect(p.String(), over(p, flow(t.Client, t.Node.Addr(t.F), s.nodePort(i))), reaches(pod))
		}
	}},
	{number: "63", name: "a node port is served on localhost, but never on ::1", run: func(t *T) {
		local, remote := t.on(t.Pod2, 0), t.on(t.RemotePod, 0)
		s := t.create(flowtest.Service{NodePort: true, Ports: []flowtest.Port{{Name: "t"}, {Name: "u", Protocol: model.UDP}},
			Endpoints: []flowtest.Endpoint{local, remote}})
		t.expect("its own address", flow(t.Node, t.Node.Addr(t.F), s.nodePort(0)), reaches(local, remote))
		want := reaches(local, remote).Masqueraded()
		if t.F == model.IPv6 {
			want = flowtest.Refused()
		}
		t.expect("localhost", flow(t.Node, network.Loopback(t.F), s.nodePort(0)), want, kubeProxyNFTables(flowtest.Refused(), noLocalhost))
		t.expect("over UDP", over(model.UDP, flow(t.Node, network.Loopback(t.F), s.nodePort(1))), want,
			kubeProxyNFTables(flowtest.Refused(), noLocalhost))
	}},
	{number: "66", name: "a neighbour does not reach what listens on localhost", only: model.IPv4, run: func(t *T) {
		s := t.create(flowtest.Service{NodePort: true, Endpoints: []flowtest.Endpoint{t.on(t.Pod2, 0)}})
		t.expect("the node port", flow(t.Client, t.Node.Addr(t.F), s.nodePort(0)), reaches(t.on(t.Pod2, 0)))
		t.must(t.Node.Sysctl(map[string]string{"net/ipv4/conf/all/route_localnet": "1"})) // in case that the proxy does not need it
		server, err := t.Node.Serve(model.UDP, 9000)
		t.must(err)
		defer func() { _ = server.Close() }()
		own := over(model.UDP, flow(t.Node, network.Loopback(t.F), 9000))
		t.expect("the server", own, flowtest.Reaches(own.To))
		before := server.Seen()
		packet := network.UDPPacket(netip.AddrPortFrom(t.Client.Addr(t.F), 4000), netip.AddrPortFrom(network.Loopback(t.F), 9000), "?")
		for range 5 {
			t.must(t.Client.SendRaw("eth0", t.Node, "eth0", packet))
		}
		time.Sleep(300 * time.Millisecond) // nothing tells that a packet was dropped
		reached := server.Seen() > before
		if wanted := t.Kind == flowtest.KubeProxyNFTables; reached != wanted {
			t.fail("reached: %t, want %t", reached, wanted)
		}
	}},
}

var externalPolicyScenarios = []scenario{
	{number: "67", name: "eTP Local: a node port leads to local endpoints, which see the client", run: func(t *T) {
		local, remote := t.on(t.Pod2, 0), t.on(t.RemotePod, 0)
		s := t.create(flowtest.Service{NodePort: true, ExternalLocal: true, Endpoints: []flowtest.Endpoint{local, remote}})
		t.expect("from a client", flow(t.Client, t.Node.Addr(t.F), s.nodePort(0)), reaches(local).Preserved())
		t.expect("from the remote node", flow(t.Remote, t.Node.Addr(t.F), s.nodePort(0)), reaches(local).Preserved())
	}},
	{number: "68", name: "eTP Local: so do load balancer IPs and external IPs", run: func(t *T) {
		a, b, remote := t.on(t.Pod2, 1), t.on(t.Pod2, 2), t.on(t.RemotePod, 0)
		s := t.create(flowtest.Service{LoadBalancerIPs: t.virtual(), ExternalIPs: t.virtual(), ExternalLocal: true,
			Endpoints: []flowtest.Endpoint{a, b, remote}, Ports: []flowtest.Port{{Name: "t"}, {Name: "u", Protocol: model.UDP}}})
		t.expect("load balancer IP", flow(t.Client, s.lb(), 80), reaches(a, b).Preserved())
		t.expect("external IP", flow(t.Client, s.externalIP(), 80), reaches(a, b).Preserved())
		t.expect("over UDP", over(model.UDP, flow(t.Client, s.lb(), 80)), reaches(a, b).Preserved())
	}},
	{number: "69", name: "eTP Local: without local endpoints clients get no answer", run: func(t *T) {
		remote := t.on(t.RemotePod, 0)
		s := t.create(flowtest.Service{LoadBalancerIPs: t.virtual(), ExternalLocal: true, Endpoints: []flowtest.Endpoint{remote}})
		t.expect("the ClusterIP", flow(t.Client, s.clusterIP(), 80), reaches(remote))
		t.expect("load balancer IP", flow(t.Client, s.lb(), 80), flowtest.Dropped())
		t.expect("node port", flow(t.Client, t.Node.Addr(t.F), s.nodePort(0)), flowtest.Dropped())
		s.setEndpoints()
		t.expect("without any endpoint", flow(t.Client, s.lb(), 80), flowtest.Refused())
	}},
	{number: "70", name: "eTP Local: pods take the short way to all endpoints", run: func(t *T) {
		remote := t.on(t.RemotePod, 0)
		s := t.create(flowtest.Service{LoadBalancerIPs: t.virtual(), ExternalIPs: t.virtual(), ExternalLocal: true,
			Endpoints: []flowtest.Endpoint{remote}})
		t.expect("load balancer IP", flow(t.Pod1, s.lb(), 80), reaches(remote).Preserved())
		t.expect("external IP", flow(t.Pod1, s.externalIP(), 80), reaches(remote).Preserved())
		t.expect("node port", flow(t.Pod1, t.Node.Addr(t.F), s.nodePort(0)), reaches(remote).Preserved())
	}},
	{number: "71", name: "eTP Local: the node takes the short way to all endpoints", run: func(t *T) {
		remote := t.on(t.RemotePod, 0)
		s := t.create(flowtest.Service{LoadBalancerIPs: t.virtual(), ExternalIPs: t.virtual(), ExternalLocal: true,
			Endpoints: []flowtest.Endpoint{remote}})
		t.expect("load balancer IP", flow(t.Node, s.lb(), 80), reaches(remote))
		t.expect("external IP", flow(t.Node, s.externalIP(), 80), reaches(remote))
		t.expect("node port", flow(t.Node, t.Node.Addr(t.F), s.nodePort(0)), reaches(remote))
	}},
	{number: "72", name: "eTP Local: the health check node port tells of local endpoints", run: healthCheckNodePort},
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
	a, b, remote := t.on(t.Pod2, 1), t.on(t.Pod2, 2), t.on(t.RemotePod, 0)
	s := t.create(flowtest.Service{LoadBalancerIPs: t.virtual(), ExternalLocal: true, Endpoints: []flowtest.Endpoint{a, b, remote},
		Ports: []flowtest.Port{{Name: "one", Port: 80}, {Name: "two", Port: 81}}})
	port := uint16(s.object.Spec.HealthCheckNodePort)
	tells := func(what string, status, local int) {
		t.eventually(what, func() error {
			got, err := t.askHealth(port)
			if err != nil {
				return err
			}
			if got.status != fmt.Sprint(status) || got.weight != fmt.Sprint(local) || got.body.LocalEndpoints != local ||
				!got.body.ServiceProxyHealthy || got.body.Service.Name != s.Name || got.body.Service.Namespace != t.Namespace {
				return fmt.Errorf("got %+v, want status %d and %d endpoints", got, status, local)
			}
			return nil
		})
	}
	tells("two local ones", 200, 2)
	s.setEndpoints(a, terminating(b), unready(t.on(t.Pod2, 3)), remote)
	tells("one is ready, one terminates", 200, 1)
	s.setEndpoints(terminating(a), remote)
	tells("one terminates", 503, 0)
	t.expect("and is used", flow(t.Client, s.lb(), 80), reaches(a))
	s.setEndpoints(a, remote)
	tells("one is back", 200, 1)
	s.update(func(o *corev1.Service) {
		o.Spec.ExternalTrafficPolicy, o.Spec.HealthCheckNodePort = corev1.ServiceExternalTrafficPolicyCluster, 0
	})
	t.expect("with policy Cluster nobody listens", flow(t.Client, t.Node.Addr(t.F), port), flowtest.Refused())
}

func (t *T) askHealth(port uint16) (h health, err error) {
	client := t.Client.HTTPClient()
	client.Timeout = time.Second
	response, err := client.Get(fmt.Sprintf("http://%s/any/path", netip.AddrPortFrom(t.Node.Addr(t.F), port)))
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
		local, remote := t.on(t.Pod2, 0), t.on(t.RemotePod, 0)
		s := t.create(flowtest.Service{InternalLocal: true, Endpoints: []flowtest.Endpoint{local, remote}})
		t.expect("from a pod", flow(t.Pod1, s.clusterIP(), 80), reaches(local).Preserved())
		host := t.on(t.Node, 0)
		h := t.create(flowtest.Service{InternalLocal: true, Endpoints: []flowtest.Endpoint{host, t.on(t.Remote, 0)}})
		t.expect("on the host's network", flow(t.Pod1, h.clusterIP(), 80), reaches(host).Preserved())
	}},
	{number: "74", name: "iTP Local: so do the node and clients, masqueraded", run: func(t *T) {
		local, remote := t.on(t.Pod2, 0), t.on(t.RemotePod, 0)
		s := t.create(flowtest.Service{InternalLocal: true, Endpoints: []flowtest.Endpoint{local, remote}})
		t.expect("from the node", flow(t.Node, s.clusterIP(), 80), reaches(local).Masqueraded())
		t.expect("from a client", flow(t.Client, s.clusterIP(), 80), reaches(local).Masqueraded())
	}},
	{number: "75", name: "iTP Local: without local endpoints there is no answer", run: func(t *T) {
		remote := t.on(t.RemotePod, 0)
		s := t.create(flowtest.Service{InternalLocal: true, NodePort: true, Endpoints: []flowtest.Endpoint{remote}})
		t.expect("the node port", flow(t.Client, t.Node.Addr(t.F), s.nodePort(0)), reaches(remote))
		t.expect("from a pod", flow(t.Pod1, s.clusterIP(), 80), flowtest.Dropped())
		t.expect("from the node", flow(t.Node, s.clusterIP(), 80), flowtest.Dropped())
		t.expect("from a client", flow(t.Client, s.clusterIP(), 80), flowtest.Dropped())
	}},
	{number: "76", name: "iTP Local: without any endpoint there is a refusal", run: func(t *T) {
		local, remote := t.on(t.Pod2, 0), t.on(t.RemotePod, 0)
		s := t.create(flowtest.Service{InternalLocal: true, Endpoints: []flowtest.Endpoint{local, remote}})
		t.expect("with one", flow(t.Pod1, s.clusterIP(), 80), reaches(local))
		s.setEndpoints(remote)
		t.expect("with a remote one", flow(t.Pod1, s.clusterIP(), 80), flowtest.Dropped())
		s.setEndpoints()
		t.expect("with none", flow(t.Pod1, s.clusterIP(), 80), flowtest.Refused())
		s.setEndpoints(local)
		t.expect("with one again", flow(t.Pod1, s.clusterIP(), 80), reaches(local))
	}},
}
