//go:build linux

package nftables

import (
	"cmp"
	"context"
	"errors"
	"maps"
	"slices"
	"time"

	"github.com/clusterip-operator/clusterip-operator/proxyagent/model"
)

// Check repairs changes by others and lists them. Without any it costs microseconds. Ports that are withheld are tried again once in a while.
func (p *Proxier) Check(ctx context.Context, now time.Time) ([]string, error) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if !p.known {
		return nil, nil
	}
	if err := p.admitAgain(ctx, now); err != nil {
		return nil, err
	}
	others, known, err := p.generations.Foreign()
	if err != nil || !known || !p.pace.DueAfter(others != p.last, now, p.fullCheck) {
		return nil, err
	}
	start := time.Now()
	found, err := p.compare(ctx, true)
	p.pace = p.pace.After(now, time.Since(start))
	if err == nil && len(found) > 0 {
		err = p.write(ctx)
	}
	if err != nil {
		p.known = false
		return nil, err
	}
	return found, nil
}

// compare reads everything and notes what differs. It returns the differences in words. With beside, a Sync may write while it reads, which it does without mu; then it says nothing, and
// has to be called again.
func (p *Proxier) compare(ctx context.Context, beside bool) (found []string, err error) {
	others, known, err := p.generations.Foreign()
	if err != nil {
		return nil, err
	}
	have, writes, first := there{rules: map[string]string{}}, p.writes, p.handles == nil
	if !p.anew {
		if beside {
			p.mu.Unlock()
		}
		have, err = p.kernel.read(ctx)
		if beside {
			p.mu.Lock()
		}
	}
	if err != nil || beside && (p.writes != writes || !p.known) {
		return nil, err
	}
	if have.dormant {
		found = append(found, "table "+table)
	}
	p.compareChains(have, &found)
	p.compareOthers(have, &found)
	if !first || len(have.sets) > 0 { // otherwise all that is wanted is noted as a change already
		if err := p.compareSets(ctx, have.sets, &found); err != nil {
			return nil, err
		}
	}
	p.declared = p.declared && !have.dormant
	p.known = true
	if known { // otherwise the other family writes: this one looks again
		p.last = others
	}
	return found, nil
}

// compareChains goes by the handles: who changes a rule cannot keep them.
func (p *Proxier) compareChains(have there, found *[]string) {
	t := p.tables
	wanted := map[string]struct{}{}
	for name := range t.layout().static() {
		wanted[name] = struct{}{}
	}
	for name := range t.chains {
		wanted[name] = struct{}{}
	}
	for name := range wanted {
		handles, there := have.rules[name]
		if !there || handles != p.handles[name] {
			t.pending[name] = state{there: there}
			*found = append(*found, "chain "+name)
		}
	}
	for name := range have.rules {
		if _, ok := wanted[name]; !ok {
			t.pending[name] = state{there: true}
			*found = append(*found, "chain "+name)
		}
	}
	p.handles = have.rules
}

// compareOthers looks for the sets that packets write into, and for those of other versions.
func (p *Proxier) compareOthers(have there, found *[]string) {
	p.remembers, p.unwanted = true, nil
	for name := range remembering {
		if !have.others[string(name)] {
			p.remembers = false
		}
		delete(have.others, string(name))
	}
	if !p.remembers && p.tables.affinity > 0 {
		*found = append(*found, "set "+string(clients))
	}
	for name := range have.others {
		p.unwanted = append(p.unwanted, name)
		*found = append(*found, "set "+name)
	}
}

// compareSets reads the elements of those sets whose fingerprints differ once more, and notes which differ.
func (p *Proxier) compareSets(ctx context.Context, sums map[set]uint64, found *[]string) error {
	t := p.tables
	t.changed, p.declared = map[key]change{}, true
	differ, wrong := map[set]bool{}, map[set]bool{}
	for name := range schemas {
		sum, there := sums[name]
		if !there {
			p.declared, wrong[name] = false, true
		}
		if !there || sum != t.prints[name] {
			differ[name] = true
		}
	}
	if len(differ) == 0 {
		return nil
	}
	for k, value := range t.all() {
		if differ[k.set] {
			t.changed[k] = change{wanted: true, value: value}
		}
	}
	for name, sum := range sums {
		if !differ[name] {
			continue
		}
		have, err := p.kernel.elements(ctx, name, sum)
		if err != nil {
			return err
		}
		t.compare(have)
	}
	for k := range t.changed {
		wrong[k.set] = true
	}
	for name := range wrong {
		*found = append(*found, "set "+string(name))
	}
	return nil
}

// compare takes in the elements that a set has, where changed has those that it should have, so that changed has the difference.
func (t *Tables) compare(have map[key]string) {
	for k, was := range have {
		c := t.changed[k]
		c.there, c.was = true, was
		if t.changed[k] = c; c.wanted && c.value == was {
			delete(t.changed, k)
		}
	}
}

// isolate is for a table that could not be written twice, the second time after everything had been compared. The ports whose chains or elements the kernel refuses are withheld, and the
// rest is written. If it refuses no other than before, something else stands in the way, as a set of another version of this program: then the table is made anew.
func (p *Proxier) isolate(ctx context.Context) error {
	refused, err := p.find(slices.SortedFunc(maps.Keys(p.tables.ports), model.PortName.Compare))
	if err != nil {
		return err
	}
	p.anew = !slices.ContainsFunc(refused, func(n model.PortName) bool { return p.tables.withheld[n] == nil })
	p.withheldAt = time.Now()
	p.tables.withhold(refused...)
	return p.write(ctx)
}

// find returns those of some ports that the kernel refuses. It halves them until it knows. It fails when the kernel refuses what is no port's, or does not answer.
func (p *Proxier) find(names []model.PortName) ([]model.PortName, error) {
	if err := p.try(); err != nil {
		return nil, err
	}
	return p.halve(names)
}

func (p *Proxier) halve(names []model.PortName) (refused []model.PortName, err error) {
	if err := p.try(names...); !errors.Is(err, errRefused) {
		return nil, err
	}
	if len(names) == 1 {
		return names, nil
	}
	for _, half := range [][]model.PortName{names[:len(names)/2], names[len(names)/2:]} {
		more, err := p.halve(half)
		if refused = append(refused, more...); err != nil {
			return nil, err
		}
	}
	return refused, nil
}

// try has the kernel look at ports as they should be.
func (p *Proxier) try(names ...model.PortName) error {
	var ports []*model.ServicePort
	for _, name := range names {
		ports = append(ports, cmp.Or(p.tables.withheld[name], p.tables.ports[name]))
	}
	return p.generations.Write(func() (int, error) { return 1, try(p.tables.globals, ports...) })
}

// apply takes a Delta in. A port that is withheld stays so until the next Check tries what it is now: whoever changes a refused Service all the time must not make everybody's Syncs
// fail.
func (p *Proxier) apply(d model.Delta) {
	var changed []model.PortName
	for name, port := range d.Ports {
		if p.tables.withheld[name] != nil && port != nil {
			changed = append(changed, name)
		}
	}
	if p.tables.Apply(d); len(changed) > 0 {
		p.tables.withhold(changed...)
		p.withheldAt = time.Time{}
	}
}

func (p *Proxier) admitAgain(ctx context.Context, now time.Time) error {
	if len(p.tables.withheld) == 0 || now.Sub(p.withheldAt) < p.fullCheck {
		return nil
	}
	p.withheldAt = now
	names := slices.Collect(maps.Keys(p.tables.withheld))
	refused, err := p.find(names)
	if err != nil {
		return err
	}
	names = slices.DeleteFunc(names, func(n model.PortName) bool { return slices.Contains(refused, n) })
	if len(names) == 0 {
		return nil
	}
	p.tables.release(names...)
	return p.write(ctx)
}
