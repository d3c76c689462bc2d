//go:build linux

package socketlb

import (
	"context"
	"sync"
	"time"

	"github.com/go-logr/logr"

	"github.com/clusterip-operator/clusterip-operator/proxyagent/model"
	"github.com/clusterip-operator/clusterip-operator/proxyagent/socketlb/fronts"
)

// backend is a proxyagent.Backend, whose package this one must not import.
type backend interface {
	Sync(ctx context.Context, deltas ...model.Delta) (full bool, err error)
	Check(ctx context.Context, now time.Time) ([]string, error)
	Served() []model.ServicePort
	Counts() (total, written map[string]int)
	Degraded() []model.Degradation
	Describe(n model.PortName) []string
}

// limits bound what the maps of a family take: 20 MB with IPv4 and 50 MB with IPv6, at most twice
// as much while much changes.
var limits = fronts.Limits{Fronts: 1 << 18, Places: 1 << 19}

// Backend hands the whole Plan of a family on to Next, and has connections translated at connect()
// to what can be. It takes nothing from Next, whose rules serve what is not translated, and all if
// the agent ends. Its methods may be called concurrently.
type Backend struct {
	Next       backend
	translator *Translator
	memory     *memory

	mu    sync.Mutex // for table, and for the memory
	table *fronts.Table
	left  bool // some fronts were left to rules for want of room
	begun bool
}

// Backend returns one that decorates another of the same family.
func (t *Translator) Backend(f model.Family, next backend) *Backend {
	return &Backend{Next: next, translator: t, memory: t.memories[f], table: fronts.NewTable(limits, t.turns)}
}

// Sync brings rules and maps to the Plan as it is after the Deltas. What goes leaves the maps
// before the rules, and what comes gets into them after the rules: maps lead nowhere that rules
// would not have led too. An error is Next's; what the maps do not take is served by rules.
func (b *Backend) Sync(ctx context.Context, deltas ...model.Delta) (full bool, err error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	for _, d := range deltas {
		b.table.Apply(d)
	}
	b.tell(ctx, b.table.Reduce(b.memory, time.Now()))
	if full, err = b.Next.Sync(ctx, deltas...); err != nil {
		return full, err
	}
	b.extend(ctx)
	return full, nil
}

// extend writes what comes, without ports that Next cannot serve.
func (b *Backend) extend(ctx context.Context) {
	withheld := map[model.PortName]bool{}
	for _, d := range b.Next.Degraded() {
		if d.Reason == model.RulesRefused || d.Reason == model.PartRefused {
			withheld[d.Port] = true
		}
	}
	b.table.Withhold(withheld)
	b.tell(ctx, b.table.Reduce(b.memory, time.Now()))
	b.tell(ctx, b.table.Extend(b.memory, time.Now()))
	b.begun = true
	if _, _, left := b.table.Size(); left > 0 != b.left {
		b.left = left > 0
		logr.FromContextOrDiscard(ctx).Info("The number of fronts that rules serve because the maps are full", "family", b.memory.family, "fronts", left)
	}
}

// tell logs what the maps do not take. Rules serve it.
func (b *Backend) tell(ctx context.Context, err error) {
	if err != nil {
		logr.FromContextOrDiscard(ctx).Error(err, "Not all connections can be translated at connect(); rules serve them", "family", b.memory.family)
	}
}

// Check is Next's. A port that Next has begun to serve, or cannot any more, is taken up.
func (b *Backend) Check(ctx context.Context, now time.Time) ([]string, error) {
	repaired, err := b.Next.Check(ctx, now)
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.begun {
		b.extend(ctx)
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
	lines = append(lines, "At connect(), scope "+string(s.Scope)+", "+s.Detail+":")
	for _, line := range found {
		lines = append(lines, "  "+line)
	}
	return lines
}

// Taken is how many connections to each Service were translated; see [fronts.Table.Taken].
func (b *Backend) Taken() map[model.ServiceName]uint64 {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.table.Taken(b.memory)
}

// Left is how many fronts rules serve for want of room in the maps.
func (b *Backend) Left() int {
	b.mu.Lock()
	defer b.mu.Unlock()
	_, _, left := b.table.Size()
	return left
}

// InvalidDropped is what Next counts.
func (b *Backend) InvalidDropped() uint64 {
	if counter, ok := b.Next.(interface{ InvalidDropped() uint64 }); ok {
		return counter.InvalidDropped()
	}
	return 0
}
