package ledger

import (
	"net/netip"
	"time"

	"k8s.io/apimachinery/pkg/types"

	"github.com/clusterip-operator/clusterip-operator/api/v1alpha1"
)

// Rules say which addresses are kept, and for how long freed ones rest. Their methods are asked while the ledger holds its
// lock, and must neither block nor ask the ledger.
type Rules interface {
	// CoolsDown returns how long a freed address rests; 0 for not at all.
	CoolsDown(netip.Addr) time.Duration
	// Reserves reports whether the address belongs to a reservation.
	Reserves(netip.Addr) bool
}

// noRules keep nothing.
type noRules struct{}

// CoolsDown implements Rules.
func (noRules) CoolsDown(netip.Addr) time.Duration { return 0 }

// Reserves implements Rules.
func (noRules) Reserves(netip.Addr) bool { return false }

// Rest is an address that rests after its Service is gone.
type Rest struct {
	// Service is who had it.
	Service types.NamespacedName
	// Released is when it was freed.
	Released time.Time
	// doubtful: its Service has not been seen. The watches of IPAddresses and Services have no order between them.
	doubtful bool
}

// doubt is how long an address rests of which only the IPAddress was seen: its Service may have been there nevertheless. If it was
// not, the creation had failed, and there is nobody for whose sake it should rest.
const doubt = 2 * time.Second

// Resting returns who had an address that rests, whether an IPAddress says so or this process alone; also while it is handed out to somebody, for it rests on
// if it is not used. State tells the difference.
func (l *Ledger) Resting(a netip.Addr) (Rest, bool) {
	l.mu.RLock()
	defer l.mu.RUnlock()
	r, ok := l.resting[a]
	return r, ok && !r.doubtful
}

// SetRules replaces the rules. What rests too long by the new ones is free at the next Sweep.
func (l *Ledger) SetRules(r Rules) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.rules = r
	l.doubt()
	l.reschedule()
}

// doubt makes it short for addresses that were taken for handed out elsewhere, because an IPAddress of ours went that the rules wanted, as far
// as they do not want it any more; the caller holds mu.
func (l *Ledger) doubt() {
	now := l.clock.Now()
	soon := now.Add(doubtedFor)
	for a, given := range l.assumed {
		if given.taken.Purpose == "" || given.taken.Purpose == v1alpha1.PurposeClaim || l.wanted(a, given.taken, now) || given.until.Before(soon) {
			continue
		}
		given.until = soon
		l.assumed[a] = given
	}
}

// schedule notes when to look at an address again; the caller holds mu. Addresses that are used again before their time leave their deadlines
// behind, which for a cool-down of days would pile up.
func (l *Ledger) schedule(at time.Time, a netip.Addr) {
	const few = 64
	if l.deadlines.push(at, a); len(l.deadlines) > 2*(len(l.assumed)+len(l.resting))+few {
		l.reschedule()
	}
}

// reschedule makes the deadlines anew; the caller holds mu.
func (l *Ledger) reschedule() {
	l.deadlines = nil
	for a, given := range l.assumed {
		l.deadlines.push(given.until, a)
	}
	for a, rest := range l.resting {
		l.deadlines.push(l.over(a, rest), a)
	}
}

// rest lets an address cool; the caller holds mu.
func (l *Ledger) rest(a netip.Addr, r Rest) {
	l.resting[a] = r
	l.pool.Cool(a, r.Released)
	l.schedule(l.over(a, r), a)
}

// over is when an address has rested for long enough; the caller holds mu.
func (l *Ledger) over(a netip.Addr, r Rest) time.Time {
	d := l.rules.CoolsDown(a)
	if r.doubtful {
		d = min(d, doubt)
	}
	return r.Released.Add(d)
}
