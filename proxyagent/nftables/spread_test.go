//go:build linux

package nftables

import (
	"fmt"
	"maps"
	"math/rand/v2"
	"net/netip"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"

	"github.com/clusterip-operator/clusterip-operator/proxyagent/model"
)

// several are n endpoints, a, b, c and so on in what letters says of sequences.
func several(f model.Family, n int) (all []netip.AddrPort) {
	a := map[model.Family]netip.Addr{model.IPv4: netip.MustParseAddr("10.244.0.1"), model.IPv6: netip.MustParseAddr("fd00:244::1")}[f]
	for range n {
		all, a = append(all, netip.AddrPortFrom(a, 8080)), a.Next()
	}
	return all
}

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
			all := several(f, 3)
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
		all, weights := several(model.IPv4, r.IntN(8)+2), []int{}
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
		all := several(model.IPv6, r.IntN(5))
		p := model.ServicePort{
			Name: model.PortName{Protocol: model.UDP}, Port: 80, ClusterIPs: several16(r.IntN(3)), ExternalIPs: several16(7)[3 : 3+r.IntN(2)], LoadBalancerIPs: several16(7)[5 : 5+r.IntN(2)],
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

// several16 are n virtual IPs.
func several16(n int) (all []netip.Addr) {
	a := netip.MustParseAddr("fd00:96::1")
	for range n {
		all, a = append(all, a), a.Next()
	}
	return all
}

// TestAServiceThatAsksForTooMuch has ports come and go: while all are too much together, those that
// cost something are served plain, and the rest of the Service as it asks.
func TestAServiceThatAsksForTooMuch(t *testing.T) {
	all := several(model.IPv6, 3)
	port := func(i int, s model.Scheduler) *model.ServicePort {
		name := model.PortName{Service: model.ServiceName{Namespace: "default", Name: "dear"}, Port: fmt.Sprint(i), Protocol: model.TCP}
		return &model.ServicePort{Name: name, Port: uint16(i), ClusterIPs: several16(1), Cluster: all, HasEndpoints: true, Scheduler: s}
	}
	const most = maxSpread / maglevSize
	one := func(p *model.ServicePort, present bool) model.Delta {
		if present {
			return model.Delta{Ports: map[model.PortName]*model.ServicePort{p.Name: p}}
		}
		return model.Delta{Ports: map[model.PortName]*model.ServicePort{p.Name: nil}}
	}
	tables := NewTables(model.IPv6)
	tables.Apply(one(port(1000, model.RoundRobin), true))
	for i := range most {
		tables.Apply(one(port(i+1, model.MaglevHashing), true))
	}
	if len(tables.lacking) > 0 || tables.size < maxSpread {
		t.Fatalf("already too dear: %d elements, %v", tables.size, tables.lacking)
	}
	tables.Apply(one(port(most+1, model.MaglevHashing), true))
	tables.Apply(one(port(1001, model.RoundRobin), true))
	if len(tables.lacking) != most+1 || tables.size > 100 {
		t.Errorf("%d elements, lacking %v", tables.size, tables.lacking)
	}
	for _, i := range []int{1000, 1001} {
		if tables.routes[route{n: 3, by: inTurn, counter: model.Digest(port(i, "").Name.String())}] != 1 {
			t.Errorf("port %d costs nothing, and is not served in turn: %v", i, tables.routes)
		}
	}
	tables.Apply(one(port(1001, ""), false))
	tables.Apply(one(port(most, ""), false))
	if len(tables.lacking) > 0 || tables.size < maxSpread {
		t.Errorf("still too dear: %d elements, %v", tables.size, tables.lacking)
	}
	for i := range most + 1 {
		tables.Apply(one(port(i+1, ""), false))
	}
	tables.Apply(one(port(1000, ""), false))
	if tables.size != 0 || len(tables.spreads)+len(tables.plain)+len(tables.lacking)+len(tables.routes) > 0 {
		t.Errorf("left: %+v", tables)
	}
}

// scheduled has ports of a plan ask for schedulers in turn, those with endpoints on this node too.
func scheduled(d model.Delta) model.Delta {
	all := []model.Scheduler{model.RoundRobin, model.SourceHashing, model.MaglevHashing, model.WeightedRoundRobin, model.LeastConnection, "", model.RoundRobin}
	for i, name := range slices.SortedFunc(maps.Keys(d.Ports), model.PortName.Compare) {
		p := *d.Ports[name]
		if p.Scheduler = all[i]; len(p.Cluster) > 0 {
			p.Weights = model.Weights{p.Cluster[0]: 3}
		}
		d.Ports[name] = &p
	}
	return d
}

func TestSchedulersInTheKernel(t *testing.T) {
	each(t, func(t *testing.T, p *Proxier, d model.Delta) {
		lc := model.PortName{Service: model.ServiceName{Namespace: "default", Name: "e"}, Protocol: model.UDP}
		syncOne(t, p, scheduled(d))
		ruleset(t, "list", "ruleset") // the program can read it
		if diff := cmp.Diff([]model.Degradation{{Port: lc, Reason: model.SchedulerUnavailable}}, p.Degraded()); diff != "" {
			t.Errorf("degraded (-want +got):\n%s", diff)
		}
		if text := strings.Join(p.Describe(lc), "\n"); !strings.Contains(text, model.SchedulerUnavailable.String()) {
			t.Error(text)
		}
		before := ruleset(t, "--stateless", "list", "ruleset")
		ruleset(t, "flush", "chain", map[model.Family]string{model.IPv4: "ip", model.IPv6: "ip6"}[d.Globals.Family], table, chainWith(p, "in-turn"))
		if found, err := p.Check(t.Context(), later()); err != nil || len(found) != 1 {
			t.Errorf("found %q, %v", found, err)
		}
		if diff := cmp.Diff(before, ruleset(t, "--stateless", "list", "ruleset"), cmpopts.AcyclicTransformer("sorted", sortedLines)); diff != "" {
			t.Errorf("repaired (-before +after):\n%s", diff)
		}
		for name := range d.Ports {
			syncOne(t, p, model.Delta{Ports: map[model.PortName]*model.ServicePort{name: nil}})
		}
		if len(p.tables.chains)+len(p.tables.routes)+len(p.Degraded()) > 0 {
			t.Errorf("left: %v", p.tables)
		}
	})
}

func sortedLines(text string) []string { return slices.Sorted(strings.SplitSeq(text, "\n")) }

// chainWith returns a chain whose name has a word.
func chainWith(p *Proxier, word string) string {
	for name := range p.tables.chains {
		if strings.HasPrefix(name, "pick") && strings.Contains(name, word) {
			return name
		}
	}
	return ""
}

func TestDescribeASpread(t *testing.T) {
	d := plan(model.IPv4)
	p := &Proxier{tables: NewTables(model.IPv4)}
	p.tables.Apply(scheduled(d))
	name := model.PortName{Service: model.ServiceName{Namespace: "default", Name: "c"}, Protocol: model.SCTP}
	lines := p.Describe(name)
	if text := strings.Join(lines, "\n"); !strings.Contains(text, "traffic to any endpoint: the index of 2048 is a hash of the client's address;") ||
		!strings.Contains(text, "for 10.244.1.3:8080") || len(lines) > 20 {
		t.Errorf("%d lines:\n%s", len(lines), text[:min(len(text), 3000)])
	}
}

// TestElementsOfAChange counts elements written when one of ten endpoints goes: docs/proxyagent.md.
func TestElementsOfAChange(t *testing.T) {
	all := several(model.IPv4, 10)
	for s, most := range map[model.Scheduler]int{"": 2, model.RoundRobin: 2, model.SourceHashing: 10, model.MaglevHashing: 2 * maglevSize / 10} {
		port := model.ServicePort{Name: model.PortName{Protocol: model.TCP}, Port: 80, ClusterIPs: []netip.Addr{netip.MustParseAddr("10.96.0.1")}, Cluster: all, HasEndpoints: true, Scheduler: s}
		tables := NewTables(model.IPv4)
		tables.Apply(model.Delta{Ports: map[model.PortName]*model.ServicePort{port.Name: &port}})
		tables.differing()
		tables.settled(leaving{map[key]change{}, states{}})
		less := port
		less.Cluster = all[1:]
		tables.Apply(model.Delta{Ports: map[model.PortName]*model.ServicePort{port.Name: &less}})
		if n := len(tables.changed); n == 0 || n > most+3 { // and the front, which leads to another route, and both routes
			t.Errorf("%q: %d elements change, want at most %d", s, n, most+1)
		}
	}
}

// TestAnotherNumberOfEndpoints has ports come, go and change while other ports have as many
// endpoints: no element with a chain changes. For one the kernel goes through all: 35 ms for
// 100,000.
func TestAnotherNumberOfEndpoints(t *testing.T) {
	for _, f := range []model.Family{model.IPv4, model.IPv6} {
		d := plan(f)
		all, tables := several(f, 3), NewTables(f)
		name := func(n string) model.PortName {
			return model.PortName{Service: model.ServiceName{Namespace: "default", Name: n}, Protocol: model.TCP}
		}
		a := d.Ports[name("a")].ClusterIPs[0]
		port := func(service string, local bool, endpoints int) *model.ServicePort {
			a = a.Next()
			return &model.ServicePort{
				Name: name(service), Port: 80, NodePort: 30000 + uint16(len(tables.ports)), ClusterIPs: []netip.Addr{a}, ExternalIPs: []netip.Addr{a.Prev()}, HasEndpoints: true,
				ExternalLocal: local, Cluster: all[:endpoints], Local: all[:endpoints],
			}
		}
		apply := func(p *model.ServicePort, as *model.ServicePort) {
			tables.Apply(model.Delta{Globals: d.Globals, Ports: map[model.PortName]*model.ServicePort{p.Name: as}})
		}
		for _, local := range []bool{false, true} {
			for n := range 3 {
				p := port(fmt.Sprint("other-", local, n), local, n+1)
				apply(p, p)
			}
		}
		tables.settled(leaving{map[key]change{}, states{}})
		changes := 0
		for _, local := range []bool{false, true} {
			for n := range 3 {
				p := port("one", local, n+1)
				apply(p, p)
				changes += len(tables.changed)
				for k := range tables.changed {
					if schemas[k.set].kind == verdict {
						t.Errorf("%s: an element with a chain changes: %s", f, k.set)
					}
				}
			}
		}
		apply(&model.ServicePort{Name: name("one")}, nil)
		if write, remove := tables.differing(); changes == 0 || len(write)+len(remove) > 0 {
			t.Errorf("%s: %d changes; chains change: %v, %v", f, changes, write, remove)
		}
	}
}
