package iptables

import (
	"context"
	"errors"
	"maps"
	"slices"
	"time"

	"github.com/clusterip-operator/clusterip-operator/proxyagent/model"
)

// isolate is for rules that were refused twice, the second time after the kernel had been read. One refused rule keeps all others of its table from
// being written. It finds the ports that the refused rules belong to and programs everything else; clients of those ports are rejected, as if they
// had no endpoint. What serves until then goes on. It fails when the refused rule is no port's.
func (p *Proxier) isolate(ctx context.Context) error {
	refused, err := p.find(ctx, p.rules.portsWith(p.missing))
	if err != nil {
		return err
	}
	if len(refused) > 0 {
		p.withheldAt = time.Now()
	}
	p.rules.withhold(refused...)
	return p.sync(ctx)
}

// find returns those of some ports whose rules are refused. It halves them until it knows.
func (p *Proxier) find(ctx context.Context, names []model.PortName) (refused []model.PortName, err error) {
	if len(names) == 0 {
		return nil, nil
	}
	err = p.try(ctx, names...)
	if !errors.Is(err, errRefused) {
		return nil, err
	}
	if len(names) == 1 {
		return p.confirm(ctx, names[0])
	}
	for _, half := range [][]model.PortName{names[:len(names)/2], names[len(names)/2:]} {
		more, err := p.find(ctx, half)
		if err != nil {
			return nil, err
		}
		refused = append(refused, more...)
	}
	return refused, nil
}

// confirm tries a port once more, after one attempt without any rule: whatever fails for another reason, fails then too, or not any more.
func (p *Proxier) confirm(ctx context.Context, name model.PortName) ([]model.PortName, error) {
	if err := p.try(ctx); err != nil {
		return nil, err
	}
	err := p.try(ctx, name)
	if errors.Is(err, errRefused) {
		return []model.PortName{name}, nil
	}
	return nil, err
}

// try writes the rules of ports: those of chains of their own where they belong, those of the trees into a chain that nothing leads to, which it takes
// away again.
func (p *Proxier) try(ctx context.Context, names ...model.PortName) error {
	scratch := chain{nat, chainTry}
	t := transaction{write: map[chain][]string{scratch: {"-j RETURN"}}}
	for _, name := range names {
		r := renderPort(portGlobalsOf(p.rules.globals), *p.rules.ports[name])
		for own, rules := range r.chains {
			t.write[chain{nat, own}] = rules
		}
		t.write[scratch] = slices.Concat(t.write[scratch], slices.Concat(slices.Collect(maps.Values(r.vips))...), r.nodePort)
	}
	if err := p.write(ctx, t); err != nil {
		return err
	}
	return p.write(ctx, transaction{remove: []chain{scratch}})
}

// apply takes a Delta in. A port that is withheld stays so until the next Check tries what it is now: whoever changes a refused Service all the time
// must not make everybody's Syncs fail.
func (p *Proxier) apply(d model.Delta) {
	var changed []model.PortName
	for name, port := range d.Ports {
		if _, withheld := p.rules.withheld[name]; withheld && port != nil {
			changed = append(changed, name)
		}
	}
	if p.rules.Apply(d); len(changed) > 0 {
		p.rules.withhold(changed...)
		p.withheldAt = time.Time{}
	}
}

// admitAgain tries the ports that are withheld once in a while, and after they changed: the kernel may have got the module that their rules need.
func (p *Proxier) admitAgain(ctx context.Context, now time.Time) error {
	if len(p.rules.withheld) == 0 || now.Sub(p.withheldAt) < p.options.FullCheck {
		return nil
	}
	p.withheldAt = now
	names := slices.SortedFunc(maps.Keys(p.rules.withheld), model.PortName.Compare)
	p.rules.release(names...)
	err := p.sync(ctx) // which makes their sets too
	if !errors.Is(err, errRefused) {
		return err
	}
	refused, err := p.find(ctx, names)
	if err != nil {
		p.rules.withhold(names...)
		return err
	}
	p.rules.withhold(refused...)
	return p.sync(ctx)
}

// lacking returns the chains that have to be written, by name, and their rules that the kernel has nowhere: rules of a tree move from one chain to another
// when keys come.
func (p *Proxier) lacking(s saved) map[string]struct{} {
	there := map[string]struct{}{}
	for _, rules := range s.chains {
		for _, rule := range rules {
			there[normal(rule)] = struct{}{}
		}
	}
	lacking := map[string]struct{}{}
	for c := range p.rules.dirty {
		lacking[c.name] = struct{}{}
		for _, rule := range p.rules.chains[c] {
			if _, ok := there[normal(rule)]; !ok {
				lacking[rule] = struct{}{}
			}
		}
	}
	return lacking
}

// portsWith returns the ports that have one of the rules, which are bodies of rules in the two trees, or names of chains of their own.
func (r *Ruleset) portsWith(rules map[string]struct{}) []model.PortName {
	var names []model.PortName
	for name, p := range r.ports {
		if slices.ContainsFunc(renderPort(portGlobalsOf(r.globals), *p).marks(), func(s string) bool { _, found := rules[s]; return found }) {
			names = append(names, name)
		}
	}
	slices.SortFunc(names, model.PortName.Compare)
	return names
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

// withhold takes the rules of ports away, so that clients are rejected. The next change of a port ends that, or release.
func (r *Ruleset) withhold(names ...model.PortName) {
	d := model.Delta{Ports: map[model.PortName]*model.ServicePort{}}
	wanted := map[model.PortName]*model.ServicePort{}
	for _, name := range names {
		wanted[name] = r.ports[name]
		d.Ports[name] = r.ports[name].Unserved()
	}
	r.Apply(d)
	maps.Copy(r.withheld, wanted)
}

// release gives ports that are withheld their rules.
func (r *Ruleset) release(names ...model.PortName) {
	d := model.Delta{Ports: map[model.PortName]*model.ServicePort{}}
	for _, name := range names {
		if p, ok := r.withheld[name]; ok {
			d.Ports[name] = p
		}
	}
	r.Apply(d)
}
