//go:build linux

package tables

import (
	"fmt"
	"maps"
	"net/netip"
	"slices"

	"github.com/clusterip-operator/clusterip-operator/proxyagent/model"
)

// maxSpread is how many elements the schedulers and weights of one Service may take. Without them,
// a port takes one element for each front and endpoint.
const maxSpread = 1 << 15

// picker is how a chain picks an index below a number.
type picker uint8

const (
	atRandom picker = iota
	inTurn          // one after the other: the chain counts, and so it is of one port
	bySource        // by a hash of the client's address
)

// spread is how the connections of a port are spread: a picker, and the endpoint of each index.
type spread struct {
	picker
	cluster, local []netip.AddrPort
}

// spreadOf is a pure function of a port. plain is for one whose Service asks for too much.
func spreadOf(p *model.ServicePort, plain bool) spread {
	by := p.Scheduler
	if plain || !model.NFTables.Has(by) {
		by = model.Random
	}
	return spread{pickerOf(by), sequence(by, p.Cluster, p.Weights, plain), sequence(by, p.Local, p.Weights, plain)}
}

func pickerOf(by model.Scheduler) picker {
	switch {
	case by == model.RoundRobin, by == model.WeightedRoundRobin:
		return inTurn
	case by.Hashes():
		return bySource
	default:
		return atRandom
	}
}

// weighed are the endpoints that get connections, and what each weighs; nil if all are alike.
func weighed(by model.Scheduler, all []netip.AddrPort, w model.Weights) (usable []netip.AddrPort, weights []int) {
	if len(w) == 0 && by != model.MaglevHashing {
		return all, nil
	}
	if usable, weights = w.Usable(all); len(usable) < 2 || by == model.RoundRobin {
		return usable, nil
	}
	return usable, weights
}

// sequence has the endpoint of each index.
func sequence(by model.Scheduler, all []netip.AddrPort, w model.Weights, plain bool) (sequence []netip.AddrPort) {
	usable, weights := weighed(by, all, w)
	switch {
	case plain || weights == nil:
		return usable
	case by == model.MaglevHashing:
		return maglev(usable, weights)
	case by == model.WeightedRoundRobin:
		return model.Interleave(usable, weights)
	}
	for i, e := range usable {
		sequence = append(sequence, slices.Repeat([]netip.AddrPort{e}, weights[i])...)
	}
	return sequence
}

// sequenceLength is the length of a sequence, without making it.
func sequenceLength(by model.Scheduler, all []netip.AddrPort, w model.Weights) int {
	usable, weights := weighed(by, all, w)
	switch {
	case weights == nil:
		return len(usable)
	case by == model.MaglevHashing:
		return maglevSize
	default:
		return model.Sum(weights)
	}
}

// spreadCost is how many elements scheduler and weights of a port take; 0 if they add none.
func spreadCost(p *model.ServicePort) (cost int) {
	cluster, local := sequenceLength(p.Scheduler, p.Cluster, p.Weights), sequenceLength(p.Scheduler, p.Local, p.Weights)
	if cluster <= len(p.Cluster) && local <= len(p.Local) {
		return 0
	}
	for _, f := range p.Fronts() {
		if f.Local {
			cost += local
		}
		if !f.Local || f.Exempt {
			cost += cluster
		}
	}
	return cost
}

// inPlace is a port whose endpoints stay at the indexes that they had before, so that few elements
// change: those that come take the places of those that go, and of what is left the last ones fill
// the holes. An agent that starts knows no order from before: of a port that grew and shrank it may
// write all elements once. Not so where the order counts: a hash of the client has to lead to the
// same endpoint on all nodes.
func inPlace(before, p *model.ServicePort) *model.ServicePort {
	if before == nil || len(p.Weights) > 0 || pickerOf(p.Scheduler) == bySource {
		return p
	}
	cluster, moved := keepOrder(before.Cluster, p.Cluster)
	local, movedLocal := keepOrder(before.Local, p.Local)
	if !moved && !movedLocal {
		return p
	}
	same := *p
	same.Cluster, same.Local = cluster, local
	return &same
}

// keepOrder returns now in the order of before, and whether that differs from now's.
func keepOrder(before, now []netip.AddrPort) (ordered []netip.AddrPort, moved bool) {
	toPlace, ordered := endpointsOf(now), make([]netip.AddrPort, len(now))
	for i, e := range before[:min(len(before), len(now))] {
		if toPlace[e] > 0 {
			ordered[i] = e
			toPlace[e]--
		}
	}
	free := 0
	for _, e := range now {
		if toPlace[e] == 0 {
			continue
		}
		for ordered[free].IsValid() {
			free++
		}
		ordered[free] = e
		toPlace[e]--
	}
	return ordered, !slices.Equal(ordered, now)
}

// endpointsOf counts endpoints.
func endpointsOf(all []netip.AddrPort) map[netip.AddrPort]int {
	n := make(map[netip.AddrPort]int, len(all))
	for _, e := range all {
		n[e]++
	}
	return n
}

// spend takes in what ports cost. It returns them with the ports of Services that turned: all their
// ports together cost too much now, or not any more.
func (t *Table) spend(ports map[model.PortName]*model.ServicePort) (changed map[model.PortName]*model.ServicePort, turned map[model.ServiceName]bool) {
	for name, p := range ports {
		of := t.spreads[name.Service]
		delete(of, name)
		if p != nil && spreadCost(p) > 0 {
			if of == nil {
				of = map[model.PortName]int{}
				t.spreads[name.Service] = of
			}
			of[name] = spreadCost(p)
		}
		if len(of) == 0 {
			delete(t.spreads, name.Service)
		}
	}
	changed, turned = ports, map[model.ServiceName]bool{}
	for name := range ports {
		of := t.spreads[name.Service]
		tooMuch := model.Sum(slices.Collect(maps.Values(of))) > maxSpread
		if _, before := t.plain[name.Service]; tooMuch == before {
			continue
		}
		turned[name.Service] = tooMuch
		if len(turned) == 1 {
			changed = maps.Clone(ports)
		}
		for sibling := range of {
			if _, given := ports[sibling]; !given {
				changed[sibling] = t.ports[sibling]
			}
		}
	}
	return changed, turned
}

// isPlain reports whether a port's scheduler and weights are ignored: its Service has too much.
func (t *Table) isPlain(p *model.ServicePort) bool {
	_, plain := t.plain[p.Name.Service]
	return plain && spreadCost(p) > 0
}

// lacking returns what a port does without of what it asks for.
func lacking(p *model.ServicePort, plain bool) (all []model.DegradationReason) {
	if plain {
		all = append(all, model.SchedulerTooDear)
	}
	if !model.NFTables.Has(p.Scheduler) {
		all = append(all, model.SchedulerUnavailable)
	}
	return all
}

// describe says in words how connections are spread, and what each endpoint has got.
func (s spread) describe() (lines []string) {
	words := map[picker]string{atRandom: "drawn at random", inTurn: "next in turn", bySource: "a hash of the client's address"}
	for where, all := range map[string][]netip.AddrPort{"any endpoint": s.cluster, "endpoints on this node": s.local} {
		if len(all) == 0 {
			continue
		}
		line, counts := fmt.Sprintf("  traffic to %s: the index of %d is %s;", where, len(all), words[s.picker]), endpointsOf(all)
		for _, e := range slices.SortedFunc(maps.Keys(counts), netip.AddrPort.Compare) {
			line += fmt.Sprintf(" %d for %s", counts[e], e)
		}
		lines = append(lines, line)
	}
	return slices.Sorted(slices.Values(lines))
}
