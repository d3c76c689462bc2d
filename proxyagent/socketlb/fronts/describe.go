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
// rules although they could be translated: after Extend, for want of room.
func (t *Table) Size() (fronts, places, left int) {
	return t.leading, t.led, max(0, len(t.want)-t.leading)
}

// Count is how many connections to a Service were led to an endpoint.
type Count struct {
	Service     model.ServiceName
	Connections uint64
}

// Taken counts the connections to each Service since it is there, in parts for Sum. Services
// without any are left out, and cost next to nothing.
func (t *Table) Taken(m Memory) (parts []Count) {
	if t.stale {
		past := map[model.ServiceName]uint64{}
		for name := range t.ports {
			model.Put(past, name.Service, t.past[name.Service], t.past[name.Service] > 0)
		}
		t.past, t.stale = past, false
	}
	for service, n := range t.past {
		parts = append(parts, Count{service, n})
	}
	for slot, h := range t.bySlot {
		if h == nil {
			continue
		}
		if n := m.Taken(uint32(slot)); n > 0 {
			parts = append(parts, Count{h.port.Service, n})
		}
	}
	return parts
}

// Sum adds the parts up, for which the Table is not needed.
func Sum(parts []Count) map[model.ServiceName]uint64 {
	all := make(map[model.ServiceName]uint64, len(parts))
	for _, c := range parts {
		all[c.Service] += c.Connections
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
	case why != "" || h != nil && h.port == p.Name && len(h.round) > 0:
	case t.dirty[f]: // its rules are being written, or failed
		why = "the maps do not have it yet"
	default:
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
