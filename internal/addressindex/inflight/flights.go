package inflight

import (
	"container/heap"
	"net/netip"
	"time"

	"github.com/clusterip-operator/clusterip-operator/allocator"
)

const (
	// maxInFlight bounds the memory: some 500 bytes for each address, 35 MB.
	maxInFlight = 1 << 16
	// maxOfNamespace is how many addresses of one namespace are in flight at most, so that no
	// namespace keeps the rest out. An API server creates a thousand Services a second at most:
	// these are four seconds of its work.
	maxOfNamespace = 1 << 12
)

// Flights are all that are in flight. They find in logarithmic time the one that an event, a draw
// or the time asks for. They know neither clock nor lock: the caller tells the time, and holds a
// lock that guards them and every Flight of theirs. The zero Flights are empty and ready.
type Flights struct {
	at map[netip.Addr]*Flight
	// at has all by address; handed are those handed to a Service, since when; kept are the rest:
	// where this process writes, and what another process has handed out. Only handed ones yield.
	handed, kept allocator.Ages
	ends         ending
	accounts     accounts
	// shown is when the latest flight began that the watch has shown.
	shown time.Time
	delay delay
}

// At returns the flight of an address, nil if it has none.
func (fs *Flights) At(a netip.Addr) *Flight { return fs.at[a] }

// Len is how many there are.
func (fs *Flights) Len() int { return len(fs.at) }

// Enter adds a flight, of an address that has none. It returns the one that has to make room, if
// there are too many, or too many of the namespace; the caller removes that.
func (fs *Flights) Enter(f *Flight, to Holder) (leaves *Flight) {
	if fs.at == nil {
		fs.at = map[netip.Addr]*Flight{}
	}
	if to.Service.Namespace != "" {
		f.of, f.name, f.review = fs.accounts.of(to.Service.Namespace), to.Service.Name, to.Review
	}
	switch {
	case f.of != nil && f.of.flights.Len() >= maxOfNamespace:
		leaves = fs.first(&f.of.flights)
	case len(fs.at) >= maxInFlight:
		leaves = fs.leaves()
	}
	fs.at[f.Address] = f
	heap.Push(&fs.ends, f)
	fs.ages(f).Put(f.Address, f.Since)
	fs.accounts.enter(f)
	return leaves
}

// ages are those among which a flight is listed.
func (fs *Flights) ages(f *Flight) *allocator.Ages {
	if f.Write != nil || f.of == nil {
		return &fs.kept
	}
	return &fs.handed
}

// leaves is the flight to do without when there are too many: the oldest of the namespace of
// which most have not arrived lately, or the oldest of all.
func (fs *Flights) leaves() *Flight {
	if worst := fs.accounts.worst(); worst != nil {
		return fs.first(&worst.flights)
	}
	if fs.handed.Len() > 0 {
		return fs.first(&fs.handed)
	}
	return fs.ends[0]
}

// first is the oldest flight of some.
func (fs *Flights) first(of *allocator.Ages) *Flight {
	a, _, _ := of.Oldest()
	return fs.at[a]
}

// Remove takes a flight out, which has arrived or not. If it was a write, that is over.
func (fs *Flights) Remove(f *Flight) {
	f.landed = true
	delete(fs.at, f.Address)
	heap.Remove(&fs.ends, f.place)
	fs.ages(f).Remove(f.Address)
	if f.Write == nil {
		fs.accounts.leave(f)
		return
	}
	close(f.Write.over)
}

// Show notes that the watch has shown the address of a flight.
func (fs *Flights) Show(f *Flight, now time.Time) {
	if f.Since.After(fs.shown) {
		fs.shown = f.Since
	}
	if f.Write == nil && f.of != nil {
		fs.delay.saw(now.Sub(f.Since), now)
	}
	f.Settle(now)
}

// ShowInstead notes that the watch has shown the address of a flight as that of the namespace that
// had it before: it has arrived after all, and yielded too soon.
func (fs *Flights) ShowInstead(f *Flight, namespace string, now time.Time) {
	if was := f.Instead; was != nil && was.of != nil && was.of.namespace == namespace {
		fs.delay.saw(now.Sub(was.Since), now)
		was.Settle(now)
	}
}

// BeginWrite makes a flight one at which this process writes, until the time that is given.
func (fs *Flights) BeginWrite(f *Flight, until time.Time) {
	if f.Write == nil {
		fs.ages(f).Remove(f.Address)
		fs.accounts.leave(f)
		f.Write = NewWrite()
		fs.ages(f).Put(f.Address, f.Since)
	}
	f.Until = until
	heap.Fix(&fs.ends, f.place)
}

// Yields is the flight of some tiers that is drawn again when nothing is free, nil if none is old
// enough: first of the namespaces that have failed most lately, then the oldest of all.
func (fs *Flights) Yields(order []*allocator.Tier, now time.Time) *Flight {
	fs.Age(now)
	a, since, ok := fs.handed.OldestIn(order)
	if !ok {
		return nil // which saves asking each namespace
	}
	if f := fs.yieldsFirst(order, now); f != nil {
		return f
	}
	if now.Sub(since) >= fs.patience(since, 0, now) {
		return fs.at[a]
	}
	return nil
}

// Moving reports whether an address of some tiers is in flight.
func (fs *Flights) Moving(order []*allocator.Tier) bool {
	_, _, handed := fs.handed.OldestIn(order)
	_, _, kept := fs.kept.OldestIn(order)
	return handed || kept
}

// Over is a flight whose time is over, nil if there is none.
func (fs *Flights) Over(now time.Time) *Flight {
	if len(fs.ends) > 0 && !now.Before(fs.ends[0].Until) {
		return fs.ends[0]
	}
	return nil
}

// ending is a heap of flights; the one whose time is over first is on top.
type ending []*Flight

// Len implements heap.Interface.
func (e ending) Len() int { return len(e) }

// Less implements heap.Interface.
func (e ending) Less(i, j int) bool { return e[i].Until.Before(e[j].Until) }

// Swap implements heap.Interface.
func (e ending) Swap(i, j int) {
	e[i], e[j] = e[j], e[i]
	e[i].place, e[j].place = i, j
}

// Push implements heap.Interface.
func (e *ending) Push(f any) {
	f.(*Flight).place = len(*e)
	*e = append(*e, f.(*Flight))
}

// Pop implements heap.Interface.
func (e *ending) Pop() any {
	last := len(*e) - 1
	f := (*e)[last]
	(*e)[last], *e = nil, (*e)[:last]
	return f
}
