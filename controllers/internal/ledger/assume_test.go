package ledger

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

func holder(name string) Holder {
	return Holder{Service: types.NamespacedName{Namespace: "ns", Name: name}}
}

// draw draws the one address of a lot.
func (b timed) draw(t *testing.T, ip, to string) {
	t.Helper()
	drawn, err := b.Draw(lot(t, ip), holder(to))
	if err != nil || drawn.Addr != addr(ip) {
		t.Fatalf("drawing %s: %v, %v", ip, drawn, err)
	}
}

func (b timed) expectHolder(t *testing.T, what, ip, want string) {
	t.Helper()
	got, ok := b.HandedTo(addr(ip))
	if ok != (want != "") || got.Service.Name != want {
		t.Errorf("%s: %s is handed (%v) to %v, want %q", what, ip, ok, got, want)
	}
}

func (b timed) expectElsewhere(t *testing.T, what, ip string, want bool) {
	t.Helper()
	if got := b.HandedElsewhere(addr(ip)); got != want {
		t.Errorf("%s: %s was handed out elsewhere: %v, want %v", what, ip, got, want)
	}
}

// What ends an assumption, and what becomes of the address.
func TestAssumptionEnds(t *testing.T) {
	for name, tc := range map[string]struct {
		end  func(b timed, ip string)
		want allocator.State
	}{
		"its IPAddress appears":             {func(b timed, ip string) { b.objects.OnAdd(allocated(ip, "a"), false) }, allocator.Allocated},
		"its Service appears":               {func(b timed, ip string) { b.services.OnAdd(service("a", ip), false) }, allocator.Allocated},
		"somebody else's IPAddress":         {func(b timed, ip string) { b.objects.OnAdd(object(ip, "somebody.example"), false) }, allocator.Reserved},
		"it is given back":                  {func(b timed, ip string) { b.Forget(addr(ip)) }, allocator.Free},
		"its time is over":                  {func(b timed, _ string) { b.pass(assumedFor) }, allocator.Free},
		"its time is over, under new rules": {func(b timed, _ string) { b.SetRules(rules{}); b.pass(assumedFor) }, allocator.Free},
	} {
		t.Run(name, func(t *testing.T) {
			for _, ip := range both {
				b := newTimed(rules{coolDown: time.Minute})
				b.draw(t, ip, "a")
				b.expect(t, "drawn", ip, allocator.Assumed)
				b.expectHolder(t, "drawn", ip, "a")
				b.pass(assumedFor - time.Millisecond)
				b.expectHolder(t, "just before its time is over", ip, "a")
				if n := b.Assumed(); n != 1 {
					t.Errorf("%d are assumed, want 1", n)
				}
				b.clock.SetTime(epoch)
				var woken bool
				b.addressListeners.add(func(a netip.Addr) { woken = woken || a == addr(ip) })
				tc.end(b, ip)
				b.expect(t, "then", ip, tc.want)
				b.expectHolder(t, "then", ip, "")
				if n := b.Assumed(); n != 0 || !woken {
					t.Errorf("%d are assumed, want none; listeners were woken: %v", n, woken)
				}
			}
		})
	}
}

// Nobody is handed what somebody was handed, by whatever way.
func TestAssumedIsNobodyElses(t *testing.T) {
	for _, ip := range both {
		b := newTimed(rules{})
		b.draw(t, ip, "a")
		if _, err := b.Draw(lot(t, ip), holder("b")); !errors.Is(err, allocator.ErrFull) {
			t.Errorf("drawing %s again: %v, want that nothing is left", ip, err)
		}
		if b.Take(addr(ip), holder("b")) || b.Take(addr(ip), holder("a")) {
			t.Error("what was handed out was taken")
		}
		if b.Lend(addr(ip)) {
			t.Error("what was handed out was lent")
		}
		if b.BeginWrite(addr(ip)) {
			t.Error("an IPAddress may be written at what was handed out")
		}
		b.expectHolder(t, "at the end", ip, "a")
	}
}

func TestTake(t *testing.T) {
	for name, tc := range map[string]struct {
		before func(b timed, ip string)
		want   bool
	}{
		"free":                 {func(timed, string) {}, true},
		"resting":              {func(b timed, ip string) { b.serve("a", ip); b.release("a", ip) }, true},
		"resting by an object": {func(b timed, ip string) { b.objects.OnAdd(cooling(ip, "1", "a", epoch), true) }, true},
		"reserved":             {func(b timed, ip string) { b.objects.OnAdd(kept(ip, v1alpha1.PurposeReservation, "1"), true) }, true},
		"somebody else's":      {func(b timed, ip string) { b.objects.OnAdd(object(ip, "somebody.example"), true) }, false},
		"in use":               {func(b timed, ip string) { b.serve("a", ip) }, false},
		"claimed alone":        {func(b timed, ip string) { b.services.OnAdd(service("a", ip), true) }, false},
		"additional":           {func(b timed, ip string) { b.objects.OnAdd(kept(ip, v1alpha1.PurposeAdditional, "1"), true) }, false},
		"lent":                 {func(b timed, ip string) { b.Lend(addr(ip)) }, false},
		"being written":        {func(b timed, ip string) { b.BeginWrite(addr(ip)) }, false},
		"written":              {func(b timed, ip string) { b.BeginWrite(addr(ip)); b.EndWrite(addr(ip)) }, true},
	} {
		t.Run(name, func(t *testing.T) {
			for _, ip := range both {
				b := newTimed(rules{coolDown: time.Hour})
				tc.before(b, ip)
				state := b.State(addr(ip))
				if got := b.Take(addr(ip), holder("x")); got != tc.want {
					t.Fatalf("taking %s: %v, want %v", ip, got, tc.want)
				}
				if !tc.want {
					b.expect(t, "not taken", ip, state)
					b.expectHolder(t, "not taken", ip, "")
					continue
				}
				b.expect(t, "taken", ip, allocator.Assumed)
				b.expectHolder(t, "taken", ip, "x")
				b.Forget(addr(ip))
				b.expect(t, "given back", ip, state)
			}
		})
	}
}

func TestLend(t *testing.T) {
	for name, tc := range map[string]struct {
		before func(b timed, ip string)
		want   bool
	}{
		"free":                 {func(timed, string) {}, true},
		"in use":               {func(b timed, ip string) { b.serve("a", ip) }, false},
		"reserved":             {func(b timed, ip string) { b.objects.OnAdd(kept(ip, v1alpha1.PurposeReservation, "1"), true) }, false},
		"resting by an object": {func(b timed, ip string) { b.objects.OnAdd(cooling(ip, "1", "a", epoch), true) }, false},
		"somebody else's":      {func(b timed, ip string) { b.objects.OnAdd(object(ip, "somebody.example"), true) }, false},
		"being written":        {func(b timed, ip string) { b.BeginWrite(addr(ip)) }, false},
		"lent already":         {func(b timed, ip string) { b.Lend(addr(ip)) }, false},
	} {
		t.Run(name, func(t *testing.T) {
			for _, ip := range both {
				b := newTimed(rules{coolDown: time.Hour})
				tc.before(b, ip)
				if got := b.Lend(addr(ip)); got != tc.want {
					t.Fatalf("lending %s: %v, want %v", ip, got, tc.want)
				}
				if tc.want {
					b.expectElsewhere(t, "lent", ip, true)
					b.expectHolder(t, "lent", ip, "")
					b.pass(assumedFor)
					b.expectNothing(t, "15 s after it was lent")
				}
			}
		})
	}
}

// An address that had to yield and is given back rests on as if nothing had happened, in its old place.
func TestGivenBackRestsOn(t *testing.T) {
	for name, rest := range map[string]func(b timed, ip string, at time.Time){
		"in memory":  func(b timed, ip string, _ time.Time) { b.serve("s", ip); b.release("s", ip) },
		"by objects": func(b timed, ip string, at time.Time) { b.objects.OnAdd(cooling(ip, "uid-"+ip, "s", at), true) },
	} {
		t.Run(name, func(t *testing.T) {
			b := newTimed(rules{coolDown: time.Minute})
			ips := []string{"10.0.0.4", "10.0.0.2"}
			for _, ip := range ips {
				rest(b, ip, b.clock.Now())
				b.pass(time.Second)
			}
			for range 3 {
				drawn, err := b.Draw(lot(t, ips...), holder("x"))
				if err != nil || drawn.Addr != addr(ips[0]) || !drawn.Cooled {
					t.Fatalf("drew %v, %v; want %s", drawn, err, ips[0])
				}
				b.Forget(drawn.Addr)
				b.expectRest(t, "given back", ips[0], "s", epoch)
			}
			b.draw(t, ips[0], "x")
			b.pass(assumedFor)
			b.expect(t, "the Service never came", ips[0], allocator.Cooling)
			b.pass(2 * time.Minute)
			if name == "in memory" {
				b.expectNothing(t, "all over")
			}
		})
	}
}

// While our IPAddress is being written at a resting address the address does not yield, and loses nothing by having been asked for.
func TestDrawKeepsClearOfWrites(t *testing.T) {
	ip := "fd00::200"
	b := newTimed(rules{coolDown: time.Minute})
	b.serve("s", ip)
	b.release("s", ip)
	if !b.BeginWrite(addr(ip)) {
		t.Fatal("nobody has it, and it may not be written")
	}
	if b.BeginWrite(addr(ip)) {
		t.Error("two write at once")
	}
	if _, err := b.Draw(lot(t, ip), holder("x")); !errors.Is(err, ErrBusy) {
		t.Errorf("drawing while it is written: %v, want %v", err, ErrBusy)
	}
	b.expectRest(t, "while it is written", ip, "s", epoch)
	b.expect(t, "while it is written", ip, allocator.Cooling)
	b.objects.OnAdd(cooling(ip, "1", "s", epoch), false)
	b.EndWrite(addr(ip))
	b.draw(t, ip, "x")
	b.expectHolder(t, "written, and then drawn", ip, "x")
	b.EndWrite(addr(ip)) // once too often does no harm
}

// The way of an address that is kept for a Service and then handed to it: ours is deleted, the API server's appears. At no moment can
// anybody else have it.
func TestMakingRoom(t *testing.T) {
	for _, tc := range []struct{ name, purpose string }{
		{"a reservation", v1alpha1.PurposeReservation}, {"a cooling address", v1alpha1.PurposeCooling},
	} {
		t.Run(tc.name, func(t *testing.T) {
			for _, ip := range both {
				r := reserving(ip)
				r.coolDown = time.Hour
				b := newTimed(r)
				ours := kept(ip, tc.purpose, "1")
				b.objects.OnAdd(ours, true)
				if !b.Take(addr(ip), holder("x")) {
					t.Fatal("it cannot be taken")
				}
				b.objects.OnDelete(ours)
				b.expect(t, "made room", ip, allocator.Assumed)
				b.expectHolder(t, "made room", ip, "x")
				b.expectElsewhere(t, "made room", ip, false)
				b.objects.OnAdd(allocated(ip, "x"), false)
				b.expect(t, "arrived", ip, allocator.Allocated)
				b.expectHolder(t, "arrived", ip, "")
			}
		})
	}
}

// An address that stopped resting for somebody who did not use it in the end, as the Service was refused for another reason, rests on, on all replicas.
func TestRestsOnAfterMakingRoomInVain(t *testing.T) {
	for name, take := range map[string]bool{"by this replica": true, "by another one": false} {
		t.Run(name, func(t *testing.T) {
			for _, ip := range both {
				b := newTimed(rules{coolDown: time.Minute})
				ours := kept(ip, v1alpha1.PurposeCooling, "1")
				b.objects.OnAdd(ours, true)
				before, _ := b.Resting(addr(ip))
				if take && !b.Take(addr(ip), holder("x")) {
					t.Fatal("it cannot be taken")
				}
				b.objects.OnDelete(ours)
				b.expect(t, "made room", ip, allocator.Assumed)
				b.pass(assumedFor)
				b.expect(t, "in vain", ip, allocator.Cooling)
				if after, ok := b.Resting(addr(ip)); !ok || after != before {
					t.Errorf("it rests by %+v, want %+v", after, before)
				}
				b.pass(time.Minute - assumedFor)
				b.expect(t, "after its time", ip, allocator.Free)
			}
		})
	}
}

// What another replica takes away is seen by the deletion of our IPAddress.
func TestAnotherReplicaMakesRoom(t *testing.T) {
	for name, tc := range map[string]struct {
		purpose string
		rules   Rules
		after   time.Duration
		want    bool
	}{
		"a reservation":                        {v1alpha1.PurposeReservation, reserving(both...), 0, true},
		"a reservation that is wanted no more": {v1alpha1.PurposeReservation, rules{}, 0, false},
		"a claim":                              {v1alpha1.PurposeClaim, rules{}, 0, true},
		"a cooling address":                    {v1alpha1.PurposeCooling, rules{coolDown: time.Minute}, time.Minute - 1, true},
		"a cooling address whose time is over": {v1alpha1.PurposeCooling, rules{coolDown: time.Minute}, time.Minute, false},
		"a cooling address of no policy":       {v1alpha1.PurposeCooling, rules{}, 0, false},
		"an additional address":                {v1alpha1.PurposeAdditional, rules{}, 0, false},
	} {
		t.Run(name, func(t *testing.T) {
			for _, ip := range both {
				b := newTimed(tc.rules)
				ours := kept(ip, tc.purpose, "1")
				b.objects.OnAdd(ours, true)
				b.pass(tc.after)
				b.objects.OnDelete(ours)
				b.expectElsewhere(t, "deleted", ip, tc.want)
				if !tc.want {
					b.expectNothing(t, "deleted")
					continue
				}
				b.expect(t, "deleted", ip, allocator.Assumed)
				b.objects.OnAdd(allocated(ip, "x"), false)
				b.expectElsewhere(t, "arrived", ip, false)
			}
		})
	}
}

// An IPAddress of ours that this process writes anew, deletion first, was taken by nobody.
func TestRewritingIsNotHandingOut(t *testing.T) {
	ip := "10.0.0.200"
	b := newTimed(reserving(ip))
	b.objects.OnAdd(kept(ip, v1alpha1.PurposeReservation, "1"), true)
	if !b.BeginWrite(addr(ip)) {
		t.Fatal("it may not be written")
	}
	b.objects.OnDelete(kept(ip, v1alpha1.PurposeReservation, "1"))
	b.expectElsewhere(t, "between the two", ip, false)
	if b.Take(addr(ip), holder("x")) || b.Lend(addr(ip)) {
		t.Error("it was handed out between the two")
	}
	b.objects.OnAdd(kept(ip, v1alpha1.PurposeReservation, "2"), false)
	b.EndWrite(addr(ip))
	b.expect(t, "written", ip, allocator.Reserved)
	if n := b.Assumed(); n != 0 {
		t.Errorf("%d are assumed", n)
	}
}

// A claim of this process: whatever the order in which it hears of its own claim, and of what another replica did before.
func TestOwnClaim(t *testing.T) {
	const ip, own, other = "fd00::200", "own", "other"
	step := map[string]func(b timed){
		"+own":   func(b timed) { b.objects.OnAdd(kept(ip, v1alpha1.PurposeClaim, own), false) },
		"told":   func(b timed) { b.Claimed(addr(ip), own) },
		"-own":   func(b timed) { b.objects.OnDelete(kept(ip, v1alpha1.PurposeClaim, own)) },
		"+other": func(b timed) { b.objects.OnAdd(kept(ip, v1alpha1.PurposeClaim, other), false) },
		"-other": func(b timed) { b.objects.OnDelete(kept(ip, v1alpha1.PurposeClaim, other)) },
		"relist": func(b timed) {
			b.objects.OnUpdate(kept(ip, v1alpha1.PurposeClaim, other), kept(ip, v1alpha1.PurposeClaim, own))
		},
	}
	for _, tc := range []struct {
		steps []string
		lost  bool
	}{
		{[]string{"+own", "told", "-own"}, false},
		{[]string{"told", "+own", "-own"}, false},
		{[]string{"+other", "-other", "told", "+own", "-own"}, true},
		{[]string{"+other", "told", "-other", "+own", "-own"}, true},
		{[]string{"told", "+other", "-other", "+own", "-own"}, true},
		{[]string{"+other", "-other", "+own", "told", "-own"}, true},
		{[]string{"+other", "relist", "told", "-own"}, true}, // the watch was broken while the other one went and ours came
		{[]string{"told", "+other", "relist", "-own"}, true},
	} {
		b := newTimed(rules{})
		b.draw(t, ip, "x")
		for _, s := range tc.steps {
			if s == "-own" { // is asked just before the own claim is deleted
				b.expectElsewhere(t, fmt.Sprint(tc.steps), ip, tc.lost)
			}
			step[s](b)
			b.expect(t, fmt.Sprint(tc.steps, " after ", s), ip, allocator.Assumed)
			if b.Take(addr(ip), holder("y")) || b.BeginWrite(addr(ip)) || b.Lend(addr(ip)) {
				t.Errorf("%v after %s: somebody else was handed it", tc.steps, s)
			}
		}
		b.expectElsewhere(t, fmt.Sprint(tc.steps, " at the end"), ip, tc.lost)
		if !tc.lost {
			b.expectHolder(t, fmt.Sprint(tc.steps, " at the end"), ip, "x")
		}
		b.pass(assumedFor)
		b.expectNothing(t, fmt.Sprint(tc.steps))
	}
}

// What another replica claims and takes away again is handed out, to whomever.
func TestClaimsOfOthers(t *testing.T) {
	for _, ip := range both {
		b := newTimed(rules{})
		claim := kept(ip, v1alpha1.PurposeClaim, "1")
		b.objects.OnAdd(claim, false)
		b.expect(t, "claimed", ip, allocator.Reserved)
		if _, err := b.Draw(lot(t, ip), holder("x")); err == nil {
			t.Error("what another replica claims was drawn")
		}
		b.objects.OnDelete(claim)
		b.expectElsewhere(t, "handed out by the other one", ip, true)
		b.pass(assumedFor)
		b.expectNothing(t, "nothing came of it")
	}
}

// A claim that somebody lost stays with whoever won, until the cluster shows it or the time is over.
func TestLost(t *testing.T) {
	for _, ip := range both {
		b := newTimed(rules{})
		b.Lost(addr(ip))
		b.expectNothing(t, "what was never handed out cannot be lost")
		b.draw(t, ip, "x")
		b.pass(10 * time.Second)
		b.Lost(addr(ip))
		b.expectElsewhere(t, "lost", ip, true)
		b.expectHolder(t, "lost", ip, "")
		b.pass(10 * time.Second)
		b.expect(t, "10 s later", ip, allocator.Assumed)
		b.pass(5 * time.Second)
		b.expectNothing(t, "15 s later")
	}
}

// An API server's IPAddress that comes and goes during a claim leaves nobody who believes to have the address twice.
func TestForgetOfWhatIsNotAssumed(t *testing.T) {
	b := newTimed(rules{})
	b.serve("a", "10.0.0.9")
	b.Forget(addr("10.0.0.9"))
	b.Claimed(addr("10.0.0.9"), "1")
	b.Lost(addr("10.0.0.9"))
	b.expect(t, "in use", "10.0.0.9", allocator.Allocated)
	b.Forget(addr("10.0.0.10"))
	b.expect(t, "free", "10.0.0.10", allocator.Free)
	if n := b.Assumed(); n != 0 {
		t.Errorf("%d are assumed", n)
	}
}

// The watch of Services is behind: one that had the address before, and is gone, is told after the address was handed out again.
func TestLateNewsOfTheServiceBefore(t *testing.T) {
	for _, ip := range []string{"10.0.0.9", "fd00::9"} {
		b := newTimed(rules{})
		if !b.Take(addr(ip), holder("new")) {
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

// The leader takes away what no policy wants any more, and may know the policies before we do: then nobody was handed the address.
func TestWhatIsNotWantedAnyMoreWasHardlyHandedOut(t *testing.T) {
	for name, tc := range map[string]struct {
		object        *networkingv1.IPAddress
		before, after rules
		until         time.Duration
	}{
		"the reservation is gone":    {kept(both[0], v1alpha1.PurposeReservation, "1"), reserving(both[0]), rules{}, doubtedFor},
		"the reservation stays":      {kept(both[0], v1alpha1.PurposeReservation, "1"), reserving(both[0]), reserving(both...), assumedFor},
		"nothing rests any more":     {cooling(both[0], "1", "a", epoch), rules{coolDown: time.Minute}, rules{}, doubtedFor},
		"it rests longer":            {cooling(both[0], "1", "a", epoch), rules{coolDown: time.Minute}, rules{coolDown: time.Hour}, assumedFor},
		"a claim, whatever is ruled": {kept(both[0], v1alpha1.PurposeClaim, "1"), reserving(both[0]), rules{}, assumedFor},
	} {
		t.Run(name, func(t *testing.T) {
			b := newTimed(tc.before)
			b.objects.OnAdd(tc.object, true)
			b.objects.OnDelete(tc.object)
			b.SetRules(tc.after)
			b.pass(tc.until - time.Millisecond)
			b.expectElsewhere(t, "before its time", both[0], true)
			b.pass(time.Millisecond)
			b.expectElsewhere(t, "after its time", both[0], false)
		})
	}
}
