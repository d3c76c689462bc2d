package fronts

import (
	"fmt"
	"maps"
	"net/netip"
	"slices"
	"strings"

	"github.com/clusterip-operator/clusterip-operator/proxyagent/model"
)

// Size is how many fronts Memory has, how many places they lead to, and how many fronts are left to
// rules although they could be translated, for want of room.
func (t *Table) Size() (fronts, places, left int) {
	return t.leading, t.led, max(0, len(t.want)-t.leading)
}

// Taken is how many connections to each Service were led to an endpoint, since it is there.
// Services without any are left out.
func (t *Table) Taken(m Memory) map[model.ServiceName]uint64 {
	all := map[model.ServiceName]uint64{}
	for name := range t.ports {
		if n := t.past[name.Service]; n > 0 {
			all[name.Service] = n
		}
	}
	t.past = maps.Clone(all) // of no Service that has gone
	for _, h := range t.have {
		if n := m.Taken(h.slot); n > 0 {
			all[h.port.Service] += n
		}
	}
	return all
}

// Describe says of each front of a port where it leads, or why it is left to rules.
func (t *Table) Describe(m Memory, n model.PortName) (lines []string) {
	p := t.ports[n]
	if p == nil {
		return nil
	}
	_, why := t.target(p)
	for _, a := range p.ClusterIPs {
		lines = append(lines, t.describe(m, p, netip.AddrPortFrom(a, p.Port), why))
	}
	return lines
}

func (t *Table) describe(m Memory, p *model.ServicePort, f netip.AddrPort, why string) string {
	h := t.have[f]
	switch {
	case model.Has(p.Former, f.Addr()):
		why = "connections to a former address are counted"
	case t.local[f.Addr()]:
		why = "an interface of the node has the address"
	case why == "" && (h == nil || h.port != p.Name || len(h.round) == 0):
		why = "the maps are full"
	}
	if why != "" {
		return fmt.Sprintf("%s: left to rules: %s", f, why)
	}
	how := "by chance"
	if h.inTurn {
		how = "in turn"
	}
	var text strings.Builder
	fmt.Fprintf(&text, "%s: translated, %s, %d connections so far, to", f, how, m.Taken(h.slot))
	times := map[netip.AddrPort]int{}
	for _, e := range h.round {
		times[e]++
	}
	for _, e := range slices.SortedFunc(maps.Keys(times), netip.AddrPort.Compare) {
		text.WriteString(" " + e.String())
		if times[e] > 1 {
			fmt.Fprintf(&text, " (%d turns)", times[e])
		}
	}
	return text.String()
}
