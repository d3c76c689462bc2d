package addressindex

import (
	"container/heap"
	"net/netip"
	"time"

	"k8s.io/apimachinery/pkg/types"

	"github.com/clusterip-operator/clusterip-operator/allocator"
	"github.com/clusterip-operator/clusterip-operator/api/v1alpha1"
)

const (
	// maxInFlight bounds the memory of the register: some 500 bytes for each address, 35 MB.
	maxInFlight = 1 << 16
	// maxOfNamespace is how many addresses of one namespace are in flight at most, so that no
	// namespace fills the register. An API server creates a thousand Services a second at most:
	// these are four seconds of its work.
	maxOfNamespace = 1 << 12
)

// Holder is the Service, and the review, that an address is handed out to.
type Holder struct {
	// Service may lack its name when the API server has yet to generate it.
	Service types.NamespacedName
	// Review is the UID of the AdmissionReview that is answered with the address. An API server
	// makes a new one for each call, also when it asks a second time about the same request. So it
	// does not tell requests apart, but reviews: one that gives up late gives back only what it
	// took itself, and not what a later review of the same Service has got meanwhile.
	Review types.UID
}

// flight is an address that this process handed out, or where it writes an IPAddress, and that the
// cluster does not show yet. The pool has it as Assumed, so that it is not drawn again.
type flight struct {
	address netip.Addr
	// of is the account of the Service's namespace, nil if the address is for no Service.
	of           *account
	name         string
	review       types.UID
	since, until time.Time
	place        int // in the queue of those whose time will be over
	// late: it was there for overtakenFor or unshownFor, and counts as one that does not arrive.
	late, landed bool
	// renewed: its Service had asked for the address before, and asked anew.
	renewed bool
	// instead is the flight that yielded the address to this one.
	instead *flight
	// write is set from when this process writes our IPAddress there until the watch shows that.
	write *write
}

// write is an IPAddress of ours that is being written or deleted.
type write struct {
	// written is the IPAddress that was written, gone the UID of the one that was deleted last.
	// Both are empty while the write is under way.
	written OwnedIPAddress
	gone    types.UID
	// over is closed when the flight ends.
	over chan struct{}
}

// holder is the Holder that the address was handed out to, the zero Holder for no Service.
func (f *flight) holder() Holder {
	if f.of == nil {
		return Holder{}
	}
	return Holder{Service: types.NamespacedName{Namespace: f.of.namespace, Name: f.name}, Review: f.review}
}

// seen reports whether the watch shows the last write, when it shows an IPAddress of ours with this
// UID, empty for none.
func (w *write) seen(at types.UID) bool {
	if w.written.UID != "" {
		return at == w.written.UID
	}
	return at != w.gone || at == ""
}

// register has the flights, and finds in logarithmic time the one that an event, a draw or the time
// asks for. It knows neither clock nor lock: times are told to it, and Index.mu guards it. The zero
// register is empty and ready.
type register struct {
	at map[netip.Addr]*flight
	// at has all by address; handed are those handed to a Service, since when; kept are the rest:
	// where this process writes, and what another process has handed out. Only handed ones yield.
	handed, kept allocator.Ages
	ends         ending
	// additional are the addresses of additional IPAddresses that were written for a Service.
	additional map[types.NamespacedName]map[netip.Addr]*flight
	accounts   accounts
	// shown is when the latest flight began that the watch has shown.
	shown time.Time
	pace  pace
}

// enter adds a flight, of an address that has none. It returns the one that has to make room, if
// the register or the share of the namespace is full; the caller removes that.
func (r *register) enter(f *flight, to Holder) (leaves *flight) {
	if r.at == nil {
		r.at = map[netip.Addr]*flight{}
	}
	if to.Service.Namespace != "" {
		f.of, f.name, f.review = r.accounts.of(to.Service.Namespace), to.Service.Name, to.Review
	}
	switch {
	case f.of != nil && f.of.flights.Len() >= maxOfNamespace:
		leaves = r.first(&f.of.flights)
	case len(r.at) >= maxInFlight:
		leaves = r.leaves()
	}
	r.at[f.address] = f
	heap.Push(&r.ends, f)
	r.ages(f).Put(f.address, f.since)
	r.accounts.enter(f)
	return leaves
}

// ages are those among which a flight is listed.
func (r *register) ages(f *flight) *allocator.Ages {
	if f.write != nil || f.of == nil {
		return &r.kept
	}
	return &r.handed
}

// leaves is the flight that a full register can do best without: the oldest of the namespace of
// which most have not arrived lately, or the oldest of all.
func (r *register) leaves() *flight {
	if worst := r.accounts.worst(); worst != nil {
		return r.first(&worst.flights)
	}
	if r.handed.Len() > 0 {
		return r.first(&r.handed)
	}
	return r.ends[0]
}

// first is the oldest flight of some.
func (r *register) first(of *allocator.Ages) *flight {
	a, _, _ := of.Oldest()
	return r.at[a]
}

// remove takes a flight out, which has arrived or not.
func (r *register) remove(f *flight) {
	f.landed = true
	delete(r.at, f.address)
	heap.Remove(&r.ends, f.place)
	r.ages(f).Remove(f.address)
	if f.write == nil {
		r.accounts.leave(f)
		return
	}
	close(f.write.over)
	r.unlist(f)
}

// show notes that the watch has shown the address of a flight.
func (r *register) show(f *flight, now time.Time) {
	if f.since.After(r.shown) {
		r.shown = f.since
	}
	if f.write == nil && f.of != nil {
		r.pace.saw(now.Sub(f.since), now)
	}
	r.accounts.settle(f, now)
}

// showInstead notes that the watch has shown the address of a flight as that of the namespace that
// had it before: it has arrived after all, and yielded too soon.
func (r *register) showInstead(f *flight, namespace string, now time.Time) {
	if was := f.instead; was != nil && was.of != nil && was.of.namespace == namespace {
		r.pace.saw(now.Sub(was.since), now)
		r.accounts.settle(was, now)
	}
}

// unlist takes a flight off the list of additional addresses of a Service.
func (r *register) unlist(f *flight) {
	service := f.write.written.Service
	own := r.additional[service]
	if own[f.address] != f {
		return
	}
	delete(own, f.address)
	if len(own) == 0 {
		delete(r.additional, service)
	}
}

// begin makes a flight one at which this process writes, until the time that is given.
func (r *register) begin(f *flight, until time.Time) {
	if f.write == nil {
		r.ages(f).Remove(f.address)
		r.accounts.leave(f)
		f.write = newWrite()
		r.ages(f).Put(f.address, f.since)
	}
	f.until = until
	heap.Fix(&r.ends, f.place)
}

func newWrite() *write { return &write{over: make(chan struct{})} }

// wrote notes the IPAddress that was written.
func (r *register) wrote(f *flight, k OwnedIPAddress) {
	r.unlist(f)
	f.write.written = k
	if k.Purpose != v1alpha1.PurposeAdditional {
		return
	}
	if r.additional == nil {
		r.additional = map[types.NamespacedName]map[netip.Addr]*flight{}
	}
	if r.additional[k.Service] == nil {
		r.additional[k.Service] = map[netip.Addr]*flight{}
	}
	r.additional[k.Service][f.address] = f
}

// yields is the flight of some tiers that is drawn again when nothing is free, nil if none is old
// enough: first of the namespaces that have failed most lately, then the oldest of all.
func (r *register) yields(order []*allocator.Tier, now time.Time) *flight {
	r.age(now)
	a, since, ok := r.handed.OldestIn(order)
	if !ok {
		return nil // which saves asking each namespace
	}
	if f := r.yieldsFirst(order, now); f != nil {
		return f
	}
	if now.Sub(since) >= r.patience(since, 0, now) {
		return r.at[a]
	}
	return nil
}

// moving reports whether an address of some tiers is in flight.
func (r *register) moving(order []*allocator.Tier) bool {
	_, _, handed := r.handed.OldestIn(order)
	_, _, kept := r.kept.OldestIn(order)
	return handed || kept
}

// over is a flight whose time is over, nil if there is none.
func (r *register) over(now time.Time) *flight {
	if len(r.ends) > 0 && !now.Before(r.ends[0].until) {
		return r.ends[0]
	}
	return nil
}

// ending is a heap of flights; the one whose time is over first is on top.
type ending []*flight

// Len implements heap.Interface.
func (e ending) Len() int { return len(e) }

// Less implements heap.Interface.
func (e ending) Less(i, j int) bool { return e[i].until.Before(e[j].until) }

// Swap implements heap.Interface.
func (e ending) Swap(i, j int) {
	e[i], e[j] = e[j], e[i]
	e[i].place, e[j].place = i, j
}

// Push implements heap.Interface.
func (e *ending) Push(f any) {
	f.(*flight).place = len(*e)
	*e = append(*e, f.(*flight))
}

// Pop implements heap.Interface.
func (e *ending) Pop() any {
	last := len(*e) - 1
	f := (*e)[last]
	(*e)[last], *e = nil, (*e)[:last]
	return f
}
