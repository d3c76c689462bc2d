package rules

import (
	"maps"
	"slices"

	"github.com/clusterip-operator/clusterip-operator/proxyagent/model"
)

// Apply takes a Delta in. A port that is withheld stays so, whatever it is now, until Release: whoever changes a refused Service all the time must
// not make everybody's writes fail. It reports whether one of those changed.
func (r *Ruleset) Apply(d model.Delta) (withheldChanged bool) {
	var changed []model.PortName
	for name, port := range d.Ports {
		if _, withheld := r.withheld[name]; withheld && port != nil {
			changed = append(changed, name)
		}
	}
	if r.apply(d); len(changed) > 0 {
		r.Withhold(changed...)
	}
	return len(changed) > 0
}

// Withhold takes the rules of ports away, so that clients are rejected.
func (r *Ruleset) Withhold(names ...model.PortName) {
	d := model.Delta{Ports: map[model.PortName]*model.ServicePort{}}
	wanted := map[model.PortName]*model.ServicePort{}
	for _, name := range names {
		wanted[name] = r.ports[name]
		d.Ports[name] = r.ports[name].Unserved()
	}
	r.apply(d)
	for name, port := range wanted {
		r.withheld[name], r.without[name] = port, []model.DegradationReason{model.RulesRefused}
	}
}

// Release gives all ports that are withheld their rules, and returns these ports, sorted.
func (r *Ruleset) Release() []model.PortName {
	if len(r.withheld) == 0 {
		return nil
	}
	names := slices.SortedFunc(maps.Keys(r.withheld), model.PortName.Compare)
	r.apply(model.Delta{Ports: maps.Clone(r.withheld)})
	return names
}

// Trial returns a transaction that writes the rules of ports: those of chains of their own where they belong, those of the trees into a chain that
// nothing leads to. After takes that one away.
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

// Suspects returns the ports that have rules to be written which were not in the kernel when it was compared, sorted.
func (r *Ruleset) Suspects(s Saved) []model.PortName {
	lacking := r.lacking(s)
	var names []model.PortName
	for name, p := range r.ports {
		if slices.ContainsFunc(renderPort(portGlobalsOf(r.globals), *p).marks(), func(s string) bool { _, found := lacking[s]; return found }) {
			names = append(names, name)
		}
	}
	slices.SortFunc(names, model.PortName.Compare)
	return names
}

// lacking returns the chains that have to be written, by name, and their rules that the kernel has nowhere: rules of a tree move from one chain to another
// when keys come.
func (r *Ruleset) lacking(s Saved) map[string]struct{} {
	there := map[string]struct{}{}
	for _, rules := range s.chains {
		for _, rule := range rules {
			there[normal(rule)] = struct{}{}
		}
	}
	lacking := map[string]struct{}{}
	for c := range r.dirty {
		lacking[c.name] = struct{}{}
		for _, rule := range r.chains[c] {
			if _, ok := there[normal(rule)]; !ok {
				lacking[rule] = struct{}{}
			}
		}
	}
	return lacking
}

// marks are the texts that no other port has: rules in the trees, and names of chains.
func (r portRules) marks() []string {
	all := slices.Clone(r.nodePort)
	for _, rules := range r.vips {
		all = append(all, rules...)
	}
	for name := range r.chains {
		all = append(all, name)
	}
	return all
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
