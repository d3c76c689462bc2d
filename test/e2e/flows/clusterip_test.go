package flows_test

import (
	"github.com/clusterip-operator/clusterip-operator/proxyagent/model"
)

const noRejects = "its iptables mode has no rule for other ports of a virtual IP: packets go on to the default gateway"

const ownNodeOnly = "its nftables and ipvs modes masquerade hairpin traffic of endpoints on its own node only"

var clusterIPScenarios = []scenario{
	{number: "1", name: "a ClusterIP leads to its endpoint, from everywhere", run: func(t *T) {
		s := t.create(spec{}, t.local)
		t.everywhere(s.clusterIP(), 80, reaches(t.local))
	}},
	{number: "2", name: "all endpoints of a ClusterIP are reached, on any node", run: func(t *T) {
		all := []endpoint{on(t.Pod2, 1), on(t.Pod2, 0), on(t.RemotePod, 0), on(t.Node, 0), on(t.Remote, 0)}
		s := t.create(spec{}, all...)
		t.expect("from a pod", flow(t.Pod1, s.clusterIP(), 80), reaches(all...))
		t.expect("from the node", flow(t.Node, s.clusterIP(), 80), reaches(all...))
	}},
	{number: "3", name: "the target port is another one than the port", run: func(t *T) {
		s := t.create(spec{ports: []port{{port: 1234, target: 8082}}}, t.local)
		t.expect("the port", flow(t.Pod1, s.clusterIP(), 1234), reachesAt(at(t.local, 8082)))
	}},
	{number: "4", name: "TCP, UDP and SCTP on one port are independent", run: func(t *T) {
		s := t.create(spec{ports: []port{
			{name: "t", target: 8080}, {name: "u", protocol: model.UDP, target: 8081}, {name: "s", protocol: model.SCTP, target: 8082},
		}}, t.local)
		for i, p := range model.Protocols {
			want := reachesAt(at(t.local, 8080+uint16(i)))
			t.expect(p.String()+" from a pod", over(p, flow(t.Pod1, s.clusterIP(), 80)), want.preserved())
			t.expect(p.String()+" from the node", over(p, flow(t.Node, s.clusterIP(), 80)), want)
			t.expect(p.String()+" from a client", over(p, flow(t.Client, s.clusterIP(), 80)), want.masqueraded())
		}
	}},
	{number: "5", name: "another protocol of a ClusterIP is not served", run: func(t *T) {
		s := t.create(spec{ports: []port{{protocol: model.UDP}}}, t.local)
		t.expect("UDP", over(model.UDP, flow(t.Pod1, s.clusterIP(), 80)), reaches(t.local))
		t.expect("TCP", flow(t.Pod1, s.clusterIP(), 80), refused, kubeProxyIPTables(dropped, noRejects))
		t.expect("SCTP", over(model.SCTP, flow(t.Pod1, s.clusterIP(), 80)), refused, kubeProxyIPTables(dropped, noRejects))
	}},
	{number: "6", name: "another port of a ClusterIP is not served", run: func(t *T) {
		s := t.create(spec{}, t.local)
		t.expect("its port", flow(t.Pod1, s.clusterIP(), 80), reaches(t.local))
		t.everywhere(s.clusterIP(), 8080, refused, kubeProxyIPTables(dropped, noRejects))
	}},
	{number: "7", name: "an endpoint reaches itself through its Service", run: func(t *T) {
		pod, host := on(t.Pod1, 0), on(t.Node, 0)
		s := t.create(spec{nodePort: true}, pod)
		t.expect("at the ClusterIP", flow(t.Pod1, s.clusterIP(), 80), reaches(pod).masqueraded())
		t.expect("at the node port", flow(t.Pod1, t.Node.Addr(t.F), s.nodePort(0)), reaches(pod).masqueraded())
		t.expect("over UDP not at all, as it has no such port", over(model.UDP, flow(t.Pod1, s.clusterIP(), 80)), refused,
			kubeProxyIPTables(dropped, noRejects))
		h := t.create(spec{}, host)
		t.expect("an endpoint on the host's network", flow(t.Node, h.clusterIP(), 80), reaches(host))
	}},
	{number: "7b", name: "so does one whose node is not known", run: func(t *T) {
		stray := endpoint{Of: t.Pod1, Nowhere: true}
		// The port is in no other scenario: kube-proxy's nftables knows hairpins by address and port.
		s := t.create(spec{ports: []port{{target: 8082}}}, stray)
		want := reachesAt(at(stray, 8082))
		t.expect("another pod", flow(t.Pod2, s.clusterIP(), 80), want.preserved())
		t.expect("itself", flow(t.Pod1, s.clusterIP(), 80), want.masqueraded(),
			kubeProxyNFTables(dropped, ownNodeOnly), kubeProxyIPVS(dropped, ownNodeOnly))
	}},
	{number: "8", name: "endpoints see the address of a pod, and that of the node for all others", run: func(t *T) {
		s := t.create(spec{}, t.remote, t.local)
		t.expect("a pod", flow(t.Pod1, s.clusterIP(), 80), reaches(t.remote, t.local).preserved())
		t.expect("a client", flow(t.Client, s.clusterIP(), 80), reaches(t.remote, t.local).masqueraded())
		only := t.create(spec{}, t.local)
		t.expect("a pod of another node, which the cluster's range tells", flow(t.RemotePod, only.clusterIP(), 80), reaches(t.local).preserved())
	}},
	{number: "9", name: "several ports lead each to their own", run: func(t *T) {
		s := t.create(spec{ports: []port{{name: "one"}, {name: "two", port: 81, target: 8081}, {name: "three", port: 82, target: 8081}}},
			t.local, t.remote)
		for i, port := range []uint16{8080, 8081, 8081} {
			t.expect("a port", flow(t.Pod1, s.clusterIP(), 80+uint16(i)), reachesAt(at(t.local, port), at(t.remote, port)))
		}
	}},
	{number: "9b", name: "each of 24 endpoints is reached", run: func(t *T) {
		var all []endpoint
		for i := 1; i <= 12; i++ {
			all = append(all, on(t.Pod2, i), on(t.RemotePod, i))
		}
		s := t.create(spec{nodePort: true}, all...)
		t.expect("from a pod", flow(t.Pod1, s.clusterIP(), 80), reaches(all...).preserved())
		t.expect("at the node port", flow(t.Client, t.Node.Addr(t.F), s.nodePort(0)), reaches(all...).masqueraded())
	}},
}
