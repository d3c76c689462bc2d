package ledger

import (
	"context"
	"net/netip"
	"slices"
	"sync"

	corev1 "k8s.io/api/core/v1"
	networkingv1 "k8s.io/api/networking/v1"
	"k8s.io/apimachinery/pkg/types"
	toolscache "k8s.io/client-go/tools/cache"
	"sigs.k8s.io/controller-runtime/pkg/cache"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/clusterip-operator/clusterip-operator/allocator"
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

	registrations []toolscache.ResourceEventHandlerRegistration
}

// entry is one address: what the IPAddress object makes of it, and who claims it.
// An entry without object and claims is dropped from the map.
type entry struct {
	object allocator.State // Free: no IPAddress
	parent types.NamespacedName
	claims []types.NamespacedName
}

// New returns an empty ledger.
func New() *Ledger {
	return &Ledger{
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
	e := l.addresses[a]
	l.count(e, -1)
	change(&e)
	l.count(e, 1)
	if e.object == allocator.Free && len(e.claims) == 0 {
		delete(l.addresses, a)
		l.pool.Release(a)
	} else {
		l.addresses[a] = e
		l.pool.Observe(a, e.state())
	}
	l.mu.Unlock()

	l.addressListeners.tell(a)
	for _, c := range l.Covering(a) {
		l.usageListeners.tell(c.Name)
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
