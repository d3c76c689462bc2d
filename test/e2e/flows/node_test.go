package flows_test

import (
	"net"
	"net/netip"
	"slices"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/clusterip-operator/clusterip-operator/proxyagent/model"
	"github.com/clusterip-operator/clusterip-operator/test/framework/network"
)

var renamedScenario = scenario{
	number: "103b", only: model.IPv4, run: renamed,
	name: "the node gets another name: endpoints on the Node of that name are its own then, and connections live on",
}

// renamed: the node registers under another name, as one does whose host name changes, with a proxy
// that is told of it.
func renamed(t *T) {
	nodes, name := t.Cluster.Client().CoreV1().Nodes(), t.Name+"-renamed"
	former, err := nodes.Get(t.ctx, t.Name, metav1.GetOptions{})
	t.must(err)
	register := func(name, instead string) {
		node := &corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: name, Labels: former.Labels}, Spec: former.Spec}
		node, err := nodes.Create(t.ctx, node, metav1.CreateOptions{})
		t.must(err)
		node.Status.Addresses = former.Status.Addresses
		_, err = nodes.UpdateStatus(t.ctx, node, metav1.UpdateOptions{})
		t.must(err)
		t.must(nodes.Delete(t.ctx, instead, metav1.DeleteOptions{}))
	}

	first, second := on(t.Pod2, 1), on(t.Pod2, 2)
	var expectations []func(what string, e endpoint)
	var kept []Flow
	for _, t := range t.both() {
		s := t.create(spec{lb: t.virtual(), eTPLocal: true})
		slice := s.slice("1", first, second)
		slice.Endpoints[1].NodeName = &name
		t.Slice(t.ctx, slice)
		hinted := t.create(spec{}, hintedTo(first, t.Name), hintedTo(second, name))
		kept = append(kept, flow(t.Client, s.lb(), 80))
		expectations = append(expectations, func(what string, e endpoint) {
			t.expect(what+": by traffic policy", flow(t.Client, s.lb(), 80), reaches(e).preserved())
			t.expect(what+": by hints", flow(t.Pod1, hinted.clusterIP(), 80), reaches(e))
			t.healthy(netip.AddrPortFrom(t.Node.Addr(t.F), uint16(s.Spec.HealthCheckNodePort)))
		})
	}
	expect := func(what string, e endpoint) {
		for _, expectation := range expectations {
			expectation(what, e)
		}
	}
	expect("the first name", first)
	var conns []net.Conn
	for _, f := range kept {
		conns = append(conns, t.connect(f))
	}
	t.must(t.proxy.Stop())
	register(name, t.Name)
	other, err := t.follow(t.ctx, name)
	t.must(err)
	defer func() { _ = other.Stop() }()
	expect("the second name", second)
	t.must(other.Stop())
	register(t.Name, name)
	t.must(t.proxy.Start(t.ctx))
	expect("the first name again", first)
	for _, conn := range conns {
		t.echo(conn)
	}
}

var flushedScenario = scenario{
	number: "107c", only: model.IPv4, run: flushed,
	name: "affinity: goes on when another program has flushed all rules, twice",
}

func flushed(t *T) {
	var clients [][]Flow
	for _, t := range t.both() {
		s := t.create(spec{affinitySeconds: 100, nodePort: true}, t.six()...)
		for i := range 3 {
			from := t.Client.Extra(t.F, 20+i)
			clients = append(clients, []Flow{bound(from, 0, flow(t.Client, s.clusterIP(), 80)), bound(from, 0, flow(t.Client, t.Node.Addr(t.F), s.nodePort(0)))})
		}
	}
	stick := func(what string) (to []netip.AddrPort) {
		for _, flows := range clients {
			t.sticks(what, flows...)
			last := flows[0]
			last.Timeout = patient
			to = append(to, last.dial().Endpoint)
		}
		return to
	}
	before := stick("before")
	for range 2 {
		t.flush()
		now := stick("after a flush")
		if sets := t.kind == oursNFT || t.kind == oursLegacy; sets && !slices.Equal(now, before) {
			t.fail("clients had %v and have %v, though nothing flushes sets", before, now)
		}
	}
}

// flush removes all rules of the node, whatever wrote them.
func (t *T) flush() {
	if t.kind != oursLegacy {
		t.Run(t.ctx, "nft", "flush", "ruleset")
		return
	}
	for _, f := range network.Families {
		t.Feed(t.ctx, "*raw\nCOMMIT\n*mangle\nCOMMIT\n*nat\nCOMMIT\n*filter\nCOMMIT\n", t.iptables(f)+"-restore", "-w", "20")
	}
}

// iptables is the program in which an admin sees the rules of this proxy.
func (t *T) iptables(f model.Family) string {
	variant := "-nft"
	if t.kind == oursLegacy {
		variant = "-legacy"
	}
	return map[model.Family]string{model.IPv4: "iptables", model.IPv6: "ip6tables"}[f] + variant
}
