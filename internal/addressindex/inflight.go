package addressindex

import (
	"context"
	"errors"
	"fmt"
	"net/netip"
	"slices"
	"time"

	networkingv1 "k8s.io/api/networking/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/clusterip-operator/clusterip-operator/allocator"
	"github.com/clusterip-operator/clusterip-operator/api/v1alpha1"
	"github.com/clusterip-operator/clusterip-operator/internal/addressindex/inflight"
)

const (
	// inFlightFor is how long an address that was handed out stays taken although nothing in the
	// cluster shows it. The API server writes the IPAddress within milliseconds; it may take
	// seconds when other webhooks are slow. A shorter time would hand the address out twice, a
	// longer one would keep addresses for Services that were refused for another reason.
	inFlightFor = 15 * time.Second
	// writeSeenWithin is how long a write of this process may take to come back through the watch.
	writeSeenWithin = 5 * time.Second
)

// Holder is the Service, and the review, that an address is handed out to.
type Holder = inflight.Holder

// Take hands out a chosen address that is free, cooling or reserved by us. It is not taken if
// another Service has it, or has just been given it. busy is set while this process writes an
// IPAddress there, and closed when that is over.
func (ix *Index) Take(a netip.Addr, to Holder) (taken bool, busy <-chan struct{}) {
	ix.mu.Lock()
	defer ix.mu.Unlock()
	if f := ix.flights.At(a); f != nil && f.Write != nil {
		return false, f.Write.Over()
	}
	if _, owned := ix.owned.at[a]; !owned && ix.pool.State(a) == allocator.Reserved || !ix.pool.Assume(a) {
		return false, nil // the IPAddress of another manager reserves its address too
	}
	ix.enterFlight(&inflight.Flight{Address: a}, to)
	return true, nil
}

// TakeOver hands an address that a Service has in flight to a later review of that Service, and is
// false if it has not: reviews of one without a name may be about different Services. The API
// server asks again about a request that another webhook has changed, and a tenant may name an
// address that an earlier creation was given. Either way it is about to be stored, and so must not
// yield as soon as the earlier flight would have.
func (ix *Index) TakeOver(a netip.Addr, to Holder) bool {
	ix.mu.Lock()
	defer ix.mu.Unlock()
	f := ix.flights.At(a)
	if f == nil || f.Write != nil || to.Service.Name == "" || f.Holder().Service != to.Service {
		return false
	}
	ix.enterFlight(ix.flights.Renew(f, ix.clock.Now()), to)
	return true
}

// enterFlight enters an address that the pool assumes and no flight has; the caller holds mu.
func (ix *Index) enterFlight(f *inflight.Flight, to Holder) {
	f.Since = ix.clock.Now()
	if f.Until.IsZero() {
		f.Until = f.Since.Add(inFlightFor)
	}
	ix.coolDowns.lift(f.Address)
	ix.flights.Age(f.Since)
	if other := ix.flights.Enter(f, to); other != nil {
		ix.endFlight(other)
		go ix.offer(other.Address) // the caller may be serving those who wait
	}
}

// offer gives waiting requests an address whose flight has ended, and tells the listeners.
func (ix *Index) offer(a netip.Addr) {
	ix.mu.Lock()
	ix.serve(a)
	ix.mu.Unlock()
	ix.Wake(a)
}

// takeOut ends a flight, and leaves it to the caller, who holds mu, what its address becomes.
func (ix *Index) takeOut(f *inflight.Flight) {
	ix.flights.Remove(f)
	ix.written.remove(f.Address)
	ix.pool.Forget(f.Address)
}

// endFlight ends a flight whose address becomes what the cluster shows of it; the caller holds mu.
func (ix *Index) endFlight(f *inflight.Flight) {
	a := f.Address
	ix.takeOut(f)
	if e, ok := ix.addresses[a]; ok {
		ix.observe(a, e)
	} else if r, ok := ix.coolDowns.at[a]; ok {
		ix.cool(a, r)
	}
}

// held is the flight of an address that a holder still has, nil if none; the caller holds mu.
func (ix *Index) held(a netip.Addr, by Holder) *inflight.Flight {
	if f := ix.flights.At(a); f != nil && f.Holder() == by {
		return f
	}
	return nil
}

// Holds reports whether an address that Draw or Take handed out is still its holder's, and has not
// been handed out anew since.
func (ix *Index) Holds(a netip.Addr, by Holder) bool {
	ix.mu.RLock()
	defer ix.mu.RUnlock()
	return ix.held(a, by) != nil
}

// Forget takes back what Draw or Take handed out, unless it is another holder's by now. An address
// that had been cooling cools on.
func (ix *Index) Forget(a netip.Addr, by Holder) {
	ix.mu.Lock()
	f := ix.held(a, by)
	if f != nil {
		f.Settle(ix.clock.Now())
		ix.endFlight(f)
		ix.serve(a)
	}
	ix.mu.Unlock()
	if f != nil {
		ix.Wake(a)
	}
}

// Lost says that the API server has something else at an address than this process knows of. It is
// in flight for no Service until the watch has shown it.
func (ix *Index) Lost(a netip.Addr, by Holder) {
	ix.mu.Lock()
	defer ix.mu.Unlock()
	if f := ix.held(a, by); f != nil {
		f.Settle(ix.clock.Now())
		ix.flights.Remove(f)
		ix.written.remove(a)
		ix.enterFlight(&inflight.Flight{Address: a, Until: ix.clock.Now().Add(writeSeenWithin)}, Holder{})
	}
}

// ErrLost says that an address is not the caller's any more: the API server has something else
// there than this process knew of, or the address was handed out anew meanwhile.
var ErrLost = errors.New("another holder has the address")

// MakeRoom deletes the IPAddress of ours at an address that its holder was handed, if it is there
// for one of the purposes. After an error the address is not the holder's any more.
func (ix *Index) MakeRoom(ctx context.Context, writer client.Writer, a netip.Addr, by Holder, purposes ...string) error {
	k, ok := ix.Owned(a)
	if !ok {
		return nil
	}
	if !slices.Contains(purposes, k.Purpose) { // it came after the address was drawn
		ix.Lost(a, by)
		return ErrLost
	}
	ip := &networkingv1.IPAddress{ObjectMeta: metav1.ObjectMeta{Name: a.String()}}
	if err := writer.Delete(ctx, ip, client.Preconditions{UID: &k.UID}); err != nil {
		return ix.NotWritten(a, by, fmt.Errorf("deleting IPAddress %s: %w", a, err))
	}
	if !ix.Holds(a, by) { // the API server took its time
		return ErrLost
	}
	return nil
}

// NotWritten ends the flight of an address at which its holder failed to write. The error is
// ErrLost if another writer was faster.
func (ix *Index) NotWritten(a netip.Addr, by Holder, err error) error {
	if apierrors.IsNotFound(err) || apierrors.IsConflict(err) || apierrors.IsAlreadyExists(err) {
		ix.Lost(a, by)
		return ErrLost
	}
	ix.Forget(a, by)
	return err
}

// InFlight counts the addresses handed out or being written that the cluster does not show yet.
func (ix *Index) InFlight() int {
	ix.mu.RLock()
	defer ix.mu.RUnlock()
	return ix.flights.Len()
}

// Collisions is how many addresses were handed out to one Service and then turned out to be another
// one's. With a living leader it stays as it is.
func (ix *Index) Collisions() uint64 { return ix.collisions.Load() }

// BeginWrite says that an IPAddress of ours is about to be written or deleted at an address, so
// that no Service is handed it meanwhile. It is false if a Service was handed it already, or
// another write is under way. After true the caller calls EndWrite.
func (ix *Index) BeginWrite(a netip.Addr) bool {
	ix.mu.Lock()
	defer ix.mu.Unlock()
	if ix.flights.At(a) != nil {
		return false
	}
	ix.pool.Assume(a) // what is allocated is drawn for no Service anyway
	ix.enterFlight(&inflight.Flight{Address: a, Write: inflight.NewWrite()}, Holder{})
	return true
}

// EndWrite says what became of a write: the IPAddress that was written, nil for none, and the UID
// of the one that was deleted, empty for none. The address stays in flight until the watch shows
// the last of it, 5 seconds at most. It also ends what Draw began, for an address that this process
// writes itself.
func (ix *Index) EndWrite(a netip.Addr, written *networkingv1.IPAddress, gone types.UID) {
	ix.mu.Lock()
	f := ix.flights.At(a)
	if f == nil {
		ix.mu.Unlock()
		return
	}
	ix.flights.BeginWrite(f, ix.clock.Now().Add(writeSeenWithin))
	f.Write.Gone = gone
	if written != nil {
		k := newOwned(written)
		ix.written.put(a, k)
		f.Write.Written = k.UID
	}
	if f.Write.Seen(ix.owned.at[a].UID) {
		ix.endFlight(f)
		ix.serve(a)
	}
	ix.mu.Unlock()
	ix.Wake(a)
}

// Writing returns how much longer to wait until the watch shows the last write, 0 for none.
func (ix *Index) Writing(a netip.Addr) time.Duration {
	ix.mu.RLock()
	defer ix.mu.RUnlock()
	if f := ix.flights.At(a); f != nil && f.Write != nil {
		return max(f.Until.Sub(ix.clock.Now()), time.Millisecond)
	}
	return 0
}

// arrived reports whether the cluster shows what an address in flight was waiting for; the caller
// holds mu. The API server's IPAddress always does, and so does that of another manager, or an
// additional one. Another IPAddress of ours is what stands there until then. A Service without an
// IPAddress counts only if it is the one that was waited for: it may be the one before, of which
// the watch of Services tells late.
func (ix *Index) arrived(a netip.Addr, e entry, f *inflight.Flight) bool {
	k, owned := ix.owned.at[a]
	switch {
	case owned:
		return f.Write != nil && f.Write.Written != "" && f.Write.Written == k.UID || k.Purpose == v1alpha1.PurposeAdditional
	case e.object != allocator.Free:
		return true
	default:
		return e.claimedBy(f.Holder().Service)
	}
}

// show notes that the watch has shown an address in flight, and counts it if it is another
// Service's; the caller holds mu.
func (ix *Index) show(e entry, f *inflight.Flight) {
	ix.flights.Show(f, ix.clock.Now())
	wanted := f.Holder().Service
	if e.object != allocator.Allocated || f.Write != nil || wanted.Namespace == "" || e.of().Name == "" {
		return
	}
	if wanted.Namespace != e.of().Namespace || wanted.Name != "" && wanted.Name != e.of().Name {
		ix.collisions.Add(1)
		ix.flights.ShowInstead(f, e.of().Namespace, ix.clock.Now())
	}
}
