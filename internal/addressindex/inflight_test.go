package addressindex

import (
	"errors"
	"fmt"
	"net/netip"
	"testing"
	"time"

	networkingv1 "k8s.io/api/networking/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/clusterip-operator/clusterip-operator/allocator"
	"github.com/clusterip-operator/clusterip-operator/api/v1alpha1"
)

func named(name string) types.NamespacedName {
	return types.NamespacedName{Namespace: "ns", Name: name}
}

// forService is the Holder of an address: a Service of a name.
func forService(name string) Holder { return Holder{Service: named(name)} }

// draw draws the one address that there is.
func (b timed) draw(t *testing.T, ip, to string) {
	t.Helper()
	drawn, err := b.Draw(tier(t, ip), forService(to))
	if err != nil || drawn.Addr != addr(ip) {
		t.Fatalf("drawing %s: %v, %v", ip, drawn, err)
	}
}

// handedTo is the Service that was handed an address which the cluster does not show yet.
func (ix *Index) handedTo(a netip.Addr) (to types.NamespacedName) {
	ix.mu.RLock()
	defer ix.mu.RUnlock()
	if f := ix.flights.At(a); f != nil && f.Write == nil {
		to = f.Holder().Service
	}
	return to
}

func (b timed) expectHolder(t *testing.T, what, ip, want string) {
	t.Helper()
	if got := b.handedTo(addr(ip)); got.Name != want {
		t.Errorf("%s: %s is handed to %q, want %q", what, ip, got.Name, want)
	}
}

// What ends the flight of an address, and what becomes of the address.
func TestFlightEnds(t *testing.T) {
	for name, tc := range map[string]struct {
		end  func(b timed, ip string)
		want allocator.State
	}{
		"its IPAddress appears":             {func(b timed, ip string) { b.objects.OnAdd(allocated(ip, "a"), false) }, allocator.Allocated},
		"its Service appears":               {func(b timed, ip string) { b.services.OnAdd(service("a", ip), false) }, allocator.Allocated},
		"somebody else's IPAddress":         {func(b timed, ip string) { b.objects.OnAdd(object(ip, "somebody.example"), false) }, allocator.Reserved},
		"it is given back":                  {func(b timed, ip string) { b.Forget(addr(ip), forService("a")) }, allocator.Free},
		"its time is over":                  {func(b timed, _ string) { b.pass(inFlightFor) }, allocator.Free},
		"its time is over, under new rules": {func(b timed, _ string) { b.SetRules(rules{}); b.pass(inFlightFor) }, allocator.Free},
	} {
		t.Run(name, func(t *testing.T) {
			for _, ip := range both {
				b := newTimed(rules{coolDown: time.Minute})
				b.draw(t, ip, "a")
				b.expect(t, "drawn", ip, allocator.Assumed)
				b.expectHolder(t, "drawn", ip, "a")
				b.pass(inFlightFor - time.Millisecond)
				b.expectHolder(t, "just before its time is over", ip, "a")
				if n := b.InFlight(); n != 1 {
					t.Errorf("%d are in flight, want 1", n)
				}
				b.clock.SetTime(epoch)
				var woken bool
				b.addressListeners.add(func(a netip.Addr) { woken = woken || a == addr(ip) })
				tc.end(b, ip)
				b.expect(t, "then", ip, tc.want)
				b.expectHolder(t, "then", ip, "")
				if n := b.InFlight(); n != 0 || !woken {
					t.Errorf("%d are in flight, want none; listeners were woken: %v", n, woken)
				}
			}
		})
	}
}

// No Service is handed what another was handed, by whatever way.
func TestInFlightIsNobodyElses(t *testing.T) {
	for _, ip := range both {
		b := newTimed(rules{})
		b.draw(t, ip, "a")
		b.pass(yieldAfter)
		if _, err := b.Draw(tier(t, ip), forService("b")); !errors.Is(err, allocator.ErrFull) {
			t.Errorf("drawing %s again: %v, want that nothing is left", ip, err)
		}
		for _, name := range []string{"a", "b"} {
			if taken, busy := b.Take(addr(ip), forService(name)); taken || busy != nil {
				t.Errorf("%s takes what was handed out: %v, %v", name, taken, busy != nil)
			}
		}
		if b.BeginWrite(addr(ip)) {
			t.Error("an IPAddress may be written at what was handed out")
		}
		b.expectHolder(t, "at the end", ip, "a")
	}
}

// What a Service has in flight goes on to a later review of it, as young as if it had been taken
// then: the API server is about to store it. No other review of the Service, and no other Service,
// has it any more, or gets it by this.
func TestTakeOver(t *testing.T) {
	for _, ip := range both {
		b := newTimed(rules{})
		b.draw(t, ip, "a")
		early, late := forService("a"), Holder{Service: named("a"), Review: "late"}
		b.pass(yieldUnshown)
		for what, by := range map[string]Holder{"another Service": forService("b"), "a Service without a name": {Service: named("")}, "no Service": {}} {
			if b.TakeOver(addr(ip), by) {
				t.Fatalf("%s takes over what was handed to one", what)
			}
		}
		if !b.TakeOver(addr(ip), late) || b.Holds(addr(ip), early) || !b.Holds(addr(ip), late) {
			t.Fatal("the later review has not got what its Service has in flight")
		}
		b.pass(yieldSoonest - time.Millisecond)
		if _, err := b.Draw(tier(t, ip), forService("b")); !errors.Is(err, allocator.ErrFull) {
			t.Errorf("drawing %s again: %v, want that nothing is left", ip, err)
		}
		b.Forget(addr(ip), early)
		b.expect(t, "given back by the earlier review", ip, allocator.Assumed)
		b.objects.OnAdd(allocated(ip, "a"), false)
		b.expect(t, "it arrives", ip, allocator.Allocated)
		if n := b.InFlight(); n != 0 {
			t.Errorf("%d are in flight, want none", n)
		}
		if b.TakeOver(addr(ip), late) {
			t.Error("what has arrived can be taken over")
		}
	}
}

// A tenant that takes the same address again and again, and never creates the Service, does not
// keep it from other Services.
func TestTakingOverKeepsNobodyOut(t *testing.T) {
	for _, ip := range both {
		b := newTimed(rules{})
		b.draw(t, ip, "a")
		for i := range 100 {
			b.pass(2 * yieldSoonest)
			if _, err := b.Draw(tier(t, ip), of("friend", 1)); err == nil {
				break
			}
			if !b.TakeOver(addr(ip), forService("a")) || i == 99 {
				t.Fatalf("after %d times %s is still its own", i, ip)
			}
		}
	}
}

// An address that another replica has just handed out is in flight for no Service that this replica
// knows of, and is not drawn again while that lasts.
func TestInFlightForNoServiceYieldsToNone(t *testing.T) {
	for _, ip := range both {
		b := newTimed(reserving(ip))
		b.objects.OnAdd(ownedIP(ip, v1alpha1.PurposeReservation, "1"), true)
		b.objects.OnDelete(ownedIP(ip, v1alpha1.PurposeReservation, "1"))
		b.expect(t, "another replica has made room", ip, allocator.Assumed)
		b.pass(handedElsewhere - time.Millisecond)
		b.draw(t, "10.0.0.1", "later")
		b.serve("later", "10.0.0.1")
		if drawn, err := b.Draw(tier(t, ip), forService("b")); !errors.Is(err, allocator.ErrFull) {
			t.Errorf("drawing %s: %v, %v; want that nothing is left", ip, drawn, err)
		}
		if !b.moving(tier(t, ip)) {
			t.Error("it does not move")
		}
		b.pass(time.Millisecond)
		b.expect(t, "nothing has come of it", ip, allocator.Free)
	}
}

func TestTake(t *testing.T) {
	for name, tc := range map[string]struct {
		before func(b timed, ip string)
		want   bool
	}{
		"free":                 {func(timed, string) {}, true},
		"cooling":              {func(b timed, ip string) { b.served("a", ip) }, true},
		"cooling by an object": {func(b timed, ip string) { b.objects.OnAdd(cooling(ip, "1", "a", epoch), true) }, true},
		"reserved":             {func(b timed, ip string) { b.objects.OnAdd(ownedIP(ip, v1alpha1.PurposeReservation, "1"), true) }, true},
		"somebody else's":      {func(b timed, ip string) { b.objects.OnAdd(object(ip, "somebody.example"), true) }, false},
		"in use":               {func(b timed, ip string) { b.serve("a", ip) }, false},
		"claimed alone":        {func(b timed, ip string) { b.services.OnAdd(service("a", ip), true) }, false},
		"additional":           {func(b timed, ip string) { b.objects.OnAdd(ownedIP(ip, v1alpha1.PurposeAdditional, "1"), true) }, false},
		"being written":        {func(b timed, ip string) { b.BeginWrite(addr(ip)) }, false},
		"written":              {func(b timed, ip string) { b.BeginWrite(addr(ip)); b.EndWrite(addr(ip), nil, "") }, true},
	} {
		t.Run(name, func(t *testing.T) {
			for _, ip := range both {
				b := newTimed(rules{coolDown: time.Hour})
				tc.before(b, ip)
				state := b.State(addr(ip))
				if got, busy := b.Take(addr(ip), forService("x")); got != tc.want || (busy != nil) != (name == "being written") {
					t.Fatalf("taking %s: %v, busy: %v; want %v", ip, got, busy != nil, tc.want)
				}
				if !tc.want {
					b.expect(t, "not taken", ip, state)
					b.expectHolder(t, "not taken", ip, "")
					continue
				}
				b.expect(t, "taken", ip, allocator.Assumed)
				b.expectHolder(t, "taken", ip, "x")
				b.Forget(addr(ip), forService("x"))
				b.expect(t, "given back", ip, state)
			}
		})
	}
}

// The way of an address that is kept for a Service and then handed to it: our IPAddress is deleted,
// the API server's appears. At no moment can another Service have it.
func TestMakingRoom(t *testing.T) {
	for _, tc := range []struct{ name, purpose string }{
		{"a reservation", v1alpha1.PurposeReservation}, {"a cooling address", v1alpha1.PurposeCooling},
	} {
		t.Run(tc.name, func(t *testing.T) {
			for _, ip := range both {
				r := reserving(ip)
				r.coolDown = time.Hour
				b := newTimed(r)
				ours := ownedIP(ip, tc.purpose, "1")
				b.objects.OnAdd(ours, true)
				if taken, _ := b.Take(addr(ip), forService("x")); !taken {
					t.Fatal("it cannot be taken")
				}
				b.objects.OnDelete(ours)
				b.expect(t, "made room", ip, allocator.Assumed)
				b.expectHolder(t, "made room", ip, "x")
				b.objects.OnAdd(allocated(ip, "x"), false)
				b.expect(t, "arrived", ip, allocator.Allocated)
				b.expectHolder(t, "arrived", ip, "")
			}
		})
	}
}

// The watch of Services is late: it tells of the former Service of an address after the next draw.
func TestLateNewsOfTheServiceBefore(t *testing.T) {
	for _, ip := range []string{"10.0.0.9", "fd00::9"} {
		b := newTimed(rules{})
		if taken, _ := b.Take(addr(ip), forService("new")); !taken {
			t.Fatal("a free address is not to be had")
		}
		old := service("old", ip)
		b.services.OnAdd(old, false)
		b.expect(t, "told of the one before", ip, allocator.Assumed)
		b.services.OnDelete(old)
		b.expect(t, "told that it is gone", ip, allocator.Assumed)
		b.objects.OnAdd(object(ip, v1alpha1.ManagedByAPIServer), false)
		b.expect(t, "its IPAddress is there", ip, allocator.Allocated)
	}
}

// What has been in flight for more than a second yields when the watch shows a later one, the
// oldest first, before anything that cools down and before a refusal.
func TestInFlightYields(t *testing.T) {
	for _, ips := range [][]string{{"10.0.0.1", "10.0.0.2", "10.0.0.3"}, {"fd00::1", "fd00::2", "fd00::3"}} {
		b := newTimed(rules{coolDown: time.Hour})
		b.served("s", ips[2])
		for i, ip := range ips[:2] {
			b.draw(t, ip, fmt.Sprint("s", i))
			b.pass(100 * time.Millisecond)
		}
		other := map[string]string{"10.0.0.1": "10.0.0.99", "fd00::1": "fd00::99"}[ips[0]]
		b.draw(t, other, "later")
		b.pass(yieldAfter - 150*time.Millisecond) // the first is old enough, the second is not
		if _, err := b.Draw(tier(t, ips[:2]...), forService("early")); !errors.Is(err, allocator.ErrFull) {
			t.Errorf("the watch may be behind: %v", err)
		}
		b.serve("later", other)
		l := tier(t, ips...)
		if b.Full(l) {
			t.Error("full, although one may yield")
		}
		for i, want := range []string{ips[0], ips[2]} {
			drawn, err := b.Draw(l, forService(fmt.Sprint("new", i)))
			if err != nil || drawn.Addr != addr(want) {
				t.Fatalf("draw %d: %v, %v; want %s", i, drawn, err, want)
			}
			b.expectHolder(t, "drawn again", want, fmt.Sprint("new", i))
		}
		if _, err := b.Draw(l, forService("x")); !errors.Is(err, allocator.ErrFull) || !b.Full(l) {
			t.Errorf("drawing what was handed out a moment ago: %v; full: %v", err, b.Full(l))
		}
		b.expectHolder(t, "too young to yield", ips[1], "s1")
	}
}

// A tenant whose creations all fail leaves room in a small range, and uses up no cool-down.
func TestFailingCreationsKeepNobodyOut(t *testing.T) {
	b := newTimed(rules{coolDown: time.Hour})
	var ips []string
	for i := range 100 {
		ips = append(ips, fmt.Sprintf("10.0.0.%d", i+1))
	}
	b.served("s", ips[0])
	l := tier(t, ips...)
	for i := range 600 { // 20 a second, half a minute
		if _, err := b.Draw(l, forService("quota")); err != nil {
			t.Fatalf("after %d creations that failed: %v", i, err)
		}
		b.pass(50 * time.Millisecond)
	}
	b.expect(t, "while others had to yield", ips[0], allocator.Cooling)
}

// An API server that takes its time is waited for, and is not asked to give one address to two
// Services: what a tenant has in flight whose creations all fail yields later there. When the API
// server is fast again, it yields sooner again.
func TestASlowAPIServerIsWaitedFor(t *testing.T) {
	for _, ips := range [][]string{{"10.0.0.1", "10.0.0.2"}, {"fd00::1", "fd00::2"}} {
		b := newTimed(rules{})
		fails := func() { // 90 creations of which none arrives
			for i := range 90 {
				last := netip.MustParseAddr(ips[0]).AsSlice()
				last[len(last)-1] += byte(10 + i)
				other, _ := netip.AddrFromSlice(last)
				b.draw(t, other.String(), "failing")
			}
			b.pass(unshownFor)
			b.draw(t, ips[0], "failing")
			b.pass(time.Millisecond)
		}
		arrives := func(after time.Duration) { // before the last of them, which began earlier
			b.draw(t, ips[1], "other")
			b.pass(after)
			b.served("other", ips[1])
		}
		yields := func(after time.Duration) {
			t.Helper()
			b.pass(after - 10*time.Millisecond)
			if _, err := b.Draw(tier(t, ips[0]), forService("early")); !errors.Is(err, allocator.ErrFull) {
				t.Errorf("%s yields early: %v", ips[0], err)
			}
			b.pass(20 * time.Millisecond)
			b.draw(t, ips[0], "neighbour")
		}
		fails()
		arrives(200 * time.Millisecond)
		yields(200 * time.Millisecond)
		b.pass(time.Minute)
		fails()
		arrives(20 * time.Millisecond)
		yields(yieldSoonest - 20*time.Millisecond)
		// The tenant's Service comes late all the same.
		b.pass(250 * time.Millisecond)
		b.objects.OnAdd(allocated(ips[0], "failing"), false)
		if b.Collisions() != 1 {
			t.Fatalf("%d collisions", b.Collisions())
		}
		b.objects.OnDelete(allocated(ips[0], "failing"))
		b.draw(t, ips[0], "failing")
		yields(2 * (yieldSoonest + 250*time.Millisecond))
	}
}

// What is in flight does not grow without end, and drawing goes on.
func TestInFlightIsBounded(t *testing.T) {
	b := newTimed(rules{})
	span := mustRange("fd00:0:0:1::/64").Span()
	tier, err := allocator.NewTier([]allocator.Span{span}, nil)
	if err != nil {
		t.Fatal(err)
	}
	for range maxInFlight + 10 {
		if _, err := b.Draw([]*allocator.Tier{tier}, Holder{}); err != nil {
			t.Fatal(err)
		}
	}
	if n := b.InFlight(); n != maxInFlight {
		t.Errorf("%d are in flight, want %d", n, maxInFlight)
	}
	if u := b.Usage(span); u.Allocated+u.Reserved+u.Cooling+u.Free != u.Size || u.Free != u.Size || u.Assumed != maxInFlight {
		t.Errorf("the pool has %+v", u)
	}
	b.pass(inFlightFor)
	if n := b.InFlight(); n != 0 {
		t.Errorf("%d are in flight after their time", n)
	}
}

// No Service is handed an address where we write or delete an IPAddress, until the watch shows it.
func TestWrites(t *testing.T) {
	for _, ip := range both {
		for name, tc := range map[string]struct {
			before *networkingv1.IPAddress
			write  func(b timed) (made *networkingv1.IPAddress, gone types.UID)
			shown  func(b timed)
			want   allocator.State
		}{
			"a reservation is written": {
				write: func(timed) (*networkingv1.IPAddress, types.UID) {
					return ownedIP(ip, v1alpha1.PurposeReservation, "1"), ""
				},
				shown: func(b timed) { b.objects.OnAdd(ownedIP(ip, v1alpha1.PurposeReservation, "1"), false) },
				want:  allocator.Reserved,
			},
			"a cooling address is written": {
				write: func(timed) (*networkingv1.IPAddress, types.UID) { return cooling(ip, "1", "s", epoch), "" },
				shown: func(b timed) { b.objects.OnAdd(cooling(ip, "1", "s", epoch), false) },
				want:  allocator.Cooling,
			},
			"a reservation is deleted": {
				before: ownedIP(ip, v1alpha1.PurposeReservation, "1"),
				write:  func(timed) (*networkingv1.IPAddress, types.UID) { return nil, "1" },
				shown:  func(b timed) { b.objects.OnDelete(ownedIP(ip, v1alpha1.PurposeReservation, "1")) },
				want:   allocator.Free,
			},
			"a reservation is written anew": {
				before: ownedIP(ip, v1alpha1.PurposeReservation, "1"),
				write: func(timed) (*networkingv1.IPAddress, types.UID) {
					return ownedIP(ip, v1alpha1.PurposeReservation, "2"), "1"
				},
				shown: func(b timed) {
					b.objects.OnDelete(ownedIP(ip, v1alpha1.PurposeReservation, "1"))
					b.expect(t, "deleted", ip, allocator.Assumed)
					b.objects.OnAdd(ownedIP(ip, v1alpha1.PurposeReservation, "2"), false)
				},
				want: allocator.Reserved,
			},
		} {
			for order, end := range map[string]func(b timed){
				"the write is seen after its answer": func(b timed) {
					made, gone := tc.write(b)
					b.EndWrite(addr(ip), made, gone)
					b.expect(t, name+", answered", ip, allocator.Assumed)
					tc.shown(b)
				},
				"the write is seen before its answer": func(b timed) {
					tc.shown(b)
					b.expect(t, name+", seen", ip, allocator.Assumed)
					made, gone := tc.write(b)
					b.EndWrite(addr(ip), made, gone)
				},
				"the watch shows nothing": func(b timed) {
					made, gone := tc.write(b)
					b.EndWrite(addr(ip), made, gone)
					if left := b.Writing(addr(ip)); left <= 0 || left > writeSeenWithin {
						t.Errorf("%s: waiting for %s", name, left)
					}
					b.pass(writeSeenWithin)
				},
			} {
				b := newTimed(rules{})
				if tc.before != nil {
					b.objects.OnAdd(tc.before, true)
				}
				if !b.BeginWrite(addr(ip)) || b.BeginWrite(addr(ip)) {
					t.Fatal("one may write, and one alone")
				}
				if _, err := b.Draw(tier(t, ip), forService("x")); !errors.Is(err, allocator.ErrFull) {
					t.Errorf("%s: drawn while it is written: %v", name, err)
				}
				if _, busy := b.Take(addr(ip), forService("x")); busy == nil {
					t.Errorf("%s: not busy while it is written", name)
				}
				end(b)
				if n := b.InFlight(); n != 0 || b.Writing(addr(ip)) != 0 {
					t.Errorf("%s, %s: %d are in flight", name, order, n)
				}
				if order != "the watch shows nothing" {
					b.expect(t, name+", "+order, ip, tc.want)
				}
			}
		}
	}
}

// An additional address that this process has written is its Service's before the watch shows it.
func TestWrittenAdditionalAddress(t *testing.T) {
	for _, ip := range both {
		b := newTimed(rules{})
		service := named("a")
		b.draw(t, ip, "a")
		o := ownedIP(ip, v1alpha1.PurposeAdditional, "1")
		o.Spec.ParentRef = allocated(ip, "a").Spec.ParentRef
		b.EndWrite(addr(ip), o, "")
		if got := b.Additional(service); len(got) != 1 || got[addr(ip)].UID != "1" {
			t.Errorf("written: %v", got)
		}
		b.expectHolder(t, "written", ip, "")
		b.objects.OnAdd(o, false)
		b.expect(t, "seen", ip, allocator.Allocated)
		if got := b.Additional(service); len(got) != 1 || b.InFlight() != 0 {
			t.Errorf("seen: %v, %d in flight", got, b.InFlight())
		}
	}
}

// An additional address that was written and that the watch never shows is its Service's for five
// seconds, unless the API server is known to have something else there.
func TestWrittenAndNotShown(t *testing.T) {
	for name, end := range map[string]func(b timed, ip string){
		"its time is over": func(b timed, _ string) { b.pass(writeSeenWithin) },
		"it is lost":       func(b timed, ip string) { b.Lost(addr(ip), forService("a")) },
	} {
		for _, ip := range both {
			b := newTimed(rules{})
			b.draw(t, ip, "a")
			o := ownedIP(ip, v1alpha1.PurposeAdditional, "1")
			o.Spec.ParentRef = allocated(ip, "a").Spec.ParentRef
			b.EndWrite(addr(ip), o, "")
			b.pass(writeSeenWithin - time.Millisecond)
			if got := b.Additional(named("a")); len(got) != 1 {
				t.Errorf("%s: before: %v", name, got)
			}
			end(b, ip)
			if got := b.Additional(named("a")); len(got) != 0 {
				t.Errorf("%s: %v", name, got)
			}
			b.pass(writeSeenWithin)
			b.expectNothing(t, name)
		}
	}
}

// An IPAddress of ours that goes although it is wanted was deleted by another replica, which hands
// the address out. It stays taken for a moment; what was cooling cools on.
func TestAnotherReplicaMakesRoom(t *testing.T) {
	for name, tc := range map[string]struct {
		purpose string
		rules   Rules
		after   time.Duration
		want    bool
		later   allocator.State
	}{
		"a reservation":                        {v1alpha1.PurposeReservation, reserving(both...), 0, true, allocator.Free},
		"a reservation that is wanted no more": {v1alpha1.PurposeReservation, rules{}, 0, false, allocator.Free},
		"a cooling address":                    {v1alpha1.PurposeCooling, rules{coolDown: time.Minute}, time.Second, true, allocator.Cooling},
		"a cooling address whose time is over": {v1alpha1.PurposeCooling, rules{coolDown: time.Minute}, time.Minute, false, allocator.Free},
		"a cooling address of no policy":       {v1alpha1.PurposeCooling, rules{}, 0, false, allocator.Free},
		"an additional address":                {v1alpha1.PurposeAdditional, rules{}, 0, false, allocator.Free},
	} {
		for _, ip := range both {
			b := newTimed(tc.rules)
			ours := ownedIP(ip, tc.purpose, "1")
			b.objects.OnAdd(ours, true)
			b.pass(tc.after)
			b.objects.OnDelete(ours)
			if got := b.InFlight() == 1; got != tc.want {
				t.Errorf("%s: in flight: %v, want %v", name, got, tc.want)
			}
			b.pass(handedElsewhere)
			b.expect(t, name+", later", ip, tc.later)
		}
	}
}

// Users may edit an IPAddress's labels. The address of a living Service stays that Service's.
func TestClaimsOutrankLabels(t *testing.T) {
	for _, ip := range both {
		for _, purpose := range []string{v1alpha1.PurposeCooling, v1alpha1.PurposeReservation, v1alpha1.PurposeAdditional, "", "nonsense"} {
			b := newTimed(rules{coolDown: time.Minute})
			b.serve("a", ip)
			relabelled := ownedIP(ip, purpose, "1")
			relabelled.Spec.ParentRef = allocated(ip, "a").Spec.ParentRef
			b.objects.OnUpdate(allocated(ip, "a"), relabelled)
			b.expect(t, "relabelled "+purpose, ip, allocator.Allocated)
			if _, err := b.Draw(tier(t, ip), forService("x")); err == nil {
				t.Errorf("%s, relabelled %q, was drawn", ip, purpose)
			}
			if got := b.Additional(named("a")); len(got) != 0 {
				t.Errorf("%s, relabelled %q, is an additional address: %v", ip, purpose, got)
			}
			b.pass(time.Hour)
			b.expect(t, "an hour later", ip, allocator.Allocated)
		}
	}
}

// A Service that got an address which was handed to another Service is counted once.
func TestCollisions(t *testing.T) {
	b := newTimed(rules{})
	for i, tc := range []struct {
		to   types.NamespacedName
		owns string
		want uint64
	}{
		{named("a"), "a", 0},
		{named("a"), "b", 1},
		{types.NamespacedName{Namespace: "ns"}, "generated-x7k2p", 1},
		{types.NamespacedName{Namespace: "other"}, "generated-x7k2p", 2},
		{types.NamespacedName{}, "a", 2},
	} {
		ip := fmt.Sprintf("10.0.0.%d", i+1)
		if _, err := b.Draw(tier(t, ip), Holder{Service: tc.to}); err != nil {
			t.Fatal(err)
		}
		b.objects.OnAdd(allocated(ip, tc.owns), false)
		b.services.OnAdd(service(tc.owns, ip), false)
		if got := b.Collisions(); got != tc.want {
			t.Errorf("%v handed to %v became %s's: %d collisions, want %d", ip, tc.to, tc.owns, got, tc.want)
		}
	}
}

// What turned out to be another Service's is not drawn until the watch has had time to show it.
func TestLost(t *testing.T) {
	for _, ip := range both {
		b := newTimed(rules{})
		b.Lost(addr(ip), forService("x"))
		b.expectNothing(t, "what was never handed out cannot be lost")
		b.draw(t, ip, "x")
		b.Lost(addr(ip), forService("x"))
		b.expectHolder(t, "lost", ip, "")
		b.expect(t, "lost", ip, allocator.Assumed)
		b.pass(writeSeenWithin)
		b.expectNothing(t, "later")
	}
}
