package addressindex

import (
	"fmt"
	"math"
	"math/rand/v2"
	"net/netip"
	"slices"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"k8s.io/apimachinery/pkg/types"

	"github.com/clusterip-operator/clusterip-operator/allocator"
	"github.com/clusterip-operator/clusterip-operator/api/v1alpha1"
)

// slowRegister is a register that is right for reasons that a reader sees at once: it looks at
// everything for each question.
type slowRegister struct {
	flights map[netip.Addr]*slowFlight
	// missing is how many addresses of a namespace had not arrived at a time.
	missing map[string]float64
	at      map[string]time.Time
	shown   time.Time
	took    []arrival
}

type arrival struct {
	after time.Duration
	at    time.Time
}

// pace is the longest time that an address took, of those that count less by the time.
func (s *slowRegister) pace(now time.Time) (longest float64) {
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
	service      types.NamespacedName // whose additional address was written
}

func (s *slowRegister) count(namespace string, now time.Time) float64 {
	return s.missing[namespace] * math.Pow(0.5, now.Sub(s.at[namespace]).Seconds()/halfLife.Seconds())
}

func (s *slowRegister) add(namespace string, n float64, now time.Time) {
	if namespace != "" {
		s.missing[namespace], s.at[namespace] = max(0, s.count(namespace, now)+n), now
	}
}

func (s *slowRegister) forgive(now time.Time) {
	for namespace := range s.missing {
		if s.count(namespace, now) < 0.5 {
			s.missing[namespace] = 0
		}
	}
}

func (s *slowRegister) age(now time.Time) {
	for _, f := range s.flights {
		age := now.Sub(f.since)
		if !f.late && !f.write && f.namespace != "" && (age >= unshownFor || age >= overtakenFor && f.since.Before(s.shown)) {
			f.late = true
			s.add(f.namespace, 1, now)
		}
	}
}

// yields says of an address how willingly it yields: the namespace's count, and its age; not at all
// without ok.
func (s *slowRegister) yields(f *slowFlight, now time.Time) (count float64, ok bool) {
	whole, n := yieldUnshown, s.count(f.namespace, now)
	if f.since.Before(s.shown) {
		whole = yieldAfter
	}
	if f.write || f.namespace == "" {
		return 0, false
	}
	slow := time.Duration(2 * s.pace(now) * float64(time.Second))
	if patience := max(yieldSoonest, slow, time.Duration(float64(whole)/(1+max(0, n-2)))); now.Sub(f.since) >= patience {
		return n, true
	}
	return 0, false
}

// next are the addresses of which one yields next: those of one time are as good as one another.
func (s *slowRegister) next(order []*allocator.Tier, now time.Time) (best []netip.Addr) {
	var bestCount float64
	var bestSince time.Time
	for a, f := range s.flights {
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

// TestRegisterAgainstAnOracle takes random steps, and asks after each who yields, what moves, what
// is over and what was written.
func TestRegisterAgainstAnOracle(t *testing.T) {
	for seed := range uint64(30) {
		random := rand.New(rand.NewPCG(seed, 7))
		real, slow := &register{}, &slowRegister{map[netip.Addr]*slowFlight{}, map[string]float64{}, map[string]time.Time{}, time.Time{}, nil}
		var ips []netip.Addr
		for i := range 12 {
			ips = append(ips, addr(fmt.Sprintf("10.0.0.%d", i+1)), addr(fmt.Sprintf("fd00::%x", i+1)))
		}
		now, names := epoch, []string{"", "a", "b", "c"}
		for step := range 800 {
			now = now.Add(time.Duration(random.IntN(60)) * time.Millisecond)
			if random.IntN(100) == 0 {
				now = now.Add(10 * time.Second)
			}
			real.age(now)
			slow.age(now)
			stepRegister(random, real, slow, ips[random.IntN(len(ips))], names[random.IntN(len(names))], now)
			for f := real.over(now); f != nil; f = real.over(now) {
				if slow.flights[f.address].until.After(now) {
					t.Fatalf("walk %d, step %d: the flight of %s is over %s early", seed, step, f.address, slow.flights[f.address].until.Sub(now))
				}
				real.remove(f)
				delete(slow.flights, f.address)
			}
			real.age(now)
			slow.age(now)
			real.accounts.forgive(now)
			slow.forgive(now)
			compareRegisters(t, fmt.Sprintf("walk %d, step %d", seed, step), random, real, slow, ips, now)
		}
		for _, f := range real.at {
			real.remove(f)
		}
		real.age(now.Add(time.Hour))
		real.accounts.forgive(now.Add(time.Hour))
		if n := real.left(); n != 0 || len(real.accounts.young)+len(real.accounts.all) != 0 {
			t.Fatalf("walk %d: %d things are left: %+v", seed, n, *real)
		}
	}
}

// stepRegister does something with an address, twice.
func stepRegister(random *rand.Rand, real *register, slow *slowRegister, a netip.Addr, namespace string, now time.Time) {
	f, was := real.at[a], slow.flights[a]
	end := func(settled bool) {
		if settled && was.late {
			slow.add(was.namespace, -1, now)
		}
		delete(slow.flights, a)
		real.remove(f)
	}
	switch {
	case f == nil && random.IntN(6) == 0:
		real.enter(&flight{address: a, since: now, until: now.Add(inFlightFor), write: newWrite()}, Holder{})
		slow.flights[a] = &slowFlight{since: now, until: now.Add(inFlightFor), write: true}
	case f == nil:
		until := now.Add(time.Duration(random.IntN(15)) * time.Second)
		real.enter(&flight{address: a, since: now, until: until}, of(namespace, 1))
		slow.flights[a] = &slowFlight{namespace: namespace, since: now, until: until}
	case random.IntN(3) == 0: // another one is handed it
		if f.write != nil {
			return
		}
		if !was.late {
			slow.add(was.namespace, 1, now)
		}
		delete(slow.flights, a)
		real.replace(f, now)
	case random.IntN(3) == 0 && f.write == nil && f.of != nil: // a later review of its Service takes it over
		if now.Sub(was.since) >= yieldSoonest && (!was.late || was.renewed) {
			slow.add(was.namespace, 1, now)
			was.late = true
		}
		was.since, was.renewed = now, true
		next := real.renew(f, now)
		next.since, next.until = now, was.until
		real.enter(next, of(was.namespace, 2))
	case random.IntN(3) == 0: // it arrives
		if f.since.After(slow.shown) {
			slow.shown = f.since
		}
		if f.write == nil && f.of != nil {
			slow.took = append(slow.took, arrival{now.Sub(f.since), now})
		}
		real.show(f, now)
		end(true)
	case random.IntN(3) == 0: // an additional address is written there
		was.write, was.until, was.service = true, now.Add(writeSeenWithin), named(namespace)
		real.begin(f, was.until)
		real.wrote(f, OwnedIPAddress{UID: "1", Purpose: v1alpha1.PurposeAdditional, Service: was.service})
	case random.IntN(3) == 0:
		real.accounts.settle(f, now)
		end(true)
	}
}

func compareRegisters(t *testing.T, where string, random *rand.Rand, real *register, slow *slowRegister, ips []netip.Addr, now time.Time) {
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
	if got := real.yields(order, now); (got == nil) != (len(want) == 0) || got != nil && !slices.Contains(want, got.address) {
		t.Fatalf("%s: of %s yields %+v, want one of %v; counts %v", where, spans, got, want, slow.missing)
	}
	moves := false
	for a, f := range slow.flights {
		moves = moves || within(order, a)
		got := real.at[a]
		if got == nil || got.late != f.late || (got.write != nil) != f.write || got.since != f.since || got.until != f.until {
			t.Fatalf("%s: the flight of %s is %+v, want %+v", where, a, got, f)
		}
		if _, ok := real.additional[f.service][a]; ok != (f.service != types.NamespacedName{}) {
			t.Fatalf("%s: %s is listed as written for %s: %v", where, a, f.service, ok)
		}
	}
	if got := real.moving(order); got != moves || len(real.at) != len(slow.flights) {
		t.Fatalf("%s: %s moves: %v, want %v; %d are in flight, want %d", where, spans, got, moves, len(real.at), len(slow.flights))
	}
}

// A namespace that asks for more than its share loses its own addresses, the oldest first, and
// other namespaces keep theirs.
func TestShareOfANamespace(t *testing.T) {
	b, order := hugeRange(t)
	if _, err := b.Draw(order, of("other", 0)); err != nil {
		t.Fatal(err)
	}
	var first netip.Addr
	for i := range maxOfNamespace + 10 {
		drawn, err := b.Draw(order, of("much", i))
		if err != nil {
			t.Fatal(err)
		}
		if i == 0 {
			first = drawn.Addr
		}
		b.clock.SetTime(b.clock.Now().Add(time.Microsecond))
	}
	if n := b.InFlight(); n != maxOfNamespace+1 || b.State(first) != allocator.Free {
		t.Errorf("%d are in flight, want %d; the first one is %s", n, maxOfNamespace+1, b.State(first))
	}
}

// An address that is pushed out of a full share goes to a request that waits for it, at once, and
// those who listen are told.
func TestPushedOutIsServedAndTold(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b, order := hugeRange(t)
		const ip = "fd00:0:0:2::1"
		var told atomic.Bool
		b.addressListeners.add(func(a netip.Addr) { told.Store(told.Load() || a == addr(ip)) })
		if _, err := b.Draw(tier(t, ip), of("much", 0)); err != nil {
			t.Fatal(err)
		}
		b.clock.SetTime(b.clock.Now().Add(time.Microsecond))
		waits := b.await(tier(t, ip), of("friend", 0))
		for i := range maxOfNamespace {
			if _, err := b.Draw(order, of("much", 1+i)); err != nil {
				t.Fatal(err)
			}
		}
		synctest.Wait()
		if !b.Holds(addr(ip), of("friend", 0)) || !told.Load() {
			t.Errorf("it is handed on: %v; who listens was told: %v", b.Holds(addr(ip), of("friend", 0)), told.Load())
		}
		if got := <-waits; got.err != nil {
			t.Error(got.err)
		}
	})
}

// What makes room in a full register is of the namespace of which most does not arrive.
func TestWhoLeavesAFullRegister(t *testing.T) {
	b, order := hugeRange(t)
	if _, err := b.Draw(order, of("friendly", 0)); err != nil {
		t.Fatal(err)
	}
	b.pass(unshownFor) // it is as late as those of the others
	for i := range 100 {
		if _, err := b.Draw(order, of("fails", i)); err != nil {
			t.Fatal(err)
		}
	}
	b.pass(unshownFor)
	const kept = 60
	for i := range maxInFlight - kept {
		if _, err := b.Draw(order, of(fmt.Sprint("ns", i%100), i)); err != nil {
			t.Fatal(err)
		}
	}
	fails, friendly := b.flights.accounts.all["fails"], b.flights.accounts.all["friendly"]
	if n := b.InFlight(); n != maxInFlight || fails.flights.Len() != kept-1 || friendly.flights.Len() != 1 {
		t.Errorf("%d are in flight, %d of who fails, %d of who does not", n, fails.flights.Len(), friendly.flights.Len())
	}
}

// hugeRange is an index with a range that does not get full.
func hugeRange(t *testing.T) (timed, []*allocator.Tier) {
	t.Helper()
	tier, err := allocator.NewTier([]allocator.Span{mustRange("fd00:0:0:1::/64").Span()}, nil)
	if err != nil {
		t.Fatal(err)
	}
	return newTimed(rules{}), []*allocator.Tier{tier}
}

// The register remembers no more than so many namespaces that fail, those that fail most.
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

// A review that gives up late gives back what it took, and nothing that another one has by now.
func TestLateForget(t *testing.T) {
	for _, ip := range both {
		b := newTimed(rules{})
		early, late := of("ns", 1), of("ns", 2) // of one Service: an API server may ask again
		if taken, _ := b.Take(addr(ip), early); !taken {
			t.Fatal("a free address is not to be had")
		}
		b.Forget(addr(ip), late)
		b.expectHolder(t, "given back by another review", ip, "s")
		b.pass(inFlightFor)
		if taken, _ := b.Take(addr(ip), late); !taken {
			t.Fatal("an address whose time is over is not to be had")
		}
		b.Forget(addr(ip), early)
		b.Lost(addr(ip), early)
		if !b.Holds(addr(ip), late) || b.Holds(addr(ip), early) {
			t.Errorf("%s is not the later review's any more", ip)
		}
	}
}

// Who waits for a write hears of its end, however it ends.
func TestTheEndOfAWriteIsTold(t *testing.T) {
	for name, end := range map[string]func(timed, string){
		"it failed":       func(b timed, ip string) { b.EndWrite(addr(ip), nil, "") },
		"it is shown":     func(b timed, ip string) { b.objects.OnAdd(allocated(ip, "s"), false) },
		"its time is up":  func(b timed, _ string) { b.pass(inFlightFor) },
		"it is not shown": func(b timed, ip string) { b.EndWrite(addr(ip), ownedIP(ip, "", "1"), ""); b.pass(writeSeenWithin) },
	} {
		for _, ip := range both {
			b := newTimed(rules{})
			b.BeginWrite(addr(ip))
			_, busy := b.Take(addr(ip), forService("x"))
			select {
			case <-busy:
				t.Errorf("%s: it is over before that", name)
			default:
			}
			end(b, ip)
			select {
			case <-busy:
			default:
				t.Errorf("%s: nobody is told", name)
			}
		}
	}
}
