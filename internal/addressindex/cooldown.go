package addressindex

import (
	"net/netip"
	"time"

	"k8s.io/apimachinery/pkg/types"

	"github.com/clusterip-operator/clusterip-operator/allocator"
)

// Rules say which addresses are reserved, and for how long freed ones cool down. The index calls
// them with its lock held: they must neither block nor ask the index.
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

// CoolDown is that of an address whose Service is gone.
type CoolDown struct {
	// Service is the Service that had it.
	Service types.NamespacedName
	// Released is when it was freed.
	Released time.Time
	// doubtful: its Service has not been seen. Watches of IPAddresses and Services have no order.
	doubtful bool
	// Surplus: later addresses of its namespace take the place of its cool-down, which ends early.
	Surplus bool
	// over: its time is over, and the listeners were told, but its IPAddress is still there.
	over bool
}

// doubt is how long an address cools down of which only the IPAddress was seen. Its Service may
// have been there nevertheless; if not, the creation failed, and no Service needs the cool-down.
const doubt = 2 * time.Second

// Cooling returns which Service had a cooling address, by an IPAddress or this process alone (State
// tells which); also while the address is in flight, because it cools on if it is not used.
func (ix *Index) Cooling(a netip.Addr) (CoolDown, bool) {
	ix.mu.RLock()
	defer ix.mu.RUnlock()
	c, ok := ix.coolDowns.at[a]
	c.over = false
	return c, ok && !c.doubtful
}

// SetRules replaces the rules. What has cooled long enough by them is free after the next Sweep.
func (ix *Index) SetRules(r Rules) {
	ix.mu.Lock()
	defer ix.mu.Unlock()
	ix.rules = r
}

// Sweep ends flights and cool-downs whose time is over, and wakes the listeners of these addresses.
// Call it about once a second. It visits the flights that end and each address that cools down,
// because the rules, which say for how long, may have changed.
func (ix *Index) Sweep() {
	for _, a := range ix.overdue() {
		ix.Wake(a)
	}
}

// atATime is how many addresses a Sweep visits before it lets waiting creations have the lock.
const atATime = 256

func (ix *Index) overdue() (ended []netip.Addr) {
	ix.mu.Lock()
	defer ix.mu.Unlock()
	now, visited := ix.clock.Now(), 0
	pause := func() {
		if visited++; visited%atATime == 0 {
			ix.mu.Unlock()
			ix.mu.Lock()
		}
	}
	ix.flights.Age(now)
	ix.flights.Forgive(now)
	for f := ix.flights.Over(now); f != nil; f = ix.flights.Over(now) {
		ix.endFlight(f)
		ix.serve(f.Address)
		ended = append(ended, f.Address)
		pause()
	}
	for a := range ix.coolDowns.at {
		if ix.endCoolDown(a, now) {
			ix.serve(a)
			ended = append(ended, a)
		}
		pause()
	}
	return ended
}

// endCoolDown frees an address that has cooled for long enough, unless its IPAddress is still
// there. It reports whether listeners must be told; the caller holds mu.
func (ix *Index) endCoolDown(a netip.Addr, now time.Time) bool {
	c, ok := ix.coolDowns.at[a]
	if !ok || ix.pool.State(a) == allocator.Assumed {
		return false
	}
	over := !now.Before(ix.cooledAt(a, c))
	if over == c.over {
		return false
	}
	c.over = over
	ix.coolDowns.at[a] = c
	if _, object := ix.owned.at[a]; over && !object {
		ix.coolDowns.drop(a)
		ix.pool.Release(a)
	}
	return over
}

// cool lets an address cool down; the caller holds mu.
func (ix *Index) cool(a netip.Addr, c CoolDown) {
	ix.coolDowns.put(a, c)
	ix.pool.Cool(a, c.Released)
}

// cooledAt is when an address has cooled down for long enough; the caller holds mu.
func (ix *Index) cooledAt(a netip.Addr, c CoolDown) time.Time {
	if c.Surplus {
		return c.Released
	}
	d := ix.rules.CoolsDown(a)
	if c.doubtful {
		d = min(d, doubt)
	}
	return c.Released.Add(d)
}
