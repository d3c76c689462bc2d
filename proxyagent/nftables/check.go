//go:build linux

package nftables

import (
	"context"
	"errors"
	"maps"
	"time"

	"github.com/clusterip-operator/clusterip-operator/proxyagent/model"
	"github.com/clusterip-operator/clusterip-operator/proxyagent/nfnetlink"
	"github.com/clusterip-operator/clusterip-operator/proxyagent/nftables/tables"
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
	p.hashAgain(now)
	if err == nil && p.table.Pending() {
		err = p.program(ctx, now)
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
		err = p.program(ctx, now)
	}
	if err != nil {
		p.known = false
		return nil, err
	}
	return found, nil
}

// comparison is one with what the kernel had.
type comparison struct {
	tables.Observed
	*tables.Journal
	found []string
}

// compare reads everything and notes what differs. It returns the differences in words. With
// beside, it reads without mu, and a Sync may write.
func (p *Proxier) compare(ctx context.Context, beside bool) (found []string, err error) {
	others, known, err := p.generations.Foreign()
	if err != nil {
		return nil, err
	}
	c := &comparison{Journal: tables.NewJournal()}
	p.journal = c.Journal
	defer func() {
		if !p.superseded(c) {
			p.journal = nil
		}
	}()
	if !p.anew {
		p.read(beside, func() { c.Observed, err = p.kernel.read(ctx) })
	}
	if err != nil || p.superseded(c) {
		return nil, err
	}
	first := p.handles == nil
	if beside {
		p.table.NotePending(c.Journal)
	}
	if c.Dormant {
		c.found = append(c.found, "table "+tables.Name)
	}
	handles, found := p.table.CompareChains(c.Observed, c.Journal, p.handles)
	p.handles, c.found = handles, append(c.found, found...)
	p.compareRest(c)
	if !first || len(c.Sets) > 0 { // otherwise all that is wanted is noted as a change already
		if err := p.compareSets(ctx, c, beside); err != nil || p.superseded(c) {
			return nil, err
		}
	}
	p.declared = p.declared && !c.Dormant
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
func (p *Proxier) superseded(c *comparison) bool { return p.journal != c.Journal }

// compareRest looks for the sets that packets write into, and for those of other versions.
func (p *Proxier) compareRest(c *comparison) {
	p.remembers, p.unwanted = true, nil
	for name := range tables.Remembering {
		if !c.Others[string(name)] && !c.Has(string(name)) {
			p.remembers = false
		}
		delete(c.Others, string(name))
	}
	if !p.remembers && p.table.Remembers() {
		c.found = append(c.found, "set "+string(tables.Clients))
	}
	for name := range c.Others {
		if !c.Has(name) {
			p.unwanted = append(p.unwanted, name)
			c.found = append(c.found, "set "+name)
		}
	}
}

// compareSets reads elements again in buckets whose fingerprints differ, and notes which do.
func (p *Proxier) compareSets(ctx context.Context, c *comparison, beside bool) error {
	t := p.table
	if !beside {
		t.Forget()
	}
	p.declared = true
	wrong := map[tables.Set]struct{}{}
	for name := range tables.Schemas {
		if _, there := c.Sets[name]; !there {
			p.declared, wrong[name] = false, struct{}{}
		}
	}
	if differ := t.Differing(c.Observed, c.Journal); len(differ) > 0 {
		if beside {
			t = t.Snapshot()
		}
		var found map[tables.Key]tables.Change
		var err error
		p.read(beside, func() { found, err = p.kernel.difference(ctx, t, c.Observed, differ) })
		if err != nil || p.superseded(c) {
			return err
		}
		for k, change := range found {
			if !c.Wrote(k.Bucket()) {
				p.table.Differs(k, change)
				wrong[k.Set] = struct{}{}
			}
		}
	}
	for name := range wrong {
		c.found = append(c.found, "set "+string(name))
	}
	return nil
}

// difference is how the elements in some buckets differ from those that are wanted.
func (k *kernel) difference(ctx context.Context, wanted *tables.Table, have tables.Observed, differ map[tables.Bucket]struct{}) (map[tables.Key]tables.Change, error) {
	found, sets := map[tables.Key]tables.Change{}, map[tables.Set]struct{}{}
	in := func(b tables.Bucket) bool { _, differs := differ[b]; return differs }
	for of, value := range wanted.All() {
		if in(of.Bucket()) {
			found[of] = tables.Change{Wanted: true, Value: value}
		}
	}
	for b := range differ {
		sets[b.Set] = struct{}{}
	}
	for name := range sets {
		if _, there := have.Sets[name]; !there {
			continue
		}
		before := maps.Clone(have.Prints)
		maps.DeleteFunc(before, func(b tables.Bucket, _ uint64) bool { return b.Set != name || !in(b) })
		elements, err := k.elements(ctx, name, in, before)
		if err != nil {
			return nil, err
		}
		for of, was := range elements {
			c := found[of]
			c.There, c.Was = true, was
			model.Put(found, of, c, !c.Wanted || c.Value != was)
		}
	}
	return found, nil
}
