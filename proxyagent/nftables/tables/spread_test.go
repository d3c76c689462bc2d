//go:build linux

package tables

import (
	"fmt"
	"math/rand/v2"
	"net/netip"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/clusterip-operator/clusterip-operator/proxyagent/model"
	"github.com/clusterip-operator/clusterip-operator/test/framework/plans"
)

// letters says a, b, c and so on of endpoints in a sequence.
func letters(all, sequence []netip.AddrPort) string {
	var b strings.Builder
	for _, e := range sequence {
		b.WriteByte(byte('a' + slices.Index(all, e)))
	}
	return b.String()
}

// weighing are weights of endpoints; -1 stands for none.
func weighing(all []netip.AddrPort, weights ...int) model.Weights {
	w := model.Weights{}
	for i, n := range weights {
		if n >= 0 {
			w[all[i]] = uint8(n)
		}
	}
	return w
}

func TestSpread(t *testing.T) {
	for name, tc := range map[string]struct {
		scheduler model.Scheduler
		weights   []int
		plain     bool
		picker    picker
		want      string
	}{
		"nothing asked for":      {"", nil, false, atRandom, "abc"},
		"at random":              {model.Random, nil, false, atRandom, "abc"},
		"by weights":             {"", []int{2, 0, -1}, false, atRandom, "aac"},
		"none weighs anything":   {model.WeightedRoundRobin, []int{0, 0, 0}, false, inTurn, "abc"},
		"one is left":            {model.MaglevHashing, []int{0, 7, 0}, false, bySource, "b"},
		"in turn":                {model.RoundRobin, nil, false, inTurn, "abc"},
		"in turn, weights":       {model.RoundRobin, []int{5, 0, 2}, false, inTurn, "ac"},
		"in turn by weights":     {model.WeightedRoundRobin, []int{5, 1, 2}, false, inTurn, "acaabaca"},
		"two in turn by weights": {model.WeightedRoundRobin, []int{3, 0, 2}, false, inTurn, "acaca"},
		"in turn without":        {model.WeightedRoundRobin, nil, false, inTurn, "abc"},
		"by source":              {model.SourceHashing, nil, false, bySource, "abc"},
		"by source and weights":  {model.SourceHashing, []int{2, 0, -1}, false, bySource, "aac"},
		"not to be had":          {model.LeastConnection, []int{2, -1, -1}, false, atRandom, "aabc"},
		"too dear":               {model.WeightedRoundRobin, []int{50, 0, 2}, true, atRandom, "ac"},
	} {
		for _, f := range []model.Family{model.IPv4, model.IPv6} {
			all := plans.Endpoints(f, 3)
			got := spreadOf(&model.ServicePort{Scheduler: tc.scheduler, Cluster: all, Local: all[2:], Weights: weighing(all, tc.weights...)}, tc.plain)
			if text := letters(all, got.cluster); got.picker != tc.picker || text != tc.want {
				t.Errorf("%s, %s: picker %d, %s; want %d, %s", name, f, got.picker, text, tc.picker, tc.want)
			}
			if text := letters(all, got.local); text != "c" {
				t.Errorf("%s, %s: on this node %s", name, f, text)
			}
		}
	}
}

// TestInterleavedIsSpreadOut: each part has turns by weight, give or take one. An oracle counts.
func TestInterleavedIsSpreadOut(t *testing.T) {
	r := rand.New(rand.NewPCG(1, 1))
	for range 300 {
		all, weights := plans.Endpoints(model.IPv4, r.IntN(8)+2), []int{}
		for range all {
			weights = append(weights, r.IntN(30)+1)
		}
		got, seen := model.Interleave(all, weights), map[netip.AddrPort]int{}
		for i, e := range got {
			seen[e]++
			for n, e := range all {
				if share := float64(weights[n]*(i+1)) / float64(model.Sum(weights)); float64(seen[e])-share > 1.5 || share-float64(seen[e]) > 1.5 {
					t.Fatalf("weights %v: endpoint %d has %d of the first %d turns, its share is %.2f", weights, n, seen[e], i+1, share)
				}
			}
		}
		for n, e := range all {
			if seen[e] != weights[n] {
				t.Fatalf("weights %v: %v", weights, seen)
			}
		}
	}
}

// TestSpreadCost compares with what is really there.
func TestSpreadCost(t *testing.T) {
	r := rand.New(rand.NewPCG(3, 1))
	for range 500 {
		all := plans.Endpoints(model.IPv6, r.IntN(5))
		p := model.ServicePort{
			Name: model.PortName{Protocol: model.UDP}, Port: 80, ClusterIPs: virtualIPs(r.IntN(3)), ExternalIPs: virtualIPs(7)[3 : 3+r.IntN(2)], LoadBalancerIPs: virtualIPs(7)[5 : 5+r.IntN(2)],
			NodePort: uint16(r.IntN(2) * 30000), InternalLocal: r.IntN(2) == 0, ExternalLocal: r.IntN(2) == 0, HasEndpoints: true,
			Scheduler: []model.Scheduler{"", model.RoundRobin, model.MaglevHashing, model.WeightedRoundRobin}[r.IntN(4)], Cluster: all, Weights: model.Weights{},
		}
		for _, e := range all {
			p.Weights[e] = uint8(r.IntN(4))
		}
		if p.InternalLocal || p.ExternalLocal {
			p.Local = all[:r.IntN(len(all)+1)]
		}
		count := func(p model.ServicePort) (n int) {
			for _, endpoints := range contribution(&p, false).runs {
				n += len(endpoints)
			}
			return n
		}
		without := p
		without.Scheduler, without.Weights = "", nil
		if cost := spreadCost(&p); cost != 0 && cost != count(p) || cost == 0 && count(p) > count(without) {
			t.Fatalf("%+v: cost %d, there are %d elements, %d without", p, cost, count(p), count(without))
		}
	}
}

// virtualIPs are n virtual IPs.
func virtualIPs(n int) (all []netip.Addr) {
	a := netip.MustParseAddr("fd00:96::1")
	for range n {
		all, a = append(all, a), a.Next()
	}
	return all
}

// TestAServiceThatAsksForTooMuch has ports come and go: while all are too much together, those that
// cost something are served plain, and the rest of the Service as it asks.
func TestAServiceThatAsksForTooMuch(t *testing.T) {
	all := plans.Endpoints(model.IPv6, 3)
	port := func(i int, s model.Scheduler) *model.ServicePort {
		name := model.PortName{Service: model.ServiceName{Namespace: "default", Name: "dear"}, Port: fmt.Sprint(i), Protocol: model.TCP}
		return &model.ServicePort{Name: name, Port: uint16(i), ClusterIPs: virtualIPs(1), Cluster: all, HasEndpoints: true, Scheduler: s}
	}
	const most = maxSpread / maglevSize
	one := func(p *model.ServicePort, present bool) model.Delta {
		if present {
			return model.Delta{Ports: map[model.PortName]*model.ServicePort{p.Name: p}}
		}
		return model.Delta{Ports: map[model.PortName]*model.ServicePort{p.Name: nil}}
	}
	table := NewTable(model.IPv6)
	table.Apply(one(port(1000, model.RoundRobin), true))
	for i := range most {
		table.Apply(one(port(i+1, model.MaglevHashing), true))
	}
	if len(table.lacking) > 0 || table.size < maxSpread {
		t.Fatalf("already too dear: %d elements, %v", table.size, table.lacking)
	}
	table.Apply(one(port(most+1, model.MaglevHashing), true))
	table.Apply(one(port(1001, model.RoundRobin), true))
	if len(table.lacking) != most+1 || table.size > 100 {
		t.Errorf("%d elements, lacking %v", table.size, table.lacking)
	}
	for _, i := range []int{1000, 1001} {
		if table.routes[route{n: 3, by: inTurn, counter: model.Digest(port(i, "").Name.String())}] != 1 {
			t.Errorf("port %d costs nothing, and is not served in turn: %v", i, table.routes)
		}
	}
	table.Apply(one(port(1001, ""), false))
	table.Apply(one(port(most, ""), false))
	if len(table.lacking) > 0 || table.size < maxSpread {
		t.Errorf("still too dear: %d elements, %v", table.size, table.lacking)
	}
	for i := range most + 1 {
		table.Apply(one(port(i+1, ""), false))
	}
	table.Apply(one(port(1000, ""), false))
	if table.size != 0 || len(table.spreads)+len(table.plain)+len(table.lacking)+len(table.routes) > 0 {
		t.Errorf("left: %+v", table)
	}
}

// TestElementsOfAChange counts elements written when one of ten endpoints goes: docs/proxyagent.md.
func TestElementsOfAChange(t *testing.T) {
	all := plans.Endpoints(model.IPv4, 10)
	for s, most := range map[model.Scheduler]int{"": 2, model.RoundRobin: 2, model.SourceHashing: 10, model.MaglevHashing: 2 * maglevSize / 10} {
		port := model.ServicePort{Name: model.PortName{Protocol: model.TCP}, Port: 80, ClusterIPs: []netip.Addr{netip.MustParseAddr("10.96.0.1")}, Cluster: all, HasEndpoints: true, Scheduler: s}
		table := NewTable(model.IPv4)
		table.Apply(model.Delta{Ports: map[model.PortName]*model.ServicePort{port.Name: &port}})
		settle(table)
		less := port
		less.Cluster = all[1:]
		table.Apply(model.Delta{Ports: map[model.PortName]*model.ServicePort{port.Name: &less}})
		if n := len(table.changed); n == 0 || n > most+3 { // and the front, which leads to another route, and both routes
			t.Errorf("%q: %d elements change, want at most %d", s, n, most+1)
		}
	}
}

// TestAnotherNumberOfEndpoints has ports come, go and change while other ports have as many
// endpoints: no element with a chain changes. For one the kernel goes through all: 35 ms for
// 100,000.
func TestAnotherNumberOfEndpoints(t *testing.T) {
	for _, f := range []model.Family{model.IPv4, model.IPv6} {
		all, table, a := plans.Endpoints(f, 3), NewTable(f), plans.Address(f, 0, 0)
		g := model.Globals{Family: f, MasqueradeBit: 14, LocalSource: model.LocalSource{InterfacePrefix: "veth"}, NodePortAny: true}
		name := func(n string) model.PortName {
			return model.PortName{Service: model.ServiceName{Namespace: "default", Name: n}, Protocol: model.TCP}
		}
		port := func(service string, local bool, endpoints int) *model.ServicePort {
			a = a.Next()
			return &model.ServicePort{
				Name: name(service), Port: 80, NodePort: 30000 + uint16(len(table.ports)), ClusterIPs: []netip.Addr{a}, ExternalIPs: []netip.Addr{a.Prev()}, HasEndpoints: true,
				ExternalLocal: local, Cluster: all[:endpoints], Local: all[:endpoints],
			}
		}
		apply := func(p *model.ServicePort, as *model.ServicePort) {
			table.Apply(model.Delta{Globals: &g, Ports: map[model.PortName]*model.ServicePort{p.Name: as}})
		}
		for _, local := range []bool{false, true} {
			for n := range 3 {
				p := port(fmt.Sprint("other-", local, n), local, n+1)
				apply(p, p)
			}
		}
		settle(table)
		changes := 0
		for _, local := range []bool{false, true} {
			for n := range 3 {
				p := port("one", local, n+1)
				apply(p, p)
				changes += len(table.changed)
				for k := range table.changed {
					if Schemas[k.Set].Kind == Verdict {
						t.Errorf("%s: an element with a chain changes: %s", f, k.Set)
					}
				}
			}
		}
		apply(&model.ServicePort{Name: name("one")}, nil)
		if write, remove := table.differing(); changes == 0 || len(write)+len(remove) > 0 {
			t.Errorf("%s: %d changes; chains change: %v, %v", f, changes, write, remove)
		}
	}
}

// settle has everything be written.
func settle(t *Table) { t.Written(Transaction{left: leaving{map[Key]Change{}, states{}}}, time.Time{}) }
