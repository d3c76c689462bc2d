package iptables

import (
	"bytes"
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"github.com/clusterip-operator/clusterip-operator/proxyagent/ipset"
	"github.com/clusterip-operator/clusterip-operator/proxyagent/iptables/rules"
	"github.com/clusterip-operator/clusterip-operator/proxyagent/model"
	"github.com/clusterip-operator/clusterip-operator/proxyagent/nfnetlink"
)

// Sets is the part of ipset that the rules need. *ipset.Kernel is one.
type Sets interface {
	Create(ctx context.Context, sets ...ipset.Set) error
	Apply(ctx context.Context, changes []ipset.Change) error
	Destroy(ctx context.Context, names ...string) error
	Counts(ctx context.Context, prefix string) (map[string]int, error)
	Entries(ctx context.Context, name string) (map[ipset.Entry]struct{}, error)
}

// Options say what a Proxier works with.
type Options struct {
	Mode   Mode
	Family model.Family
	Sets   Sets
	// Generations is shared by the Proxiers of a network namespace. Nil: this is the only one.
	Generations *nfnetlink.Generations
	// FullCheck is the period of comparing everything although nothing indicates a change; 0: five
	// minutes. It is longer where comparing would take more than a three-hundredth of the time.
	FullCheck time.Duration
}

// Proxier keeps the kernel's rules for one family as a Plan wants them. Its methods may be called
// concurrently; they wait for each other, but for Check only while it repairs.
type Proxier struct {
	options Options
	run     runner
	probe   probe

	checking sync.Mutex // one Check at a time
	mu       sync.Mutex
	rules    *rules.Ruleset
	begun    bool                // the rules have been read once
	served   []model.ServicePort // by those of an earlier agent, until it was asked for
	known    bool                // what is not written of the rules is the whole difference to the kernel
	withheld model.Withheld      // ports that the kernel refuses

	meanwhile []rules.Transaction // written since Check reads the rules; nil while it does not, or when what it reads is of no use
	last      fingerprint
	suspect   bool       // another program changed rules while we did
	rulesPace model.Pace // of the comparison of rules and jumps
	setsPace  model.Pace // of the comparison of the numbers of members
	spellings rules.Spellings
	written   map[string]int // rules of the last transaction, by table
	invalid   atomic.Uint64  // packets dropped, when the rules were read last
}

// New returns a Proxier that has not read the kernel. It fails without one of the programs.
func New(o Options) (*Proxier, error) {
	r, err := newRunner(o.Mode, o.Family)
	if err != nil {
		return nil, err
	}
	o.FullCheck, o.Generations = cmp.Or(o.FullCheck, 5*time.Minute), cmp.Or(o.Generations, nfnetlink.NewGenerations())
	return &Proxier{options: o, run: r, probe: newProbe(o.Mode, o.Family, o.Generations), rules: rules.NewRuleset(o.Family)}, nil
}

// Sync brings the kernel to the Plan as it is after the Deltas, in their order, without what the
// kernel refuses of ports. When it fails, nothing is lost: the next Sync, also one without a Delta,
// reads the kernel's state and finishes the work. Full reports whether it read the kernel's state.
//
// No packet meets incomplete rules: members that rules will need are added to sets before the rules
// are written, and removed only after rules that need them. Each table changes in one transaction.
func (p *Proxier) Sync(ctx context.Context, deltas ...model.Delta) (full bool, err error) {
	p.mu.Lock()
	defer p.mu.Unlock()
	for _, d := range deltas {
		p.rules.Apply(p.withheld.Apply(d))
	}
	full = !p.known
	return full, p.program(ctx)
}

// Served lists, once, the fronts of UDP and SCTP that the rules led to endpoints when the first
// Sync began: the flows to those that no Service has any more are stale.
func (p *Proxier) Served() []model.ServicePort {
	p.mu.Lock()
	defer p.mu.Unlock()
	defer func() { p.served = nil }()
	return p.served
}

// program brings the kernel to what is wanted. After a refusal it first looks whether the kernel is
// as it was thought to be: then the refusal was no accident.
func (p *Proxier) program(ctx context.Context) error {
	err := p.sync(ctx)
	if errors.Is(err, model.ErrRefused) {
		p.known = false
		err = p.sync(ctx)
	}
	if errors.Is(err, model.ErrRefused) {
		err = p.isolate(ctx)
	}
	if err != nil {
		p.known = false // also if another program held the lock: iptables-legacy takes it once for each table
		return err
	}
	p.withheld.Settled()
	return nil
}

func (p *Proxier) sync(ctx context.Context) error {
	if !p.known {
		if err := p.readKernel(ctx); err != nil {
			return err
		}
	}
	for _, step := range []func(context.Context) error{p.makeSets, p.addMembers, p.restore, p.removeMembers, p.dropSets} {
		if err := step(ctx); err != nil {
			return err
		}
	}
	return nil
}

// readKernel reads the state of the kernel and notes all differences.
func (p *Proxier) readKernel(ctx context.Context) error {
	p.meanwhile = nil
	// Sets come first: rules can only be compared when the sets that they name exist.
	err := p.options.Sets.Create(ctx, rules.StaticSets(p.options.Family)...)
	if errors.Is(err, ipset.ErrOtherKind) {
		err = p.startOver(ctx)
	}
	if err != nil {
		return fmt.Errorf("making the sets: %w", err)
	}
	if _, err := p.compareSets(ctx); err != nil {
		return err
	}
	current, known, err := p.probe()
	if err != nil {
		return err
	}
	p.last, p.suspect = current, !known
	start := time.Now()
	saved, err := p.read(ctx, "") // all tables: an earlier version may have used more
	if err != nil {
		return err
	}
	p.rules.Compare(saved, &p.spellings)
	p.rulesPace = p.rulesPace.After(start, time.Since(start)) // the differences are written next: no comparison is needed soon
	p.known = true
	return nil
}

// startOver removes all our rules and the static sets, and creates the sets again, which leaves a
// moment without rules. It is for when another version left sets of another type.
func (p *Proxier) startOver(ctx context.Context) error {
	saved, err := p.read(ctx, "")
	if err = errors.Join(err, stays(saved.Unreadable)); err != nil {
		return err
	}
	if t, _ := saved.Removal(); !t.Empty() {
		if err := p.run.Restore(ctx, t.Text()); err != nil {
			return fmt.Errorf("removing the rules of another version: %w", err)
		}
	}
	static := rules.StaticSets(p.options.Family)
	var names []string
	for _, s := range static {
		names = append(names, s.Name)
	}
	if err := p.options.Sets.Destroy(ctx, names...); err != nil {
		return fmt.Errorf("removing the sets of another version: %w", err)
	}
	return p.options.Sets.Create(ctx, static...)
}

// read reads tables, or all of them with an empty name.
func (p *Proxier) read(ctx context.Context, tables ...rules.Table) (rules.Saved, error) {
	var texts [][]byte
	for _, t := range tables {
		text, err := p.run.Save(ctx, t)
		if err != nil {
			return rules.Saved{}, fmt.Errorf("reading the rules: %w", err)
		}
		texts = append(texts, text)
	}
	if !p.begun { // the first time by the first Sync
		p.begun, p.served = true, rules.Served(bytes.Join(texts, nil))
	}
	all := rules.ParseSave(texts...)
	if len(all.Unreadable) == 0 {
		p.invalid.Store(all.Invalid)
	}
	_, err := p.run.ask(ctx, all)
	return all, err
}

func (p *Proxier) makeSets(ctx context.Context) error {
	refused, err := model.Bisect(p.rules.NewSets(), func(some ...ipset.Set) error { return p.options.Sets.Create(ctx, some...) })
	if err != nil {
		return fmt.Errorf("making sets for session affinity: %w", err)
	}
	p.rules.SetsMade(refused)
	if len(refused) > 0 {
		return p.blame(refused, nil)
	}
	return nil
}

// addMembers adds missing members to the sets, removeMembers removes those that are not wanted.
func (p *Proxier) addMembers(ctx context.Context) error { return p.members(ctx, false) }

func (p *Proxier) removeMembers(ctx context.Context) error { return p.members(ctx, true) }

func (p *Proxier) members(ctx context.Context, away bool) error {
	refused, err := model.Bisect(p.rules.Members(away), func(some ...ipset.Change) error { return p.options.Sets.Apply(ctx, some) })
	if err != nil {
		return fmt.Errorf("changing members of sets: %w", err)
	}
	p.rules.MembersWritten(away, refused)
	if len(refused) == 0 {
		return nil
	}
	if err := p.blame(nil, refused); err != nil {
		return err
	}
	return p.members(ctx, away) // what ports have instead that are withheld now
}

// restore writes the chains that differ.
func (p *Proxier) restore(ctx context.Context) error {
	t := p.rules.Transaction()
	p.written = map[string]int{}
	if t.Empty() {
		return nil
	}
	if err := p.write(ctx, t); err != nil {
		p.known = p.known && len(t.Tables()) == 1 // the first of several may be written
		return fmt.Errorf("changing %d chains: %w", t.Chains(), err)
	}
	if p.meanwhile != nil {
		p.meanwhile = append(p.meanwhile, t)
	}
	p.rules.Written()
	p.written = t.Rules()
	return nil
}

// write applies a transaction. That changes the size of legacy tables, so it looks right before
// whether other programs changed them since the last comparison.
func (p *Proxier) write(ctx context.Context, t rules.Transaction) error {
	if p.options.Mode == NFT {
		return p.options.Generations.Write(func() (int, error) { return len(t.Tables()), p.run.Restore(ctx, t.Text()) })
	}
	before, _, err := p.probe()
	if err != nil {
		return err
	}
	if err := p.run.Restore(ctx, t.Text()); err != nil {
		return err
	}
	p.suspect = p.suspect || before != p.last
	p.last, _, err = p.probe()
	return err
}

// dropSets takes away sets that no port needs. One that a rule of another program refers to stays
// until the next comparison of everything.
func (p *Proxier) dropSets(ctx context.Context) error {
	names := p.rules.OldSets()
	if len(names) == 0 {
		return nil
	}
	if err := p.options.Sets.Destroy(ctx, names...); err != nil && !errors.Is(err, model.ErrRefused) {
		return fmt.Errorf("taking sets away: %w", err)
	}
	p.rules.SetsDropped()
	return nil
}

// Counts returns for each table how many rules there are, and how many the last sync wrote.
func (p *Proxier) Counts() (total, written map[string]int) {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.rules.Total(), p.written
}

// Describe lists the rules and the members of sets that belong to a port, for an admin.
func (p *Proxier) Describe(n model.PortName) []string {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.rules.Describe(n, fmt.Sprintf("Rules of %s in iptables-%s, table nat:", n, p.options.Mode))
}

// Degraded lists the tables that cannot be read, and what ports do without on this node, sorted by
// port.
func (p *Proxier) Degraded() []model.Degradation {
	p.mu.Lock()
	defer p.mu.Unlock()
	all := append(p.rules.Degraded(), p.withheld.Degraded()...)
	slices.SortFunc(all, model.Degradation.Compare)
	return all
}

// InvalidDropped returns how many packets of invalid connection-tracking state were dropped between
// the last write of the rule and the last comparison. It does not read the kernel: iptables-nft
// lists all rules for one counter, and starts again whenever they change meanwhile.
func (p *Proxier) InvalidDropped() uint64 { return p.invalid.Load() }
