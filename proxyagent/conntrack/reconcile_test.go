package conntrack

import (
	"context"
	"errors"
	"net/netip"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"

	"github.com/clusterip-operator/clusterip-operator/proxyagent/model"
)

const (
	vip = "10.96.0.10"
	dns = vip + ":53"
	a   = "10.244.0.2:5353"
	b   = "10.244.1.2:5353"
	c   = "10.244.2.2:5353"
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
			keep: []Flow{to(dns, a), to(vip+":54", b), to("10.96.0.11:53", b), to(b, ""), to("10.96.0.11:53", "")},
			cut:  []Flow{to(dns, b)},
		},
		"an endpoint terminates, and serves": {
			before: ports{service("dns", vip, a, b)},
			after:  ports{with(service("dns", vip, a), func(p *model.ServicePort) { p.Serving = endpoints(a, b) })},
			keep:   []Flow{to(dns, a), to(dns, b)}, wantNoDump: true,
		},
		"an endpoint that terminated serves no more": {
			before: ports{with(service("dns", vip, a), func(p *model.ServicePort) { p.Serving = endpoints(a, b) })},
			after:  ports{service("dns", vip, a)},
			keep:   []Flow{to(dns, a)}, cut: []Flow{to(dns, b)},
		},
		"the first endpoint": {
			before: ports{service("dns", vip)}, after: ports{service("dns", vip, a)},
			keep: []Flow{to(dns, a), to("10.96.0.11:53", "")}, cut: []Flow{to(dns, ""), answered(to(dns, ""))},
		},
		"scaled to zero": {
			before: ports{service("dns", vip, a)}, after: ports{service("dns", vip)},
			keep: []Flow{to(dns, ""), to(a, "")}, cut: []Flow{to(dns, a), answered(to(dns, a))},
		},
		"the Service is deleted": {
			before: ports{service("dns", vip, a)}, after: ports{},
			keep: []Flow{to(dns, "")}, cut: []Flow{to(dns, a)},
		},
		"the Service is new": {
			after: ports{service("dns", vip, a)},
			keep:  []Flow{to(dns, a)}, cut: []Flow{to(dns, ""), to(dns, b)},
		},
		"re-created under another name, with one endpoint in common": {
			before: ports{service("old", vip, a, b)}, after: ports{service("new", vip, b, c)},
			keep: []Flow{to(dns, b), to(dns, c)}, cut: []Flow{to(dns, a), to(dns, "")},
		},
		"two Services change addresses": {
			before: ports{service("x", vip, a), service("y", "10.96.0.11", b)}, after: ports{service("x", "10.96.0.11", a), service("y", vip, b)},
			keep: []Flow{to(dns, b), to("10.96.0.11:53", a)}, cut: []Flow{to(dns, a), to("10.96.0.11:53", b)},
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
			keep:   []Flow{to(dns, a), to(dns, b)}, cut: []Flow{to(dns, c)},
		},
		"a policy becomes local: flows to what serves elsewhere go on": {
			before: ports{service("dns", vip, a, b)},
			after:  ports{with(service("dns", vip, a, b), func(p *model.ServicePort) { local(p); p.Local = endpoints(a) })},
			keep:   []Flow{to(dns, a), to(dns, b)}, wantNoDump: true,
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
			keep: []Flow{to(dns, a), to("192.0.2.1:30053", "")}, cut: []Flow{to("192.0.2.1:30053", a)},
		},
		"the address of node ports changes": {
			globals: listed, later: moved,
			before: ports{onNodePort(service("dns", vip, a))}, after: ports{onNodePort(service("dns", vip, a))},
			keep: []Flow{to("192.0.2.2:30053", a), to("192.0.2.1:30053", ""), to("192.0.2.3:30053", a), to(dns, a)},
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
			keep: []Flow{to(dns, a), to(dns, "")}, wantNoDump: true,
		},
		"a new Service without endpoints": {after: ports{service("dns", vip)}, keep: []Flow{to(dns, "")}, wantNoDump: true},
		"a Service without endpoints is deleted": {
			before: ports{service("dns", vip)}, keep: []Flow{to(dns, "")}, wantNoDump: true,
		},
		"other protocols": { // whose ports have the same number
			before: ports{tcp(service("web", vip, a))}, after: ports{tcp(service("web", vip, b))},
			keep: []Flow{to(dns, a), to(dns, "")},
		},
		"TCP: one that was answered goes on, wherever it goes": {
			globals: anyNodePort, later: anyNodePort,
			before: ports{onNodePort(tcp(service("web", vip, a)))}, after: ports{onNodePort(tcp(service("web", vip, b)))},
			keep: over(model.TCP, answered(to(dns, a)), answered(to(dns, "")), answered(to("192.0.2.1:30053", a)), to(dns, b)),
			cut:  over(model.TCP, to(dns, a), to(dns, ""), to("192.0.2.1:30053", a), to("192.0.2.1:30053", "")),
		},
		"TCP: the Service is new": {
			after: ports{tcp(with(service("web", vip, a), func(p *model.ServicePort) { p.LoadBalancerIPs = addrs("203.0.113.1") }))},
			keep:  append(over(model.TCP, to(dns, a), answered(to(dns, "")), to(vip+":54", "")), to(dns, "")),
			cut:   over(model.TCP, to(dns, ""), to("203.0.113.1:53", "")),
		},
		"SCTP: the Service is new": {
			globals: anyNodePort, later: anyNodePort,
			after: ports{onNodePort(sctp(service("sig", vip, a)))},
			keep:  append(over(model.SCTP, to(dns, a), answered(to("192.0.2.1:30053", ""))), to(dns, "")),
			cut:   over(model.SCTP, to(dns, ""), to("192.0.2.1:30053", "")),
		},
		"SCTP: an association follows its endpoint to the end": {
			before: ports{sctp(service("sig", vip, a, b))},
			after:  ports{sctp(with(service("sig", vip, c), func(p *model.ServicePort) { p.Serving = endpoints(b, c) }))},
			keep:   over(model.SCTP, answered(to(dns, b)), to(dns, c)), cut: over(model.SCTP, answered(to(dns, a)), to(dns, a)),
		},
		"affinity is switched on": {
			before: ports{service("dns", vip, a)}, after: ports{with(service("dns", vip, a), func(p *model.ServicePort) { p.AffinitySeconds = 60 })},
			keep: []Flow{to(dns, a)}, wantNoDump: true,
		},
		"nothing": {wantNoDump: true},
	} {
		t.Run(name, func(t *testing.T) {
			before, after := planOf(tc.globals, tc.before...), planOf(tc.later, tc.after...)
			table := newFake()
			r := New(model.IPv4, table)
			r.Start(before, nil, now)
			_, err := find(t.Context(), r)
			must(t, err)
			for _, f := range append(tc.keep, tc.cut...) {
				table.flows[f] = true
			}
			table.dumps = 0
			r.Reconcile(after.Globals, between(before, after), now)
			deleted, err := find(t.Context(), r)
			if err != nil || deleted != len(tc.cut) {
				t.Errorf("deleted %d, %v, want %d", deleted, err, len(tc.cut))
			}
			if diff := cmp.Diff(newFake(tc.keep...).String(), table.String()); diff != "" {
				t.Errorf("flows (-want +got):\n%s", diff)
			}
			if table.dumps > 1 || tc.wantNoDump != (table.dumps == 0) {
				t.Errorf("read the table %d times, want none: %t", table.dumps, tc.wantNoDump)
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
		to(dns, a), answered(to(dns, a)), to("10.96.0.11:53", ""), to("203.0.113.1:53", a), to("192.0.2.1:30053", a),
		to("192.0.2.1:30054", b),          // Of another program: a host port, say.
		to("10.97.0.1:53", b),             // Outside.
		to("10.96.0.99:53", ""),           // Was never translated.
		to("10.96.0.13:53", b),            // Allocated, but not ours: another proxy serves it.
		to("8.8.8.8:53", ""),              // out of the cluster
		to("8.8.8.8:30053", ""),           // where a port may have any number.
		answered(to("10.244.0.2:53", "")), // From pod to pod.
		to("203.0.113.2:54", b), to("203.0.113.2:53", ""), to("8.8.8.8:30055", b),
	}
	cut := []Flow{
		to(dns, b), to(dns, ""), to("10.96.0.11:53", a), to("203.0.113.1:53", ""), to("192.0.2.1:30053", b), to("192.0.2.1:30053", ""),
		to("10.96.0.99:53", a),                                                     // Its Service is gone.
		to(vip+":54", a),                                                           // Its port is gone.
		to("10.96.0.12:53", a),                                                     // Only its TCP port is left.
		to("203.0.113.2:53", b), to("203.0.113.3:53", b), to("192.0.2.1:30055", b), // Their Service is gone.
	}
	keep = append(keep, over(model.TCP, to("10.96.0.12:53", a), to("10.96.0.99:53", a), answered(to("10.96.0.12:53", b)))...)
	keep = append(keep, over(model.SCTP, to("10.96.0.13:53", b))...)
	cut = append(cut, over(model.TCP, to("10.96.0.12:53", b), to("10.96.0.12:53", ""))...)
	cut = append(cut, over(model.SCTP, to("10.96.0.99:53", a))...)
	table := newFake(append(keep, cut...)...)
	r := New(model.IPv4, table)
	// What the rules of an earlier agent served, and is not in the Plan.
	r.Start(plan, ports{with(service("gone", "", b), func(p *model.ServicePort) {
		p.NodePort, p.ExternalIPs, p.LoadBalancerIPs = 30055, addrs("203.0.113.2"), addrs("203.0.113.3")
	})}, now)
	deleted, err := find(t.Context(), r)
	if err != nil || deleted != len(cut) {
		t.Errorf("deleted %d, %v, want %d", deleted, err, len(cut))
	}
	if diff := cmp.Diff(newFake(keep...).String(), table.String()); diff != "" {
		t.Errorf("flows (-want +got):\n%s", diff)
	}
	if table.dumps != 3 { // one for each protocol
		t.Errorf("read the table %d times", table.dumps)
	}
}

func TestStartWithNothingToFind(t *testing.T) {
	table := newFake(to("10.96.0.99:53", a))
	r := New(model.IPv4, table)
	r.Start(planOf(anyNodePort), nil, now)
	deleted, err := find(t.Context(), r)
	if deleted != 0 || err != nil || table.dumps != 0 {
		t.Errorf("deleted %d, %v, read %d times", deleted, err, table.dumps)
	}
}

// TestStartAgain has no Delta that says what became of the ports of the first Plan.
func TestStartAgain(t *testing.T) {
	keep := []Flow{to("192.0.2.1:30053", ""), to("203.0.113.1:53", ""), to("203.0.113.9:53", a)}
	cut := []Flow{to(dns, a), to("203.0.113.1:53", a), to("192.0.2.1:30053", a)}
	table := newFake()
	r := New(model.IPv4, table)
	old := onNodePort(with(service("old", vip, a), func(p *model.ServicePort) { p.ExternalIPs = addrs("203.0.113.1") }))
	r.Start(planOf(anyNodePort, old), nil, now)
	_, err := find(t.Context(), r)
	must(t, err)
	table.flows = newFake(append(keep, cut...)...).flows
	r.Start(planOf(anyNodePort), nil, now)
	if deleted, err := find(t.Context(), r); err != nil || deleted != len(cut) {
		t.Errorf("deleted %d, %v, want %d", deleted, err, len(cut))
	}
	if diff := cmp.Diff(newFake(keep...).String(), table.String()); diff != "" {
		t.Errorf("flows (-want +got):\n%s", diff)
	}
	if len(r.index.owners)+len(r.suspects)+len(r.former) != 0 {
		t.Errorf("still remembers %v, %v, %v", r.index.owners, r.suspects, r.former)
	}
}

// TestFailuresAreMadeUpFor lets reading and deleting fail, and looks whether the next search does
// what is left.
func TestFailuresAreMadeUpFor(t *testing.T) {
	before, after := planOf(anyNodePort, service("x", vip, a), service("y", "10.96.0.11", a)), planOf(anyNodePort, service("x", vip, b))
	stays, stale, lone := to(dns, b), to(dns, a), to("10.96.0.11:53", a)
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
			r.Start(before, nil, now)
			_, err := find(t.Context(), r)
			must(t, err)
			table.flows = newFake(stays, stale, lone).flows
			tc.hinder(table)
			r.Reconcile(anyNodePort, between(before, after), now)
			if deleted, err := find(t.Context(), r); !errors.Is(err, tc.wantErr) || deleted != tc.wantFirst {
				t.Errorf("with the failure: %d, %v", deleted, err)
			}
			tc.help(table)
			if r.Next().Before(now.Add(retry)) {
				t.Errorf("it is tried again at once: %v", r.Next())
			}
			if deleted, err := find(t.Context(), r); err != nil || deleted != 2-tc.wantFirst {
				t.Errorf("after it: %d, %v", deleted, err)
			}
			if diff := cmp.Diff(newFake(stays).String(), table.String()); diff != "" {
				t.Errorf("flows (-want +got):\n%s", diff)
			}
			dumps := table.dumps
			if _, err := find(t.Context(), r); err != nil || table.dumps != dumps {
				t.Errorf("when all is done: %v, read %d times more", err, table.dumps-dumps)
			}
		})
	}
}

// TestAStuckFlowConcernsItsFront has the kernel keep a flow, as it does with those that a flow
// table forwards: flows of another front do not wait for it.
func TestAStuckFlowConcernsItsFront(t *testing.T) {
	stuck, other := to(dns, a), to("10.96.0.11:53", a)
	before, after := planOf(anyNodePort, service("x", vip, b), service("y", "10.96.0.11", a)), planOf(anyNodePort, service("x", vip, b), service("y", "10.96.0.11", b))
	table := newFake(stuck, other)
	table.stuck = map[Flow]bool{stuck: true}
	r := New(model.IPv4, table)
	r.Start(before, nil, now)
	if _, err := find(t.Context(), r); !errors.Is(err, errStuck) {
		t.Fatalf("got the error %v", err)
	}
	r.Reconcile(anyNodePort, between(before, after), time.Now())
	if wait := time.Until(r.Next()); wait > retry/2 {
		t.Errorf("another front waits for %s", wait)
	}
	search := r.Search(time.Now().Add(retry / 2))
	if search == nil {
		t.Fatal("another front waits")
	}
	if deleted, more, err := search(t.Context())(t.Context()); deleted != 1 || more || err != nil {
		t.Errorf("deleted %d, %v, %t; want the flow of the other front alone", deleted, err, more)
	}
}

func TestCancelledBetweenDeletions(t *testing.T) {
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	table := newFake(to(dns, a))
	r := New(model.IPv4, table)
	r.Start(planOf(anyNodePort, service("x", vip, b)), nil, now)
	deleted, err := find(ctx, r)
	if deleted != 0 || !errors.Is(err, context.Canceled) {
		t.Errorf("deleted %d, %v", deleted, err)
	}
}

// TestLocalAddrsAreReadForNodePortsOnly pins the cost of a change of a ClusterIP.
func TestLocalAddrsAreReadForNodePortsOnly(t *testing.T) {
	for want, port := range []model.ServicePort{service("x", vip, a), onNodePort(service("x", vip, a))} {
		table := newFake()
		r := New(model.IPv4, table)
		r.Start(planOf(anyNodePort, port), nil, now)
		if _, err := find(t.Context(), r); err != nil || table.asked != want {
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

// TestWhatIsAskedFor pins that the kernel sends no flows of other Services where it can tell them
// apart.
func TestWhatIsAskedFor(t *testing.T) {
	addr := netip.MustParseAddr(vip)
	second := with(service("second", vip, a), func(p *model.ServicePort) { p.Port = 54 })
	elsewhere := service("elsewhere", "10.96.0.11", a)
	for name, tc := range map[string]struct {
		ports ports
		want  Query
	}{
		"one front":             {ports{service("dns", vip, a)}, Query{Addr: addr, Port: 53, Protocol: model.UDP}},
		"of TCP":                {ports{tcp(service("web", vip, a))}, Query{Addr: addr, Port: 53, Protocol: model.TCP, Unanswered: true}},
		"one address":           {ports{service("dns", vip, a), second}, Query{Addr: addr, Protocol: model.UDP}},
		"one port":              {ports{service("dns", vip, a), elsewhere}, Query{Port: 53, Protocol: model.UDP}},
		"nothing in common":     {ports{second, elsewhere}, Query{Protocol: model.UDP}},
		"a node port":           {ports{onNodePort(service("dns", "", a))}, Query{Port: 30053, Protocol: model.UDP}},
		"a node port, and more": {ports{onNodePort(service("dns", vip, a))}, Query{Protocol: model.UDP}},
	} {
		table := newFake()
		r := New(model.IPv4, table)
		r.Start(planOf(anyNodePort), nil, now)
		r.Reconcile(anyNodePort, between(planOf(anyNodePort), planOf(anyNodePort, tc.ports...)), now)
		_, err := find(t.Context(), r)
		must(t, err)
		tc.want.Family = model.IPv4
		if diff := cmp.Diff(tc.want, table.last, cmpopts.EquateComparable(netip.Addr{})); diff != "" || table.dumps != 1 {
			t.Errorf("%s: asked %d times (-want +got):\n%s", name, table.dumps, diff)
		}
	}
}

// TestConnectionsThatAreBeingOpened of TCP get a second to be answered; other flows get none.
func TestConnectionsThatAreBeingOpened(t *testing.T) {
	r := New(model.IPv4, newFake())
	r.Start(planOf(anyNodePort, tcp(service("web", vip, a))), nil, now)
	if r.Next() != now.Add(time.Second) || r.Search(now) != nil {
		t.Errorf("TCP: the next search is at %v", r.Next())
	}
	r.Start(planOf(anyNodePort, service("dns", vip, a)), nil, now)
	if r.Next() != now {
		t.Errorf("UDP: the next search is at %v", r.Next())
	}
}

// TestWhatComesDuringASearch has a flow to an endpoint that is new when the table has been read,
// and one to a front that is lost then.
func TestWhatComesDuringASearch(t *testing.T) {
	lost := service("y", "10.96.0.11", a)
	first := planOf(anyNodePort, service("x", vip, a), lost)
	second := planOf(anyNodePort, service("x", vip, c), lost)
	third := planOf(anyNodePort, service("x", vip, b))
	good, stale, late := to(dns, b), to(dns, a), to("10.96.0.11:53", a)
	table := newFake(good, stale, late)
	r := New(model.IPv4, table)
	r.Start(first, nil, now)
	must(t, failed(find(t.Context(), r)))
	table.flows = newFake(good, stale, late).flows
	r.Reconcile(anyNodePort, between(first, second), now)
	remove := r.Search(now.Add(time.Hour))(t.Context())
	r.Reconcile(anyNodePort, between(second, third), now)
	_, _, err := remove(t.Context())
	must(t, err)
	if diff := cmp.Diff(newFake(good, late).String(), table.String()); diff != "" {
		t.Errorf("flows (-want +got):\n%s", diff)
	}
	must(t, failed(find(t.Context(), r)))
	if diff := cmp.Diff(newFake(good).String(), table.String()); diff != "" {
		t.Errorf("later (-want +got):\n%s", diff)
	}
}

func failed(_ int, err error) error { return err }

// TestSearchesTakeATenthOfTheTime unless one was slow for once.
func TestSearchesTakeATenthOfTheTime(t *testing.T) {
	r := New(model.IPv4, newFake())
	finish := func(took time.Duration) time.Duration {
		_, _, err := r.finish(t.Context(), &search{took: took}, now)
		must(t, err)
		return r.earliest.Sub(now)
	}
	for _, tc := range []struct{ took, want time.Duration }{{time.Second, 0}, {time.Second, 9 * time.Second}, {time.Minute, 9 * time.Second}} {
		if got := finish(tc.took); got != tc.want {
			t.Errorf("after one of %s: a pause of %s, want %s", tc.took, got, tc.want)
		}
	}
}

// TestManyFlowsAreDeletedInTurns and one that is stuck stops no other one.
func TestManyFlowsAreDeletedInTurns(t *testing.T) {
	table := newFake()
	for range perTurn*2 + 1 {
		table.flows[to(dns, a)] = true
	}
	for f := range table.flows {
		table.stuck = map[Flow]bool{f: true}
		break
	}
	r := New(model.IPv4, table)
	r.Start(planOf(anyNodePort, service("x", vip, b)), nil, now)
	remove := r.Search(now.Add(time.Hour))(t.Context())
	deleted, turns, more, err := 0, 0, true, error(nil)
	for ; more; turns++ {
		n := 0
		n, more, err = remove(t.Context())
		deleted += n
	}
	if deleted != perTurn*2 || turns != 3 || !errors.Is(err, errStuck) || len(r.suspects) != 1 {
		t.Errorf("deleted %d in %d turns, %v, and suspects %v", deleted, turns, err, r.suspects)
	}
}
