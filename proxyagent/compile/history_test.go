package compile

import (
	"fmt"
	"math/rand/v2"
	"net/netip"
	"reflect"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/clusterip-operator/clusterip-operator/proxyagent/model"
)

// TestHistory applies random sequences of changes, in which Services claim the same few addresses.
func TestHistory(t *testing.T) {
	for s := uint64(1); s <= 400; s++ {
		if g := (generator{newRand(s), families[s%2]}); !play(t, g, g.settings(), 25, false) {
			t.Fatal("seed", s)
		}
	}
}

// play applies random changes. After each, the sum of all Deltas is what Plan and a new Compiler
// say of the State; a Delta holds only changes; explanations agree with the Plan and are printable.
func play(t *testing.T, g generator, set model.Settings, steps int, spoil bool) bool {
	c, st := New(set), stateOf()
	sum := model.Plan{Ports: map[model.PortName]model.ServicePort{}, Allocated: map[netip.Addr]struct{}{}}
	var history []string
	for range steps {
		ch, words := g.changes(&st)
		if spoil {
			g.spoil(&st, &ch)
		}
		history = append(history, words)
		problems := addDelta(&sum, c.Apply(ch))
		fresh := compilerOf(set, st)
		want := fresh.Plan()
		problems += differ("the sum of all Deltas", want, sum) + differ("Plan", want, c.Plan()) +
			differ("Disputes", fresh.Disputes(), c.Disputes()) + broken(want) +
			differ("Degraded", fresh.Degraded(), c.Degraded()) +
			differ("Former", sorted(fresh.Former(), netip.Addr.Compare), sorted(c.Former(), netip.Addr.Compare))
		for n, s := range st.Services {
			e := c.Explain(n)
			problems += unprintable(e) + agrees(e, want.Ports, n)
			HealthCheck(st.Node.Name, s)
		}
		if problems != "" {
			t.Errorf("settings %+v, after\n%s\n%s", set, strings.Join(history, "\n"), problems)
			return false
		}
	}
	return true
}

// differ returns how two values differ, or nothing. Reflection comes first: it is faster than cmp.
func differ(what string, want, got any) string {
	if reflect.DeepEqual(want, got) {
		return ""
	}
	return fmt.Sprintf("%s, want -, got +:\n%s", what, cmp.Diff(want, got, sameValues))
}

// addDelta adds a Delta to a Plan and complains about what does not fit to it.
func addDelta(p *model.Plan, d model.Delta) (complaints string) {
	complain := func(format string, args ...any) { complaints += fmt.Sprintf(format+"\n", args...) }
	if d.Globals != nil {
		if reflect.DeepEqual(p.Globals, *d.Globals) {
			complain("the Delta has Globals that did not change")
		}
		p.Globals = *d.Globals
	}
	for n, now := range d.Ports {
		before, was := p.Ports[n]
		said, saidSo := d.Before[n]
		if was != saidSo || !reflect.DeepEqual(before, said) {
			complain("Before of %s is %v, want %v", n, said, before)
		}
		if now == nil && !was || now != nil && was && reflect.DeepEqual(before, *now) {
			complain("the Delta has %s, which did not change", n)
		}
		delete(p.Ports, n)
		if now != nil {
			p.Ports[n] = *now
		}
	}
	if len(d.Before) > len(d.Ports) {
		complain("Before has ports that did not change: %v", d.Before)
	}
	for a, now := range d.Allocated {
		if _, was := p.Allocated[a]; was == now {
			complain("the Delta has the allocation of %s, which did not change", a)
		}
		delete(p.Allocated, a)
		if now {
			p.Allocated[a] = struct{}{}
		}
	}
	return complaints
}

// generator makes random values from small pools, mostly of one family.
type generator struct {
	*rand.Rand
	family model.Family
}

func newRand(seed uint64) *rand.Rand { return rand.New(rand.NewPCG(seed, 0)) }

func pick[T any](g generator, from ...T) T { return from[g.IntN(len(from))] }

// some picks up to n, with repetition.
func some[T any](g generator, n int, from func() T) (out []T) {
	for range g.IntN(n + 1) {
		out = append(out, from())
	}
	return out
}

func (g generator) one(in int) bool { return g.IntN(in) == 0 }

func (g generator) settings() model.Settings {
	return model.Settings{
		Family:        g.family,
		Allocations:   pick(g, model.Prefer, model.Enforce, model.Ignore),
		MasqueradeAll: g.one(2), MasqueradeBit: 14,
		FromNode:           g.one(2),
		NodePortCIDRs:      some(g, 1, g.prefix),
		NodePortPrimary:    g.one(4),
		LocalhostNodePorts: g.one(2),
		NoExternalIPs:      g.one(5),
		KeepUnallocated:    g.one(5),
	}
}

func (g generator) of() model.Family {
	if g.one(8) {
		return pick(g, families...)
	}
	return g.family
}

func (g generator) addr() netip.Addr {
	if g.one(40) {
		return pick(g, unservable...)
	}
	return netip.MustParseAddr(in(g.of(), pick(g, "10.96.0.1", "10.96.0.2", "10.96.0.3", "10.97.0.1", "203.0.113.1")))
}

func (g generator) prefix() netip.Prefix {
	if g.one(20) {
		return netip.MustParsePrefix(in(g.of(), "0.0.0.0/0"))
	}
	return netip.MustParsePrefix(in(g.of(), pick(g, "10.96.0.0/16", "10.97.0.0/24", "10.0.0.0/8", "203.0.113.0/24", "192.0.2.1/32")))
}

func (g generator) name() model.ServiceName { return name(pick(g, "a", "b", "c", "d", "x/a", "x/e")) }

func (g generator) service() model.Service {
	day, extra, ports := g.IntN(3), 0, 2
	if g.one(3) {
		extra, ports = 2, 4
	}
	return model.Service{
		Created: someday.AddDate(0, 0, day), Held: g.one(5), Foreign: g.one(6),
		ClusterIPs:      append(some(g, extra, g.addr), g.addr()),
		ExternalIPs:     some(g, extra, g.addr),
		LoadBalancerIPs: some(g, extra, g.addr),
		SourceRanges:    some(g, extra, g.prefix),
		InternalLocal:   g.one(4), ExternalLocal: g.one(3),
		AffinitySeconds: pick(g, 0, 0, 10800), HealthCheckNodePort: pick[uint16](g, 0, 0, 32000),
		Balancing: pick(g, nil, nil, g.balancing()),
		Ports:     some(g, ports, g.port),
		Endpoints: some(g, 6, g.endpoint),
	}
}

func (g generator) balancing() *model.Balancing {
	return &model.Balancing{
		Scheduler: pick(g, model.RoundRobin, model.MaglevHashing), SchedulerFrom: "scheduler", WeightsFrom: pick(g, "", "weights"),
		Ignored: some(g, 1, func() model.DegradationReason { return model.SchedulerInvalid }),
	}
}

func (g generator) port() model.Port {
	return model.Port{
		Name: pick(g, "", "http", "dns"), Protocol: pick(g, model.TCP, model.TCP, model.UDP, model.SCTP),
		Port: pick[uint16](g, 80, 80, 443, 0), NodePort: pick[uint16](g, 0, 0, 30000, 30001),
	}
}

func (g generator) endpoint() model.Endpoint {
	addr := netip.MustParseAddr(in(g.of(), pick(g, "10.1.0.1", "10.1.0.2", "10.1.0.3")))
	if g.one(40) {
		addr = pick(g, unservable...)
	}
	var hints *model.Hints
	if g.one(2) {
		hints = &model.Hints{Zones: some(g, 2, g.zone), Nodes: some(g, 1, g.node)}
	}
	return model.Endpoint{
		Port: pick(g, "", "http", "dns"), Protocol: pick(g, model.TCP, model.TCP, model.UDP, model.SCTP),
		Addr: netip.AddrPortFrom(addr, pick[uint16](g, 8080, 8080, 8080, 0)), Node: g.node(),
		Weight: pick[uint8](g, 0, 1, 2, 4),
		Ready:  !g.one(3), Serving: g.one(2), Terminating: g.one(3), Hints: hints,
	}
}

func (g generator) zone() string { return pick(g, "zone-a", "zone-b") }
func (g generator) node() string { return pick(g, "node-a", "node-a", "node-b", "") }

// changes changes the State at random, or not at all, and returns that as Changes and in words.
func (g generator) changes(st *model.State) (model.Changes, string) {
	ch := model.Changes{Services: map[model.ServiceName]*model.Service{}, Allocations: map[netip.Addr]*model.Allocation{}}
	var words []string
	say := func(format string, args ...any) { words = append(words, fmt.Sprintf(format, args...)) }
	for range g.IntN(4) {
		n := g.name()
		s := g.changedService(*st, n)
		ch.Services[n] = s
		if s == nil {
			say("without Service %s", n)
			delete(st.Services, n)
			continue
		}
		say("with Service %s %+v", n, *s)
		st.Services[n] = *s
	}
	for range g.IntN(4) {
		a := g.addr()
		if g.one(3) {
			say("without IPAddress %s", a)
			ch.Allocations[a] = nil
			delete(st.Allocations, a)
			continue
		}
		x := model.Allocation{Addr: a, Service: pick(g, g.name(), g.name(), model.ServiceName{}), Additional: g.one(2)}
		x.Former = x.Additional && g.one(2)
		say("with IPAddress %+v", x)
		ch.Allocations[a], st.Allocations[a] = &x, x
	}
	g.environment(st, &ch, say)
	return ch, strings.Join(words, ", ")
}

// changedService returns another Service, the same with one change, or nil.
func (g generator) changedService(st model.State, n model.ServiceName) *model.Service {
	old, was := st.Services[n]
	switch {
	case g.one(5):
		return nil
	case was && !g.one(3):
		return g.withOneChange(old)
	default:
		s := g.service()
		s.Name = n
		return &s
	}
}

// withOneChange returns the same Service with one field as that of another.
func (g generator) withOneChange(s model.Service) *model.Service {
	o := g.service()
	switch g.IntN(13) {
	case 12:
		s.Foreign = o.Foreign
	case 11:
		s.Balancing = o.Balancing
	case 0:
		s.Created = o.Created
	case 10:
		s.Held = o.Held
	case 1:
		s.ClusterIPs = o.ClusterIPs
	case 2:
		s.ExternalIPs = some(g, 3, g.addr)
	case 3:
		s.LoadBalancerIPs = some(g, 3, g.addr)
	case 4:
		s.SourceRanges = o.SourceRanges
	case 5:
		s.InternalLocal, s.ExternalLocal = o.InternalLocal, o.ExternalLocal
	case 6:
		s.Ports = o.Ports
	case 7: // the order of slices has no meaning
		s.Endpoints, s.Ports = slices.Clone(s.Endpoints), slices.Clone(s.Ports)
		slices.Reverse(s.Endpoints)
		slices.Reverse(s.Ports)
	default:
		s.Endpoints = o.Endpoints
	}
	return &s
}

func (g generator) environment(st *model.State, ch *model.Changes, say func(string, ...any)) {
	if g.one(6) {
		st.Node = model.Node{Name: g.node(), Zone: pick(g, "", g.zone()), IPs: addrs(g.of(), "192.0.2.1"), PodCIDRs: some(g, 2, g.prefix)}
		ch.Node = &model.Node{}
		*ch.Node = st.Node
		say("on %+v", st.Node)
	}
	if g.one(6) {
		st.Ranges = some(g, 3, g.prefix)
		ranges := st.Ranges
		ch.Ranges = &ranges
		say("ranges %v", ranges)
	}
	if g.one(10) {
		st.LocalAddrs = some(g, 3, g.addr)
		local := st.LocalAddrs
		ch.LocalAddrs = &local
		say("local addresses %v", local)
	}
}

// unservable are addresses that nothing can be served at.
var unservable = []netip.Addr{
	{},
	netip.MustParseAddr("::ffff:10.96.0.1"),
	netip.MustParseAddr("fe80::1%eth0"),
	netip.MustParseAddr("fd00::1").WithZone("\x1b[2J\n"),
	netip.MustParseAddr("fe80::1"),
	netip.MustParseAddr("169.254.1.1"),
	netip.MustParseAddr("127.0.0.1"),
	netip.MustParseAddr("::1"),
	netip.MustParseAddr("0.0.0.0"),
	netip.MustParseAddr("::"),
	netip.MustParseAddr("224.0.0.1"),
	netip.MustParseAddr("ff02::1"),
	netip.MustParseAddr("255.255.255.255"),
}
