//go:build linux

package socketlb

import (
	"context"
	"errors"
	"fmt"
	"net/netip"
	"sync"
	"sync/atomic"
	"time"

	"github.com/go-logr/logr"

	"github.com/clusterip-operator/clusterip-operator/proxyagent/backend"
	"github.com/clusterip-operator/clusterip-operator/proxyagent/model"
	"github.com/clusterip-operator/clusterip-operator/proxyagent/socketlb/fronts"
)

// limits bound what the maps of a family take: 20 MB with IPv4 and 50 MB with IPv6, at most twice
// as much while much changes.
var limits = fronts.Limits{Fronts: 1 << 18, Places: 1 << 19}

// Backend hands the whole Plan of a family on to Next, and has connections translated at connect()
// to what can be. It takes nothing from Next, whose rules serve what is not translated, and all if
// the agent ends. Its methods may be called concurrently.
type Backend struct {
	Next       backend.Backend
	translator *Translator
	memory     *memory

	order    sync.Mutex // one Sync, or what follows a Check, at a time; it comes before mu
	synced   bool       // Next has all that the table has been told
	localAt  time.Time  // when the addresses of the node were last read
	localErr error      // what came of it

	took atomic.Int64 // nanoseconds of all Syncs without those of Next

	mu    sync.Mutex // for table, and for the memory; not held while Next writes
	table *fronts.Table
	left  int    // how many fronts the last Extend left to rules for want of room
	told  string // the last problem with maps
}

// Backend returns one that decorates another of the same family.
func (t *Translator) Backend(f model.Family, next backend.Backend) *Backend {
	return &Backend{Next: next, translator: t, memory: t.memories[f], table: fronts.NewTable(limits, t.turns)}
}

// Sync brings rules and maps to the Plan as it is after the Deltas. What goes leaves the maps
// before the rules, and what comes gets into them after the rules: maps lead nowhere that rules
// would not have led too. An error is Next's; what the maps do not take is served by rules.
func (b *Backend) Sync(ctx context.Context, deltas ...model.Delta) (full bool, err error) {
	b.order.Lock()
	defer b.order.Unlock()
	b.synced = false
	start := time.Now()
	problem := b.reduce(deltas)
	reduced := time.Now()
	full, err = b.Next.Sync(ctx, deltas...)
	written := time.Now()
	if err == nil {
		b.synced = true
		b.extend(ctx, problem)
	}
	b.took.Add(int64(reduced.Sub(start) + time.Since(written)))
	return full, err
}

// reduce takes what goes from the maps.
func (b *Backend) reduce(deltas []model.Delta) error {
	b.mu.Lock()
	defer b.mu.Unlock()
	for _, d := range deltas {
		b.table.Apply(d)
	}
	return b.table.Reduce(b.memory, time.Now())
}

// extend writes what comes, without ports that Next cannot serve. It tells what the maps do not
// take, if that is another problem than before: rules serve it.
func (b *Backend) extend(ctx context.Context, problem error) {
	withheld := map[model.PortName]bool{}
	for _, d := range b.Next.Degraded() {
		if d.Reason == model.RulesRefused || d.Reason == model.PartRefused {
			withheld[d.Port] = true
		}
	}
	local := b.local()
	problem = errors.Join(problem, b.localErr)
	b.mu.Lock()
	defer b.mu.Unlock()
	if local != nil {
		b.table.SetLocal(local)
	}
	b.table.Withhold(withheld)
	problem = errors.Join(problem, b.table.Reduce(b.memory, time.Now()), b.table.Extend(b.memory, time.Now()))
	log, told := logr.FromContextOrDiscard(ctx).WithValues("family", b.memory.family), ""
	if problem != nil {
		told = problem.Error()
	}
	if told != "" && told != b.told {
		log.Error(problem, "Not all connections can be translated at connect(); rules serve the rest")
	}
	b.told = told
	before := b.left
	if _, _, b.left = b.table.Size(); b.left > 0 != (before > 0) {
		log.Info("Fronts for which the maps of connections at connect() have no room are served by rules", "fronts", b.left)
	}
}

// localPeriod is how often the addresses of the node are read.
const localPeriod = 5 * time.Second

// local are the addresses of the node, nil if they are not to be read yet, or cannot be.
func (b *Backend) local() map[netip.Addr]bool {
	read := b.translator.options.LocalAddrs
	if read == nil || time.Since(b.localAt) < localPeriod {
		return nil
	}
	b.localAt = time.Now()
	all, err := read()
	if err != nil {
		b.localErr = fmt.Errorf("reading the addresses of the interfaces: %w", err)
		return nil
	}
	b.localErr = nil
	return model.SetOf(all)
}

// Check is Next's. A port that Next has begun to serve, or cannot any more, is taken up.
func (b *Backend) Check(ctx context.Context, now time.Time) ([]string, error) {
	repaired, err := b.Next.Check(ctx, now)
	b.order.Lock()
	defer b.order.Unlock()
	if b.synced {
		b.extend(ctx, nil)
	}
	return repaired, err
}

// Served is what Next says.
func (b *Backend) Served() []model.ServicePort { return b.Next.Served() }

// Degraded is what Next says: what is not translated is served all the same.
func (b *Backend) Degraded() []model.Degradation { return b.Next.Degraded() }

// tableName is how metrics call what is in the maps.
const tableName = "socketlb"

// Counts adds fronts and places to what Next counts; nil before any Sync.
func (b *Backend) Counts() (total, written map[string]int) {
	total, written = b.Next.Counts()
	if total == nil {
		return nil, nil
	}
	b.mu.Lock()
	defer b.mu.Unlock()
	n, places, _ := b.table.Size()
	total[tableName] = n + places
	return total, written
}

// Describe adds, for an admin, where the fronts of a port lead at connect() to what Next has.
func (b *Backend) Describe(n model.PortName) []string {
	lines := b.Next.Describe(n)
	b.mu.Lock()
	defer b.mu.Unlock()
	found := b.table.Describe(b.memory, n)
	if len(found) == 0 {
		return lines
	}
	s := b.translator.Status()
	if s.Active() {
		lines = append(lines, fmt.Sprintf("At connect(), scope %s, %s:", s.Scope, s.Detail))
	} else {
		lines = append(lines, fmt.Sprintf("At connect() nothing is translated, although scope %s is configured: %s. Otherwise it would be:", s.Scope, s.Detail))
	}
	for _, line := range found {
		lines = append(lines, "  "+line)
	}
	return lines
}

// Taken is how many connections to each Service were translated; see [fronts.Table.Taken]. Adding
// up takes longer than reading, and no Sync waits for it.
func (b *Backend) Taken() map[model.ServiceName]uint64 {
	b.mu.Lock()
	parts := b.table.Taken(b.memory)
	b.mu.Unlock()
	return fronts.Sum(parts)
}

// Took is how long all Syncs took beside those of Next: what the maps cost of a change.
func (b *Backend) Took() time.Duration { return time.Duration(b.took.Load()) }

// Left is how many fronts rules serve for want of room in the maps; not those whose rules are
// written at the moment.
func (b *Backend) Left() int {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.left
}

// InvalidDropped is what Next counts.
func (b *Backend) InvalidDropped() uint64 {
	if counter, ok := b.Next.(interface{ InvalidDropped() uint64 }); ok {
		return counter.InvalidDropped()
	}
	return 0
}
