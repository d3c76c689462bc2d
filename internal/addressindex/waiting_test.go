package addressindex

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"k8s.io/apimachinery/pkg/types"

	"github.com/clusterip-operator/clusterip-operator/allocator"
)

// small are two addresses of each family, which fill their ranges.
var small = [][]string{{"10.0.0.1", "10.0.0.2"}, {"fd00::1", "fd00::2"}}

// of is the Holder of an address: a review of some Service in a namespace.
func of(namespace string, review int) Holder {
	return Holder{Service: types.NamespacedName{Namespace: namespace, Name: "s"}, Review: types.UID(fmt.Sprint(review))}
}

// waited is how a request ended, and after how long.
type waited struct {
	err   error
	after time.Duration
}

// await lets a request wait for two seconds at most.
func (b index) await(order []*allocator.Tier, to Holder) <-chan waited {
	out, begin := make(chan waited, 1), time.Now()
	go func() {
		ctx, cancel := context.WithTimeout(context.Background(), 2*time.Second)
		defer cancel()
		_, err := b.Await(ctx, order, to)
		out <- waited{err, time.Since(begin)}
	}()
	synctest.Wait()
	return out
}

// waiting is in how many lines requests wait.
func (b index) waiting() int {
	b.mu.Lock()
	defer b.mu.Unlock()
	return len(b.lines)
}

// What ends the wait for an address of a full range, and when. All but the context do it at that
// very moment.
func TestWhatEndsAWait(t *testing.T) {
	const later = 30 * time.Millisecond
	for name, tc := range map[string]struct {
		then  func(b index, ip string)
		full  bool
		after time.Duration
	}{
		"another one is given back":             {then: func(b index, ip string) { b.Forget(addr(ip), of("other", 1)) }, after: later},
		"its Service comes":                     {then: serve, full: true, after: later},
		"nothing happens":                       {then: func(index, string) {}, full: true, after: 2 * time.Second},
		"its write ends":                        {then: func(b index, ip string) { b.EndWrite(addr(ip), nil, "") }, after: later},
		"an address elsewhere is given back":    {then: func(b index, _ string) { b.Forget(addr("10.0.0.99"), of("other", 2)) }, full: true, after: 2 * time.Second},
		"an address elsewhere shows it is late": {then: func(b index, _ string) { serve(b, "10.0.0.99") }, after: time.Second},
	} {
		for _, ips := range small {
			t.Run(name+" "+ips[0], func(t *testing.T) {
				synctest.Test(t, func(t *testing.T) {
					b, order := newIndex(), tier(t, ips[0])
					if _, err := b.Draw(order, of("other", 1)); err != nil {
						t.Fatal(err)
					}
					time.Sleep(time.Millisecond)
					if _, err := b.Draw(tier(t, "10.0.0.99"), of("other", 2)); err != nil {
						t.Fatal(err)
					}
					done := b.await(order, of("waits", 3))
					time.Sleep(later)
					tc.then(b, ips[0])
					got := <-done
					if errors.Is(got.err, allocator.ErrFull) != tc.full || got.after < tc.after-time.Millisecond || got.after > tc.after+lookAgain {
						t.Errorf("%v after %s, want it to be full: %v after %s", got.err, got.after, tc.full, tc.after)
					}
					if b.waiting() != 0 {
						t.Error("a line is left in which nobody waits")
					}
				})
			})
		}
	}
}

func serve(b index, ip string) {
	b.objects.OnAdd(allocated(ip, "s"), false)
	b.services.OnAdd(service("s", ip), false)
}

// The namespaces take turns, whatever they ask for, and a request that waits no longer takes no
// turn.
func TestNamespacesTakeTurns(t *testing.T) {
	for _, ips := range small {
		synctest.Test(t, func(t *testing.T) {
			b, order := newIndex(), tier(t, ips[0])
			if _, err := b.Draw(order, of("first", 0)); err != nil {
				t.Fatal(err)
			}
			var got []string
			var all sync.WaitGroup
			wait := func(ctx context.Context, namespace string) {
				all.Go(func() {
					if drawn, err := b.Await(ctx, order, of(namespace, 1)); err == nil {
						got = append(got, namespace)
						b.Forget(drawn.Addr, of(namespace, 1))
					}
				})
				synctest.Wait()
			}
			gone, leave := context.WithCancel(t.Context())
			for range 1000 {
				wait(t.Context(), "many")
			}
			wait(gone, "few")
			wait(t.Context(), "few")
			wait(t.Context(), "one")
			leave()
			synctest.Wait()
			b.Forget(addr(ips[0]), of("first", 0))
			all.Wait()
			if want := []string{"many", "few", "one", "many", "many"}; len(got) != 1002 || fmt.Sprint(got[:5]) != fmt.Sprint(want) {
				t.Errorf("%d were served, first %v, want %v", len(got), got[:5], want)
			}
		})
	}
}

// A newcomer does not overtake those who wait, though it comes in the moment in which an address
// yields.
func TestNobodyOvertakes(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b, order := newIndex(), tier(t, "10.0.0.1")
		if _, err := b.Draw(order, of("other", 0)); err != nil {
			t.Fatal(err)
		}
		time.Sleep(time.Millisecond)
		if _, err := b.Draw(tier(t, "10.0.0.99"), of("other", 0)); err != nil {
			t.Fatal(err)
		}
		serve(b, "10.0.0.99")
		first := b.await(order, of("first", 1))
		b.mu.Lock()
		b.lines[0].timer.Stop() // it comes late
		b.mu.Unlock()
		time.Sleep(1100 * time.Millisecond)
		second := b.await(order, of("second", 2))
		if got := <-first; got.err != nil {
			t.Errorf("who came first got %v", got.err)
		}
		if got := <-second; !errors.Is(got.err, allocator.ErrFull) {
			t.Errorf("who came second got %v", got.err)
		}
	})
}

// tenants compete for a range: what each of them does with an address that it gets.
type tenants struct {
	index
	order    []*allocator.Tier
	refused  atomic.Int64
	longest  atomic.Int64
	creation atomic.Int64
}

// create asks for an address, as a review does. It counts what a friendly namespace meets.
func (c *tenants) create(namespace string, then func(Holder, string)) {
	to, begin := of(namespace, int(c.creation.Add(1))), time.Now()
	ctx, cancel := context.WithTimeout(context.Background(), 1300*time.Millisecond)
	defer cancel()
	drawn, err := c.Await(ctx, c.order, to)
	if namespace == "friendly" {
		c.longest.Store(max(c.longest.Load(), int64(time.Since(begin))))
		if err != nil {
			c.refused.Add(1)
		}
	}
	if err == nil {
		then(to, drawn.Addr.String())
	}
}

// comes is a Service that comes, lives and goes; passes one that goes at once.
func (c *tenants) comes(to Holder, ip string) {
	c.arrives(to, ip)
	time.Sleep(300 * time.Millisecond)
	c.goes(to, ip)
}

func (c *tenants) passes(to Holder, ip string) { c.arrives(to, ip); c.goes(to, ip) }

func (c *tenants) arrives(to Holder, ip string) {
	time.Sleep(10 * time.Millisecond)
	o := allocated(ip, to.Service.Name)
	o.Spec.ParentRef.Namespace = to.Service.Namespace
	c.objects.OnAdd(o, false)
}

func (c *tenants) goes(to Holder, ip string) {
	o := allocated(ip, to.Service.Name)
	o.Spec.ParentRef.Namespace = to.Service.Namespace
	c.objects.OnDelete(o)
}

// Whatever a tenant does in a range of 14 addresses and at whatever rate, every Service of a
// friendly namespace gets one, and soon.
func TestNoTenantKeepsOthersOut(t *testing.T) {
	for name, tc := range map[string]struct {
		every time.Duration
		then  func(*tenants) func(Holder, string)
		first bool // it has filled the range when the other tenants come
	}{
		"28 a second fail":            {time.Second / 28, nil, true},
		"28 a second fail, beginning": {time.Second / 28, nil, false},
		"500 a second fail":           {2 * time.Millisecond, nil, true},
		"500 a second come and go":    {2 * time.Millisecond, func(c *tenants) func(Holder, string) { return c.passes }, true},
		"500 a second do either": {2 * time.Millisecond, func(c *tenants) func(Holder, string) {
			return func(to Holder, ip string) {
				if c.creation.Load()%2 == 0 {
					c.passes(to, ip)
				}
			}
		}, true},
	} {
		for _, prefix := range []string{"10.0.0.0/28", "fd00::/124"} {
			t.Run(name+" "+prefix, func(t *testing.T) {
				synctest.Test(t, func(t *testing.T) {
					band, err := allocator.NewTier([]allocator.Span{mustRange(prefix).Band(allocator.Dynamic)}, nil)
					if err != nil {
						t.Fatal(err)
					}
					c := &tenants{index: newIndex(), order: []*allocator.Tier{band}}
					then := func(Holder, string) {}
					if tc.then != nil {
						then = tc.then(c)
					}
					ctx, end := context.WithCancel(t.Context())
					var all sync.WaitGroup
					load := func(namespace string, every time.Duration, then func(Holder, string)) {
						all.Go(func() {
							for ctx.Err() == nil {
								all.Go(func() { c.create(namespace, then) })
								time.Sleep(every)
							}
						})
					}
					load("hostile", tc.every, then)
					if tc.first {
						time.Sleep(600 * time.Millisecond)
					}
					load("friendly", 100*time.Millisecond, c.comes)
					for range 100 {
						time.Sleep(100 * time.Millisecond)
						c.Sweep()
					}
					end()
					all.Wait()
					if c.refused.Load() > 0 || time.Duration(c.longest.Load()) > time.Second {
						t.Errorf("%d were refused, the longest wait was %s", c.refused.Load(), time.Duration(c.longest.Load()))
					}
				})
			})
		}
	}
}

// Nothing is lost between those who are served, those who give up at the same moment, and what
// comes free.
func TestWaitingLosesNoAddress(t *testing.T) {
	b := newIndex()
	orders := [][]*allocator.Tier{tier(t, small[0]...), tier(t, "10.0.0.2", "10.0.0.3"), tier(t, small[1]...)}
	var all sync.WaitGroup
	for n := range 64 {
		all.Go(func() {
			random := rand.New(rand.NewPCG(uint64(n), 1))
			for i := range 50 {
				ctx, cancel := context.WithTimeout(t.Context(), time.Duration(random.IntN(2000))*time.Microsecond)
				to := of(fmt.Sprint("ns", n%5), n*1000+i)
				if drawn, err := b.Await(ctx, orders[n%len(orders)], to); err == nil {
					b.Forget(drawn.Addr, to)
				}
				cancel()
			}
		})
	}
	all.Wait()
	if n := b.InFlight(); n != 0 || b.waiting() != 0 {
		t.Errorf("%d are in flight, and %d lines are left", n, b.waiting())
	}
	for _, ip := range []string{"10.0.0.1", "10.0.0.2", "10.0.0.3", "fd00::1", "fd00::2"} {
		if got := b.State(addr(ip)); got != allocator.Free {
			t.Errorf("%s is %s", ip, got)
		}
	}
}
