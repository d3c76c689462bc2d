package inflight

import (
	"cmp"
	"math"
	"slices"
	"time"

	"github.com/clusterip-operator/clusterip-operator/allocator"
)

const (
	// yieldAfter is the age from which an address in flight is drawn again when nothing else is
	// free, if the watch has shown one that was handed out later. What refuses a Service behind our
	// webhook may refuse it for ever.
	yieldAfter = time.Second
	// yieldUnshown is the same while the watch has shown nothing: it may be behind.
	yieldUnshown = 3 * time.Second
	// yieldSoonest is the least age at which an address in flight yields, however few of its namespace
	// arrive: the API server needs some milliseconds to write the IPAddress, a slow one more (delay).
	yieldSoonest = 50 * time.Millisecond
	// overtakenFor is how old an address in flight is that counts as one which does not arrive, if
	// the watch has shown one that was handed out later; unshownFor is the same while it has not.
	overtakenFor = 250 * time.Millisecond
	unshownFor   = time.Second
	// halfLife is how long it takes until addresses that did not arrive count half.
	halfLife = 10 * time.Second
	// maxFailing is how many namespaces are told apart by what does not arrive. They are visited in
	// each draw that finds nothing free. Those beyond them, which fail less, yield by age.
	maxFailing = 64
)

// patience is the age at which an address in flight yields, handed out at a time, of a namespace of
// which so many have not arrived lately. Each of these but the two that one slow Service may have
// shortens it: a namespace whose creations fail now and then is treated like the rest, and one
// whose creations all fail keeps only what it asked for in the last 50 ms, whatever its rate; or in
// twice the time that other addresses took to arrive, because the API server may still write it.
func (fs *Flights) patience(since time.Time, missing float64, now time.Time) time.Duration {
	whole := yieldUnshown
	if since.Before(fs.shown) {
		whole = yieldAfter
	}
	return max(yieldSoonest, 2*fs.delay.lately(now), time.Duration(float64(whole)/(1+max(0, missing-2))))
}

// delay is how long an address takes from being handed out until the watch shows it: the longest
// time, which counts half after halfLife. The zero delay knows of none.
type delay struct {
	longest time.Duration
	at      time.Time
}

// saw notes how long an address took. What is longer than half of yieldAfter counts as that.
func (p *delay) saw(took time.Duration, now time.Time) {
	if took = min(took, yieldAfter/2); took >= p.lately(now) {
		p.longest, p.at = took, now
	}
}

func (p *delay) lately(now time.Time) time.Duration {
	return time.Duration(float64(p.longest) * math.Exp2(-float64(now.Sub(p.at))/float64(halfLife)))
}

// accounts tell what each namespace has in flight, and how many of its addresses have not arrived
// lately. The zero accounts are none.
type accounts struct {
	all map[string]*account // by namespace: all that have something in flight, or fail
	// failing are those of which addresses did not arrive lately, in no order.
	failing []*account
	// young are the flights that may still count as ones that do not arrive, the oldest first.
	young []*Flight
}

// account is what is known of a namespace.
type account struct {
	namespace string
	flights   allocator.Ages
	// missing is how many addresses had not arrived at a time; see count.
	missing float64
	at      time.Time
	// rank orders accounts by count without computing it: all counts fade alike, so it always holds.
	rank    float64
	failing bool
}

// set notes how many addresses of the namespace have not arrived.
func (a *account) set(missing float64, now time.Time) {
	a.missing, a.at = missing, now
	a.rank = math.Log2(missing) + float64(now.UnixNano())/float64(halfLife)
}

// count is how many addresses of the namespace have not arrived; older ones count less.
func (a *account) count(now time.Time) float64 {
	if a.missing == 0 {
		return 0
	}
	return a.missing * math.Exp2(-float64(now.Sub(a.at))/float64(halfLife))
}

// of returns the account of a namespace.
func (s *accounts) of(namespace string) *account {
	if a := s.all[namespace]; a != nil {
		return a
	}
	if s.all == nil {
		s.all = map[string]*account{}
	}
	a := &account{namespace: namespace}
	s.all[namespace] = a
	return a
}

// enter notes that a flight has begun.
func (s *accounts) enter(f *Flight) {
	if f.of != nil {
		f.of.flights.Put(f.Address, f.Since)
		s.young = append(s.young, f)
	}
}

// leave notes that a flight has ended, or has become a write.
func (s *accounts) leave(f *Flight) {
	if f.of != nil {
		f.of.flights.Remove(f.Address)
		s.tidy(f.of)
	}
}

// tidy forgets an account that says nothing any more.
func (s *accounts) tidy(a *account) {
	if a.flights.Len() == 0 && !a.failing {
		delete(s.all, a.namespace)
	}
}

// Age counts the flights that should have arrived by now, each once, and visits no other.
func (fs *Flights) Age(now time.Time) {
	s := &fs.accounts
	for len(s.young) > 0 {
		f, due := s.young[0], unshownFor
		if f.Since.Before(fs.shown) {
			due = overtakenFor
		}
		ended := f.landed || f.Write != nil
		if !ended && now.Sub(f.Since) < due {
			return
		}
		s.young[0], s.young = nil, s.young[1:]
		if !ended && !f.late {
			f.late = true
			s.miss(f.of, now)
		}
	}
}

// miss counts an address that does not arrive.
func (s *accounts) miss(a *account, now time.Time) {
	a.set(a.count(now)+1, now)
	if a.failing {
		return
	}
	if len(s.failing) == maxFailing {
		least := slices.MinFunc(s.failing, func(a, b *account) int { return cmp.Compare(a.rank, b.rank) })
		if a.rank <= least.rank {
			return
		}
		s.excuse(least)
	}
	a.failing = true
	s.failing = append(s.failing, a)
}

// Replace takes a flight out whose address is handed out anew: it seems not to arrive any more.
func (fs *Flights) Replace(f *Flight, now time.Time) {
	if f.of != nil && !f.late {
		f.late = true
		fs.accounts.miss(f.of, now)
	}
	f.Instead = nil
	fs.Remove(f)
}

// Renew takes a flight out whose Service asks for the address anew, and returns the one to enter
// instead. Slow creations count once, as without that, and not at all when they arrive: an API
// server asks once more about one. A tenant that asks again and again, only to keep other tenants
// from the address, counts each time.
func (fs *Flights) Renew(f *Flight, now time.Time) *Flight {
	next := &Flight{Address: f.Address, late: f.late, renewed: true}
	if now.Sub(f.Since) >= yieldSoonest && (!f.late || f.renewed) {
		fs.accounts.miss(f.of, now)
		next.late = true
	}
	fs.Remove(f)
	return next
}

// Settle takes back that a flight counts as one that does not arrive: it arrived or was given back.
// The Flights that have it must have it still.
func (f *Flight) Settle(now time.Time) {
	if f.late && f.of != nil {
		f.of.set(max(0, f.of.count(now)-1), now)
	}
}

// excuse treats a namespace like one whose addresses arrive.
func (s *accounts) excuse(a *account) {
	a.failing, a.missing = false, 0
	s.failing = slices.DeleteFunc(s.failing, func(b *account) bool { return a == b })
	s.tidy(a)
}

// Forgive excuses the namespaces whose addresses did not arrive long ago. Call it now and then.
func (fs *Flights) Forgive(now time.Time) {
	s := &fs.accounts
	for _, a := range slices.Clone(s.failing) {
		if a.count(now) < 0.5 {
			s.excuse(a)
		}
	}
}

// worst is the account that has something in flight and fails most, nil if all addresses arrive.
func (s *accounts) worst() (worst *account) {
	for _, a := range s.failing {
		if a.flights.Len() > 0 && (worst == nil || a.rank > worst.rank) {
			worst = a
		}
	}
	return worst
}

// yieldsFirst is the oldest flight in some tiers of the namespace of which most has not arrived,
// among those that are old enough to yield.
func (fs *Flights) yieldsFirst(order []*allocator.Tier, now time.Time) *Flight {
	var first *Flight
	for _, a := range fs.accounts.failing {
		if first != nil && a.rank <= first.of.rank {
			continue
		}
		if address, since, ok := a.flights.OldestIn(order); ok && now.Sub(since) >= fs.patience(since, a.count(now), now) {
			first = fs.at[address]
		}
	}
	return first
}

// YieldsAt is when a flight of some tiers may yield; false if none is in flight there.
func (fs *Flights) YieldsAt(order []*allocator.Tier, now time.Time) (at time.Time, ok bool) {
	_, since, ok := fs.handed.OldestIn(order)
	if !ok {
		return time.Time{}, false
	}
	at = since.Add(fs.patience(since, 0, now))
	for _, a := range fs.accounts.failing {
		if _, since, ok := a.flights.OldestIn(order); ok {
			if sooner := since.Add(fs.patience(since, a.count(now), now)); sooner.Before(at) {
				at = sooner
			}
		}
	}
	return at, true
}
