package fronts

import (
	"errors"
	"net/netip"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/clusterip-operator/clusterip-operator/proxyagent/model"
)

var (
	one, two = netip.MustParseAddrPort("10.244.0.1:8080"), netip.MustParseAddrPort("10.244.0.2:8080")
	first4   = netip.MustParseAddr("10.96.0.1")
)

// webPort is one that is translated.
func webPort() *model.ServicePort {
	return &model.ServicePort{Name: portName(0), ClusterIPs: []netip.Addr{first4}, Port: 80, Cluster: []netip.AddrPort{one, two}, HasEndpoints: true}
}

// TestWhatIsTranslated has a row for each thing that decides about it. Those left to rules have the
// reason that dump gives.
func TestWhatIsTranslated(t *testing.T) {
	for name, c := range map[string]struct {
		change func(*model.Globals, *model.ServicePort)
		noTurn bool
		want   []string
	}{
		"all endpoints":         {want: []string{"translated, by chance, 0 connections so far, to 10.244.0.1:8080 10.244.0.2:8080"}},
		"internalTrafficPolicy": {change: func(_ *model.Globals, p *model.ServicePort) { p.InternalLocal, p.Local = true, p.Cluster[1:] }, want: []string{"by chance, 0 connections so far, to 10.244.0.2:8080"}},
		"no endpoint here":      {change: func(_ *model.Globals, p *model.ServicePort) { p.InternalLocal = true }, want: []string{"left to rules: it has no endpoint that its clients here may use"}},
		"no endpoint":           {change: func(_ *model.Globals, p *model.ServicePort) { p.Cluster, p.HasEndpoints = nil, false }, want: []string{"left to rules: it has no endpoint"}},
		"UDP":                   {change: func(_ *model.Globals, p *model.ServicePort) { p.Name.Protocol = model.UDP }, want: []string{"left to rules: UDP is not TCP"}},
		"SCTP":                  {change: func(_ *model.Globals, p *model.ServicePort) { p.Name.Protocol = model.SCTP }, want: []string{"left to rules: SCTP is not TCP"}},
		"affinity":              {change: func(_ *model.Globals, p *model.ServicePort) { p.AffinitySeconds = 1 }, want: []string{"left to rules: session affinity"}},
		"masqueradeAll":         {change: func(g *model.Globals, _ *model.ServicePort) { g.MasqueradeAll = true }, want: []string{"left to rules: masqueradeAll"}},
		"rr":                    {change: func(_ *model.Globals, p *model.ServicePort) { p.Scheduler = model.RoundRobin }, want: []string{"in turn, 0 connections so far, to 10.244.0.1:8080 10.244.0.2:8080"}},
		"rr before Linux 5.12":  {change: func(_ *model.Globals, p *model.ServicePort) { p.Scheduler = model.RoundRobin }, noTurn: true, want: []string{"left to rules: the scheduler rr takes Linux 5.12"}},
		"sh":                    {change: func(_ *model.Globals, p *model.ServicePort) { p.Scheduler = model.SourceHashing }, want: []string{"left to rules: the scheduler sh"}},
		"mh":                    {change: func(_ *model.Globals, p *model.ServicePort) { p.Scheduler = model.MaglevHashing }, want: []string{"left to rules: the scheduler mh"}},
		"lc":                    {change: func(_ *model.Globals, p *model.ServicePort) { p.Scheduler = model.LeastConnection }, want: []string{"left to rules: the scheduler lc"}},
		"weights":               {change: func(_ *model.Globals, p *model.ServicePort) { p.Weights = model.Weights{one: 3} }, want: []string{"by chance, 0 connections so far, to 10.244.0.1:8080 (3 turns) 10.244.0.2:8080"}},
		"a weight of 0":         {change: func(_ *model.Globals, p *model.ServicePort) { p.Weights = model.Weights{one: 0} }, want: []string{"by chance, 0 connections so far, to 10.244.0.2:8080"}},
		"wrr": {change: func(_ *model.Globals, p *model.ServicePort) {
			p.Scheduler, p.Weights = model.WeightedRoundRobin, model.Weights{two: 2}
		}, want: []string{"in turn, 0 connections so far, to 10.244.0.1:8080 10.244.0.2:8080 (2 turns)"}},
		"an additional address": {change: func(_ *model.Globals, p *model.ServicePort) { p.ClusterIPs = append(p.ClusterIPs, first4.Next()) }, want: []string{"10.96.0.1:80: translated", "10.96.0.2:80: translated"}},
		"a former address": {change: func(_ *model.Globals, p *model.ServicePort) {
			p.ClusterIPs, p.Former = append(p.ClusterIPs, first4.Next()), []netip.Addr{first4.Next()}
		}, want: []string{"10.96.0.1:80: translated", "10.96.0.2:80: left to rules: connections to a former address are counted"}},
		"addresses from outside": {change: func(_ *model.Globals, p *model.ServicePort) {
			p.ExternalIPs, p.LoadBalancerIPs, p.NodePort = []netip.Addr{first4.Next()}, []netip.Addr{first4.Next().Next()}, 30000
		}, want: []string{"10.96.0.1:80: translated"}},
		"no ClusterIP":            {change: func(_ *model.Globals, p *model.ServicePort) { p.ExternalIPs, p.ClusterIPs = p.ClusterIPs, nil }},
		"more endpoints than fit": {change: func(_ *model.Globals, p *model.ServicePort) { p.Cluster = many(maxTurns + 1) }, want: []string{"left to rules: its endpoints"}},
		"more turns than fit": {change: func(_ *model.Globals, p *model.ServicePort) {
			p.Cluster = many(400)
			p.Weights = model.Weights{}
			for _, e := range p.Cluster {
				p.Weights[e] = 100
			}
		}, want: []string{"left to rules: its endpoints, as often as they weigh"}},
	} {
		t.Run(name, func(t *testing.T) {
			g, p := &model.Globals{Family: model.IPv4}, webPort()
			if c.change != nil {
				c.change(g, p)
			}
			m, table := newMemory(t), NewTable(Limits{64, 1 << 16}, !c.noTurn)
			table.Apply(model.Delta{Globals: g, Ports: map[model.PortName]*model.ServicePort{p.Name: p}})
			if err := table.Extend(m, time.Unix(0, 0)); err != nil {
				t.Fatal(err)
			}
			got := table.Describe(m, p.Name)
			if !slices.EqualFunc(c.want, got, func(want, got string) bool { return strings.Contains(got, want) }) {
				t.Errorf("it says %q, want %q", got, c.want)
			}
			for _, line := range got {
				f, what, _ := strings.Cut(line, ": ")
				if _, leads := m.contents()[f]; leads == strings.HasPrefix(what, "left") {
					t.Errorf("it says %q, and the maps have %v", line, m.contents())
				}
			}
			if len(m.contents()) > len(p.ClusterIPs) {
				t.Errorf("the maps have %v", m.contents())
			}
		})
	}
}

func many(n int) (all []netip.AddrPort) {
	a := one.Addr()
	for range n {
		all, a = append(all, netip.AddrPortFrom(a, 80)), a.Next()
	}
	return all
}

// TestWeightsAreTurns has an endpoint as often as it weighs, in turns that are far apart.
func TestWeightsAreTurns(t *testing.T) {
	p := webPort()
	p.Weights = model.Weights{one: 3, two: 1}
	for by, want := range map[model.Scheduler][]netip.AddrPort{"": {one, one, one, two}, model.WeightedRoundRobin: {one, one, two, one}, model.RoundRobin: {one, two}} {
		p.Scheduler = by
		got, _ := targetOf(model.Globals{}, p, true)
		if diff := cmp.Diff(want, got.round, cmp.Comparer(func(a, b netip.AddrPort) bool { return a == b })); diff != "" {
			t.Errorf("%q: %s", by, diff)
		}
	}
}

// TestAFullMapKeepsTheFirstFronts leaves the same fronts to rules whatever came before, says how
// many, and takes them up when there is room.
func TestAFullMapKeepsTheFirstFronts(t *testing.T) {
	m, table, now := newMemory(t), NewTable(Limits{2, 1024}, true), time.Unix(0, 0)
	put := func(n int, there bool) {
		p := webPort()
		p.Name, p.ClusterIPs = portName(n), []netip.Addr{addr("10.96.0.1", n)}
		d := model.Delta{Ports: map[model.PortName]*model.ServicePort{p.Name: p}}
		if !there {
			d.Ports[p.Name] = nil
		}
		now = now.Add(2 * rest)
		table.Apply(d)
		if err := table.Reduce(m, now); err != nil {
			t.Fatal(err)
		}
		if err := table.Extend(m, now); err != nil {
			t.Fatal(err)
		}
	}
	has := func(left int, want ...string) {
		t.Helper()
		for _, f := range want {
			if m.contents()[f] == "" {
				t.Errorf("%s is not there: %v", f, m.contents())
			}
		}
		if fronts, _, n := table.Size(); n != left || fronts != len(want) || len(m.contents()) != len(want) {
			t.Errorf("it has %v, and says %d fronts and %d left, want %d", m.contents(), fronts, n, left)
		}
	}
	for _, n := range []int{3, 1, 2, 0} {
		put(n, true)
	}
	has(2, "10.96.0.1:80", "10.96.0.2:80")
	if got := table.Describe(m, portName(3))[0]; !strings.HasSuffix(got, "left to rules: the maps are full") {
		t.Error(got)
	}
	put(0, false)
	has(1, "10.96.0.2:80", "10.96.0.3:80")
	put(1, false)
	has(0, "10.96.0.3:80", "10.96.0.4:80")
}

// TestAChangeCostsWhatItChanges writes as many places as the changed front has endpoints, whatever
// else there is, and none when nothing changes.
func TestAChangeCostsWhatItChanges(t *testing.T) {
	m, table, now := newMemory(t), NewTable(Limits{1 << 12, 1 << 14}, true), time.Unix(0, 0)
	d := model.Delta{Ports: map[model.PortName]*model.ServicePort{}}
	for n := range 1000 {
		p := webPort()
		p.Name, p.ClusterIPs = portName(n), []netip.Addr{addr("10.96.0.1", n)}
		d.Ports[p.Name] = p
	}
	apply := func(d model.Delta) int {
		before := m.writes
		table.Apply(d)
		if err := table.Reduce(m, now); err != nil {
			t.Fatal(err)
		}
		if err := table.Extend(m, now); err != nil {
			t.Fatal(err)
		}
		return m.writes - before
	}
	if n := apply(d); n != 2000 {
		t.Errorf("%d places were written", n)
	}
	if n := apply(d); n != 0 {
		t.Errorf("%d places were written although nothing changed", n)
	}
	p := *d.Ports[portName(7)]
	p.Cluster = append(p.Cluster, netip.MustParseAddrPort("10.244.0.3:8080"))
	if n := apply(model.Delta{Ports: map[model.PortName]*model.ServicePort{p.Name: &p}}); n != 3 {
		t.Errorf("%d places were written for one more endpoint", n)
	}
}

// TestAnAddressOfTheNodeIsLeftToRules as long as an interface has it, and what was counted stays
// until the Service goes.
func TestAnAddressOfTheNodeIsLeftToRules(t *testing.T) {
	m, table, now := newMemory(t), NewTable(Limits{64, 1024}, true), time.Unix(0, 0)
	p := webPort()
	p.ClusterIPs = append(p.ClusterIPs, first4.Next())
	update := func() {
		t.Helper()
		if err := errors.Join(table.Reduce(m, now), table.Extend(m, now)); err != nil {
			t.Fatal(err)
		}
	}
	table.Apply(model.Delta{Ports: map[model.PortName]*model.ServicePort{p.Name: p}})
	update()
	m.slots[m.slotOf[netip.AddrPortFrom(first4, 80)]].taken = 7
	for _, local := range []map[netip.Addr]bool{{first4: true, one.Addr(): true}, {}} {
		table.SetLocal(local)
		update()
		if _, there := m.contents()["10.96.0.1:80"]; there == local[first4] || len(m.contents()) != 2-len(local)/2 {
			t.Errorf("with the addresses %v the maps have %v", local, m.contents())
		}
		if got := table.Describe(m, p.Name)[0]; strings.HasSuffix(got, "an interface of the node has the address") != local[first4] {
			t.Errorf("with the addresses %v it says %q", local, got)
		}
		if got := Sum(table.Taken(m))[p.Name.Service]; got != 7 {
			t.Errorf("it counts %d connections", got)
		}
	}
	for range 2 { // what fronts counted that went before the Service, then those that go with it
		table.Apply(model.Delta{Ports: map[model.PortName]*model.ServicePort{p.Name: nil}})
		update()
		if got := table.Taken(m); len(got) > 0 {
			t.Errorf("of a Service that has gone it counts %v", got)
		}
		table.Apply(model.Delta{Ports: map[model.PortName]*model.ServicePort{p.Name: p}})
		update()
		m.slots[m.slotOf[netip.AddrPortFrom(first4, 80)]].taken = 7
	}
}
