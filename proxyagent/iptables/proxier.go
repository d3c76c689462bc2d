package iptables

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/clusterip-operator/clusterip-operator/proxyagent/ipset"
	"github.com/clusterip-operator/clusterip-operator/proxyagent/model"
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
	// Steps is shared by the Proxiers of a network namespace. Nil: there is no other.
	Steps *Steps
	// FullCheck is how often everything is compared although nothing hints at a change; 0: every five minutes. It is less often where that
	// would take more than a three-hundredth of the time.
	FullCheck time.Duration
}

// Proxier keeps the kernel's rules for one family as a Plan wants them. Its methods may be called concurrently; they wait for each other.
type Proxier struct {
	options Options
	run     runner
	probe   probe

	mu      sync.Mutex
	rules   *Ruleset
	known   bool // rules.dirty and rules.changed are the whole difference to the kernel
	fixing  []jump
	unhook  []jump
	strange map[string]bool // sets of an earlier run that nothing wants

	last      fingerprint
	suspect   bool               // somebody else changed rules while we did
	whole     looked             // at rules and jumps
	sets      looked             // at numbers of members
	spellings map[chain]spelling // chains that only seem to differ
	doubts    map[chain]spelling // chains that differ as if they only seemed to
	stats     Stats
	invalid   atomic.Uint64 // packets dropped, when the rules were read last
}

// Stats describe what is programmed.
type Stats struct {
	// Rules is the number of rules in each table, Written how many of them the last transaction wrote.
	Rules, Written map[string]int
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
	if o.Steps == nil {
		o.Steps = &Steps{}
	}
	return &Proxier{
		options: o, run: r, probe: newProbe(o.Mode, o.Family, o.Steps), rules: NewRuleset(o.Family),
		strange: map[string]bool{}, spellings: map[chain]spelling{}, doubts: map[chain]spelling{},
	}, nil
}

// Sync brings the kernel to the Plan as it is after the Deltas, in their order. When it fails, nothing is lost: the next Sync, also one
// without a Delta, looks at what the kernel has and finishes the work. Full reports whether it began with such a look.
//
// The order lets no packet meet rules that are half made: members of sets that rules will need come before the rules, those that rules needed
// go after them. Each table changes in one step.
func (p *Proxier) Sync(ctx context.Context, deltas ...model.Delta) (full bool, err error) {
	p.mu.Lock()
	defer p.mu.Unlock()
	for _, d := range deltas {
		p.rules.Apply(d)
	}
	full = !p.known
	return full, p.flush(ctx)
}

func (p *Proxier) flush(ctx context.Context) error {
	err := p.steps(ctx)
	if err != nil {
		p.known = false // also when the lock was not to be had: iptables-legacy takes it once for each table
	}
	return err
}

func (p *Proxier) steps(ctx context.Context) error {
	if !p.known {
		if err := p.learn(ctx); err != nil {
			return err
		}
	}
	if err := p.makeSets(ctx); err != nil {
		return err
	}
	// A member that the kernel does not take must not keep anything else from being programmed.
	refused := p.members(ctx, false)
	if err := p.restore(ctx); err != nil {
		return errors.Join(refused, err)
	}
	return errors.Join(refused, p.members(ctx, true), p.dropSets(ctx))
}

// learn reads what the kernel has and notes all that differs.
func (p *Proxier) learn(ctx context.Context) error {
	// Sets first: rules can only be judged when what they name exists.
	err := p.options.Sets.Create(ctx, p.standing()...)
	if errors.Is(err, ipset.ErrOtherKind) {
		err = p.startOver(ctx)
	}
	if err != nil {
		return fmt.Errorf("making the sets: %w", err)
	}
	if err := p.learnMembers(ctx, true); err != nil {
		return err
	}
	start := time.Now()
	text, err := p.run.Save(ctx, "") // all tables: an earlier version may have used others
	if err != nil {
		return fmt.Errorf("reading the rules: %w", err)
	}
	p.regard(parseSave(text))
	p.whole = p.whole.again(start, time.Since(start)) // what differs is going to be written: no need to look again soon
	p.known = true
	return nil
}

// startOver takes all rules of ours and the standing sets away and makes the sets anew. Another version left sets of another kind: nothing
// but this makes room, at the price of a moment without rules.
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
	for _, s := range p.standing() {
		names = append(names, s.Name)
	}
	if err := p.options.Sets.Destroy(ctx, names...); err != nil {
		return fmt.Errorf("removing the sets of another version: %w", err)
	}
	return p.options.Sets.Create(ctx, p.standing()...)
}

// standing are the sets that exist always.
func (p *Proxier) standing() []ipset.Set {
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

// regard notes where the kernel's rules differ from what they should be, and returns what it found, in words.
func (p *Proxier) regard(s saved) []string {
	p.rules.dirty = map[chain]struct{}{}
	clear(p.doubts)
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
	p.fixing, p.unhook = mend(s)
	for _, j := range slices.Concat(p.fixing, p.unhook) {
		found = append(found, "jump from "+j.from)
	}
	return found
}

// spelling is what was written into a chain and what was read of it.
type spelling struct{ written, read string }

// same compares a chain. A version of iptables may print a rule in a way that is not known here: then the chain is written once more, and if
// the same is read right after that, this is how it looks (believe).
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
	p.doubts[c] = now
	return false
}

// believe looks at the chains that were written although only their spelling may differ.
func (p *Proxier) believe(ctx context.Context) error {
	if len(p.doubts) == 0 {
		return nil
	}
	s, err := p.read(ctx)
	if err != nil {
		return err
	}
	for c, doubt := range p.doubts {
		if strings.Join(s.chains[c], "\n") == doubt.read {
			p.spellings[c] = doubt
		}
	}
	clear(p.doubts)
	return nil
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

// members brings the members of sets up to date: those to add, or those to take away.
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
		maps.DeleteFunc(p.rules.changed[kind.name], func(e Entry, _ struct{}) bool {
			return (p.rules.members[kind.name][e] > 0) != away
		})
	}
	return nil
}

// restore writes the chains that differ.
func (p *Proxier) restore(ctx context.Context) error {
	t := p.transaction()
	if t.empty() {
		p.count(t)
		return nil
	}
	before, err := p.probe()
	if err != nil {
		return err
	}
	err = p.options.Steps.write(len(t.tables()), func() error { return p.run.Restore(ctx, t.text()) })
	if err != nil {
		return fmt.Errorf("changing %d chains: %w", len(t.write)+len(t.remove), err)
	}
	if err := p.remember(before); err != nil {
		return err
	}
	clear(p.rules.dirty)
	p.fixing, p.unhook = nil, nil
	p.count(t)
	return nil
}

func (p *Proxier) transaction() transaction {
	t := transaction{write: map[chain][]string{}, insert: p.fixing, unhook: p.unhook}
	for c := range p.rules.dirty {
		if rules, wanted := p.rules.chains[c]; wanted {
			t.write[c] = rules
		} else {
			t.remove = append(t.remove, c)
		}
	}
	return t
}

// remember notes what the rules look like after a write of ours. What others did since the rules were compared last has not been looked at.
func (p *Proxier) remember(before fingerprint) error {
	after, err := p.probe()
	if err != nil {
		return err
	}
	p.suspect = p.suspect || p.last != fingerprint{} && before != p.last || p.options.Mode == NFT && after != before
	p.last = after
	return nil
}

func (p *Proxier) count(t transaction) {
	p.stats = Stats{Rules: map[string]int{}, Written: map[string]int{}}
	for t, n := range p.rules.total {
		p.stats.Rules[string(t)] = n
	}
	for c, rules := range t.write {
		p.stats.Written[string(c.table)] += len(rules)
	}
}

func (p *Proxier) dropSets(ctx context.Context) error {
	// What nobody wanted when it was found may be wanted by now.
	maps.DeleteFunc(p.strange, func(name string, _ bool) bool { _, wanted := p.rules.affinity[name]; return wanted })
	names := slices.Concat(slices.Collect(maps.Keys(p.rules.oldSets)), slices.Collect(maps.Keys(p.strange)))
	if len(names) == 0 {
		return nil
	}
	slices.Sort(names)
	if err := p.options.Sets.Destroy(ctx, names...); err != nil {
		return fmt.Errorf("taking sets away: %w", err)
	}
	clear(p.rules.oldSets)
	clear(p.strange)
	return nil
}

// Stats returns what is programmed.
func (p *Proxier) Stats() Stats {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.stats
}
