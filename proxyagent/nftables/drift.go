//go:build linux

package nftables

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"time"

	"github.com/clusterip-operator/clusterip-operator/proxyagent/model"
	"github.com/clusterip-operator/clusterip-operator/proxyagent/nfnetlink"
)

// Check repairs changes by other programs and lists them, in microseconds if there are none. It
// tries withheld ports again once in a while, and writes what Syncs left for later.
func (p *Proxier) Check(ctx context.Context, now time.Time) ([]string, error) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if !p.known {
		return nil, nil
	}
	err := p.admitAgain(now)
	if p.hashAgain(now); err == nil && len(p.tables.changed)+len(p.tables.pending) > 0 {
		err = p.bring(ctx, now)
	}
	if err != nil {
		return nil, err
	}
	others, known, err := p.generations.Foreign()
	if err != nil || !known || !p.pace.DueAfter(others != p.last, now, p.fullCheck) {
		return nil, err
	}
	start := time.Now()
	found, err := p.compare(ctx, true)
	p.pace = p.pace.After(now, time.Since(start))
	if errors.Is(err, errRestless) || nfnetlink.Interrupted(err) {
		return nil, nil // the next one compares
	}
	if err == nil && len(found) > 0 {
		err = p.bring(ctx, now)
	}
	if err != nil {
		p.known = false
		return nil, err
	}
	return found, nil
}

// journal is what the agent has written since a comparison began to read: the comparison says
// nothing of that, but the next one does.
type journal struct {
	buckets map[bucket]struct{}
	names   map[string]struct{} // of chains, and of sets that are not compared
}

func (j *journal) note(changes map[key]change, names ...string) {
	if j == nil {
		return
	}
	for k := range changes {
		j.buckets[k.bucket()] = struct{}{}
	}
	for _, name := range names {
		j.names[name] = struct{}{}
	}
}

func (j *journal) has(name string) bool { _, noted := j.names[name]; return noted }

// comparison is one with what the kernel had.
type comparison struct {
	there
	*journal
	found []string
}

// compare reads everything and notes what differs. It returns the differences in words. With
// beside, it reads without mu, and a Sync may write.
func (p *Proxier) compare(ctx context.Context, beside bool) (found []string, err error) {
	others, known, err := p.generations.Foreign()
	if err != nil {
		return nil, err
	}
	c := &comparison{journal: &journal{map[bucket]struct{}{}, map[string]struct{}{}}}
	p.journal = c.journal
	defer func() {
		if !p.superseded(c) {
			p.journal = nil
		}
	}()
	if !p.anew {
		p.read(beside, func() { c.there, err = p.kernel.read(ctx) })
	}
	if err != nil || p.superseded(c) {
		return nil, err
	}
	first := p.handles == nil
	if beside { // what waits to be written is known to differ
		c.note(p.tables.changed, slices.Collect(maps.Keys(p.tables.pending))...)
	}
	if c.dormant {
		c.found = append(c.found, "table "+table)
	}
	p.compareChains(c)
	p.compareOthers(c)
	if !first || len(c.sets) > 0 { // otherwise all that is wanted is noted as a change already
		if err := p.compareSets(ctx, c, beside); err != nil || p.superseded(c) {
			return nil, err
		}
	}
	p.declared = p.declared && !c.dormant
	p.known = true
	if known { // otherwise the other family writes: this one looks again
		p.last = others
	}
	return c.found, nil
}

// read runs what reads the kernel; with beside, without holding mu.
func (p *Proxier) read(beside bool, read func()) {
	if beside {
		p.mu.Unlock()
		defer p.mu.Lock()
	}
	read()
}

// superseded reports whether a Sync failed, or compared everything itself, while a comparison read.
func (p *Proxier) superseded(c *comparison) bool { return p.journal != c.journal }

// compareChains goes by the handles: a program that changes a rule cannot keep them.
func (p *Proxier) compareChains(c *comparison) {
	t := p.tables
	wanted := map[string]struct{}{}
	for name := range t.layout().static() {
		wanted[name] = struct{}{}
	}
	for name := range t.chains {
		wanted[name] = struct{}{}
	}
	handles := map[string]string{}
	for name, have := range c.rules {
		was, known := p.handles[name]
		switch _, ok := wanted[name]; {
		case ok:
			handles[name] = have
		case !c.has(name):
			handles[name], t.pending[name] = have, state{there: true}
			c.found = append(c.found, "chain "+name)
		case known: // it is leaving, and would stay if it were not known any more
			handles[name] = was
		}
	}
	for name := range wanted {
		have, there := c.rules[name]
		switch was, known := p.handles[name]; {
		case c.has(name) && known:
			handles[name] = was
		case !there || have != was:
			t.pending[name] = state{there: there}
			c.found = append(c.found, "chain "+name)
		}
	}
	p.handles = handles
}

// compareOthers looks for the sets that packets write into, and for those of other versions.
func (p *Proxier) compareOthers(c *comparison) {
	p.remembers, p.unwanted = true, nil
	for name := range remembering {
		if !c.others[string(name)] && !c.has(string(name)) {
			p.remembers = false
		}
		delete(c.others, string(name))
	}
	if !p.remembers && p.tables.affinity > 0 {
		c.found = append(c.found, "set "+string(clients))
	}
	for name := range c.others {
		if !c.has(name) {
			p.unwanted = append(p.unwanted, name)
			c.found = append(c.found, "set "+name)
		}
	}
}

// compareSets reads elements again in buckets whose fingerprints differ, and notes which do.
func (p *Proxier) compareSets(ctx context.Context, c *comparison, beside bool) error {
	t := p.tables
	if !beside {
		t.changed = map[key]change{}
	}
	p.declared = true
	wrong := map[set]struct{}{}
	for name := range schemas {
		if _, there := c.sets[name]; !there {
			p.declared, wrong[name] = false, struct{}{}
		}
	}
	if differ := c.differing(t.prints); len(differ) > 0 {
		if beside {
			t = t.snapshot()
		}
		var found map[key]change
		var err error
		p.read(beside, func() { found, err = p.kernel.difference(ctx, t, c.there, differ) })
		if err != nil || p.superseded(c) {
			return err
		}
		for k, change := range found {
			if _, written := c.buckets[k.bucket()]; !written {
				p.tables.changed[k], wrong[k.set] = change, struct{}{}
			}
		}
	}
	for name := range wrong {
		c.found = append(c.found, "set "+string(name))
	}
	return nil
}

// differing are the buckets whose elements have other fingerprints than those wanted.
func (c *comparison) differing(wanted map[bucket]uint64) map[bucket]struct{} {
	differ := map[bucket]struct{}{}
	for _, some := range []map[bucket]uint64{wanted, c.prints} {
		for b := range some {
			if _, written := c.buckets[b]; !written && wanted[b] != c.prints[b] {
				differ[b] = struct{}{}
			}
		}
	}
	return differ
}

// difference is how the elements in some buckets differ from those that are wanted.
func (k *kernel) difference(ctx context.Context, wanted *Tables, have there, differ map[bucket]struct{}) (map[key]change, error) {
	found, sets := map[key]change{}, map[set]struct{}{}
	in := func(b bucket) bool { _, differs := differ[b]; return differs }
	for of, value := range wanted.all() {
		if in(of.bucket()) {
			found[of] = change{wanted: true, value: value}
		}
	}
	for b := range differ {
		sets[b.set] = struct{}{}
	}
	for name := range sets {
		if _, there := have.sets[name]; !there {
			continue
		}
		before := maps.Clone(have.prints)
		maps.DeleteFunc(before, func(b bucket, _ uint64) bool { return b.set != name || !in(b) })
		elements, err := k.elements(ctx, name, in, before)
		if err != nil {
			return nil, err
		}
		for of, was := range elements {
			c := found[of]
			if c.there, c.was = true, was; c.wanted && c.value == was {
				delete(found, of)
			} else {
				found[of] = c
			}
		}
	}
	return found, nil
}

// isolate is for a table that is refused. Ports whose chains or elements the kernel refuses are
// withheld, and the rest is written. If it refuses none, something else is in the way, as a set of
// another version of this program: then the table is made anew.
func (p *Proxier) isolate(ctx context.Context, now time.Time) error {
	refused, err := p.find(p.tables.ports, p.withheld.Suspects(p.tables.ports))
	if err != nil {
		return fmt.Errorf("looking for ports that are refused: %w", err)
	}
	p.anew = len(refused) == 0
	p.tables.Apply(p.withheld.WithholdAll(now, p.tables.ports, refused))
	return p.write(ctx, now)
}

// find returns those of some ports that the kernel refuses.
func (p *Proxier) find(ports map[model.PortName]*model.ServicePort, names []model.PortName) (map[model.PortName]error, error) {
	return model.Bisect(names, func(names ...model.PortName) error {
		var some []*model.ServicePort
		for _, name := range names {
			some = append(some, ports[name])
		}
		return p.generations.Write(func() (int, error) { return 1, try(p.tables.globals, some...) })
	})
}

// apply takes a Delta in.
func (p *Proxier) apply(d model.Delta) {
	d.Ports = p.servable(d.Ports)
	p.tables.Apply(p.withheld.Apply(d))
}

// admitAgain has ports that are withheld wait to be written, if the kernel takes them by now.
func (p *Proxier) admitAgain(now time.Time) error {
	if !p.withheld.Due(now, p.fullCheck) {
		return nil
	}
	start, wanted := time.Now(), p.withheld.Wanted()
	refused, err := p.find(wanted, slices.Collect(maps.Keys(wanted)))
	p.withheld.Tried(now, time.Since(start))
	if err != nil {
		return err
	}
	for name := range refused {
		delete(wanted, name)
	}
	p.tables.Apply(p.withheld.Release(wanted))
	return nil
}
