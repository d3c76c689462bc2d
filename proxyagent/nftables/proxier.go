//go:build linux

package nftables

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"github.com/google/nftables"

	"github.com/clusterip-operator/clusterip-operator/proxyagent/model"
	"github.com/clusterip-operator/clusterip-operator/proxyagent/nfnetlink"
	"github.com/clusterip-operator/clusterip-operator/proxyagent/nftables/tables"
)

// Proxier keeps the kernel's table for one family as a Plan wants it. Its methods may be called
// concurrently; while one reads the kernel to compare, the rest can run.
type Proxier struct {
	mu          sync.Mutex
	table       *tables.Table
	kernel      *kernel
	generations *nfnetlink.Generations
	fullCheck   time.Duration

	begun     bool                                  // the first Sync has
	served    []model.ServicePort                   // by an earlier agent, until it was asked for
	known     bool                                  // what is not written of table is the whole difference to the kernel
	declared  bool                                  // the table is awake, and has all sets
	anew      bool                                  // what is there is to be replaced as a whole
	handles   map[string]string                     // of the rules of each chain, after the last write or comparison
	remembers bool                                  // the table has the sets that packets write into
	unwanted  []string                              // sets of other versions that it has
	unhashed  map[model.PortName]*model.ServicePort // ports that ask for a hash, which the kernel does not have
	hash      bool                                  // the kernel has one
	hashAt    time.Time                             // when it was last asked
	tryHash   func() error                          // asks it
	withheld  model.Withheld                        // ports that the kernel refuses
	last      uint32                                // transactions of other programs before the last comparison
	pace      model.Pace                            // of comparisons
	journal   *tables.Journal                       // of the comparison that reads, if one does
	changes   int                                   // of the last write
	invalid   atomic.Uint64                         // packets dropped, when the kernel was last asked
}

// New returns a Proxier that has not read the kernel yet. It compares all each fullCheck (0: five
// minutes), even without a hint. A network namespace's Proxiers share generations.
func New(f model.Family, generations *nfnetlink.Generations, fullCheck time.Duration) (*Proxier, error) {
	k, err := open(f)
	if err != nil {
		return nil, err
	}
	return &Proxier{
		table: tables.NewTable(f), kernel: k, generations: generations, fullCheck: cmp.Or(fullCheck, 5*time.Minute),
		unhashed: map[model.PortName]*model.ServicePort{}, tryHash: func() error { return tryHash(f) },
	}, nil
}

// Sync brings the kernel to the Plan as it is after the Deltas, in their order, without the ports
// that it refuses. After a failure the next one compares everything.
func (p *Proxier) Sync(ctx context.Context, deltas ...model.Delta) (full bool, err error) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if !p.begun {
		if p.served, err = p.kernel.readServed(ctx); err != nil {
			return true, err
		}
		p.begun = true
	}
	for _, d := range deltas {
		p.apply(d)
	}
	full = !p.known
	return full, p.program(ctx, time.Now())
}

// apply takes a Delta in.
func (p *Proxier) apply(d model.Delta) {
	d.Ports = p.servable(d.Ports)
	p.table.Apply(p.withheld.Apply(d))
}

// Served lists, once, the fronts of UDP and SCTP that the table led to endpoints when the first
// Sync began: the flows to those that no Service has any more are stale.
func (p *Proxier) Served() []model.ServicePort {
	p.mu.Lock()
	defer p.mu.Unlock()
	defer func() { p.served = nil }()
	return p.served
}

// program brings the kernel to what table wants, without the ports that it refuses. After a refusal
// it first looks whether the kernel is as it was thought to be.
func (p *Proxier) program(ctx context.Context, now time.Time) error {
	err := p.sync(ctx, now)
	for _, next := range []func(context.Context, time.Time) error{p.sync, p.isolate, p.isolate} {
		if errors.Is(err, model.ErrRefused) {
			err = next(ctx, now)
		}
	}
	if err == nil {
		p.withheld.Settled()
	}
	return err
}

// sync brings the kernel to what table wants.
func (p *Proxier) sync(ctx context.Context, now time.Time) (err error) {
	if !p.known {
		start := time.Now()
		_, err = p.compare(ctx, false)
		p.pace = p.pace.After(start, time.Since(start))
	}
	if err == nil {
		err = p.generations.Write(func() (int, error) { return p.write(ctx, now) })
	}
	if err == nil {
		return nil
	}
	p.known, p.journal = false, nil
	return errors.Join(err, p.kernel.reconnect())
}

// write writes what differs, except what packets under way may still look for.
func (p *Proxier) write(ctx context.Context, now time.Time) (transactions int, err error) {
	todo, remember := p.table.Transaction(now), p.table.Remembers()
	todo.Remove = slices.DeleteFunc(todo.Remove, func(name string) bool { _, there := p.handles[name]; return !there }) // another program may have taken it away
	declared := p.declared && (p.remembers || !remember)
	p.changes = len(todo.Change)
	if declared && len(p.unwanted) == 0 && todo.Empty() {
		p.table.Written(todo, now)
		return 0, nil
	}
	p.journal.Note(todo, p.unwanted...)
	write := todo.Write
	if declared && !p.anew {
		if write, transactions, err = p.prepare(todo.Write); err != nil {
			return 0, err
		}
	}
	t := batch{kernel: p.kernel}
	if p.anew {
		t.conn.AddTable(t.table) // to take away what may not be there fails
		t.conn.DelTable(t.table)
	}
	if !declared {
		t.declare(remember)
	}
	t.write(write)
	t.change(todo.Change)
	t.remove(todo.Remove, p.unwanted)
	if remember && !p.remembers {
		p.journal.Note(tables.Transaction{}, string(tables.Clients), string(tables.Newcomers))
	}
	t.flush()
	if t.err != nil {
		return 0, fmt.Errorf("writing the table %s: %w", tables.Name, t.err)
	}
	p.declared, p.anew, p.unwanted = true, false, nil
	p.remembers = p.remembers || remember
	p.table.Written(todo, time.Now())
	p.readHandles(ctx, todo.Write, todo.Remove)
	return transactions + 1, nil
}

// prepare writes the new ones among chains, to which nothing leads yet, and returns the rest. A
// packet keeps to the generation of rules that there was when it came, but finds new elements at
// once: in one transaction these would lead it to a chain that is empty in its generation.
func (p *Proxier) prepare(chains map[string]tables.Chain) (rest map[string]tables.Chain, transactions int, err error) {
	rest = map[string]tables.Chain{}
	t, fresh := batch{kernel: p.kernel}, maps.Clone(chains)
	maps.DeleteFunc(fresh, func(name string, c tables.Chain) bool {
		_, there := p.handles[name]
		if there {
			rest[name] = c
		}
		return there
	})
	if len(fresh) == 0 {
		return rest, 0, nil
	}
	t.write(fresh)
	if t.flush(); t.err != nil {
		return nil, 0, fmt.Errorf("writing new chains of the table %s: %w", tables.Name, t.err)
	}
	return rest, 1, nil
}

// readHandles takes up the handles of written chains, many at once. A chain whose handles cannot be
// read is as good as any other, but changes of it by another program would go unseen: it is written
// once more, with the next change or by the next Check.
func (p *Proxier) readHandles(ctx context.Context, written map[string]tables.Chain, removed []string) {
	const many = 20
	for _, name := range removed {
		delete(p.handles, name)
	}
	if len(written) == 0 {
		return
	}
	var some []string
	if len(written) <= many {
		some = slices.Collect(maps.Keys(written))
	}
	handles, err := p.kernel.handles(ctx, some...)
	for name, c := range written {
		accept := uint32(0)
		if c.Hook.Kind != "" {
			accept = uint32(nftables.ChainPolicyAccept)
		}
		p.handles[name] = policy(accept) + handles[name]
		if err != nil {
			p.table.Rewrite(name)
		}
	}
}

// Degraded lists ports whose elements are refused or that are served otherwise than asked, sorted.
func (p *Proxier) Degraded() (all []model.Degradation) {
	p.mu.Lock()
	defer p.mu.Unlock()
	all = append(p.table.Degraded(), p.withheld.Degraded()...)
	slices.SortFunc(all, model.Degradation.Compare)
	return all
}

// Describe lists the elements of a port, for an admin.
func (p *Proxier) Describe(n model.PortName) []string {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.table.Describe(n)
}

// Counts returns how many elements there are, and how many the last Sync wrote; nil before it.
func (p *Proxier) Counts() (total, written map[string]int) {
	p.mu.Lock()
	defer p.mu.Unlock()
	elements, once := p.table.Total()
	if !once {
		return nil, nil
	}
	return map[string]int{tables.Name: elements}, map[string]int{tables.Name: p.changes}
}

// InvalidDropped returns how many packets of invalid connection-tracking state were dropped since
// the rule was last written. It asks the kernel; if that fails it returns the last count.
func (p *Proxier) InvalidDropped() uint64 {
	if n, err := p.kernel.invalidDropped(context.Background()); err == nil {
		p.invalid.Store(n)
	}
	return p.invalid.Load()
}
