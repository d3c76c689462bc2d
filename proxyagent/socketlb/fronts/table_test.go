package fronts

import (
	"errors"
	"fmt"
	"maps"
	"math/rand/v2"
	"net/netip"
	"slices"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/clusterip-operator/clusterip-operator/proxyagent/model"
)

// world makes random changes of a few ports, which share a few addresses.
type world struct {
	*rand.Rand
	globals  model.Globals
	ports    map[model.PortName]*model.ServicePort
	withheld map[model.PortName]bool
}

func addr(network string, n int) netip.Addr {
	a := netip.MustParseAddr(network)
	for range n {
		a = a.Next()
	}
	return a
}

func (w *world) endpoints() (all []netip.AddrPort) {
	for i := range 12 {
		if w.IntN(3) == 0 {
			all = append(all, netip.AddrPortFrom(addr("10.244.0.1", i), 8080))
		}
	}
	return all
}

func portName(n int) model.PortName {
	return model.PortName{Service: model.ServiceName{Namespace: "default", Name: fmt.Sprint("s", n)}, Protocol: model.TCP}
}

// port is a random one. It gets free addresses alone: a Plan has each front once.
func (w *world) port(name model.PortName) *model.ServicePort {
	p := &model.ServicePort{Name: name, Port: 80, Cluster: w.endpoints(), InternalLocal: w.IntN(6) == 0}
	if w.IntN(8) == 0 {
		p.Name.Protocol = model.UDP
	}
	for n := range 8 {
		if a := addr("10.96.0.1", n); w.IntN(5) == 0 && w.owner(a) == (model.PortName{}) {
			p.ClusterIPs = append(p.ClusterIPs, a)
			if w.IntN(6) == 0 {
				p.Former = append(p.Former, a)
			}
		}
	}
	if p.InternalLocal && len(p.Cluster) > 0 {
		p.Local = p.Cluster[:w.IntN(len(p.Cluster)+1)]
	}
	p.HasEndpoints = len(p.Cluster) > 0
	p.Scheduler = []model.Scheduler{"", "", model.RoundRobin, model.WeightedRoundRobin, model.SourceHashing, model.Random}[w.IntN(6)]
	if w.IntN(3) == 0 {
		p.Weights = model.Weights{}
		for _, e := range p.Cluster {
			p.Weights[e] = uint8(w.IntN(5))
		}
	}
	if w.IntN(8) == 0 {
		p.AffinitySeconds = 60
	}
	return p
}

func (w *world) owner(a netip.Addr) model.PortName {
	for name, p := range w.ports {
		if slices.Contains(p.ClusterIPs, a) {
			return name
		}
	}
	return model.PortName{}
}

// change takes some ports away, changes some, and gives what is free to others.
func (w *world) change() model.Delta {
	d := model.Delta{Ports: map[model.PortName]*model.ServicePort{}}
	for range 1 + w.IntN(3) {
		name := portName(w.IntN(6))
		delete(w.ports, name)
		d.Ports[name] = nil
	}
	for name := range d.Ports {
		if w.IntN(4) > 0 {
			p := w.port(name)
			p.Name = name
			if len(p.ClusterIPs) > 0 {
				w.ports[name], d.Ports[name] = p, p
			}
		}
	}
	if w.IntN(20) == 0 {
		w.globals.MasqueradeAll = !w.globals.MasqueradeAll
		g := w.globals
		d.Globals = &g
	}
	return d
}

// may tells which endpoints a front may lead to by some ports.
func may(g model.Globals, ports map[model.PortName]*model.ServicePort, withheld map[model.PortName]bool) map[netip.AddrPort]map[netip.AddrPort]bool {
	all := map[netip.AddrPort]map[netip.AddrPort]bool{}
	for _, p := range ports {
		if to, _ := targetOf(g, p, true); to != nil && !withheld[p.Name] {
			for _, f := range new(Table).frontsOf(p) {
				all[f] = model.SetOf(to.round)
			}
		}
	}
	return all
}

// TestChangesLeadWhereTheWholePlanDoes goes through random Plans, one change after the other. After
// each write no front leads to an endpoint that it may not have, to another port's before the rules
// change, or to places of another front; in the end all is as if written at once.
func TestChangesLeadWhereTheWholePlanDoes(t *testing.T) {
	for _, c := range []struct {
		name   string
		limits Limits
		fails  int // one write in so many
	}{
		{"with room", Limits{64, 1024}, 0},
		{"with limits", Limits{5, 24}, 0},
		{"without memory now and then", Limits{64, 1024}, 7},
	} {
		t.Run(c.name, func(t *testing.T) {
			seeds := uint64(200)
			if testing.Short() {
				seeds = 40
			}
			for seed := range seeds {
				run(t, seed, c.limits, c.fails)
			}
		})
	}
}

func run(t *testing.T, seed uint64, limits Limits, fails int) {
	t.Helper()
	w := &world{Rand: rand.New(rand.NewPCG(seed, 0)), ports: map[model.PortName]*model.ServicePort{}, withheld: map[model.PortName]bool{}}
	m, table, now := newMemory(t), NewTable(limits, true), time.Unix(0, 0)
	failing := false
	m.fails = func() bool { return failing && w.IntN(fails) == 0 }
	only := func(sets ...map[netip.AddrPort]map[netip.AddrPort]bool) {
		m.may = func(f, e netip.AddrPort) bool {
			return !slices.ContainsFunc(sets, func(s map[netip.AddrPort]map[netip.AddrPort]bool) bool { return !s[f][e] })
		}
	}
	reduce := func(withheld map[model.PortName]bool) {
		only(m.leads(), may(w.globals, w.ports, withheld))
		_ = table.Reduce(m, now)
		for f := range m.slotOf {
			m.checkFront(f)
		}
	}
	known := map[model.PortName]bool{} // to be withheld
	for range 40 {
		failing = fails > 0
		now = now.Add(time.Duration(w.IntN(1500)) * time.Millisecond)
		m.begin()
		table.Apply(w.change())
		reduce(known)
		if name := portName(w.IntN(6)); w.IntN(6) == 0 {
			model.Put(w.withheld, name, true, !w.withheld[name])
		}
		if w.IntN(5) > 0 { // otherwise the rules have failed
			known = maps.Clone(w.withheld)
			table.Withhold(known)
			reduce(known)
			only(may(w.globals, w.ports, known))
			if err := table.Extend(m, now); err != nil && fails == 0 {
				t.Logf("seed %d: %v", seed, err)
			}
		}
		m.end()
	}
	failing = false
	only(may(w.globals, w.ports, w.withheld))
	table.Withhold(w.withheld)
	for range 2 {
		now = now.Add(2 * rest)
		if err := errors.Join(table.Reduce(m, now), table.Extend(m, now)); err != nil {
			t.Fatalf("seed %d: %v", seed, err)
		}
	}
	anew, other := newMemory(t), NewTable(limits, true)
	other.Withhold(w.withheld)
	other.Apply(model.Delta{Globals: &w.globals, Ports: w.ports})
	if err := other.Extend(anew, now); err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(anew.contents(), m.contents()); diff != "" {
		t.Fatalf("seed %d: it differs from what is written at once:\n%s", seed, diff)
	}
	f1, p1, l1 := table.Size()
	f2, p2, l2 := other.Size()
	if f1 != f2 || p1 != p2 || l1 != l2 || f1 != len(m.contents()) {
		t.Fatalf("seed %d: it counts %d fronts, %d places, %d left, and from scratch %d, %d, %d", seed, f1, p1, l1, f2, p2, l2)
	}
}
