package inflight

import (
	"fmt"
	"math"
	"math/rand/v2"
	"net/netip"
	"slices"
	"testing"
	"time"

	"k8s.io/apimachinery/pkg/types"

	"github.com/clusterip-operator/clusterip-operator/allocator"
)

// epoch is when tests begin.
var epoch = time.Unix(1_700_000_000, 0).UTC()

// lasts is how long a flight lasts here, seenWithin how long after a write.
const lasts, seenWithin = 15 * time.Second, 5 * time.Second

// of is the Holder of an address: a review of some Service in a namespace.
func of(namespace string, review int) Holder {
	return Holder{Service: types.NamespacedName{Namespace: namespace, Name: "s"}, Review: types.UID(fmt.Sprint(review))}
}

// left is how much is remembered of flights.
func (fs *Flights) left() int {
	return len(fs.at) + fs.handed.Len() + fs.kept.Len() + len(fs.ends) + len(fs.accounts.all) - len(fs.accounts.failing)
}

func within(order []*allocator.Tier, a netip.Addr) bool {
	return slices.ContainsFunc(order, func(t *allocator.Tier) bool { return t.Contains(a) })
}

// slowFlights are Flights that are right for reasons that a reader sees at once: they look at
// everything for each question.
type slowFlights struct {
	at map[netip.Addr]*slowFlight
	// missing is how many addresses of a namespace had not arrived at a time.
	missing map[string]float64
	since   map[string]time.Time
	shown   time.Time
	took    []arrival
}

type arrival struct {
	after time.Duration
	at    time.Time
}

// delay is the longest time that an address took, of those that count less by the time.
func (s *slowFlights) delay(now time.Time) (longest float64) {
	for _, a := range s.took {
		longest = max(longest, min(a.after, yieldAfter/2).Seconds()*math.Pow(0.5, now.Sub(a.at).Seconds()/halfLife.Seconds()))
	}
	return longest
}

type slowFlight struct {
	namespace    string
	since, until time.Time
	late, write  bool
	renewed      bool
}

func (s *slowFlights) count(namespace string, now time.Time) float64 {
	return s.missing[namespace] * math.Pow(0.5, now.Sub(s.since[namespace]).Seconds()/halfLife.Seconds())
}

func (s *slowFlights) add(namespace string, n float64, now time.Time) {
	if namespace != "" {
		s.missing[namespace], s.since[namespace] = max(0, s.count(namespace, now)+n), now
	}
}

func (s *slowFlights) forgive(now time.Time) {
	for namespace := range s.missing {
		if s.count(namespace, now) < 0.5 {
			s.missing[namespace] = 0
		}
	}
}

func (s *slowFlights) age(now time.Time) {
	for _, f := range s.at {
		age := now.Sub(f.since)
		if !f.late && !f.write && f.namespace != "" && (age >= unshownFor || age >= overtakenFor && f.since.Before(s.shown)) {
			f.late = true
			s.add(f.namespace, 1, now)
		}
	}
}

// yields says of an address how willingly it yields: the namespace's count, and its age; not at all
// without ok.
func (s *slowFlights) yields(f *slowFlight, now time.Time) (count float64, ok bool) {
	whole, n := yieldUnshown, s.count(f.namespace, now)
	if f.since.Before(s.shown) {
		whole = yieldAfter
	}
	if f.write || f.namespace == "" {
		return 0, false
	}
	slow := time.Duration(2 * s.delay(now) * float64(time.Second))
	if patience := max(yieldSoonest, slow, time.Duration(float64(whole)/(1+max(0, n-2)))); now.Sub(f.since) >= patience {
		return n, true
	}
	return 0, false
}

// next are the addresses of which one yields next: those of one time are as good as one another.
func (s *slowFlights) next(order []*allocator.Tier, now time.Time) (best []netip.Addr) {
	var bestCount float64
	var bestSince time.Time
	for a, f := range s.at {
		n, ok := s.yields(f, now)
		if !ok || !within(order, a) {
			continue
		}
		switch {
		case len(best) == 0 || n > bestCount || n == bestCount && f.since.Before(bestSince):
			best, bestCount, bestSince = []netip.Addr{a}, n, f.since
		case n == bestCount && f.since.Equal(bestSince):
			best = append(best, a)
		}
	}
	return best
}

// TestFlightsAgainstAnOracle takes random steps, and asks after each who yields, what moves and
// what is over.
func TestFlightsAgainstAnOracle(t *testing.T) {
	for seed := range uint64(30) {
		random := rand.New(rand.NewPCG(seed, 7))
		real, slow := &Flights{}, &slowFlights{map[netip.Addr]*slowFlight{}, map[string]float64{}, map[string]time.Time{}, time.Time{}, nil}
		var ips []netip.Addr
		for i := range 12 {
			ips = append(ips, netip.MustParseAddr(fmt.Sprintf("10.0.0.%d", i+1)), netip.MustParseAddr(fmt.Sprintf("fd00::%x", i+1)))
		}
		now, names := epoch, []string{"", "a", "b", "c"}
		for i := range 800 {
			now = now.Add(time.Duration(random.IntN(60)) * time.Millisecond)
			if random.IntN(100) == 0 {
				now = now.Add(10 * time.Second)
			}
			real.Age(now)
			slow.age(now)
			step(random, real, slow, ips[random.IntN(len(ips))], names[random.IntN(len(names))], now)
			for f := real.Over(now); f != nil; f = real.Over(now) {
				if slow.at[f.Address].until.After(now) {
					t.Fatalf("walk %d, step %d: the flight of %s is over %s early", seed, i, f.Address, slow.at[f.Address].until.Sub(now))
				}
				real.Remove(f)
				delete(slow.at, f.Address)
			}
			real.Age(now)
			slow.age(now)
			real.Forgive(now)
			slow.forgive(now)
			compare(t, fmt.Sprintf("walk %d, step %d", seed, i), random, real, slow, ips, now)
		}
		for _, f := range real.at {
			real.Remove(f)
		}
		real.Age(now.Add(time.Hour))
		real.Forgive(now.Add(time.Hour))
		if n := real.left(); n != 0 || len(real.accounts.young)+len(real.accounts.all) != 0 {
			t.Fatalf("walk %d: %d things are left: %+v", seed, n, *real)
		}
	}
}

// step does something with an address, twice.
func step(random *rand.Rand, real *Flights, slow *slowFlights, a netip.Addr, namespace string, now time.Time) {
	f, was := real.at[a], slow.at[a]
	end := func(settled bool) {
		if settled && was.late {
			slow.add(was.namespace, -1, now)
		}
		delete(slow.at, a)
		real.Remove(f)
	}
	switch {
	case f == nil && random.IntN(6) == 0:
		real.Enter(&Flight{Address: a, Since: now, Until: now.Add(lasts), Write: NewWrite()}, Holder{})
		slow.at[a] = &slowFlight{since: now, until: now.Add(lasts), write: true}
	case f == nil:
		until := now.Add(time.Duration(random.IntN(15)) * time.Second)
		real.Enter(&Flight{Address: a, Since: now, Until: until}, of(namespace, 1))
		slow.at[a] = &slowFlight{namespace: namespace, since: now, until: until}
	case random.IntN(3) == 0: // another one is handed it
		if f.Write != nil {
			return
		}
		if !was.late {
			slow.add(was.namespace, 1, now)
		}
		delete(slow.at, a)
		real.Replace(f, now)
	case random.IntN(3) == 0 && f.Write == nil && f.of != nil: // a later review of its Service takes it over
		if now.Sub(was.since) >= yieldSoonest && (!was.late || was.renewed) {
			slow.add(was.namespace, 1, now)
			was.late = true
		}
		was.since, was.renewed = now, true
		next := real.Renew(f, now)
		next.Since, next.Until = now, was.until
		real.Enter(next, of(was.namespace, 2))
	case random.IntN(3) == 0: // it arrives
		if f.Since.After(slow.shown) {
			slow.shown = f.Since
		}
		if f.Write == nil && f.of != nil {
			slow.took = append(slow.took, arrival{now.Sub(f.Since), now})
		}
		real.Show(f, now)
		end(true)
	case random.IntN(3) == 0: // an IPAddress is written there
		was.write, was.until = true, now.Add(seenWithin)
		real.BeginWrite(f, was.until)
	case random.IntN(3) == 0:
		f.Settle(now)
		end(true)
	}
}

func compare(t *testing.T, where string, random *rand.Rand, real *Flights, slow *slowFlights, ips []netip.Addr, now time.Time) {
	t.Helper()
	var spans []allocator.Span
	family := allocator.Families[random.IntN(2)]
	for range 1 + random.IntN(5) {
		if a := ips[random.IntN(len(ips))]; allocator.FamilyOf(a) == family {
			spans = append(spans, allocator.Span{First: a, Last: a.Next()})
		}
	}
	tier, err := allocator.NewTier(spans, nil)
	if err != nil {
		t.Fatal(err)
	}
	order := []*allocator.Tier{tier}
	want := slow.next(order, now)
	if got := real.Yields(order, now); (got == nil) != (len(want) == 0) || got != nil && !slices.Contains(want, got.Address) {
		t.Fatalf("%s: of %s yields %+v, want one of %v; counts %v", where, spans, got, want, slow.missing)
	}
	moves := false
	for a, f := range slow.at {
		moves = moves || within(order, a)
		got := real.at[a]
		if got == nil || got.late != f.late || (got.Write != nil) != f.write || got.Since != f.since || got.Until != f.until {
			t.Fatalf("%s: the flight of %s is %+v, want %+v", where, a, got, f)
		}
	}
	if got := real.Moving(order); got != moves || len(real.at) != len(slow.at) {
		t.Fatalf("%s: %s moves: %v, want %v; %d are in flight, want %d", where, spans, got, moves, len(real.at), len(slow.at))
	}
}

// It remembers no more than so many namespaces that fail, those that fail most.
func TestFailingNamespacesAreBounded(t *testing.T) {
	s := &accounts{}
	for i := range 2 * maxFailing {
		a := s.of(fmt.Sprint("ns", i))
		for range 1 + i {
			s.miss(a, epoch)
		}
	}
	if n := len(s.failing); n != maxFailing || s.worst() != nil {
		t.Errorf("%d are remembered, want %d", n, maxFailing)
	}
	for _, a := range s.failing {
		if a.count(epoch) <= maxFailing {
			t.Errorf("%s is remembered, which failed %v times", a.namespace, a.count(epoch))
		}
	}
}

// What makes room when there are too many is of the namespace of which most does not arrive.
func TestWhoLeavesWhenThereAreTooMany(t *testing.T) {
	fs, now, a := &Flights{}, epoch, netip.MustParseAddr("fd00:0:0:1::")
	enter := func(namespace string, n int) {
		for i := range n {
			a = a.Next()
			if leaves := fs.Enter(&Flight{Address: a, Since: now, Until: now.Add(lasts)}, of(namespace, i)); leaves != nil {
				fs.Remove(leaves)
			}
		}
	}
	pass := func(d time.Duration) {
		now = now.Add(d)
		fs.Age(now)
	}
	enter("friendly", 1)
	pass(unshownFor) // it is as late as those of the others
	enter("fails", 100)
	pass(unshownFor)
	const kept = 60
	for i := range maxInFlight - kept {
		enter(fmt.Sprint("ns", i%100), 1)
	}
	fails, friendly := fs.accounts.all["fails"], fs.accounts.all["friendly"]
	if n := fs.Len(); n != maxInFlight || fails.flights.Len() != kept-1 || friendly.flights.Len() != 1 {
		t.Errorf("%d are in flight, %d of the namespace that fails, %d of the one that does not", n, fails.flights.Len(), friendly.flights.Len())
	}
}

// A slow creation that its API server asks about once more counts for nothing when it arrives.
func TestRenewedAndArrived(t *testing.T) {
	for _, ip := range []string{"10.0.0.1", "fd00::1"} {
		fs, late := &Flights{}, epoch.Add(yieldUnshown)
		fs.Enter(&Flight{Address: netip.MustParseAddr(ip), Since: epoch, Until: epoch.Add(lasts)}, of("ns", 1))
		fs.Age(late)
		next := fs.Renew(fs.At(netip.MustParseAddr(ip)), late)
		next.Since, next.Until = late, late.Add(lasts)
		fs.Enter(next, of("ns", 2))
		if n := fs.accounts.of("ns").count(late); n != 1 {
			t.Errorf("%v count as not arriving, want 1", n)
		}
		fs.Show(next, late)
		fs.Remove(next)
		if n := fs.accounts.of("ns").count(late); n != 0 {
			t.Errorf("%v count as not arriving after all has arrived", n)
		}
	}
}

// A tenant whose own creations take long cannot keep what it has in flight for longer than that.
func TestPaceIsBounded(t *testing.T) {
	var fs Flights
	fs.delay.saw(time.Hour, epoch)
	if got := fs.patience(epoch, 1000, epoch); got != yieldAfter {
		t.Errorf("an address in flight yields after %s, want %s", got, yieldAfter)
	}
}
