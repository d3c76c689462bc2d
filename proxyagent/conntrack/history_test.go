package conntrack

import (
	"errors"
	"fmt"
	"math/rand/v2"
	"net/netip"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/clusterip-operator/clusterip-operator/proxyagent/model"
)

// world is a small space of addresses in which Plans and flows are drawn, so that they meet often.
type world struct {
	random    *rand.Rand
	vips      []netip.Addr
	nodes     []netip.Addr
	endpoints []netip.AddrPort
	client    uint16
}

func newWorld(seed uint64) *world {
	return &world{
		random: rand.New(rand.NewPCG(seed, 1)), vips: addrs("10.96.0.1", "10.96.0.2", "10.96.0.3", "192.0.2.1"),
		nodes: addrs("192.0.2.1", "192.0.2.2"), endpoints: endpoints(a, b, c, "192.0.2.1:30001"), client: 1,
	}
}

// some draws a sorted subset.
func some[T any](w *world, all []T) []T {
	var drawn []T
	for _, one := range all {
		if w.random.IntN(3) == 0 {
			drawn = append(drawn, one)
		}
	}
	return drawn
}

// plan draws a Plan in which a frontend belongs to one port only.
func (w *world) plan(g model.Globals) model.Plan {
	p := planOf(g)
	taken := make(map[netip.AddrPort]bool)
	free := func(vips []netip.Addr, number uint16) []netip.Addr {
		return slices.DeleteFunc(vips, func(v netip.Addr) bool {
			f := netip.AddrPortFrom(v, number)
			defer func() { taken[f] = true }()
			return taken[f]
		})
	}
	for i := range 4 {
		port := model.ServicePort{Name: portName(fmt.Sprint("s", i), model.UDP), Port: []uint16{53, 30001}[w.random.IntN(2)]}
		port.ClusterIPs, port.ExternalIPs = free(some(w, w.vips), port.Port), free(some(w, w.vips), port.Port)
		if number := uint16(30000 + w.random.IntN(3)); number != 30000 && !taken[nodePort(number)] {
			port.NodePort, taken[nodePort(number)] = number, true
		}
		port.Cluster, port.Local, port.Serving = some(w, w.endpoints), some(w, w.endpoints[:2]), some(w, w.endpoints)
		if w.random.IntN(3) == 0 {
			port.Cluster, port.Local, port.Serving = nil, nil, nil
		}
		if len(frontends(port)) > 0 && w.random.IntN(4) > 0 {
			p.Ports[port.Name] = port
		}
	}
	return p
}

// servedBy asks every port of a Plan whether it has a destination.
func (w *world) servedBy(p model.Plan, dst netip.AddrPort) (model.ServicePort, bool, bool) {
	for _, port := range p.Ports {
		if port.Port == dst.Port() && slices.Contains(slices.Concat(port.ClusterIPs, port.ExternalIPs, port.LoadBalancerIPs), dst.Addr()) {
			return port, false, true
		}
	}
	for _, port := range p.Ports {
		at := p.Globals.NodePortAddrs
		if p.Globals.NodePortAny {
			at = w.nodes
		}
		if port.NodePort != 0 && port.NodePort == dst.Port() && slices.Contains(at, dst.Addr()) {
			return port, true, true
		}
	}
	return model.ServicePort{}, false, false
}

// flow draws a flow as the rules of a Plan would have made it, or one that they have nothing to do with.
func (w *world) flow(p model.Plan) Flow {
	w.client++
	dst := netip.AddrPortFrom(slices.Concat(w.vips, w.nodes)[w.random.IntN(len(w.vips)+len(w.nodes))], []uint16{53, 30001, 30002}[w.random.IntN(3)])
	f := Flow{Source: netip.AddrPortFrom(netip.MustParseAddr("10.244.7.7"), w.client), Destination: dst, ReplySource: dst, ID: uint32(w.client)}
	port, _, served := w.servedBy(p, dst)
	may := slices.Concat(port.Cluster, port.Local, port.Serving)
	if served && hasEndpoints(port) {
		f.ReplySource = may[w.random.IntN(len(may))]
	}
	if !served && w.random.IntN(4) == 0 {
		f.Answered = true
	}
	return f
}

// right reports whether a flow that was right by one Plan is so by the next.
func (w *world) right(f Flow, before, after model.Plan) bool {
	port, isNodePort, served := w.servedBy(after, f.Destination)
	_, _, wasServed := w.servedBy(before, f.Destination)
	direct := f.ReplySource == f.Destination
	switch {
	case slices.Contains(slices.Concat(port.Cluster, port.Local, port.Serving), f.ReplySource):
		return true
	case served && direct:
		return len(port.Cluster)+len(port.Local) == 0 || isNodePort && f.Answered
	case served:
		return false
	default:
		return direct || !wasServed
	}
}

// TestHistories follows random Plans with flows that come and go, and with failures. After each step that succeeds, all flows that were made
// by rules that are no more are gone, and not one more.
func TestHistories(t *testing.T) {
	for seed := range uint64(150) {
		w := newWorld(seed)
		globals := []model.Globals{
			{Family: model.IPv4, NodePortAny: true},
			{Family: model.IPv4, NodePortAddrs: w.nodes[:1]},
			{Family: model.IPv4, NodePortAddrs: w.nodes[1:]},
		}
		kind := w.random.IntN(2) // Node ports are at any address, or at addresses that may change.
		draw := func() model.Plan { return w.plan(globals[kind*(1+w.random.IntN(2))]) }
		plan := draw()
		table := newFake()
		table.local = w.nodes
		r := New(model.IPv4, table)
		_, err := r.Start(t.Context(), plan)
		must(t, err)
		w.follow(t, seed, r, table, plan, draw)
	}
}

func (w *world) follow(t *testing.T, seed uint64, r *Reconciler, table *fake, plan model.Plan, draw func() model.Plan) {
	t.Helper()
	for step := range 20 {
		for range w.random.IntN(30) {
			table.flows[w.flow(plan)] = true
		}
		next := draw()
		want := newFake()
		for f := range table.flows {
			if w.right(f, plan, next) {
				want.flows[f] = true
			}
		}
		before := table.String()
		w.step(t, r, table, plan, next)
		if diff := cmp.Diff(want.String(), table.String()); diff != "" {
			t.Fatalf("seed %d, step %d: flows (-want +got):\n%s\nbefore:\n%s\nfrom:\n%s\nto:\n%s", seed, step, diff, before, words(plan), words(next))
		}
		plan = next
	}
}

// step goes from one Plan to the next: at the first try, at the second, or by a new start because the Delta got lost.
func (w *world) step(t *testing.T, r *Reconciler, table *fake, plan, next model.Plan) {
	t.Helper()
	delta := between(plan, next)
	switch w.random.IntN(5) {
	case 0:
		_, err := r.Start(t.Context(), next)
		must(t, err)
		return
	case 1:
		table.broken = errStuck
		if _, err := r.Reconcile(t.Context(), next.Globals, delta); err != nil && !errors.Is(err, errStuck) {
			t.Fatal(err)
		}
		table.broken, delta = nil, model.Delta{}
	}
	_, err := r.Reconcile(t.Context(), next.Globals, delta)
	must(t, err)
}

// words prints a Plan, one port to a line.
func words(p model.Plan) string {
	var lines []string
	for name, port := range p.Ports {
		lines = append(lines, fmt.Sprintf("%v: %v to %v, local %v, serving %v", name, frontends(port), port.Cluster, port.Local, port.Serving))
	}
	slices.Sort(lines)
	return fmt.Sprintf("node ports at %v any %v\n%s", p.Globals.NodePortAddrs, p.Globals.NodePortAny, strings.Join(lines, "\n"))
}
