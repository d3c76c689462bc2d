package addressindex

import (
	"container/heap"
	"net/netip"
	"time"

	"k8s.io/apimachinery/pkg/types"

	"github.com/clusterip-operator/clusterip-operator/allocator"
)

// Rules say which addresses are reserved, and for how long freed ones cool down. Their methods are asked while the address index holds its
// lock, and must neither block nor ask the address index.
type Rules interface {
	// CoolsDown returns how long a freed address cools down; 0 for not at all.
	CoolsDown(netip.Addr) time.Duration
	// Reserves reports whether the address belongs to a reservation.
	Reserves(netip.Addr) bool
}

// noRules reserve nothing, and nothing cools down.
type noRules struct{}

// CoolsDown implements Rules.
func (noRules) CoolsDown(netip.Addr) time.Duration { return 0 }

// Reserves implements Rules.
func (noRules) Reserves(netip.Addr) bool { return false }

// CoolDown is the cool-down of an address whose Service is gone.
type CoolDown struct {
	// Service is who had it.
	Service types.NamespacedName
	// Released is when it was freed.
	Released time.Time
	// doubtful: its Service has not been seen. The watches of IPAddresses and Services have no order between them.
	doubtful bool
	// due is the deadline that was scheduled last.
	due time.Time
}

// doubt is how long an address cools down of which only the IPAddress was seen: its Service may have been there nevertheless. If it was
// not, the creation had failed, and there is nobody for whose sake the address should cool down.
const doubt = 2 * time.Second

// Cooling returns who had an address that cools down, whether an IPAddress says so or this process alone; also while it is in flight, for it cools on
// if it is not used. State tells the difference.
func (l *Index) Cooling(a netip.Addr) (CoolDown, bool) {
	l.mu.RLock()
	defer l.mu.RUnlock()
	r, ok := l.resting[a]
	r.due = time.Time{}
	return r, ok && !r.doubtful
}

// SetRules replaces the rules. What has cooled for long enough by the new ones is free after the next Sweep.
func (l *Index) SetRules(r Rules) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.rules, l.rulesChanged = r, true
}

// atATime is how many deadlines are looked at before the lock is given to somebody else.
const atATime = 256

// applyRules gives cool-downs that the new rules shorten an earlier deadline. A cool-down that they lengthen is looked at when its old deadline
// comes. Creations wait for the lock, so it is let go now and then; what comes into the map meanwhile knows the new rules already.
func (l *Index) applyRules() {
	l.mu.Lock()
	defer l.mu.Unlock()
	if !l.rulesChanged {
		return
	}
	l.rulesChanged = false
	n := 0
	for a, r := range l.resting {
		if over := l.over(a, r); over.Before(r.due) {
			r.due = over
			l.resting[a] = r
			l.schedule(over, a)
		}
		if n++; n%atATime == 0 {
			l.mu.Unlock()
			l.mu.Lock()
		}
	}
}

// Sweep ends flights and cool-downs whose time is over, and wakes whoever listens to these addresses. Call it about once a second.
// It costs what it ends.
func (l *Index) Sweep() {
	l.applyRules()
	for _, a := range l.overdue() {
		l.Wake(a)
	}
}

func (l *Index) overdue() []netip.Addr {
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
func (l *Index) end(a netip.Addr, now time.Time) bool {
	if f, ok := l.inFlight[a]; ok && !now.Before(f.until) {
		l.land(a)
		return true
	}
	r, ok := l.resting[a]
	if !ok || l.pool.State(a) == allocator.Assumed {
		return false // an address in flight has a deadline of its own
	}
	if over := l.over(a, r); now.Before(over) {
		r.due = over
		l.resting[a] = r
		l.deadlines.push(over, a)
		return false
	}
	if _, object := l.owned[a]; !object {
		delete(l.resting, a)
		l.pool.Release(a)
		l.room.Add(1)
	}
	return true
}

// schedule notes when to look at an address again; the caller holds mu. Addresses that are used again before their time leave their deadlines
// behind, which for a cool-down of days would pile up.
func (l *Index) schedule(at time.Time, a netip.Addr) {
	const few = 64
	if l.deadlines.push(at, a); len(l.deadlines) <= 2*(len(l.inFlight)+len(l.resting))+few {
		return
	}
	l.deadlines = nil
	for a, f := range l.inFlight {
		l.deadlines.push(f.until, a)
	}
	for a, r := range l.resting {
		l.deadlines.push(r.due, a)
	}
}

// rest lets an address cool down; the caller holds mu.
func (l *Index) rest(a netip.Addr, r CoolDown) {
	r.due = l.over(a, r)
	l.resting[a] = r
	l.pool.Cool(a, r.Released)
	l.schedule(r.due, a)
}

// over is when an address has cooled down for long enough; the caller holds mu.
func (l *Index) over(a netip.Addr, r CoolDown) time.Time {
	d := l.rules.CoolsDown(a)
	if r.doubtful {
		d = min(d, doubt)
	}
	return r.Released.Add(d)
}

// deadline is when an address has to be looked at again.
type deadline struct {
	at      time.Time
	address netip.Addr
}

// deadlines is a heap, the earliest first. An entry may be out of date: whoever takes it looks at the address.
type deadlines []deadline

// Len implements sort.Interface.
func (d deadlines) Len() int { return len(d) }

// Less implements sort.Interface.
func (d deadlines) Less(i, j int) bool { return d[i].at.Before(d[j].at) }

// Swap implements sort.Interface.
func (d deadlines) Swap(i, j int) { d[i], d[j] = d[j], d[i] }

// Push implements heap.Interface.
func (d *deadlines) Push(x any) { *d = append(*d, x.(deadline)) }

// Pop implements heap.Interface.
func (d *deadlines) Pop() any {
	last := (*d)[len(*d)-1]
	*d = (*d)[:len(*d)-1]
	return last
}

func (d *deadlines) push(at time.Time, a netip.Addr) { heap.Push(d, deadline{at, a}) }

// due takes out the next address whose time has come.
func (d *deadlines) due(now time.Time) (netip.Addr, bool) {
	if len(*d) == 0 || (*d)[0].at.After(now) {
		return netip.Addr{}, false
	}
	return heap.Pop(d).(deadline).address, true
}
