package conntrack

import (
	"context"
	"errors"
	"net/netip"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/clusterip-operator/clusterip-operator/proxyagent/model"
)

const (
	vip   = "10.96.0.10"
	front = vip + ":53"
	a     = "10.244.0.2:5353"
	b     = "10.244.1.2:5353"
	c     = "10.244.2.2:5353"
)

type ports = []model.ServicePort

func TestReconcile(t *testing.T) {
	listed := model.Globals{Family: model.IPv4, NodePortAddrs: addrs("192.0.2.1")}
	moved := model.Globals{Family: model.IPv4, NodePortAddrs: addrs("192.0.2.2")}
	local := func(p *model.ServicePort) { p.InternalLocal, p.Local, p.Cluster = true, p.Cluster, nil }
	for name, tc := range map[string]struct {
		globals, later model.Globals
		before, after  ports
		keep, cut      []Flow
		wantNoDump     bool
	}{
		"one endpoint of two is replaced": {
			before: ports{service("dns", vip, a, b)}, after: ports{service("dns", vip, a, c)},
			keep: []Flow{to(front, a), to(vip+":54", b), to("10.96.0.11:53", b), to(b, ""), to("10.96.0.11:53", "")},
			cut:  []Flow{to(front, b)},
		},
		"an endpoint terminates, and serves": {
			before: ports{service("dns", vip, a, b)},
			after:  ports{with(service("dns", vip, a), func(p *model.ServicePort) { p.Serving = endpoints(a, b) })},
			keep:   []Flow{to(front, a), to(front, b)}, wantNoDump: true,
		},
		"an endpoint that terminated serves no more": {
			before: ports{with(service("dns", vip, a), func(p *model.ServicePort) { p.Serving = endpoints(a, b) })},
			after:  ports{service("dns", vip, a)},
			keep:   []Flow{to(front, a)}, cut: []Flow{to(front, b)},
		},
		"the first endpoint": {
			before: ports{service("dns", vip)}, after: ports{service("dns", vip, a)},
			keep: []Flow{to(front, a), to("10.96.0.11:53", "")}, cut: []Flow{to(front, ""), answered(to(front, ""))},
		},
		"scaled to zero": {
			before: ports{service("dns", vip, a)}, after: ports{service("dns", vip)},
			keep: []Flow{to(front, ""), to(a, "")}, cut: []Flow{to(front, a), answered(to(front, a))},
		},
		"the Service is deleted": {
			before: ports{service("dns", vip, a)}, after: ports{},
			keep: []Flow{to(front, "")}, cut: []Flow{to(front, a)},
		},
		"the Service is new": {
			after: ports{service("dns", vip, a)},
			keep:  []Flow{to(front, a)}, cut: []Flow{to(front, ""), to(front, b)},
		},
		"re-created under another name, with one endpoint in common": {
			before: ports{service("old", vip, a, b)}, after: ports{service("new", vip, b, c)},
			keep: []Flow{to(front, b), to(front, c)}, cut: []Flow{to(front, a), to(front, "")},
		},
		"two Services change addresses": {
			before: ports{service("x", vip, a), service("y", "10.96.0.11", b)}, after: ports{service("x", "10.96.0.11", a), service("y", vip, b)},
			keep: []Flow{to(front, b), to("10.96.0.11:53", a)}, cut: []Flow{to(front, a), to("10.96.0.11:53", b)},
		},
		"every kind of address, and one is withdrawn": {
			before: ports{with(service("dns", vip, a), func(p *model.ServicePort) {
				p.ExternalIPs, p.LoadBalancerIPs = addrs("203.0.113.1", "203.0.113.2"), addrs("203.0.113.3")
			})},
			after: ports{with(service("dns", vip, a), func(p *model.ServicePort) {
				p.ExternalIPs, p.LoadBalancerIPs = addrs("203.0.113.1"), addrs("203.0.113.3", "203.0.113.4")
			})},
			keep: []Flow{to("203.0.113.1:53", a), to("203.0.113.3:53", a), to("203.0.113.4:53", a), to("203.0.113.2:53", "")},
			cut:  []Flow{to("203.0.113.2:53", a), to("203.0.113.4:53", "")},
		},
		"a local policy keeps the short-circuit": {
			before: ports{with(service("dns", vip, a, b), func(p *model.ServicePort) { p.ExternalLocal, p.Local = true, endpoints(a, c) })},
			after:  ports{with(service("dns", vip, a, b), func(p *model.ServicePort) { p.ExternalLocal, p.Local = true, endpoints(a) })},
			keep:   []Flow{to(front, a), to(front, b)}, cut: []Flow{to(front, c)},
		},
		"a policy becomes local: flows to what serves elsewhere go on": {
			before: ports{service("dns", vip, a, b)},
			after:  ports{with(service("dns", vip, a, b), func(p *model.ServicePort) { local(p); p.Local = endpoints(a) })},
			keep:   []Flow{to(front, a), to(front, b)}, wantNoDump: true,
		},
		"a node port whose endpoint is replaced": {
			globals: anyNodePort, later: anyNodePort,
			before: ports{onNodePort(service("dns", "", a))}, after: ports{onNodePort(service("dns", "", b))},
			keep: []Flow{
				to("192.0.2.1:30053", b), to("10.244.0.1:30053", b), to("203.0.113.9:30053", a), to("203.0.113.9:30053", ""),
				to("192.0.2.1:30054", a), answered(to("192.0.2.1:30053", "")), to("127.0.0.1:30053", a),
			},
			cut: []Flow{to("192.0.2.1:30053", a), to("10.244.0.1:30053", a), to("192.0.2.1:30053", "")},
		},
		"a node port is given up": {
			globals: anyNodePort, later: anyNodePort,
			before: ports{onNodePort(service("dns", vip, a))}, after: ports{service("dns", vip, a)},
			keep: []Flow{to(front, a), to("192.0.2.1:30053", "")}, cut: []Flow{to("192.0.2.1:30053", a)},
		},
		"the address of node ports changes": {
			globals: listed, later: moved,
			before: ports{onNodePort(service("dns", vip, a))}, after: ports{onNodePort(service("dns", vip, a))},
			keep: []Flow{to("192.0.2.2:30053", a), to("192.0.2.1:30053", ""), to("192.0.2.3:30053", a), to(front, a)},
			cut:  []Flow{to("192.0.2.1:30053", a), to("192.0.2.2:30053", "")},
		},
		"a virtual IP of one Service where another has a node port of that number": {
			globals: anyNodePort, later: anyNodePort,
			before: ports{
				onNodePort(service("dns", "", a)),
				with(service("vip", "192.0.2.1", c), func(p *model.ServicePort) { p.Port = 30053 }),
			},
			after: ports{
				onNodePort(service("dns", "", b)),
				with(service("vip", "192.0.2.1", c), func(p *model.ServicePort) { p.Port = 30053 }),
			},
			keep: []Flow{to("192.0.2.1:30053", c), to("10.244.0.1:30053", b)}, cut: []Flow{to("10.244.0.1:30053", a)},
		},
		"a virtual IP without endpoints gives a node port back": {
			globals: anyNodePort, later: anyNodePort,
			before: ports{
				onNodePort(service("dns", "", a)),
				with(service("vip", "192.0.2.1"), func(p *model.ServicePort) { p.Port = 30053 }),
			},
			after: ports{onNodePort(service("dns", "", a))},
			keep:  []Flow{to("10.244.0.1:30053", a), to("192.0.2.1:30053", a)}, cut: []Flow{to("192.0.2.1:30053", "")},
		},
		"a virtual IP without endpoints takes a node port away": {
			globals: anyNodePort, later: anyNodePort,
			before: ports{onNodePort(service("dns", "", a))},
			after: ports{
				onNodePort(service("dns", "", a)),
				with(service("vip", "192.0.2.1"), func(p *model.ServicePort) { p.Port = 30053 }),
			},
			keep: []Flow{to("10.244.0.1:30053", a), to("192.0.2.1:30053", "")}, cut: []Flow{to("192.0.2.1:30053", a)},
		},
		"more endpoints than before": {
			before: ports{service("dns", vip, a)}, after: ports{service("dns", vip, a, b)},
			keep: []Flow{to(front, a), to(front, "")}, wantNoDump: true,
		},
		"a new Service without endpoints": {after: ports{service("dns", vip)}, keep: []Flow{to(front, "")}, wantNoDump: true},
		"a Service without endpoints is deleted": {
			before: ports{service("dns", vip)}, keep: []Flow{to(front, "")}, wantNoDump: true,
		},
		"other protocols": {
			before: ports{tcp(service("web", vip, a))}, after: ports{tcp(service("web", vip, b))},
			keep: []Flow{to(front, a), to(front, "")}, wantNoDump: true,
		},
		"affinity is switched on": {
			before: ports{service("dns", vip, a)}, after: ports{with(service("dns", vip, a), func(p *model.ServicePort) { p.AffinitySeconds = 60 })},
			keep: []Flow{to(front, a)}, wantNoDump: true,
		},
		"nothing": {wantNoDump: true},
	} {
		t.Run(name, func(t *testing.T) {
			before, after := planOf(tc.globals, tc.before...), planOf(tc.later, tc.after...)
			table := newFake()
			r := New(model.IPv4, table)
			_, err := r.Start(t.Context(), before)
			must(t, err)
			for _, f := range append(tc.keep, tc.cut...) {
				table.flows[f] = true
			}
			table.dumps = 0
			deleted, err := r.Reconcile(t.Context(), after.Globals, between(before, after))
			if err != nil || deleted != len(tc.cut) {
				t.Errorf("deleted %d, %v, want %d", deleted, err, len(tc.cut))
			}
			if diff := cmp.Diff(newFake(tc.keep...).String(), table.String()); diff != "" {
				t.Errorf("flows (-want +got):\n%s", diff)
			}
			if want := map[bool]int{true: 0, false: 1}[tc.wantNoDump]; table.dumps != want {
				t.Errorf("read the table %d times, want %d", table.dumps, want)
			}
		})
	}
}

func TestStart(t *testing.T) {
	ranges := model.Globals{Family: model.IPv4, NodePortAny: true, Ranges: []netip.Prefix{netip.MustParsePrefix("10.96.0.0/16")}}
	plan := planOf(ranges,
		onNodePort(service("dns", vip, a)), service("empty", "10.96.0.11"), tcp(service("web", "10.96.0.12", a)),
		with(service("wide", "", a), func(p *model.ServicePort) { p.ExternalIPs = addrs("203.0.113.1") }),
	)
	plan.Allocated = allocated(vip, "10.96.0.11", "10.96.0.12", "10.96.0.13")
	keep := []Flow{
		to(front, a), answered(to(front, a)), to("10.96.0.11:53", ""), to("203.0.113.1:53", a), to("192.0.2.1:30053", a),
		to("192.0.2.1:30054", b),          // Somebody else's: a host port, say.
		to("10.97.0.1:53", b),             // Outside.
		to("10.96.0.99:53", ""),           // Was never translated.
		to("10.96.0.13:53", b),            // Allocated, but not ours: another proxy serves it.
		to("8.8.8.8:53", ""),              // out of the cluster
		to("8.8.8.8:30053", ""),           // where a port may have any number.
		answered(to("10.244.0.2:53", "")), // From pod to pod.
	}
	cut := []Flow{
		to(front, b), to(front, ""), to("10.96.0.11:53", a), to("203.0.113.1:53", ""), to("192.0.2.1:30053", b), to("192.0.2.1:30053", ""),
		to("10.96.0.99:53", a), // Its Service is gone.
		to(vip+":54", a),       // Its port is gone.
		to("10.96.0.12:53", a), // Only its TCP port is left.
	}
	table := newFake(append(keep, cut...)...)
	deleted, err := New(model.IPv4, table).Start(t.Context(), plan)
	if err != nil || deleted != len(cut) {
		t.Errorf("deleted %d, %v, want %d", deleted, err, len(cut))
	}
	if diff := cmp.Diff(newFake(keep...).String(), table.String()); diff != "" {
		t.Errorf("flows (-want +got):\n%s", diff)
	}
	if table.dumps != 1 {
		t.Errorf("read the table %d times", table.dumps)
	}
}

func TestStartWithNothingToFind(t *testing.T) {
	table := newFake(to("10.96.0.99:53", a))
	deleted, err := New(model.IPv4, table).Start(t.Context(), planOf(anyNodePort, tcp(service("web", vip, a))))
	if deleted != 0 || err != nil || table.dumps != 0 {
		t.Errorf("deleted %d, %v, read %d times", deleted, err, table.dumps)
	}
}

// TestStartAgain has no Delta that says what became of the ports of the first Plan.
func TestStartAgain(t *testing.T) {
	keep := []Flow{to("192.0.2.1:30053", ""), to("203.0.113.1:53", ""), to("203.0.113.9:53", a)}
	cut := []Flow{to(front, a), to("203.0.113.1:53", a), to("192.0.2.1:30053", a)}
	table := newFake()
	r := New(model.IPv4, table)
	old := onNodePort(with(service("old", vip, a), func(p *model.ServicePort) { p.ExternalIPs = addrs("203.0.113.1") }))
	_, err := r.Start(t.Context(), planOf(anyNodePort, old))
	must(t, err)
	table.flows = newFake(append(keep, cut...)...).flows
	if deleted, err := r.Start(t.Context(), planOf(anyNodePort)); err != nil || deleted != len(cut) {
		t.Errorf("deleted %d, %v, want %d", deleted, err, len(cut))
	}
	if diff := cmp.Diff(newFake(keep...).String(), table.String()); diff != "" {
		t.Errorf("flows (-want +got):\n%s", diff)
	}
	if len(r.index.ports)+len(r.index.owners) != 0 {
		t.Errorf("still remembers %v, %v", r.index.ports, r.index.owners)
	}
}

// TestFailuresAreMadeUpFor lets reading and deleting fail, and looks whether the next call, with an empty Delta, does what is left.
func TestFailuresAreMadeUpFor(t *testing.T) {
	before, after := planOf(anyNodePort, service("x", vip, a), service("y", "10.96.0.11", a)), planOf(anyNodePort, service("x", vip, b))
	stays, stale, lone := to(front, b), to(front, a), to("10.96.0.11:53", a)
	broken := errors.New("broken")
	for name, tc := range map[string]struct {
		hinder, help func(*fake)
		wantErr      error
		wantFirst    int
	}{
		"the table cannot be read": {func(t *fake) { t.broken = broken }, func(t *fake) { t.broken = nil }, broken, 0},
		"a flow is stuck":          {func(t *fake) { t.stuck = map[Flow]bool{stale: true} }, func(t *fake) { t.stuck = nil }, errStuck, 1},
	} {
		t.Run(name, func(t *testing.T) {
			table := newFake(stays, stale, lone)
			r := New(model.IPv4, table)
			_, err := r.Start(t.Context(), before)
			must(t, err)
			table.flows = newFake(stays, stale, lone).flows
			tc.hinder(table)
			if deleted, err := r.Reconcile(t.Context(), anyNodePort, between(before, after)); !errors.Is(err, tc.wantErr) || deleted != tc.wantFirst {
				t.Errorf("with the failure: %d, %v", deleted, err)
			}
			tc.help(table)
			if deleted, err := r.Reconcile(t.Context(), anyNodePort, model.Delta{}); err != nil || deleted != 2-tc.wantFirst {
				t.Errorf("after it: %d, %v", deleted, err)
			}
			if diff := cmp.Diff(newFake(stays).String(), table.String()); diff != "" {
				t.Errorf("flows (-want +got):\n%s", diff)
			}
			dumps := table.dumps
			if _, err := r.Reconcile(t.Context(), anyNodePort, model.Delta{}); err != nil || table.dumps != dumps {
				t.Errorf("when all is done: %v, read %d times more", err, table.dumps-dumps)
			}
		})
	}
}

func TestCancelledBetweenDeletions(t *testing.T) {
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	table := newFake(to(front, a))
	deleted, err := New(model.IPv4, table).Start(ctx, planOf(anyNodePort, service("x", vip, b)))
	if deleted != 0 || !errors.Is(err, context.Canceled) {
		t.Errorf("deleted %d, %v", deleted, err)
	}
}

// TestLocalAddrsAreReadForNodePortsOnly pins the cost of a change of a ClusterIP.
func TestLocalAddrsAreReadForNodePortsOnly(t *testing.T) {
	for want, port := range []model.ServicePort{service("x", vip, a), onNodePort(service("x", vip, a))} {
		table := newFake()
		if _, err := New(model.IPv4, table).Start(t.Context(), planOf(anyNodePort, port)); err != nil || table.asked != want {
			t.Errorf("asked %d times, %v, want %d", table.asked, err, want)
		}
	}
}

func TestNodePortsOnLoopback(t *testing.T) {
	for name, tc := range map[string]struct {
		globals model.Globals
		addr    string
		want    bool
	}{
		"switched on":                       {model.Globals{Family: model.IPv4, NodePortAny: true, LocalhostNodePorts: true}, "127.0.0.1", true},
		"switched off":                      {model.Globals{Family: model.IPv4, NodePortAny: true}, "127.0.0.1", false},
		"never with IPv6":                   {model.Globals{Family: model.IPv6, NodePortAny: true, LocalhostNodePorts: true}, "::1", false},
		"another local address":             {model.Globals{Family: model.IPv4, NodePortAny: true}, "192.0.2.1", true},
		"an address elsewhere":              {model.Globals{Family: model.IPv4, NodePortAny: true}, "192.0.2.2", false},
		"a local address that is not named": {model.Globals{Family: model.IPv4, NodePortAddrs: addrs("192.0.2.9")}, "192.0.2.1", false},
		"an address that is named":          {model.Globals{Family: model.IPv4, NodePortAddrs: addrs("192.0.2.9")}, "192.0.2.9", true},
		"the zero value":                    {model.Globals{}, "192.0.2.1", false},
	} {
		local := map[netip.Addr]bool{netip.MustParseAddr("192.0.2.1"): true, netip.MustParseAddr("127.0.0.1"): true}
		if got := nodeAddrsOf(tc.globals).serves(netip.MustParseAddr(tc.addr), local); got != tc.want {
			t.Errorf("%s: served at %s: %v, want %v", name, tc.addr, got, tc.want)
		}
	}
}
