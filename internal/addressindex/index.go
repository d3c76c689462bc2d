package addressindex

import (
	"context"
	"errors"
	"maps"
	"net/netip"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"github.com/gaissmai/bart"
	corev1 "k8s.io/api/core/v1"
	networkingv1 "k8s.io/api/networking/v1"
	"k8s.io/apimachinery/pkg/types"
	toolscache "k8s.io/client-go/tools/cache"
	"k8s.io/utils/clock"
	"sigs.k8s.io/controller-runtime/pkg/cache"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/clusterip-operator/clusterip-operator/allocator"
	"github.com/clusterip-operator/clusterip-operator/api/v1alpha1"
	"github.com/clusterip-operator/clusterip-operator/internal/addressindex/inflight"
)

// Index is the address index. New makes one, Watch connects it; it is safe for concurrent use.
//
// Cost: an event on an address is O(log used + lengths of prefixes); Usage and what blocks a
// deletion are O(log used) for each span that the question breaks into. Nothing depends on the
// number of Services, nor an address on that of ServiceCIDRs.
type Index struct {
	pool *allocator.Pool

	mu        sync.RWMutex
	addresses map[netip.Addr]entry
	ranges    map[string]ServiceCIDR
	// rangesByName are the ranges in order, nil until they are asked for. rangesAsked: they were,
	// since one changed.
	rangesByName []ServiceCIDR
	rangesAsked  bool
	// names are those of the ServiceCIDRs that have a prefix: an address is looked up at each event.
	names bart.Table[[]string]
	// nodes have the networks of each node, nodesAt the names of the nodes that have a network.
	nodes   map[string][]netip.Prefix
	nodesAt bart.Table[[]string]
	// declared are ranges of the default ServiceCIDR that its object cannot tell; see Declare.
	declared []allocator.Range
	// claimed counts the addresses that Services hold, covered those with their IPAddress (Relation).
	claimed, covered int
	// allocations counts what appeared in each band of each ServiceCIDR since the start.
	allocations map[string]map[RangeBand]uint64

	addressListeners listeners[netip.Addr]
	rangeListeners   listeners[string] // the object, or its neighbours
	usageListeners   listeners[string] // how much of it is used, or what else uses it
	coverListeners   listeners[netip.Addr]

	// owned are the IPAddresses of ours, written those of them that the watch does not show yet, each
	// as long as its address is in flight.
	owned, written ownedSet
	// flights are the addresses that this process hands out or writes, coolDowns those that cool.
	flights   inflight.Flights
	coolDowns coolDowns
	released  releases
	// lines are the requests that wait for an address, those of the same tiers in one.
	lines      []*line
	collisions atomic.Uint64
	rules      Rules
	clock      clock.PassiveClock

	synced []toolscache.InformerSynced // by kind
}

// New returns an empty address index; see SetRules.
func New() *Index { return NewWithClock(clock.RealClock{}) }

// NewWithClock is New with a clock for the time that addresses cool down and are in flight.
func NewWithClock(c clock.PassiveClock) *Index {
	return &Index{
		rules:       noRules{},
		clock:       c,
		pool:        allocator.NewPool(),
		addresses:   map[netip.Addr]entry{},
		ranges:      map[string]ServiceCIDR{},
		nodes:       map[string][]netip.Prefix{},
		allocations: map[string]map[RangeBand]uint64{},
	}
}

// Watch connects the address index to the informers of the cache. It returns at once; Synced tells
// when the first listings are indexed. Call it once, before the controllers start.
func (ix *Index) Watch(ctx context.Context, informers cache.Informers) error {
	return errors.Join(ix.WatchAddresses(ctx, informers), ix.watch(ctx, informers, &corev1.Node{}, Handler(ix.nodeChanged)))
}

// WatchAddresses is Watch without Nodes, for a caller that asks for no overlaps.
func (ix *Index) WatchAddresses(ctx context.Context, informers cache.Informers) error {
	return errors.Join(
		ix.watch(ctx, informers, &networkingv1.ServiceCIDR{}, Handler(ix.serviceCIDRChanged)),
		ix.watch(ctx, informers, &networkingv1.IPAddress{}, Handler(ix.ipAddressChanged)),
		ix.watch(ctx, informers, &corev1.Service{}, Handler(ix.serviceChanged)),
	)
}

func (ix *Index) watch(ctx context.Context, informers cache.Informers, object client.Object, handler toolscache.ResourceEventHandler) error {
	informer, err := informers.GetInformer(ctx, object, cache.BlockUntilSynced(false))
	if err != nil {
		return err
	}
	registration, err := informer.AddEventHandler(handler)
	if err != nil {
		return err
	}
	ix.synced = append(ix.synced, registration.HasSynced)
	return nil
}

// Synced reports whether the first listing of every kind is indexed.
func (ix *Index) Synced() bool {
	return !slices.ContainsFunc(ix.synced, func(synced toolscache.InformerSynced) bool { return !synced() })
}

// Claims returns the Services whose spec.clusterIPs hold the address, in the order first seen.
func (ix *Index) Claims(a netip.Addr) []types.NamespacedName {
	ix.mu.RLock()
	defer ix.mu.RUnlock()
	return ix.addresses[a].claims()
}

// Uncovered reports whether a Service has an address that lacks its IPAddress.
func (ix *Index) Uncovered(a netip.Addr) bool {
	ix.mu.RLock()
	defer ix.mu.RUnlock()
	e := ix.addresses[a]
	return e.claimed() && e.object == allocator.Free
}

// HeldBy reports whether a Service of a name has an address, by its claim or its IPAddress.
func (ix *Index) HeldBy(a netip.Addr, service types.NamespacedName) bool {
	ix.mu.RLock()
	defer ix.mu.RUnlock()
	e, known := ix.addresses[a]
	return known && e.state() == allocator.Allocated && e.last() == service
}

// Known returns all addresses that have an IPAddress or a Service, in order.
func (ix *Index) Known() []netip.Addr {
	ix.mu.RLock()
	defer ix.mu.RUnlock()
	return slices.SortedFunc(maps.Keys(ix.addresses), netip.Addr.Compare)
}

// Usage counts the addresses of a span by state.
func (ix *Index) Usage(s allocator.Span) allocator.Usage { return ix.pool.Usage(s) }

// Used returns the first limit used addresses of a span, ascending.
func (ix *Index) Used(s allocator.Span, limit int) []netip.Addr { return ix.pool.Used(s, limit) }

// State returns what the address is used for.
func (ix *Index) State(a netip.Addr) allocator.State { return ix.pool.State(a) }

// record changes the entry of one address and brings the pool in line. It is the only writer of
// both, so that they agree whenever mu is free.
func (ix *Index) record(a netip.Addr, change func(*entry)) {
	ix.mu.Lock()
	before := ix.addresses[a]
	last := before.last()
	e := before
	ix.count(e, -1)
	change(&e)
	e.held = e.held || e.claimed() || ix.had(a, e)
	ix.count(e, 1)
	if e.object == allocator.Free && !e.claimed() {
		delete(ix.addresses, a)
		ix.free(a, before, last)
	} else {
		ix.addresses[a] = e
		ix.observe(a, e)
	}
	ix.serve(a)
	ix.mu.Unlock()
	ix.Wake(a)
}

// had reports whether an IPAddress is that of a Service which has already come and gone: the watch
// of Services was ahead. The caller holds mu.
func (ix *Index) had(a netip.Addr, e entry) bool {
	r, cools := ix.coolDowns.at[a]
	return cools && !r.doubtful && e.object == allocator.Allocated && r.Service == e.of()
}

// observe brings the pool in line with an entry; the caller holds mu. What is in flight stays so
// until what it waits for has arrived. A Service that has the address outranks the labels of the
// IPAddress, which users may change.
func (ix *Index) observe(a netip.Addr, e entry) {
	if f := ix.flights.At(a); f != nil {
		if !ix.arrived(a, e, f) {
			return
		}
		ix.show(e, f)
		ix.takeOut(f)
	}
	k, owned := ix.owned.at[a]
	switch state := e.state(); {
	case owned && state == allocator.Cooling:
		ix.cool(a, CoolDown{Service: k.Service, Released: k.Released})
	case owned && state == allocator.Reserved && k.Purpose != v1alpha1.PurposeReservation:
		ix.coolDowns.lift(a) // its label is being mended, and may make it cool on
		ix.pool.Observe(a, state)
	default:
		ix.coolDowns.drop(a)
		ix.pool.Observe(a, state)
	}
}

// free says what becomes of an address that has neither IPAddress nor Service; the caller holds mu.
//
// When an IPAddress of ours goes although it is still wanted, another process has handed the
// address out, and the API server is about to show to which Service. Until then it stays taken.
func (ix *Index) free(a netip.Addr, before entry, last types.NamespacedName) {
	now := ix.clock.Now()
	k, owned := ix.owned.remove(a)
	wanted := owned && ix.wanted(a, k, now)
	f := ix.flights.At(a)
	flying, written := f != nil, f != nil && f.Write != nil
	if written && f.Write.Gone != "" && f.Write.Seen("") {
		ix.takeOut(f)
		flying = false
	}
	if flying || wanted {
		switch k.Purpose { // what was cooling cools on if no Service uses it after all
		case v1alpha1.PurposeCooling:
			ix.coolDowns.note(a, CoolDown{Service: k.Service, Released: k.Released})
		case v1alpha1.PurposeReservation:
			ix.coolDowns.drop(a)
		}
	}
	switch {
	case flying:
	case wanted && !written:
		ix.pool.Assume(a)
		ix.enterFlight(&inflight.Flight{Address: a, Until: now.Add(handedElsewhere)}, Holder{})
	case owned && k.Purpose == v1alpha1.PurposeAdditional && k.Service.Name != "" && ix.rules.CoolsDown(a) > 0 && !ix.rules.Reserves(a):
		ix.cool(a, CoolDown{Service: k.Service, Released: now})
	case !owned && ix.rules.CoolsDown(a) > 0 && !ix.rules.Reserves(a):
		ix.cool(a, CoolDown{Service: last, Released: now, doubtful: !before.held})
	default:
		ix.coolDowns.drop(a)
		ix.pool.Release(a)
		ix.released.add(a, now)
	}
}

// handedElsewhere is how long an address stays taken whose IPAddress of ours went although wanted:
// another replica or the leader, which knows newer policies, deleted it, and the API server needs
// some milliseconds to write its own.
const handedElsewhere = 2 * time.Second

// wanted reports whether the rules want an IPAddress of ours that is gone; the caller holds mu.
func (ix *Index) wanted(a netip.Addr, k OwnedIPAddress, now time.Time) bool {
	switch k.Purpose {
	case v1alpha1.PurposeReservation:
		return ix.rules.Reserves(a)
	case v1alpha1.PurposeCooling:
		c := CoolDown{Released: k.Released, Surplus: ix.coolDowns.at[a].Surplus}
		return now.Before(ix.cooledAt(a, c))
	default:
		return false
	}
}

func (ix *Index) count(e entry, by int) {
	if !e.claimed() {
		return
	}
	ix.claimed += by
	if e.covered() {
		ix.covered += by
	}
}

// Relation returns how many addresses Services hold, and how many of these have the right
// IPAddress: of the API server's allocator, and naming the only Service that holds the address.
func (ix *Index) Relation() (claimed, covered int) {
	ix.mu.RLock()
	defer ix.mu.RUnlock()
	return ix.claimed, ix.covered
}
