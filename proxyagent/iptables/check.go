package iptables

import (
	"context"
	"fmt"
	"strings"
	"time"

	"github.com/clusterip-operator/clusterip-operator/proxyagent/ipset"
	"github.com/clusterip-operator/clusterip-operator/proxyagent/iptables/rules"
)

// Check looks for changes that other programs made to what is ours, and repairs them. It returns
// what it repaired, in words. Without such changes it costs microseconds, so it may be called every
// second. Before a successful Sync, and after a failed one, it does nothing: Sync has to be called.
// A Sync does not wait for it to read the rules.
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
	more, err := p.driftOfRules(ctx, now)
	return append(found, more...), err
}

// setsPeriod is how often set members are counted: no cheaper way tells whether they changed.
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
	p.last, p.suspect = current, false // from here on, what other programs change shows again
	s, err := p.readBeside(ctx)
	if err != nil || s == nil {
		p.suspect = err != nil || p.suspect
		return nil, err
	}
	found := p.rules.Compare(*s, &p.spellings)
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

// readBeside reads the rules without mu, which the caller holds, so that a Sync may write
// meanwhile. The chains that it wrote are returned as they should be, because what was read of them
// may be older. It returns nil when a Sync compared everything meanwhile, or has to next.
func (p *Proxier) readBeside(ctx context.Context) (*rules.Saved, error) {
	p.meanwhile = []rules.Transaction{}
	p.mu.Unlock()
	s, err := p.read(ctx, rules.Tables...)
	p.mu.Lock()
	meanwhile := p.meanwhile
	p.meanwhile = nil
	if err != nil || meanwhile == nil || !p.known {
		return nil, err
	}
	for _, t := range meanwhile {
		s.Amend(t)
	}
	return &s, nil
}

// confirmSpellings reads the chains that were written although maybe only their spelling differs.
func (p *Proxier) confirmSpellings(ctx context.Context) error {
	if !p.spellings.Doubtful() {
		return nil
	}
	s, err := p.read(ctx, rules.Tables...)
	if err != nil {
		return err
	}
	p.spellings.Confirm(s)
	return nil
}

// driftOfSets compares the numbers of members, and the members where these differ or all is true.
func (p *Proxier) driftOfSets(ctx context.Context, all bool) ([]string, error) {
	counts, err := p.options.Sets.Counts(ctx, rules.SetPrefix(p.options.Family))
	if err != nil {
		return nil, fmt.Errorf("counting members of sets: %w", err)
	}
	if !all && p.rules.CountsFit(counts) {
		return nil, nil
	}
	if err := p.options.Sets.Create(ctx, rules.StaticSets(p.options.Family)...); err != nil {
		return nil, fmt.Errorf("making the sets: %w", err)
	}
	return p.compareSets(ctx)
}

// compareSets compares all members, and which sets exist. It returns the differences in words.
func (p *Proxier) compareSets(ctx context.Context) (found []string, err error) {
	counts, err := p.options.Sets.Counts(ctx, rules.SetPrefix(p.options.Family))
	if err != nil {
		return nil, fmt.Errorf("listing sets: %w", err)
	}
	for _, s := range rules.StaticSets(p.options.Family) {
		var entries map[ipset.Entry]struct{}
		if counts[s.Name] > 0 {
			if entries, err = p.options.Sets.Entries(ctx, s.Name); err != nil {
				return nil, fmt.Errorf("reading the set %s: %w", s.Name, err)
			}
		}
		if p.rules.CompareMembers(s.Name, entries) {
			found = append(found, "set "+s.Name)
		}
	}
	return append(found, p.rules.CompareSets(counts)...), nil
}

// summary names a few of many.
func summary(found []string) string {
	const most = 5
	if len(found) <= most {
		return strings.Join(found, ", ")
	}
	return fmt.Sprintf("%s and %d more", strings.Join(found[:most], ", "), len(found)-most)
}
