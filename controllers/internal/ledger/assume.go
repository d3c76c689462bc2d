package ledger

import (
	"errors"
	"net/netip"
	"time"

	"k8s.io/apimachinery/pkg/types"

	"github.com/clusterip-operator/clusterip-operator/allocator"
)

// assumedFor is how long an address that was handed out stays taken although nothing in the cluster shows it. The API server
// writes the IPAddress within milliseconds; it may take seconds when other webhooks are slow. Too short a time would hand the
// address out twice, too long a one holds addresses of Services that were refused for another reason.
const assumedFor = 15 * time.Second

// doubtedFor is the same for an address of which new rules say that it need not have been handed out at all: the leader takes IPAddresses of ours
// away that no policy wants any more, and may know the policies sooner.
const doubtedFor = 2 * time.Second

// lentFor is the same for an address that another replica has asked for: it hands it out at once, or not at all.
const lentFor = 6 * time.Second

// ErrBusy says that an IPAddress of ours is just being written at the address that would be handed out. Try again.
var ErrBusy = errors.New("an IPAddress is just being written there")

// Holder is who an address was handed out to.
type Holder struct {
	// Service may lack its name when the API server has yet to generate it.
	Service types.NamespacedName
}

// assumption is an address that was handed out and that the cluster does not show yet.
type assumption struct {
	to    Holder
	until time.Time
	// object is the IPAddress of ours that this process takes away to make room for the API server's.
	object types.UID
	// elsewhere: another replica handed it out; the IPAddress of ours that it took away has shown it.
	elsewhere bool
	// taken is that IPAddress, if it was one.
	taken Kept
}

// Draw takes an address of the lot for somebody. It is assumed until its IPAddress appears, Forget gives it back, or
// assumedFor has passed. The error matches allocator.ErrFull when nothing is left, and is ErrBusy when what would yield is being written.
func (l *Ledger) Draw(lot allocator.Lot, to Holder) (allocator.Drawn, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	drawn, err := l.drawn(lot)
	if err != nil {
		return drawn, err
	}
	if l.awaited(drawn.Addr) {
		l.unassume(drawn.Addr)
		return allocator.Drawn{}, ErrBusy
	}
	l.handOut(drawn.Addr, assumption{to: to, object: l.kept[drawn.Addr].UID})
	return drawn, nil
}

// Take hands out a chosen address that is free, resting or reserved by us. It is not taken if somebody else has it, or has just been given it;
// and not yet, but busy, while an IPAddress of ours is being written there.
func (l *Ledger) Take(a netip.Addr, to Holder) (taken, busy bool) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.awaited(a) {
		return false, true
	}
	k, kept := l.kept[a]
	if !kept && l.pool.State(a) == allocator.Reserved || !l.pool.Assume(a) {
		return false, false // what another manager's IPAddress holds is reserved too
	}
	l.handOut(a, assumption{to: to, object: k.UID})
	return true, false
}

// awaited reports whether an IPAddress of ours is about to appear at an address: this process is writing it, or the leader is, which
// writes down what rests after a second; the caller holds mu.
func (l *Ledger) awaited(a netip.Addr) bool {
	if _, busy := l.writing[a]; busy {
		return true
	}
	r, resting := l.resting[a]
	if _, kept := l.kept[a]; kept || !resting || r.doubtful || !l.follows() {
		return false
	}
	age := l.clock.Since(r.Released)
	return age > writtenFrom && age < writtenUntil
}

// The leader writes down what rests when it has rested for a second, and has done so some time later.
const (
	writtenFrom  = 800 * time.Millisecond
	writtenUntil = 3 * time.Second
)

// Follow says how to ask whether another process is the leader, which writes IPAddresses of ours. Without it this one is.
func (l *Ledger) Follow(follows func() bool) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.follows = follows
}

// Lend assumes a free address on behalf of another replica, which is about to hand it out; also one that rests in memory alone, which the
// other draws only when nothing is free. It is false if anything else stands there.
func (l *Ledger) Lend(a netip.Addr) bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	_, kept := l.kept[a]
	if state := l.pool.State(a); state != allocator.Free && state != allocator.Cooling {
		return false
	}
	if kept || l.awaited(a) || l.rules.Reserves(a) || !l.pool.Assume(a) {
		return false
	}
	l.handOut(a, assumption{elsewhere: true, until: l.clock.Now().Add(lentFor)})
	return true
}

// handOut books an assumption about an address that the pool assumes; the caller holds mu.
func (l *Ledger) handOut(a netip.Addr, given assumption) {
	if given.until.IsZero() {
		given.until = l.clock.Now().Add(assumedFor)
	}
	l.assumed[a] = given
	l.schedule(given.until, a)
}

// Forget takes back what Draw or Take handed out. An address that had rested rests on.
func (l *Ledger) Forget(a netip.Addr) {
	l.mu.Lock()
	_, known := l.assumed[a]
	if known {
		l.unassume(a)
	}
	l.mu.Unlock()
	if known {
		l.Wake(a)
	}
}

// unassume ends an assumption; the caller holds mu.
func (l *Ledger) unassume(a netip.Addr) {
	delete(l.assumed, a)
	l.pool.Forget(a)
	l.room.Add(1)
	if r, ok := l.resting[a]; ok && l.pool.State(a) == allocator.Free {
		l.rest(a, r)
	}
	if e, ok := l.addresses[a]; ok {
		l.observe(a, e)
	}
}

// Claimed says that the claim at an assumed address is this process's own. What another replica did there before is known by the time
// that Kept shows the claim; see HandedElsewhere.
func (l *Ledger) Claimed(a netip.Addr, claim types.UID) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if given, ok := l.assumed[a]; ok {
		given.object = claim
		l.assumed[a] = given
	}
}

// Lost says that another replica was first to take away the IPAddress of ours at an address. It stays assumed.
func (l *Ledger) Lost(a netip.Addr) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if _, ok := l.assumed[a]; ok {
		l.handOut(a, assumption{elsewhere: true})
	}
}

// HandedTo returns who this process gave an address to that the cluster does not show yet.
func (l *Ledger) HandedTo(a netip.Addr) (Holder, bool) {
	l.mu.RLock()
	defer l.mu.RUnlock()
	given, ok := l.assumed[a]
	return given.to, ok && !given.elsewhere
}

// HandedElsewhere reports whether another replica handed the address out a short while ago.
func (l *Ledger) HandedElsewhere(a netip.Addr) bool {
	l.mu.RLock()
	defer l.mu.RUnlock()
	return l.assumed[a].elsewhere
}

// Assumed is the number of addresses that were handed out and that the cluster does not show yet.
func (l *Ledger) Assumed() int {
	l.mu.RLock()
	defer l.mu.RUnlock()
	return len(l.assumed)
}

// BeginWrite says that an IPAddress of ours is about to be written at an address, so that nobody is handed it meanwhile. It is false if
// somebody was handed it already, and while somebody else writes. After true the caller calls EndWrite.
func (l *Ledger) BeginWrite(a netip.Addr) bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	if _, busy := l.writing[a]; busy || l.pool.State(a) == allocator.Assumed {
		return false
	}
	l.writing[a] = struct{}{}
	return true
}

// EndWrite ends what BeginWrite began.
func (l *Ledger) EndWrite(a netip.Addr) {
	l.mu.Lock()
	defer l.mu.Unlock()
	delete(l.writing, a)
}

// Sweep ends assumptions and rests whose time is over, and wakes whoever listens to these addresses. Call it about once a second.
// It costs what it ends.
func (l *Ledger) Sweep() {
	for _, a := range l.overdue() {
		l.Wake(a)
	}
}

func (l *Ledger) overdue() []netip.Addr {
	l.mu.Lock()
	defer l.mu.Unlock()
	now := l.clock.Now()
	var ended []netip.Addr
	for a, ok := l.deadlines.due(now); ok; a, ok = l.deadlines.due(now) {
		if l.end(a, now) {
			ended = append(ended, a)
		}
	}
	return ended
}

// end ends what is over at an address; the caller holds mu.
func (l *Ledger) end(a netip.Addr, now time.Time) bool {
	if given, ok := l.assumed[a]; ok && !now.Before(given.until) {
		l.unassume(a)
		return true
	}
	r, ok := l.resting[a]
	if !ok || l.pool.State(a) == allocator.Assumed {
		return false // an assumption has a deadline of its own
	}
	if now.Before(l.over(a, r)) {
		l.deadlines.push(l.over(a, r), a)
		return false
	}
	if _, object := l.kept[a]; !object {
		delete(l.resting, a)
		l.pool.Release(a)
		l.room.Add(1)
	}
	return true
}

// Wake tells those who listen to addresses, and to the ranges that offer it, to look again.
func (l *Ledger) Wake(a netip.Addr) {
	l.addressListeners.tell(a)
	for _, c := range l.Covering(a) {
		l.usageListeners.tell(c.Name)
	}
}
