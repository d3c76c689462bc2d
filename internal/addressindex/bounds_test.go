package addressindex

import (
	"net/netip"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/clusterip-operator/clusterip-operator/allocator"
)

// The bounds of package inflight, written out, so that a changed one is noticed here.
const (
	maxInFlight    = 65536
	maxOfNamespace = 4096
	yieldAfter     = time.Second
	yieldUnshown   = 3 * time.Second
	yieldSoonest   = 50 * time.Millisecond
	unshownFor     = time.Second
)

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

// hugeRange is an index with a range that does not get full.
func hugeRange(t *testing.T) (timed, []*allocator.Tier) {
	t.Helper()
	tier, err := allocator.NewTier([]allocator.Span{mustRange("fd00:0:0:1::/64").Span()}, nil)
	if err != nil {
		t.Fatal(err)
	}
	return newTimed(rules{}), []*allocator.Tier{tier}
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
