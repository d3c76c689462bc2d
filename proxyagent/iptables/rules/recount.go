package rules

import (
	"maps"
	"slices"

	"github.com/clusterip-operator/clusterip-operator/proxyagent/model"
)

// noteScheduler notes what a port has of the scheduler that it asks for.
func (r *Ruleset) noteScheduler(p *model.ServicePort) {
	s, without := r.portGlobals().scheduler(*p)
	if delete(r.unscheduled, p.Name); without != "" {
		r.unscheduled[p.Name] = without
	}
	if delete(r.counting, p.Name); counts(s) {
		r.counting[p.Name] = struct{}{}
	}
}

// Recount is for iptables-legacy, which replaces a whole table with each change: all rules in it count from the beginning again, also those of ports that do
// not change. It has rounds begin at other places, if anything is to be written in the table that counts, and so writes the rules of all ports that count.
func (r *Ruleset) Recount() {
	writes := func(c chain) bool { return c.table == nat }
	if len(r.counting) > 0 && slices.ContainsFunc(slices.Collect(maps.Keys(r.dirty)), writes) {
		r.again(slices.Collect(maps.Keys(r.counting)), func() { r.turn++ })
	}
}

// AsksForHashes reports whether a port needs xt_bpf, and it is not known to be there.
func (r *Ruleset) AsksForHashes() bool { return !r.hashes && len(r.hashing()) > 0 }

// HashesKnown notes that the kernel has xt_bpf.
func (r *Ruleset) HashesKnown() { r.again(r.hashing(), func() { r.hashes = true }) }

// hashing are the ports that do without source hashing.
func (r *Ruleset) hashing() []model.PortName {
	var names []model.PortName
	for name := range r.unscheduled {
		if r.ports[name].Scheduler == model.SourceHashing {
			names = append(names, name)
		}
	}
	return names
}

// again renders ports once more, after something changed that their rules depend on.
func (r *Ruleset) again(names []model.PortName, change func()) {
	c := newPortChange()
	for _, name := range names {
		r.put(r.ports[name], false, c)
	}
	change()
	for _, name := range names {
		r.put(r.ports[name], true, c)
		r.noteScheduler(r.ports[name])
	}
	r.emit(c)
}

// HashTrial returns a transaction that shows whether the kernel has xt_bpf, in a chain that nothing leads to. After takes it away.
func HashTrial() (trial, after Transaction) {
	scratch := chain{nat, chainTry}
	return Transaction{write: map[chain][]string{scratch: {hash{of: 2}.match(0, 1) + "-j RETURN"}}}, Transaction{remove: []chain{scratch}}
}
