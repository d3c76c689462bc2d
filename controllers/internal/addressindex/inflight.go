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
)

const (
	// inFlightFor is how long an address that was handed out stays taken although nothing in the cluster shows it. The API server writes the IPAddress
	// within milliseconds; it may take seconds when other webhooks are slow. A shorter time would hand the address out twice, a longer one would
	// keep addresses for Services that were refused for another reason.
	inFlightFor = 15 * time.Second
	// writeSeenWithin is how long a write of this process may take to come back through the watch.
	writeSeenWithin = 5 * time.Second
	// yieldAfter is the age from which an address in flight is drawn again when nothing else is free, if the watch has shown one that was handed out later.
	// Quota and validation come after the mutating webhook, so the Service may never come.
	yieldAfter = time.Second
	// yieldUnshown is the same while the watch has shown nothing: it may be behind.
	yieldUnshown = 3 * time.Second
	// maxInFlight bounds the memory of the register. API servers create a thousand Services a second at most, so this many come only from
	// somebody who is no API server; then any entry makes room for the next one.
	maxInFlight = 1 << 16
)

// inFlight is the entry of an address that this process has handed out, or at which it writes an IPAddress, and that the cluster does not show yet.
// The pool has such an address as Assumed, so that nobody draws it.
type inFlight struct {
	// to is the Service that it was handed out to. It may lack its name when the API server has yet to generate it.
	to           types.NamespacedName
	since, until time.Time
	// writing is set while this process writes an IPAddress of ours at the address, and until the watch shows that write.
	writing bool
	// written is the IPAddress that was written, gone the UID of the one that was deleted last. Both are empty while the write is under way.
	written OwnedIPAddress
	gone    types.UID
}

// Draw takes an address for somebody, of the first tier in order that has one. It stays in flight until the cluster shows it, Forget gives it back, or
// 15 seconds have passed.
//
// A free address comes first. When there is none, the one yields that has been in flight for longest, if its Service seems not to come; and then
// the one that has been cooling for longest. The error matches allocator.ErrFull when nothing is left.
func (l *Index) Draw(order []*allocator.Tier, to types.NamespacedName) (allocator.Drawn, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	drawn, err := l.drawFree(order)
	if errors.Is(err, allocator.ErrFull) {
		if a, ok := l.oldestInFlight(order); ok {
			drawn, err = allocator.Drawn{Addr: a}, nil
		} else {
			drawn, err = l.pool.Draw(allocator.Request{Tiers: order, Yield: true})
		}
	}
	if err != nil {
		return drawn, err
	}
	l.enterFlight(drawn.Addr, inFlight{to: to})
	return drawn, nil
}

// oldestInFlight returns the address of some tiers that was handed out first, if that is long enough ago; the caller holds mu. It visits
// each address in flight.
func (l *Index) oldestInFlight(order []*allocator.Tier) (oldest netip.Addr, ok bool) {
	now, since := l.clock.Now(), time.Time{}
	for a, f := range l.inFlight {
		lost := now.Sub(f.since) > yieldUnshown || now.Sub(f.since) > yieldAfter && f.since.Before(l.shown)
		older := !ok || f.since.Before(since) || f.since.Equal(since) && a.Less(oldest)
		if lost && older && !f.writing && within(order, a) {
			oldest, since, ok = a, f.since, true
		}
	}
	return oldest, ok
}

// Take hands out a chosen address that is free, cooling or reserved by us. It is not taken if somebody else has it, or has just been given it;
// and it is busy while this process writes an IPAddress there.
func (l *Index) Take(a netip.Addr, to types.NamespacedName) (taken, busy bool) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.inFlight[a].writing {
		return false, true
	}
	if _, owned := l.owned[a]; !owned && l.pool.State(a) == allocator.Reserved || !l.pool.Assume(a) {
		return false, false // the IPAddress of another manager reserves its address too
	}
	l.enterFlight(a, inFlight{to: to})
	return true, false
}

// enterFlight enters an address that the pool assumes; the caller holds mu.
func (l *Index) enterFlight(a netip.Addr, f inFlight) {
	if f.since = l.clock.Now(); f.until.IsZero() {
		f.until = f.since.Add(inFlightFor)
	}
	if _, known := l.inFlight[a]; !known && len(l.inFlight) >= maxInFlight {
		for other := range l.inFlight {
			l.land(other)
			break
		}
	}
	l.inFlight[a] = f
}

// land ends the flight of an address, which becomes what the cluster shows of it; the caller holds mu.
func (l *Index) land(a netip.Addr) {
	delete(l.inFlight, a)
	l.pool.Forget(a)
	l.room.Add(1)
	if e, ok := l.addresses[a]; ok {
		l.observe(a, e)
	} else if r, ok := l.cooling[a]; ok {
		l.cool(a, r)
	}
}

// Forget takes back what Draw or Take handed out. An address that had been cooling cools on.
func (l *Index) Forget(a netip.Addr) {
	l.mu.Lock()
	_, known := l.inFlight[a]
	if known {
		l.land(a)
	}
	l.mu.Unlock()
	if known {
		l.Wake(a)
	}
}

// Lost says that the API server has something else at an address than this process knows of. It is in flight for nobody until the watch has shown it.
func (l *Index) Lost(a netip.Addr) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if _, ok := l.inFlight[a]; ok {
		l.enterFlight(a, inFlight{until: l.clock.Now().Add(writeSeenWithin)})
	}
}

// ErrLost says that the API server has something else at an address than this process knew of: somebody was faster.
var ErrLost = errors.New("somebody else has the address")

// MakeRoom deletes the IPAddress of ours at an address that is in flight, if it is there for one of the purposes. After an error the address is
// not the caller's any more.
func (l *Index) MakeRoom(ctx context.Context, writer client.Writer, a netip.Addr, purposes ...string) error {
	k, ok := l.Owned(a)
	if !ok {
		return nil
	}
	if !slices.Contains(purposes, k.Purpose) { // it came after the address was drawn
		l.Lost(a)
		return ErrLost
	}
	ip := &networkingv1.IPAddress{ObjectMeta: metav1.ObjectMeta{Name: a.String()}}
	if err := writer.Delete(ctx, ip, client.Preconditions{UID: &k.UID}); err != nil {
		return l.NotWritten(a, fmt.Errorf("deleting IPAddress %s: %w", a, err))
	}
	return nil
}

// NotWritten ends the flight of an address at which a write failed. The error is ErrLost if somebody else was faster.
func (l *Index) NotWritten(a netip.Addr, err error) error {
	if apierrors.IsNotFound(err) || apierrors.IsConflict(err) || apierrors.IsAlreadyExists(err) {
		l.Lost(a)
		return ErrLost
	}
	l.Forget(a)
	return err
}

// HandedTo returns who this process gave an address to that the cluster does not show yet.
func (l *Index) HandedTo(a netip.Addr) (types.NamespacedName, bool) {
	l.mu.RLock()
	defer l.mu.RUnlock()
	if f := l.inFlight[a]; !f.writing {
		return f.to, f.to != types.NamespacedName{}
	}
	return types.NamespacedName{}, false
}

// InFlight is the number of addresses that were handed out, or are being written, and that the cluster does not show yet.
func (l *Index) InFlight() int {
	l.mu.RLock()
	defer l.mu.RUnlock()
	return len(l.inFlight)
}

// Collisions is how many addresses were handed out to one Service and then turned out to be another one's. With a living leader it stays as it is.
func (l *Index) Collisions() uint64 { return l.collisions.Load() }

// BeginWrite says that an IPAddress of ours is about to be written or deleted at an address, so that nobody is handed it meanwhile. It is false if
// somebody was handed it already, or another write is under way. After true the caller calls EndWrite.
func (l *Index) BeginWrite(a netip.Addr) bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	if _, ok := l.inFlight[a]; ok {
		return false
	}
	l.pool.Assume(a) // what is allocated is nobody's to draw anyway
	l.enterFlight(a, inFlight{writing: true})
	return true
}

// EndWrite says what became of a write: the IPAddress that was written, nil for none, and the UID of the one that was deleted, empty for none. The
// address stays in flight until the watch shows the last of it, 5 seconds at most. It also ends what Draw began, for an address that this process
// writes itself.
func (l *Index) EndWrite(a netip.Addr, written *networkingv1.IPAddress, gone types.UID) {
	l.mu.Lock()
	f, ok := l.inFlight[a]
	if !ok {
		l.mu.Unlock()
		return
	}
	f.writing, f.gone, f.until = true, gone, l.clock.Now().Add(writeSeenWithin)
	if written != nil {
		f.written = newOwned(written)
	}
	if f.seen(l.owned[a].UID) {
		l.land(a)
	} else {
		l.inFlight[a] = f
	}
	l.mu.Unlock()
	l.Wake(a)
}

// seen reports whether the watch shows the last write, when it shows an IPAddress of ours with this UID, empty for none.
func (f inFlight) seen(at types.UID) bool {
	if f.written.UID != "" {
		return at == f.written.UID
	}
	return at != f.gone || at == ""
}

// Writing returns how much longer to wait for the last write at an address to be seen, 0 if there is none.
func (l *Index) Writing(a netip.Addr) time.Duration {
	l.mu.RLock()
	defer l.mu.RUnlock()
	if f := l.inFlight[a]; f.writing {
		return max(f.until.Sub(l.clock.Now()), time.Millisecond)
	}
	return 0
}

// arrived reports whether the cluster shows what an address in flight was waiting for; the caller holds mu. The API server's IPAddress always does, and
// so does that of another manager, or an additional one. Another IPAddress of ours is what stands there until then. A Service without an IPAddress
// counts only if it is the one that was waited for: it may be the one before, of which the watch of Services tells late.
func (l *Index) arrived(a netip.Addr, e entry, f inFlight) bool {
	k, owned := l.owned[a]
	switch {
	case owned:
		return f.written.UID != "" && f.written.UID == k.UID || k.Purpose == v1alpha1.PurposeAdditional
	case e.object != allocator.Free:
		return true
	default:
		return slices.Contains(e.claims, f.to)
	}
}

// show notes that the watch has shown an address that was in flight, and counts it if it is another Service's; the caller holds mu.
func (l *Index) show(e entry, f inFlight) {
	if f.since.After(l.shown) {
		l.shown = f.since
	}
	wanted := f.to
	if e.object != allocator.Allocated || f.writing || wanted.Namespace == "" || e.parent.Name == "" {
		return
	}
	if wanted.Namespace != e.parent.Namespace || wanted.Name != "" && wanted.Name != e.parent.Name {
		l.collisions.Add(1)
	}
}
