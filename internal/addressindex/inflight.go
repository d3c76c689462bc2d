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
func (l *Index) Take(a netip.Addr, to Holder) (taken bool, busy <-chan struct{}) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if f := l.flights.At(a); f != nil && f.Write != nil {
		return false, f.Write.Over()
	}
	if _, owned := l.owned.at[a]; !owned && l.pool.State(a) == allocator.Reserved || !l.pool.Assume(a) {
		return false, nil // the IPAddress of another manager reserves its address too
	}
	l.enterFlight(&inflight.Flight{Address: a}, to)
	return true, nil
}

// TakeOver hands an address that a Service has in flight to a later review of that Service, and is
// false if it has not: reviews of one without a name may be about different Services. The API
// server asks again about a request that another webhook has changed, and a tenant may name an
// address that an earlier creation was given. Either way it is about to be stored, and so must not
// yield as soon as the earlier flight would have.
func (l *Index) TakeOver(a netip.Addr, to Holder) bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	f := l.flights.At(a)
	if f == nil || f.Write != nil || to.Service.Name == "" || f.Holder().Service != to.Service {
		return false
	}
	l.enterFlight(l.flights.Renew(f, l.clock.Now()), to)
	return true
}

// enterFlight enters an address that the pool assumes and no flight has; the caller holds mu.
func (l *Index) enterFlight(f *inflight.Flight, to Holder) {
	f.Since = l.clock.Now()
	if f.Until.IsZero() {
		f.Until = f.Since.Add(inFlightFor)
	}
	l.coolDowns.lift(f.Address)
	l.flights.Age(f.Since)
	if other := l.flights.Enter(f, to); other != nil {
		l.endFlight(other)
		go l.offer(other.Address) // the caller may be serving those who wait
	}
}

// offer gives waiting requests an address whose flight has ended, and tells the listeners.
func (l *Index) offer(a netip.Addr) {
	l.mu.Lock()
	l.serve(a)
	l.mu.Unlock()
	l.Wake(a)
}

// takeOut ends a flight, and leaves it to the caller, who holds mu, what its address becomes.
func (l *Index) takeOut(f *inflight.Flight) {
	l.flights.Remove(f)
	l.written.remove(f.Address)
	l.pool.Forget(f.Address)
}

// endFlight ends a flight whose address becomes what the cluster shows of it; the caller holds mu.
func (l *Index) endFlight(f *inflight.Flight) {
	a := f.Address
	l.takeOut(f)
	if e, ok := l.addresses[a]; ok {
		l.observe(a, e)
	} else if r, ok := l.coolDowns.at[a]; ok {
		l.cool(a, r)
	}
}

// held is the flight of an address that a holder still has, nil if none; the caller holds mu.
func (l *Index) held(a netip.Addr, by Holder) *inflight.Flight {
	if f := l.flights.At(a); f != nil && f.Holder() == by {
		return f
	}
	return nil
}

// Holds reports whether an address that Draw or Take handed out is still its holder's, and has not
// been handed out anew since.
func (l *Index) Holds(a netip.Addr, by Holder) bool {
	l.mu.RLock()
	defer l.mu.RUnlock()
	return l.held(a, by) != nil
}

// Forget takes back what Draw or Take handed out, unless it is another holder's by now. An address
// that had been cooling cools on.
func (l *Index) Forget(a netip.Addr, by Holder) {
	l.mu.Lock()
	f := l.held(a, by)
	if f != nil {
		f.Settle(l.clock.Now())
		l.endFlight(f)
		l.serve(a)
	}
	l.mu.Unlock()
	if f != nil {
		l.Wake(a)
	}
}

// Lost says that the API server has something else at an address than this process knows of. It is
// in flight for no Service until the watch has shown it.
func (l *Index) Lost(a netip.Addr, by Holder) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if f := l.held(a, by); f != nil {
		f.Settle(l.clock.Now())
		l.flights.Remove(f)
		l.written.remove(a)
		l.enterFlight(&inflight.Flight{Address: a, Until: l.clock.Now().Add(writeSeenWithin)}, Holder{})
	}
}

// ErrLost says that an address is not the caller's any more: the API server has something else
// there than this process knew of, or the address was handed out anew meanwhile.
var ErrLost = errors.New("another holder has the address")

// MakeRoom deletes the IPAddress of ours at an address that its holder was handed, if it is there
// for one of the purposes. After an error the address is not the holder's any more.
func (l *Index) MakeRoom(ctx context.Context, writer client.Writer, a netip.Addr, by Holder, purposes ...string) error {
	k, ok := l.Owned(a)
	if !ok {
		return nil
	}
	if !slices.Contains(purposes, k.Purpose) { // it came after the address was drawn
		l.Lost(a, by)
		return ErrLost
	}
	ip := &networkingv1.IPAddress{ObjectMeta: metav1.ObjectMeta{Name: a.String()}}
	if err := writer.Delete(ctx, ip, client.Preconditions{UID: &k.UID}); err != nil {
		return l.NotWritten(a, by, fmt.Errorf("deleting IPAddress %s: %w", a, err))
	}
	if !l.Holds(a, by) { // the API server took its time
		return ErrLost
	}
	return nil
}

// NotWritten ends the flight of an address at which its holder failed to write. The error is
// ErrLost if another writer was faster.
func (l *Index) NotWritten(a netip.Addr, by Holder, err error) error {
	if apierrors.IsNotFound(err) || apierrors.IsConflict(err) || apierrors.IsAlreadyExists(err) {
		l.Lost(a, by)
		return ErrLost
	}
	l.Forget(a, by)
	return err
}

// InFlight counts the addresses handed out or being written that the cluster does not show yet.
func (l *Index) InFlight() int {
	l.mu.RLock()
	defer l.mu.RUnlock()
	return l.flights.Len()
}

// Collisions is how many addresses were handed out to one Service and then turned out to be another
// one's. With a living leader it stays as it is.
func (l *Index) Collisions() uint64 { return l.collisions.Load() }

// BeginWrite says that an IPAddress of ours is about to be written or deleted at an address, so
// that no Service is handed it meanwhile. It is false if a Service was handed it already, or
// another write is under way. After true the caller calls EndWrite.
func (l *Index) BeginWrite(a netip.Addr) bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.flights.At(a) != nil {
		return false
	}
	l.pool.Assume(a) // what is allocated is drawn for no Service anyway
	l.enterFlight(&inflight.Flight{Address: a, Write: inflight.NewWrite()}, Holder{})
	return true
}

// EndWrite says what became of a write: the IPAddress that was written, nil for none, and the UID
// of the one that was deleted, empty for none. The address stays in flight until the watch shows
// the last of it, 5 seconds at most. It also ends what Draw began, for an address that this process
// writes itself.
func (l *Index) EndWrite(a netip.Addr, written *networkingv1.IPAddress, gone types.UID) {
	l.mu.Lock()
	f := l.flights.At(a)
	if f == nil {
		l.mu.Unlock()
		return
	}
	l.flights.BeginWrite(f, l.clock.Now().Add(writeSeenWithin))
	f.Write.Gone = gone
	if written != nil {
		k := newOwned(written)
		l.written.put(a, k)
		f.Write.Written = k.UID
	}
	if f.Write.Seen(l.owned.at[a].UID) {
		l.endFlight(f)
		l.serve(a)
	}
	l.mu.Unlock()
	l.Wake(a)
}

// Writing returns how much longer to wait until the watch shows the last write, 0 for none.
func (l *Index) Writing(a netip.Addr) time.Duration {
	l.mu.RLock()
	defer l.mu.RUnlock()
	if f := l.flights.At(a); f != nil && f.Write != nil {
		return max(f.Until.Sub(l.clock.Now()), time.Millisecond)
	}
	return 0
}

// arrived reports whether the cluster shows what an address in flight was waiting for; the caller
// holds mu. The API server's IPAddress always does, and so does that of another manager, or an
// additional one. Another IPAddress of ours is what stands there until then. A Service without an
// IPAddress counts only if it is the one that was waited for: it may be the one before, of which
// the watch of Services tells late.
func (l *Index) arrived(a netip.Addr, e entry, f *inflight.Flight) bool {
	k, owned := l.owned.at[a]
	switch {
	case owned:
		return f.Write != nil && f.Write.Written != "" && f.Write.Written == k.UID || k.Purpose == v1alpha1.PurposeAdditional
	case e.object != allocator.Free:
		return true
	default:
		return slices.Contains(e.claims, f.Holder().Service)
	}
}

// show notes that the watch has shown an address in flight, and counts it if it is another
// Service's; the caller holds mu.
func (l *Index) show(e entry, f *inflight.Flight) {
	l.flights.Show(f, l.clock.Now())
	wanted := f.Holder().Service
	if e.object != allocator.Allocated || f.Write != nil || wanted.Namespace == "" || e.parent.Name == "" {
		return
	}
	if wanted.Namespace != e.parent.Namespace || wanted.Name != "" && wanted.Name != e.parent.Name {
		l.collisions.Add(1)
		l.flights.ShowInstead(f, e.parent.Namespace, l.clock.Now())
	}
}
