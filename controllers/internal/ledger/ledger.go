package ledger

import (
	"context"
	"net/netip"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	corev1 "k8s.io/api/core/v1"
	networkingv1 "k8s.io/api/networking/v1"
	"k8s.io/apimachinery/pkg/types"
	toolscache "k8s.io/client-go/tools/cache"
	"k8s.io/utils/clock"
	"sigs.k8s.io/controller-runtime/pkg/cache"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/clusterip-operator/clusterip-operator/allocator"
	"github.com/clusterip-operator/clusterip-operator/api/v1alpha1"
)

// Ledger is the account. Make one with New, connect it with Watch; all methods are safe for concurrent use.
//
// Cost: an event on an address is O(log used + ranges); Usage and Blockers are O(log used) for each span that
// the question breaks into. Nothing depends on the number of Services.
type Ledger struct {
	pool *allocator.Pool

	mu        sync.RWMutex
	addresses map[netip.Addr]entry
	ranges    map[string]ServiceCIDR
	nodes     map[string][]netip.Prefix
	// declared are ranges of the default ServiceCIDR that its object cannot tell; see Declare.
	declared []allocator.Range
	// claimed is how many addresses Services hold, covered how many of these have their IPAddress; see Relation.
	claimed, covered int
	// allocations counts what appeared in each band of each ServiceCIDR since the start.
	allocations map[string]map[RangeBand]uint64

	addressListeners listeners[netip.Addr]
	rangeListeners   listeners[string] // the object, or its neighbours
	usageListeners   listeners[string] // how much of it is used, or what else uses it
	coverListeners   listeners[netip.Addr]

	// kept are the IPAddresses of ours, additional those of them that Services have beside their ClusterIPs.
	kept       map[netip.Addr]Kept
	additional map[types.NamespacedName][]netip.Addr
	// assumed were handed out and have no IPAddress yet, resting were freed a short while ago, writing are being kept just now.
	assumed   map[netip.Addr]assumption
	resting   map[netip.Addr]Rest
	writing   map[netip.Addr]struct{}
	deadlines deadlines
	released  releases
	room      atomic.Uint64
	rules     Rules
	follows   func() bool
	clock     clock.PassiveClock

	registrations []toolscache.ResourceEventHandlerRegistration
}

// entry is one address: what the IPAddress object makes of it, and who claims it.
// An entry without object and claims is dropped from the map.
type entry struct {
	object allocator.State // Free: no IPAddress
	// held: a Service has had the address. One whose creation failed has not.
	held   bool
	parent types.NamespacedName
	claims []types.NamespacedName
}

// New returns an empty ledger that keeps nothing; see SetRules.
func New() *Ledger { return NewWithClock(clock.RealClock{}) }

// NewWithClock is New with a clock of the caller's, which measures how long addresses rest and are assumed.
func NewWithClock(c clock.PassiveClock) *Ledger {
	return &Ledger{
		kept:        map[netip.Addr]Kept{},
		additional:  map[types.NamespacedName][]netip.Addr{},
		assumed:     map[netip.Addr]assumption{},
		resting:     map[netip.Addr]Rest{},
		writing:     map[netip.Addr]struct{}{},
		rules:       noRules{},
		follows:     func() bool { return false },
		clock:       c,
		pool:        allocator.NewPool(),
		addresses:   map[netip.Addr]entry{},
		ranges:      map[string]ServiceCIDR{},
		nodes:       map[string][]netip.Prefix{},
		allocations: map[string]map[RangeBand]uint64{},
	}
}

// Watch connects the ledger to the informers of the cache. It returns at once; WaitForSync tells when the
// first listings are in the books. Call it once, before the controllers start.
func (l *Ledger) Watch(ctx context.Context, informers cache.Informers) error {
	for _, w := range []struct {
		object  client.Object
		handler toolscache.ResourceEventHandler
	}{
		{&networkingv1.ServiceCIDR{}, l.serviceCIDRHandler()},
		{&networkingv1.IPAddress{}, l.ipAddressHandler()},
		{&corev1.Service{}, l.serviceHandler()},
		{&corev1.Node{}, l.nodeHandler()},
	} {
		informer, err := informers.GetInformer(ctx, w.object, cache.BlockUntilSynced(false))
		if err != nil {
			return err
		}
		registration, err := informer.AddEventHandler(w.handler)
		if err != nil {
			return err
		}
		l.registrations = append(l.registrations, registration)
	}
	return nil
}

// Synced reports whether the first listing of every kind is in the books.
func (l *Ledger) Synced() bool {
	return !slices.ContainsFunc(l.registrations, func(r toolscache.ResourceEventHandlerRegistration) bool {
		return !r.HasSynced()
	})
}

// Claims returns the Services whose spec.clusterIPs hold the address, in the order in which they were seen.
func (l *Ledger) Claims(a netip.Addr) []types.NamespacedName {
	l.mu.RLock()
	defer l.mu.RUnlock()
	return slices.Clone(l.addresses[a].claims)
}

// Usage counts the addresses of a span by state.
func (l *Ledger) Usage(s allocator.Span) allocator.Usage { return l.pool.Usage(s) }

// Used returns the first limit used addresses of a span, ascending.
func (l *Ledger) Used(s allocator.Span, limit int) []netip.Addr { return l.pool.Used(s, limit) }

// State returns what the address is used for.
func (l *Ledger) State(a netip.Addr) allocator.State { return l.pool.State(a) }

// record changes the entry of one address and brings the pool in line. It is the only writer of both,
// so that they agree whenever mu is free.
func (l *Ledger) record(a netip.Addr, change func(*entry)) {
	l.mu.Lock()
	before := l.addresses[a]
	last := before.last()
	e := before
	l.count(e, -1)
	change(&e)
	e.held = e.held || len(e.claims) > 0 || l.had(a, e)
	l.count(e, 1)
	if e.object == allocator.Free && len(e.claims) == 0 {
		delete(l.addresses, a)
		l.free(a, before, last)
	} else {
		l.addresses[a] = e
		l.observe(a, e)
	}
	l.mu.Unlock()
	l.Wake(a)
}

// had reports whether an IPAddress is that of a Service which has come and gone already: the watch of Services was ahead. The caller
// holds mu.
func (l *Ledger) had(a netip.Addr, e entry) bool {
	r, resting := l.resting[a]
	return resting && !r.doubtful && e.object == allocator.Allocated && r.Service == e.parent
}

// last is the Service that has the address, as far as is known.
func (e entry) last() types.NamespacedName {
	if len(e.claims) > 0 {
		return e.claims[0]
	}
	return e.parent
}

// observe brings the pool in line with an entry; the caller holds mu. The API server's IPAddress ends every assumption. One of ours does not, for it
// is what stands there until then; nor does another Service alone, for it may be the one before, of which the watch of Services tells late.
func (l *Ledger) observe(a netip.Addr, e entry) {
	state := e.state()
	k, kept := l.kept[a]
	to, given := l.assumed[a]
	switch {
	case given && e.object == allocator.Free && !slices.Contains(e.claims, to.to.Service):
	case kept && state == allocator.Cooling:
		l.rest(a, Rest{Service: k.Service, Released: k.Released})
	case kept && state == allocator.Reserved:
		if k.Purpose == v1alpha1.PurposeReservation {
			delete(l.resting, a)
		}
		if !given {
			l.pool.Observe(a, state)
		}
	default:
		delete(l.assumed, a)
		delete(l.resting, a)
		l.pool.Observe(a, state)
	}
}

// free says what becomes of an address that neither an IPAddress nor a Service has any more; the caller holds mu.
//
// When an IPAddress of ours goes although it is still wanted, a replica has handed the address out and the API server will show
// whom to. Until then nobody else may have it.
func (l *Ledger) free(a netip.Addr, before entry, last types.NamespacedName) {
	now := l.clock.Now()
	l.room.Add(1)
	k, kept := l.unkeep(a)
	switch {
	case kept && l.wanted(a, k, now):
		switch k.Purpose { // what rested rests on if nobody uses it after all
		case v1alpha1.PurposeCooling:
			l.resting[a] = Rest{Service: k.Service, Released: k.Released}
		case v1alpha1.PurposeReservation:
			delete(l.resting, a)
		}
		l.pool.Assume(a)
		l.takenAway(a, k)
	case kept && k.Purpose == v1alpha1.PurposeAdditional && k.Service.Name != "" && l.rules.CoolsDown(a) > 0 && !l.rules.Reserves(a):
		l.rest(a, Rest{Service: k.Service, Released: now})
	case !kept && l.rules.CoolsDown(a) > 0 && !l.rules.Reserves(a):
		l.rest(a, Rest{Service: last, Released: now, doubtful: !before.held})
	default:
		delete(l.resting, a)
		l.pool.Release(a)
		l.released.note(a, now)
	}
}

// takenAway notes that a wanted IPAddress of ours is gone: by this process, or by another one; the caller holds mu.
func (l *Ledger) takenAway(a netip.Addr, k Kept) {
	if given, ok := l.assumed[a]; !ok || given.object != k.UID {
		l.handOut(a, assumption{elsewhere: true, taken: k})
	}
}

// wanted reports whether an IPAddress of ours, which is gone, is wanted by the rules, so that somebody has handed the address out; the caller
// holds mu.
func (l *Ledger) wanted(a netip.Addr, k Kept, now time.Time) bool {
	if _, rewritten := l.writing[a]; rewritten {
		return false // this process writes it anew
	}
	switch k.Purpose {
	case v1alpha1.PurposeClaim:
		return true
	case v1alpha1.PurposeReservation:
		return l.rules.Reserves(a)
	case v1alpha1.PurposeCooling:
		return now.Before(l.over(a, Rest{Released: k.Released}))
	default:
		return false
	}
}

// count enters an address into the sums, or takes it out.
func (l *Ledger) count(e entry, by int) {
	if len(e.claims) == 0 {
		return
	}
	l.claimed += by
	if e.object == allocator.Allocated && len(e.claims) == 1 && e.parent == e.claims[0] {
		l.covered += by
	}
}

// Relation returns how many addresses Services hold, and how many of these have the IPAddress that they should have: of the API
// server's allocator, and naming the only Service that holds the address.
func (l *Ledger) Relation() (claimed, covered int) {
	l.mu.RLock()
	defer l.mu.RUnlock()
	return l.claimed, l.covered
}

// state is what the pool should hold: the object's word if there is one, otherwise the claim.
func (e entry) state() allocator.State {
	if e.object != allocator.Free {
		return e.object
	}
	return allocator.Allocated
}
