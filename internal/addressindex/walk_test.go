package addressindex

import (
	"errors"
	"fmt"
	"maps"
	"math/rand/v2"
	"slices"
	"testing"
	"time"

	networkingv1 "k8s.io/api/networking/v1"

	"github.com/clusterip-operator/clusterip-operator/allocator"
	"github.com/clusterip-operator/clusterip-operator/api/v1alpha1"
	"github.com/clusterip-operator/clusterip-operator/internal/upstream"
)

// walk is a small random cluster: an API server that creates and deletes Services, some of which
// fail; two watches that deliver late, each in its own order; and this process, which draws
// addresses, and keeps those that cool by IPAddresses.
type walk struct {
	timed
	t      *testing.T
	random *rand.Rand
	seed   uint64
	ips    []string
	orders [][]*allocator.Tier

	objects  map[string]*networkingv1.IPAddress // in the API server
	services map[string]string                  // by name, its address
	born     map[string]time.Time
	// pending are the events of each watch that are not delivered yet.
	pending [2][]event
	// drawn are addresses on their way to the API server, with the time at which they get there.
	drawn map[string]time.Time
	// since is when each address was drawn last.
	since map[string]time.Time
	// yielded are those that were ever drawn again in flight: two Services were on their way there, so
	// how long the address cools down depends on whose events come first.
	yielded map[string]bool
	// coolUntil says until when addresses should cool; seen are the Services that were delivered.
	coolUntil map[string]time.Time
	seen      map[string]bool
	names     int
}

// event is what a watch has to tell, since when.
type event struct {
	at   time.Time
	tell func()
}

const (
	walkCoolDown = time.Minute
	// lag is how late a watch is at most.
	lag = 4 * time.Second
)

func (w *walk) queue(watch int, tell ...func()) {
	for _, f := range tell {
		w.pending[watch] = append(w.pending[watch], event{w.clock.Now(), f})
	}
}

func newWalk(t *testing.T, seed uint64) *walk {
	w := &walk{
		timed: newTimed(rules{coolDown: walkCoolDown}), t: t, random: rand.New(rand.NewPCG(seed, 9)), seed: seed,
		objects: map[string]*networkingv1.IPAddress{}, services: map[string]string{}, born: map[string]time.Time{}, drawn: map[string]time.Time{}, coolUntil: map[string]time.Time{},
		seen: map[string]bool{}, since: map[string]time.Time{}, yielded: map[string]bool{},
	}
	w.pool = allocator.NewPoolWithRand(rand.NewPCG(seed, 10))
	for _, family := range []string{"10.0.0.%d", "fd00::%d"} {
		var ips []string
		for i := range 5 {
			ips = append(ips, fmt.Sprintf(family, i+1))
		}
		w.ips, w.orders = append(w.ips, ips...), append(w.orders, tier(t, ips...))
	}
	return w
}

func (w *walk) errorf(format string, args ...any) {
	w.t.Helper()
	w.t.Errorf("walk %d, %s: %s", w.seed, w.clock.Now().Sub(epoch), fmt.Sprintf(format, args...))
}

// store and remove are writes in the API server; the watch of IPAddresses hears of them later.
func (w *walk) store(o *networkingv1.IPAddress) {
	w.objects[o.Name] = o
	w.queue(0, func() { w.index.objects.OnAdd(o, false); w.end(o) })
}

func (w *walk) remove(ip string) {
	o := w.objects[ip]
	delete(w.objects, ip)
	w.queue(0, func() {
		w.index.objects.OnDelete(o)
		w.free(ip, w.seen[o.Annotations["service"]], upstream.OwnedByOperator(o))
	})
}

// end: whatever the cluster shows ends a cool-down, but for the object that says so.
func (w *walk) end(o *networkingv1.IPAddress) {
	delete(w.coolUntil, o.Name)
	if upstream.OwnedByOperator(o) {
		w.coolUntil[o.Name] = newOwned(o).Released.Add(walkCoolDown)
	}
}

// free notes that an address is free as far as was delivered, and should cool, or not.
func (w *walk) free(ip string, held, owned bool) {
	if _, used := w.addresses[addr(ip)]; used {
		return
	}
	switch {
	case owned: // the Service that it stopped cooling for may not use it: it cools until its time is over
	case held:
		w.coolUntil[ip] = w.clock.Now().Add(walkCoolDown)
	default:
		w.coolUntil[ip] = w.clock.Now().Add(doubt)
	}
}

func (w *walk) createService(ip string) {
	w.names++
	name := fmt.Sprint("s", w.names)
	if there := w.objects[ip]; there != nil {
		if w.yielded[ip] {
			return // the watch was behind by more than a second, and the API server refuses one of the two
		}
		w.errorf("%s was drawn, and the API server has it: %v", ip, there.Labels)
		return
	}
	o := allocated(ip, name)
	o.Annotations = map[string]string{"service": name}
	w.store(o)
	if w.random.IntN(4) == 0 { // the creation fails
		w.remove(ip)
		return
	}
	w.services[name], w.born[name] = ip, w.clock.Now()
	w.queue(1, func() { w.seen[name] = true; w.index.services.OnAdd(service(name, ip), false); delete(w.coolUntil, ip) })
}

func (w *walk) deleteService(name string) {
	ip := w.services[name]
	delete(w.services, name)
	w.queue(1, func() { w.index.services.OnDelete(service(name, ip)); w.free(ip, true, false) })
	w.remove(ip)
}

// deliver hands over the next event of a watch.
func (w *walk) deliver(watch int) {
	if len(w.pending[watch]) > 0 {
		tell := w.pending[watch][0].tell
		w.pending[watch] = w.pending[watch][1:]
		tell()
	}
}

// draw draws an address, and sends it on its way.
func (w *walk) draw() {
	drawn, err := w.Draw(w.orders[w.random.IntN(2)], forService("x"))
	if err != nil {
		if !errors.Is(err, allocator.ErrFull) {
			w.errorf("drawing: %v", err)
		}
		return
	}
	ip := drawn.Addr.String()
	since, again := w.since[ip]
	_, twice := w.drawn[ip]
	if twice && !w.yielded[ip] && w.clock.Since(since) < yieldSoonest {
		w.errorf("%s was drawn twice, the first time %s ago", ip, w.clock.Since(since))
	}
	w.since[ip], w.yielded[ip] = w.clock.Now(), w.yielded[ip] || again && w.clock.Since(since) < inFlightFor
	_, object := w.Owned(drawn.Addr) // which outlives the cool-down until it is deleted
	if drawn.Cooled != w.cools(ip) && !w.yielded[ip] && !object {
		w.errorf("%s yields: %v, it should cool until %s", ip, drawn.Cooled, w.coolUntil[ip].Sub(epoch))
	}
	if k, ok := w.Owned(drawn.Addr); ok {
		if o := w.objects[ip]; o == nil || o.UID != k.UID {
			w.Lost(drawn.Addr, forService("x"))
			return
		}
		w.remove(ip)
	}
	if w.random.IntN(8) == 0 {
		w.Forget(drawn.Addr, forService("x"))
		return
	}
	w.drawn[ip] = w.clock.Now().Add(time.Duration(w.random.IntN(10000)) * time.Millisecond)
}

func (w *walk) cools(ip string) bool { return w.clock.Now().Before(w.coolUntil[ip]) }

// keep is the reservation controller: it writes what cools down, and deletes what has.
func (w *walk) keep() {
	ip := w.ips[w.random.IntN(len(w.ips))]
	a := addr(ip)
	r, cools := w.Cooling(a)
	k, isOwned := w.Owned(a)
	over := !w.clock.Now().Before(r.Released.Add(walkCoolDown))
	switch there := w.objects[ip]; {
	case isOwned && k.Purpose == v1alpha1.PurposeCooling && cools && over && there != nil && there.UID == k.UID && w.BeginWrite(a):
		w.remove(ip)
		w.EndWrite(a, nil, k.UID)
	case !isOwned && cools && !over && w.BeginWrite(a):
		if there != nil {
			w.EndWrite(a, nil, "")
			return
		}
		w.names++
		o := cooling(ip, fmt.Sprint("uid-", w.names), r.Service.Name, r.Released)
		w.store(o)
		w.EndWrite(a, o, "")
	}
}

func (w *walk) step() {
	defer w.expectAccounts(w.t)
	switch w.random.IntN(10) {
	case 0, 1:
		w.draw()
	case 2:
		if names := slices.Sorted(maps.Keys(w.services)); len(names) > 0 {
			name := names[w.random.IntN(len(names))]
			if w.clock.Since(w.born[name]) > lag { // long enough for both watches to have shown it
				w.deleteService(name)
			}
		}
	case 3:
		w.keep()
	case 4:
		w.pass(time.Duration(w.random.IntN(3000)) * time.Millisecond)
		for watch := range w.pending {
			for len(w.pending[watch]) > 0 && w.clock.Since(w.pending[watch][0].at) > lag {
				w.deliver(watch)
			}
		}
	default:
		w.deliver(w.random.IntN(2))
	}
	for _, ip := range w.ips {
		if at, ok := w.drawn[ip]; ok && !w.clock.Now().Before(at) {
			delete(w.drawn, ip)
			w.createService(ip)
		}
	}
}

// A single replica hands out no address in use, in whatever order the watches tell; lets cool what
// should; and keeps nothing at the end.
func TestRandomWalkOfASingleReplica(t *testing.T) {
	for seed := range uint64(60) {
		w := newWalk(t, seed)
		for range 1500 {
			w.step()
			if t.Failed() {
				return
			}
		}
		w.arriveAll()
		for _, ip := range w.ips {
			if got, want := w.State(addr(ip)) == allocator.Cooling, w.cools(ip); w.objects[ip] == nil && !w.yielded[ip] && got != want {
				w.errorf("all is delivered: %s is %v, should cool: %v", ip, w.State(addr(ip)), want)
			}
		}
		for _, name := range slices.Sorted(maps.Keys(w.services)) {
			w.deleteService(name)
		}
		w.arriveAll()
		w.pass(2 * walkCoolDown)
		for _, ip := range w.ips {
			if w.objects[ip] != nil {
				w.remove(ip)
			}
		}
		w.arriveAll()
		w.expectNothing(t, fmt.Sprintf("walk %d, at the end", seed))
	}
}

// arriveAll lets everything arrive that is on its way, and every assumption end.
func (w *walk) arriveAll() {
	for _, ip := range slices.Sorted(maps.Keys(w.drawn)) {
		w.Forget(addr(ip), forService("x"))
		delete(w.drawn, ip)
	}
	for len(w.pending[0])+len(w.pending[1]) > 0 {
		w.deliver(w.random.IntN(2))
	}
	w.pass(inFlightFor)
}
