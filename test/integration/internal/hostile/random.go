package hostile

import (
	"context"
	"fmt"
	"maps"
	"math/rand/v2"
	"net/netip"
	"slices"
	"strings"
	"sync"
	"time"
)

// Target is what tenants want.
type Target struct {
	// Closed are the ranges, one per family, that are closed to the tenants, Open are open ones.
	Closed, Open [2]netip.Prefix
}

// Tally counts what was sent and what became of it. The zero Tally is empty; its methods may be
// called concurrently.
type Tally struct {
	mu     sync.Mutex
	counts map[string]int
}

func (t *Tally) add(what string, answers ...Answer) {
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.counts == nil {
		t.counts = map[string]int{}
	}
	for _, a := range answers {
		t.counts[fmt.Sprintf("%s %d", what, a.Code)]++
	}
}

// Sent is how many requests there were.
func (t *Tally) Sent() (n int) {
	t.mu.Lock()
	defer t.mu.Unlock()
	for _, m := range t.counts {
		n += m
	}
	return n
}

// String is for a report: each attack with the codes of its answers. The code 0 stands for none.
func (t *Tally) String() string {
	t.mu.Lock()
	defer t.mu.Unlock()
	var parts []string
	for _, what := range slices.Sorted(maps.Keys(t.counts)) {
		parts = append(parts, fmt.Sprintf("%s: %d", what, t.counts[what]))
	}
	return strings.Join(parts, ", ")
}

// Extra is the ServiceCIDR from which a policy may allow a tenant additional addresses.
const Extra = "extra"

// own is how many names a tenant uses for Services that it may store, overwrite and delete.
const own = 24

// attacker is one goroutine of a tenant.
type attacker struct {
	*Tenant
	Target
	rng   *rand.Rand
	tally *Tally
	id, n int
}

// Attack sends everything that this package knows, at random, as fast as the API server answers,
// until ctx ends. Of two runs with the same numbers each goroutine sends the same in the same
// order.
func (t *Tenant) Attack(ctx context.Context, target Target, workers int, seed uint64, tally *Tally) {
	var all sync.WaitGroup
	for id := range workers {
		a := &attacker{Tenant: t, Target: target, rng: rand.New(rand.NewPCG(seed, uint64(id))), tally: tally, id: id} //nolint:gosec // to be repeated
		all.Go(func() {
			for ctx.Err() == nil {
				a.act(ctx)
			}
		})
	}
	all.Wait()
}

// chance returns an address of a pair of ranges, of each family.
func (a *attacker) chance(of [2]netip.Prefix) (four, six string) {
	pick := func(p netip.Prefix) string {
		address := p.Addr()
		for range 1 + a.rng.IntN(250) {
			address = address.Next()
		}
		return address.String()
	}
	return pick(of[0]), pick(of[1])
}

// act sends one thing. The larger something is, the rarer it comes: the tenant wants to be fast.
func (a *attacker) act(ctx context.Context) {
	a.n++
	name := fmt.Sprintf("own-%d-%d", a.id, a.rng.IntN(own))
	fresh := fmt.Sprintf("never-%d-%d", a.id, a.n)
	four, six := a.chance(a.Closed)
	switch roll := a.rng.IntN(1000); {
	case roll < 4:
		a.tally.add("44,000 ports", a.Intrude(ctx, fresh, pick(a.rng, JSON, Protobuf), ManyPorts, four, six)...)
		a.tally.add("deletion", a.Delete(ctx, fresh))
	case roll < 7:
		a.tally.add("44,000 ports later", a.IntrudeLater(ctx, fresh, ManyPorts, four, six)...)
		a.tally.add("deletion", a.Delete(ctx, fresh))
	case roll < 10:
		a.tally.add("65,533 addresses", a.Create(ctx, AllOf(fresh, pick(a.rng, a.Open[0], a.Open[1], a.Closed[0]), 65_533)))
	case roll < 20:
		a.tally.add("8,000 families", a.Create(ctx, ManyFamilies(fresh, 8000)))
	case roll < 24:
		a.tally.add("a name of 2.4 MiB", a.Create(ctx, Plain(fmt.Sprintf("%s-%s", Long(LargeName), fresh))))
	case roll < 34:
		a.tally.add("a name of escapes", a.Create(ctx, Choosing(fresh+Escaping(120<<10), four, six)))
	case roll < 44:
		a.tally.add("every way", a.AskEveryWay(ctx, fresh, four, six)...)
		for i := range 9 {
			for _, kind := range []string{"", "-put", "-applied", "-alias"} {
				a.tally.add("deletion", a.Delete(ctx, fmt.Sprintf("%s%s-%d", fresh, kind, i)))
			}
		}
		a.tally.add("deletion", a.Delete(ctx, fresh), a.Delete(ctx, fresh+"-external"))
	case roll < 64:
		annotation := pick(a.rng, "clusterip-operator.io/former-ips", "clusterip-operator.io/additional-ips-from", "clusterip-operator.io/renumbering", "other")
		a.tally.add("large annotations", a.Replace(ctx, name, Large(name, annotation, pick(a.rng, Addresses, Names, Long, Escaping)(LargeAnnotations))))
	case roll < 84:
		a.toggle(ctx, name)
	case roll < 150:
		a.annotate(ctx, name)
	case roll < 300:
		a.tally.add("refused by another", a.Create(ctx, Denied(fresh)))
	case roll < 400:
		a.tally.add("invalid", a.Create(ctx, Invalid(fresh)), a.Create(ctx, Misnamed(fresh)))
	case roll < 500:
		openFour, openSix := a.chance(a.Open)
		s := Choosing(fresh, pick(a.rng, openFour, openSix, four, six))
		a.tally.add("asking", a.DryRun(ctx, s))
	case roll < 600:
		a.tally.add("churn", a.Create(ctx, Plain(fresh)), a.Delete(ctx, fresh))
	case roll < 700:
		a.turn(ctx, name)
	case roll < 760:
		a.giveUp(ctx, fresh)
	case roll < 800:
		a.hangUp(ctx, fresh)
	case roll < 900:
		a.tally.add("creation", a.Create(ctx, Plain(name)))
	default:
		a.tally.add("deletion", a.Delete(ctx, name))
	}
}

// annotate changes what the operator reads of a Service, again and again.
func (a *attacker) annotate(ctx context.Context, name string) {
	text := pick(a.rng, "exclusive", "open", fmt.Sprintf("nowhere-%d", a.n), "not a name!", Escaping(200), Names(4096), "")
	a.tally.add("annotation", a.Merge(ctx, name, Fields{"metadata": Fields{"annotations": Fields{
		pick(a.rng, "clusterip-operator.io/additional-ips-from", "clusterip-operator.io/former-ips"): text,
	}}}))
}

// toggle takes additional addresses that a policy allows, and lets go of them.
func (a *attacker) toggle(ctx context.Context, name string) {
	for _, text := range []string{Extra, ""} {
		a.tally.add("toggling", a.Merge(ctx, name, Fields{"metadata": Fields{"annotations": Fields{"clusterip-operator.io/additional-ips-from": text}}}))
		sleep := time.NewTimer(time.Duration(a.rng.IntN(50)) * time.Millisecond)
		select {
		case <-ctx.Done():
		case <-sleep.C:
		}
	}
}

// turn makes a Service one without an address, and gives it some again.
func (a *attacker) turn(ctx context.Context, name string) {
	four, six := a.chance(a.Open)
	long := netip.MustParseAddr(six).StringExpanded()
	a.tally.add("turning", a.Merge(ctx, name, Fields{"spec": Fields{
		"type": "ExternalName", "externalName": "being-renumbered.invalid", "clusterIP": nil, "clusterIPs": nil, "ipFamilies": nil, "ipFamilyPolicy": nil,
	}}), a.Merge(ctx, name, becoming(pick(a.rng, []string{four}, []string{six}, []string{long}, []string{four, six})...)))
}

// giveUp closes the connection while the API server is at work.
func (a *attacker) giveUp(ctx context.Context, name string) {
	short, cancel := context.WithTimeout(ctx, time.Duration(a.rng.IntN(20))*time.Millisecond)
	defer cancel()
	a.tally.add("given up", a.Create(short, Denied(name)), a.Create(short, Misnamed(name)))
	a.tally.add("deletion", a.Delete(ctx, Denied(name)["metadata"].(Fields)["name"].(string)))
}

// hangUp closes the connection while a creation waits for an address: a range that is full, and in
// which Services come and go, makes it wait for more than a second. The name is a good one, so that
// nothing but the tenant ends the request.
func (a *attacker) hangUp(ctx context.Context, name string) {
	short, cancel := context.WithTimeout(ctx, 100*time.Millisecond)
	defer cancel()
	a.tally.add("hung up", a.Create(short, Plain(name)))
	a.tally.add("deletion", a.Delete(ctx, name))
}

// pick returns one of several things.
func pick[T any](rng *rand.Rand, of ...T) T { return of[rng.IntN(len(of))] }
