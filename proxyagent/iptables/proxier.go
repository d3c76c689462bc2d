package iptables

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"github.com/clusterip-operator/clusterip-operator/proxyagent/ipset"
	"github.com/clusterip-operator/clusterip-operator/proxyagent/model"
	"github.com/clusterip-operator/clusterip-operator/proxyagent/nfnetlink"
)

// Sets is the part of ipset that the rules need. *ipset.Kernel is one.
type Sets interface {
	Create(ctx context.Context, sets ...ipset.Set) error
	Apply(ctx context.Context, changes []ipset.Change) error
	Destroy(ctx context.Context, names ...string) error
	Counts(ctx context.Context, prefix string) (map[string]int, error)
	Entries(ctx context.Context, name string) (map[Entry]struct{}, error)
}

// Options say what a Proxier works with.
type Options struct {
	Mode   Mode
	Family model.Family
	Sets   Sets
	// Generations is shared by the Proxiers of a network namespace. Nil: this is the only one.
	Generations *nfnetlink.Generations
	// FullCheck is the period of comparing everything although nothing indicates a change; 0: five minutes. It is longer where comparing would
	// take more than a three-hundredth of the time.
	FullCheck time.Duration
}

// Proxier keeps the kernel's rules for one family as a Plan wants them. Its methods may be called concurrently; they wait for each other, but for Check only
// while it repairs.
type Proxier struct {
	options Options
	run     runner
	probe   probe

	checking sync.Mutex // one Check at a time
	mu       sync.Mutex
	rules    *Ruleset
	known    bool                // rules.dirty and rules.changed are the whole difference to the kernel
	refused  bool                // the last sync was
	missing  map[string]struct{} // what the kernel lacked when it was read for the sync after that
	insert   []jump
	unhook   []jump
	unwanted map[string]int // sets of an earlier run that no port needs

	withheldAt  time.Time          // when rules of ports that are withheld were tried last
	meanwhile   map[chain]struct{} // chains written since Check reads the rules; nil while it does not, or when what it reads is of no use
	last        fingerprint
	suspect     bool               // another program changed rules while we did
	rulesPace   model.Pace         // of the comparison of rules and jumps
	setsPace    model.Pace         // of the comparison of the numbers of members
	spellings   map[chain]spelling // chains that iptables-save prints in another way than they were written
	unconfirmed map[chain]spelling // chains of which that is not known yet
	written     map[string]int     // rules of the last transaction, by table
	invalid     atomic.Uint64      // packets dropped, when the rules were read last
}

// New returns a Proxier that has not looked at the kernel yet. It fails when a program that it needs is not installed.
func New(o Options) (*Proxier, error) {
	r, err := newRunner(o.Mode, o.Family)
	if err != nil {
		return nil, err
	}
	if o.FullCheck == 0 {
		o.FullCheck = 5 * time.Minute
	}
	if o.Generations == nil {
		o.Generations = nfnetlink.NewGenerations()
	}
	return &Proxier{
		options: o, run: r, probe: newProbe(o.Mode, o.Family, o.Generations), rules: NewRuleset(o.Family),
		spellings: map[chain]spelling{}, unconfirmed: map[chain]spelling{},
	}, nil
}

// Sync brings the kernel to the Plan as it is after the Deltas, in their order. When it fails, nothing is lost: the next Sync, also one
// without a Delta, reads the kernel's state and finishes the work. Full reports whether it read the kernel's state.
//
// No packet meets incomplete rules: members of sets that rules will need are added before the rules are written, those that are not needed any
// more are removed afterwards. Each table changes in one transaction.
func (p *Proxier) Sync(ctx context.Context, deltas ...model.Delta) (full bool, err error) {
	p.mu.Lock()
	defer p.mu.Unlock()
	for _, d := range deltas {
		p.apply(d)
	}
	full = !p.known
	return full, p.program(ctx)
}

func (p *Proxier) program(ctx context.Context) error {
	again := p.refused
	err := p.sync(ctx)
	if p.refused = errors.Is(err, errRefused); p.refused && again {
		err = p.isolate(ctx)
		p.refused = err != nil
	}
	if err != nil {
		p.known = false // also if the lock was held by others: iptables-legacy takes it once for each table
	}
	return err
}

func (p *Proxier) sync(ctx context.Context) error {
	if !p.known {
		if err := p.readKernel(ctx); err != nil {
			return err
		}
	}
	if err := p.makeSets(ctx); err != nil {
		return err
	}
	// A member that the kernel refuses must not prevent anything else from being programmed.
	refused := p.members(ctx, false)
	if err := p.restore(ctx); err != nil {
		return errors.Join(refused, err)
	}
	return errors.Join(refused, p.members(ctx, true), p.dropSets(ctx))
}

// readKernel reads the state of the kernel and notes all differences.
func (p *Proxier) readKernel(ctx context.Context) error {
	p.meanwhile = nil
	// Sets come first: rules can only be compared when the sets that they name exist.
	err := p.options.Sets.Create(ctx, p.staticSets()...)
	if errors.Is(err, ipset.ErrOtherKind) {
		err = p.startOver(ctx)
	}
	if err != nil {
		return fmt.Errorf("making the sets: %w", err)
	}
	if err := p.compareMembers(ctx); err != nil {
		return err
	}
	current, known, err := p.probe()
	if err != nil {
		return err
	}
	p.last, p.suspect = current, !known
	start := time.Now()
	text, err := p.run.Save(ctx, "") // all tables: an earlier version may have used others
	if err != nil {
		return fmt.Errorf("reading the rules: %w", err)
	}
	p.compare(parseSave(text))
	p.rulesPace = p.rulesPace.After(start, time.Since(start)) // the differences are written next: no comparison is needed soon
	p.known = true
	return nil
}

// startOver removes all our rules and the static sets, and creates the sets again. It is needed where another version left sets of another
// type, and leaves a moment without rules.
func (p *Proxier) startOver(ctx context.Context) error {
	text, err := p.run.Save(ctx, "")
	if err != nil {
		return fmt.Errorf("reading the rules: %w", err)
	}
	if t := removal(parseSave(text)); !t.empty() {
		if err := p.run.Restore(ctx, t.text()); err != nil {
			return fmt.Errorf("removing the rules of another version: %w", err)
		}
	}
	var names []string
	for _, s := range p.staticSets() {
		names = append(names, s.Name)
	}
	if err := p.options.Sets.Destroy(ctx, names...); err != nil {
		return fmt.Errorf("removing the sets of another version: %w", err)
	}
	return p.options.Sets.Create(ctx, p.staticSets()...)
}

// staticSets are the sets that always exist.
func (p *Proxier) staticSets() []ipset.Set {
	var sets []ipset.Set
	for _, s := range setKinds {
		sets = append(sets, ipset.Set{Name: s.name.of(p.options.Family), Type: s.kind, Family: p.options.Family})
	}
	return sets
}

// read reads the two tables that we use.
func (p *Proxier) read(ctx context.Context) (saved, error) {
	all := saved{chains: map[chain][]string{}, jumps: map[jump]int{}}
	for _, t := range tables {
		text, err := p.run.Save(ctx, t)
		if err != nil {
			return saved{}, fmt.Errorf("reading the table %s: %w", t, err)
		}
		s := parseSave(text)
		maps.Copy(all.chains, s.chains)
		maps.Copy(all.jumps, s.jumps)
		all.invalid += s.invalid
	}
	p.invalid.Store(all.invalid)
	return all, nil
}

func (p *Proxier) makeSets(ctx context.Context) error {
	if len(p.rules.newSets) == 0 {
		return nil
	}
	var sets []ipset.Set
	for _, name := range slices.Sorted(maps.Keys(p.rules.newSets)) {
		sets = append(sets, affinityKind(p.options.Family, name))
	}
	if err := p.options.Sets.Create(ctx, sets...); err != nil {
		return fmt.Errorf("making sets for session affinity: %w", err)
	}
	clear(p.rules.newSets)
	return nil
}

// members adds missing members to the sets or, with away, removes those that are not wanted.
func (p *Proxier) members(ctx context.Context, away bool) error {
	var changes []ipset.Change
	for _, kind := range setKinds {
		for e := range p.rules.changed[kind.name] {
			if wanted := p.rules.members[kind.name][e] > 0; wanted != away {
				changes = append(changes, ipset.Change{Set: kind.name.of(p.options.Family), Entry: e, Delete: away})
			}
		}
	}
	if away {
		slices.Reverse(changes)
	}
	if len(changes) == 0 {
		return nil
	}
	if err := p.options.Sets.Apply(ctx, changes); err != nil {
		return fmt.Errorf("changing members of sets: %w", err)
	}
	for _, kind := range setKinds {
		// A map never gets smaller: what is left goes into a new one.
		left := map[Entry]struct{}{}
		for e := range p.rules.changed[kind.name] {
			if wanted := p.rules.members[kind.name][e] > 0; wanted == away {
				left[e] = struct{}{}
			}
		}
		p.rules.changed[kind.name] = left
	}
	return nil
}

// restore writes the chains that differ.
func (p *Proxier) restore(ctx context.Context) error {
	t := p.transaction()
	if p.written = map[string]int{}; t.empty() {
		return nil
	}
	if err := p.write(ctx, t); err != nil {
		p.known = p.known && len(t.tables()) == 1 // the first of several may be written
		return fmt.Errorf("changing %d chains: %w", len(t.write)+len(t.remove), err)
	}
	if p.meanwhile != nil {
		maps.Copy(p.meanwhile, p.rules.dirty)
	}
	p.rules.dirty = map[chain]struct{}{}
	p.insert, p.unhook = nil, nil
	for c, rules := range t.write {
		p.written[string(c.table)] += len(rules)
	}
	return nil
}

func (p *Proxier) transaction() transaction {
	t := transaction{write: map[chain][]string{}, insert: p.insert, unhook: p.unhook}
	for c := range p.rules.dirty {
		if rules, wanted := p.rules.chains[c]; wanted {
			t.write[c] = rules
		} else {
			t.remove = append(t.remove, c)
		}
	}
	return t
}

// write applies a transaction. The size of legacy tables changes with it: changes by others since the last comparison show right before.
func (p *Proxier) write(ctx context.Context, t transaction) error {
	if p.options.Mode == NFT {
		return p.options.Generations.Write(func() (int, error) { return len(t.tables()), p.run.Restore(ctx, t.text()) })
	}
	before, _, err := p.probe()
	if err != nil {
		return err
	}
	if err := p.run.Restore(ctx, t.text()); err != nil {
		return err
	}
	p.suspect = p.suspect || before != p.last
	p.last, _, err = p.probe()
	return err
}

func (p *Proxier) dropSets(ctx context.Context) error {
	// A set that was not wanted when it was found may be wanted by now.
	maps.DeleteFunc(p.unwanted, func(name string, _ int) bool { _, wanted := p.rules.affinity[name]; return wanted })
	names := slices.Concat(slices.Collect(maps.Keys(p.rules.oldSets)), slices.Collect(maps.Keys(p.unwanted)))
	if len(names) == 0 {
		return nil
	}
	slices.Sort(names)
	if err := p.options.Sets.Destroy(ctx, names...); err != nil {
		return fmt.Errorf("taking sets away: %w", err)
	}
	clear(p.rules.oldSets)
	clear(p.unwanted)
	return nil
}
