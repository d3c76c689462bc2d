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
// had no endpoint. It fails when the refused rule is no port's.
func (p *Proxier) isolate(ctx context.Context) error {
	suspects := p.rules.portsWith(p.missing)
	p.rules.withhold(suspects...)
	if err := p.sync(ctx); err != nil {
		p.rules.release(suspects...)
		return err
	}
	return p.admit(ctx, suspects)
}

// admit programs ports that are withheld, but for those whose rules are refused. It halves them until it knows which they are.
func (p *Proxier) admit(ctx context.Context, names []model.PortName) error {
	if len(names) == 0 {
		return nil
	}
	p.rules.release(names...)
	err := p.sync(ctx)
	if !errors.Is(err, errRefused) {
		return err
	}
	p.rules.withhold(names...)
	if len(names) == 1 {
		p.withheldAt = time.Now()
		return p.sync(ctx)
	}
	return errors.Join(p.admit(ctx, names[:len(names)/2]), p.admit(ctx, names[len(names)/2:]))
}

// admitAgain tries the ports that are withheld once in a while: the kernel may have got the module that their rules need.
func (p *Proxier) admitAgain(ctx context.Context, now time.Time) error {
	if len(p.rules.withheld) == 0 || now.Sub(p.withheldAt) < p.options.FullCheck {
		return nil
	}
	p.withheldAt = now
	var names []model.PortName
	for name := range p.rules.withheld {
		names = append(names, name)
	}
	slices.SortFunc(names, model.PortName.Compare)
	return p.admit(ctx, names)
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
		if slices.ContainsFunc(renderPort(portGlobalsOf(r.globals), p).marks(), func(s string) bool { _, found := rules[s]; return found }) {
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
	wanted := map[model.PortName]model.ServicePort{}
	for _, name := range names {
		p := r.ports[name]
		wanted[name] = p
		p.Cluster, p.Local, p.Hairpin, p.HasEndpoints = nil, nil, nil, false
		d.Ports[name] = &p
	}
	r.Apply(d)
	maps.Copy(r.withheld, wanted)
}

// release gives ports that are withheld their rules.
func (r *Ruleset) release(names ...model.PortName) {
	d := model.Delta{Ports: map[model.PortName]*model.ServicePort{}}
	for _, name := range names {
		if p, ok := r.withheld[name]; ok {
			d.Ports[name] = &p
		}
	}
	r.Apply(d)
}
