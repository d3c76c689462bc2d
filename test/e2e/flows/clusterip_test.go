//go:build linux

package flows_test

import (
	"github.com/clusterip-operator/clusterip-operator/proxyagent/model"
	"github.com/clusterip-operator/clusterip-operator/test/e2e/internal/flowtest"
)

const noRejects = "its iptables mode has no rule for other ports of a virtual IP: packets go on to the default gateway"

var clusterIPScenarios = []scenario{
	{number: "1", name: "a ClusterIP leads to its endpoint, from everywhere", run: func(t *T) {
		pod := t.on(t.Pod2, 0)
		s := t.create(flowtest.Service{Endpoints: []flowtest.Endpoint{pod}})
		t.expect("from a pod", flow(t.Pod1, s.clusterIP(), 80), reaches(pod))
		t.expect("from the node", flow(t.Node, s.clusterIP(), 80), reaches(pod))
		t.expect("from a client", flow(t.Client, s.clusterIP(), 80), reaches(pod))
	}},
	{number: "2", name: "all endpoints of a ClusterIP are reached, on any node", run: func(t *T) {
		all := []flowtest.Endpoint{t.on(t.Pod2, 1), t.on(t.Pod2, 0), t.on(t.RemotePod, 0), t.on(t.Node, 0), t.on(t.Remote, 0)}
		s := t.create(flowtest.Service{Endpoints: all})
		t.expect("from a pod", flow(t.Pod1, s.clusterIP(), 80), reaches(all...))
		t.expect("from the node", flow(t.Node, s.clusterIP(), 80), reaches(all...))
	}},
	{number: "3", name: "the target port is another one than the port", run: func(t *T) {
		pod := t.on(t.Pod2, 0)
		s := t.create(flowtest.Service{Ports: []flowtest.Port{{Port: 1234, TargetPort: 8082}}, Endpoints: []flowtest.Endpoint{pod}})
		t.expect("the port", flow(t.Pod1, s.clusterIP(), 1234), flowtest.Reaches(at(pod, 8082)))
	}},
	{number: "4", name: "TCP, UDP and SCTP on one port are independent", run: func(t *T) {
		pod := t.on(t.Pod2, 0)
		s := t.create(flowtest.Service{
			Ports: []flowtest.Port{
				{Name: "t", Protocol: model.TCP, TargetPort: 8080}, {Name: "u", Protocol: model.UDP, TargetPort: 8081},
				{Name: "s", Protocol: model.SCTP, TargetPort: 8082},
			},
			Endpoints: []flowtest.Endpoint{pod}})
		for i, p := range model.Protocols {
			want := flowtest.Reaches(at(pod, 8080+uint16(i)))
			t.expect(p.String()+" from a pod", over(p, flow(t.Pod1, s.clusterIP(), 80)), want.Preserved())
			t.expect(p.String()+" from the node", over(p, flow(t.Node, s.clusterIP(), 80)), want)
			t.expect(p.String()+" from a client", over(p, flow(t.Client, s.clusterIP(), 80)), want.Masqueraded())
		}
	}},
	{number: "5", name: "another protocol of a ClusterIP is not served", run: func(t *T) {
		pod := t.on(t.Pod2, 0)
		s := t.create(flowtest.Service{Ports: []flowtest.Port{{Protocol: model.UDP}}, Endpoints: []flowtest.Endpoint{pod}})
		t.expect("UDP", over(model.UDP, flow(t.Pod1, s.clusterIP(), 80)), reaches(pod))
		t.expect("TCP", flow(t.Pod1, s.clusterIP(), 80), flowtest.Refused(), kubeProxyIPTables(flowtest.Dropped(), noRejects))
		t.expect("SCTP", over(model.SCTP, flow(t.Pod1, s.clusterIP(), 80)), flowtest.Refused(), kubeProxyIPTables(flowtest.Dropped(), noRejects))
	}},
	{number: "6", name: "another port of a ClusterIP is not served", run: func(t *T) {
		pod := t.on(t.Pod2, 0)
		s := t.create(flowtest.Service{Endpoints: []flowtest.Endpoint{pod}})
		t.expect("its port", flow(t.Pod1, s.clusterIP(), 80), reaches(pod))
		t.expect("from a pod", flow(t.Pod1, s.clusterIP(), 8080), flowtest.Refused(), kubeProxyIPTables(flowtest.Dropped(), noRejects))
		t.expect("from the node", flow(t.Node, s.clusterIP(), 8080), flowtest.Refused(), kubeProxyIPTables(flowtest.Dropped(), noRejects))
		t.expect("from a client", flow(t.Client, s.clusterIP(), 8080), flowtest.Refused(), kubeProxyIPTables(flowtest.Dropped(), noRejects))
	}},
	{number: "7", name: "an endpoint reaches itself through its Service", run: func(t *T) {
		pod, host := t.on(t.Pod1, 0), t.on(t.Node, 0)
		s := t.create(flowtest.Service{NodePort: true, Endpoints: []flowtest.Endpoint{pod}})
		t.expect("at the ClusterIP", flow(t.Pod1, s.clusterIP(), 80), reaches(pod).Masqueraded())
		t.expect("at the node port", flow(t.Pod1, t.Node.Addr(t.F), s.nodePort(0)), reaches(pod).Masqueraded())
		t.expect("over UDP not at all, as it has no such port", over(model.UDP, flow(t.Pod1, s.clusterIP(), 80)), flowtest.Refused(),
			kubeProxyIPTables(flowtest.Dropped(), noRejects))
		h := t.create(flowtest.Service{Endpoints: []flowtest.Endpoint{host}})
		t.expect("an endpoint on the host's network", flow(t.Node, h.clusterIP(), 80), reaches(host))
	}},
	{number: "7b", name: "so does one whose node is not known", run: func(t *T) {
		stray := flowtest.Endpoint{Addr: t.Pod1.Addr(t.F)}
		// Its port is of no other scenario: kube-proxy's nftables mode knows hairpins by address and port alone.
		s := t.create(flowtest.Service{Ports: []flowtest.Port{{TargetPort: 8082}}, Endpoints: []flowtest.Endpoint{stray}})
		want := flowtest.Reaches(at(stray, 8082))
		t.expect("another pod", flow(t.Pod2, s.clusterIP(), 80), want.Preserved())
		t.expect("itself", flow(t.Pod1, s.clusterIP(), 80), want.Masqueraded(),
			kubeProxyNFTables(flowtest.Dropped(), "its nftables mode masquerades hairpin traffic of endpoints on its own node only"))
	}},
	{number: "8", name: "endpoints see the address of a pod, and that of the node for all others", run: func(t *T) {
		remote, local := t.on(t.RemotePod, 0), t.on(t.Pod2, 0)
		s := t.create(flowtest.Service{Endpoints: []flowtest.Endpoint{remote, local}})
		t.expect("a pod", flow(t.Pod1, s.clusterIP(), 80), reaches(remote, local).Preserved())
		t.expect("a client", flow(t.Client, s.clusterIP(), 80), reaches(remote, local).Masqueraded())
		only := t.create(flowtest.Service{Endpoints: []flowtest.Endpoint{local}})
		t.expect("a pod of another node, which the cluster's range tells", flow(t.RemotePod, only.clusterIP(), 80), reaches(local).Preserved())
	}},
	{number: "9", name: "several ports lead each to their own", run: func(t *T) {
		a, b := t.on(t.Pod2, 0), t.on(t.RemotePod, 0)
		s := t.create(flowtest.Service{
			Ports: []flowtest.Port{{Name: "one", Port: 80, TargetPort: 8080}, {Name: "two", Port: 81, TargetPort: 8081},
				{Name: "three", Port: 82, TargetPort: 8081}},
			Endpoints: []flowtest.Endpoint{a, b}})
		for i, port := range []uint16{8080, 8081, 8081} {
			t.expect("a port", flow(t.Pod1, s.clusterIP(), 80+uint16(i)), flowtest.Reaches(at(a, port), at(b, port)))
		}
	}},
	{number: "9b", name: "each of 24 endpoints is reached", run: func(t *T) {
		var all []flowtest.Endpoint
		for i := 1; i <= 12; i++ {
			all = append(all, t.on(t.Pod2, i), t.on(t.RemotePod, i))
		}
		s := t.create(flowtest.Service{NodePort: true, Endpoints: all})
		t.expect("from a pod", flow(t.Pod1, s.clusterIP(), 80), reaches(all...).Preserved())
		t.expect("at the node port", flow(t.Client, t.Node.Addr(t.F), s.nodePort(0)), reaches(all...).Masqueraded())
	}},
}
