package iptables

import (
	"fmt"
	"maps"
	"net/netip"
	"slices"

	"github.com/clusterip-operator/clusterip-operator/proxyagent/model"
)

// Counts returns for each table how many rules there are, and how many the last sync wrote.
func (p *Proxier) Counts() (total, written map[string]int) {
	p.mu.Lock()
	defer p.mu.Unlock()
	return maps.Clone(p.rules.total), p.written
}

// Describe lists the rules and the members of sets that belong to a port, for people.
func (p *Proxier) Describe(n model.PortName) []string {
	p.mu.Lock()
	defer p.mu.Unlock()
	port, ok := p.rules.ports[n]
	if !ok {
		return nil
	}
	r := renderPort(portGlobalsOf(p.rules.globals), *port)
	lines := []string{fmt.Sprintf("Rules of %s in iptables-%s, table nat:", n, p.options.Mode)}
	for _, d := range p.degraded(n) {
		lines = append(lines, "  "+d.Reason.String())
	}
	for _, vip := range slices.SortedFunc(maps.Keys(r.vips), netip.Addr.Compare) {
		for _, rule := range r.vips[vip] {
			lines = append(lines, "  below "+chainVIPs+": "+rule)
		}
	}
	for _, rule := range r.nodePort {
		lines = append(lines, "  below "+chainNodePorts+": "+rule)
	}
	for _, c := range slices.Sorted(maps.Keys(r.chains)) {
		for _, rule := range r.chains[c] {
			lines = append(lines, "  "+c+": "+rule)
		}
	}
	for _, m := range r.members {
		lines = append(lines, fmt.Sprintf("  set %s: %s", m.set.of(p.options.Family), m.entry))
	}
	return lines
}

// Degraded lists what ports do without on this node, sorted by port.
func (p *Proxier) Degraded() []model.Degradation {
	p.mu.Lock()
	defer p.mu.Unlock()
	names := slices.AppendSeq(slices.Collect(maps.Keys(p.rules.withheld)), maps.Keys(p.rules.forgetful))
	slices.SortFunc(names, model.PortName.Compare)
	var all []model.Degradation
	for _, n := range slices.Compact(names) {
		all = append(all, p.degraded(n)...)
	}
	return all
}

// degraded lists what a port does without; the caller holds mu.
func (p *Proxier) degraded(n model.PortName) (all []model.Degradation) {
	if _, ok := p.rules.withheld[n]; ok {
		all = append(all, model.Degradation{Port: n, Reason: model.RulesRefused})
	}
	if _, ok := p.rules.forgetful[n]; ok {
		all = append(all, model.Degradation{Port: n, Reason: model.AffinityTooDear})
	}
	return all
}

// InvalidDropped returns how many packets of invalid connection-tracking state were dropped between the last write of the rule and the last
// comparison. It does not read the kernel: iptables-nft lists all rules for one counter, and starts again whenever they change meanwhile.
func (p *Proxier) InvalidDropped() uint64 {
	return p.invalid.Load()
}
