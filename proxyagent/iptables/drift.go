package iptables

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"time"
)

// Check looks for changes that others made to what is ours, and repairs them. It returns what it repaired, in words, nil for nothing.
// Without changes by anybody it costs microseconds, so it may be called every second. Before the first successful Sync, and after a
// failed one, it does nothing: then Sync has to be called. A Sync does not wait for it to read the rules.
func (p *Proxier) Check(ctx context.Context, now time.Time) ([]string, error) {
	p.checking.Lock()
	defer p.checking.Unlock()
	p.mu.Lock()
	defer p.mu.Unlock()
	if !p.known {
		return nil, nil
	}
	if err := p.admitAgain(ctx, now); err != nil {
		p.known = false
		return nil, err
	}
	found, err := p.drift(ctx, now)
	if err != nil || len(found) == 0 {
		return nil, err
	}
	if err := p.program(ctx); err != nil {
		return nil, fmt.Errorf("repairing %s: %w", summary(found), err)
	}
	return found, p.confirmSpellings(ctx)
}

// drift compares sets and rules where it is time to, or where something indicates a change.
func (p *Proxier) drift(ctx context.Context, now time.Time) ([]string, error) {
	var found []string
	if p.setsPace.Due(now, setsPeriod, 100) {
		start := time.Now()
		var err error
		if found, err = p.driftOfSets(ctx, false); err != nil {
			return nil, err
		}
		p.setsPace = p.setsPace.After(now, time.Since(start))
	}
	rules, err := p.driftOfRules(ctx, now)
	return append(found, rules...), err
}

// setsPeriod is how often the members of sets are counted: nothing tells cheaper whether they changed.
const setsPeriod = 2 * time.Second

func (p *Proxier) driftOfRules(ctx context.Context, now time.Time) ([]string, error) {
	current, known, err := p.probe()
	if err != nil || !known {
		return nil, err
	}
	hinted := p.suspect || current != p.last
	if !p.rulesPace.DueAfter(hinted, now, p.options.FullCheck) {
		return nil, nil
	}
	start := time.Now()
	p.last, p.suspect = current, false // from here on, what others change shows again
	s, err := p.readBeside(ctx)
	if err != nil || s == nil {
		p.suspect = err != nil || p.suspect
		return nil, err
	}
	found := p.compare(*s)
	if !hinted {
		sets, err := p.driftOfSets(ctx, true)
		if err != nil {
			return nil, err
		}
		found = append(found, sets...)
	}
	p.rulesPace = p.rulesPace.After(now, time.Since(start))
	return found, nil
}

// readBeside reads the rules without mu, which the caller holds, so that a Sync may write meanwhile. The chains that it wrote are returned as they should
// be: what was read of them may be older. It returns nil when a Sync compared everything meanwhile, or has to next.
func (p *Proxier) readBeside(ctx context.Context) (*saved, error) {
	p.meanwhile = map[chain]struct{}{}
	p.mu.Unlock()
	s, err := p.read(ctx)
	p.mu.Lock()
	meanwhile := p.meanwhile
	p.meanwhile = nil
	if err != nil || meanwhile == nil || !p.known {
		return nil, err
	}
	for c := range meanwhile {
		if rules, wanted := p.rules.chains[c]; wanted {
			s.chains[c] = rules
		} else {
			delete(s.chains, c)
		}
	}
	return &s, nil
}

// compare notes where the rules of the kernel differ from those wanted, and returns the differences in words.
func (p *Proxier) compare(s saved) []string {
	p.rules.dirty = map[chain]struct{}{}
	clear(p.unconfirmed)
	var found []string
	for c, want := range p.rules.chains {
		have, there := s.chains[c]
		if there && p.same(c, want, have) {
			continue
		}
		p.rules.dirty[c] = struct{}{}
		found = append(found, "chain "+c.name)
	}
	for c := range s.chains {
		if _, wanted := p.rules.chains[c]; !wanted {
			p.rules.dirty[c] = struct{}{}
			found = append(found, "foreign chain "+c.name)
		}
	}
	if p.refused {
		p.missing = p.lacking(s)
	}
	p.insert, p.unhook = mend(s)
	for _, j := range slices.Concat(p.insert, p.unhook) {
		found = append(found, "jump from "+j.from)
	}
	return found
}

// spelling is what was written into a chain and what was read of it.
type spelling struct{ written, read string }

// same compares a chain. A version of iptables may print a rule in a way that is unknown here: then the chain is written once more, and if the
// same text is read right afterwards, it counts as equal from then on (confirmSpellings).
func (p *Proxier) same(c chain, want, have []string) bool {
	if sameRules(want, have) {
		delete(p.spellings, c)
		return true
	}
	if len(want) != len(have) {
		return false
	}
	now := spelling{strings.Join(want, "\n"), strings.Join(have, "\n")}
	if p.spellings[c] == now {
		return true
	}
	p.unconfirmed[c] = now
	return false
}

// confirmSpellings reads the chains that were written although possibly only their spelling differs.
func (p *Proxier) confirmSpellings(ctx context.Context) error {
	if len(p.unconfirmed) == 0 {
		return nil
	}
	s, err := p.read(ctx)
	if err != nil {
		return err
	}
	for c, doubt := range p.unconfirmed {
		if strings.Join(s.chains[c], "\n") == doubt.read {
			p.spellings[c] = doubt
		}
	}
	clear(p.unconfirmed)
	return nil
}

// driftOfSets compares the numbers of members, which is cheap, and the members themselves where these differ, or in any case with all.
func (p *Proxier) driftOfSets(ctx context.Context, all bool) ([]string, error) {
	counts, err := p.options.Sets.Counts(ctx, setPrefix(p.options.Family))
	if err != nil {
		return nil, fmt.Errorf("counting members of sets: %w", err)
	}
	if !all && p.countsFit(counts) {
		return nil, nil
	}
	if err := p.options.Sets.Create(ctx, p.staticSets()...); err != nil {
		return nil, fmt.Errorf("making the sets: %w", err)
	}
	if err := p.compareMembers(ctx); err != nil {
		return nil, err
	}
	var found []string
	for _, kind := range setKinds {
		if len(p.rules.changed[kind.name]) > 0 {
			found = append(found, "set "+kind.name.of(p.options.Family))
		}
	}
	for name := range p.rules.newSets {
		found = append(found, "set "+name)
	}
	return found, nil
}

// countsFit reports whether all sets have as many members as they should.
func (p *Proxier) countsFit(counts map[string]int) bool {
	for _, kind := range setKinds {
		if counts[kind.name.of(p.options.Family)] != len(p.rules.members[kind.name]) {
			return false
		}
	}
	for name := range p.rules.affinity {
		if _, there := counts[name]; !there {
			return false
		}
	}
	return true
}

// compareMembers compares all members, and which sets exist.
func (p *Proxier) compareMembers(ctx context.Context) error {
	counts, err := p.options.Sets.Counts(ctx, setPrefix(p.options.Family))
	if err != nil {
		return fmt.Errorf("listing sets: %w", err)
	}
	p.unwanted, p.rules.newSets = counts, map[string]struct{}{}
	for _, kind := range setKinds {
		name := kind.name.of(p.options.Family)
		if err := p.compareSet(ctx, kind.name, counts[name]); err != nil {
			return err
		}
		delete(p.unwanted, name)
	}
	for name := range p.rules.affinity {
		if _, there := counts[name]; !there {
			p.rules.newSets[name] = struct{}{}
		}
		delete(p.unwanted, name)
	}
	return nil
}

// compareSet notes which members of a set are missing or unwanted.
func (p *Proxier) compareSet(ctx context.Context, name setName, count int) error {
	wanted, changed := p.rules.members[name], map[Entry]struct{}{}
	for e := range wanted {
		changed[e] = struct{}{}
	}
	if count > 0 {
		entries, err := p.options.Sets.Entries(ctx, name.of(p.options.Family))
		if err != nil {
			return fmt.Errorf("reading the set %s: %w", name.of(p.options.Family), err)
		}
		for e := range entries {
			if wanted[e] > 0 {
				delete(changed, e)
			} else {
				changed[e] = struct{}{}
			}
		}
	}
	p.rules.changed[name] = changed
	return nil
}

// summary names a few of many.
func summary(found []string) string {
	const most = 5
	if len(found) <= most {
		return strings.Join(found, ", ")
	}
	return fmt.Sprintf("%s and %d more", strings.Join(found[:most], ", "), len(found)-most)
}
