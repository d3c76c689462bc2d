package rules

import (
	"maps"
	"slices"

	"github.com/clusterip-operator/clusterip-operator/proxyagent/ipset"
	"github.com/clusterip-operator/clusterip-operator/proxyagent/model"
)

// Ports are those that have rules. They must not be changed.
func (r *Ruleset) Ports() map[model.PortName]*model.ServicePort { return r.ports }

// Trial returns a transaction that writes the rules of ports: those of their own chains in place,
// those of the trees into a chain that nothing leads to. After takes that one away.
func (r *Ruleset) Trial(names ...model.PortName) (trial, after Transaction) {
	scratch := chain{nat, chainTry}
	trial = Transaction{write: map[chain][]string{scratch: {"-j RETURN"}}}
	for _, name := range names {
		p := renderPort(portGlobalsOf(r.globals), *r.ports[name])
		for own, rules := range p.chains {
			trial.write[chain{nat, own}] = rules
		}
		trial.write[scratch] = slices.Concat(trial.write[scratch], slices.Concat(slices.Collect(maps.Values(p.vips))...), p.nodePort)
	}
	return trial, Transaction{remove: []chain{scratch}}
}

// Owners returns which ports need sets of clients or members that the kernel refuses, and why.
func (r *Ruleset) Owners(names []model.PortName, sets map[ipset.Set]error, members map[ipset.Change]error) map[model.PortName]error {
	owners := map[model.PortName]error{}
	for _, name := range names {
		p := renderPort(portGlobalsOf(r.globals), *r.ports[name])
		for _, s := range p.affinity {
			if why := sets[affinityKind(r.family, s)]; why != nil {
				owners[name] = why
			}
		}
		for _, m := range p.members {
			if why := members[ipset.Change{Set: m.set.of(r.family), Entry: m.entry}]; why != nil {
				owners[name] = why
			}
		}
	}
	return owners
}

// Degraded lists the tables that cannot be read, and what ports do without, sorted by port.
func (r *Ruleset) Degraded() (all []model.Degradation) {
	for _, t := range r.unreadable {
		all = append(all, model.Degradation{Table: string(t), Reason: model.TableUnreadable})
	}
	for _, n := range slices.SortedFunc(maps.Keys(r.without), model.PortName.Compare) {
		for _, reason := range r.without[n] {
			all = append(all, model.Degradation{Port: n, Reason: reason})
		}
	}
	return all
}
