package addressindex

import (
	"cmp"
	"fmt"
	"maps"
	"math/rand/v2"
	"net/netip"
	"slices"
	"testing"
	"time"

	"k8s.io/apimachinery/pkg/types"

	"github.com/clusterip-operator/clusterip-operator/allocator"
	"github.com/clusterip-operator/clusterip-operator/api/v1alpha1"
)

// wideRanges are two in which more addresses cool down than a namespace may have.
var wideRanges = []string{"10.8.0.0/20", "fd00:8::/116"}

// some are the first n addresses of a range.
func some(prefix string, n int) (out []netip.Addr) {
	for a := mustRange(prefix).Span().First; len(out) < n; a = a.Next() {
		out = append(out, a)
	}
	return out
}

// churn has a Service of a namespace come and go at each address, a millisecond apart.
func (b timed) churn(namespace string, at ...netip.Addr) {
	for _, a := range at {
		s, o := service("s", a.String()), allocated(a.String(), "s")
		s.Namespace, o.Spec.ParentRef.Namespace = namespace, namespace
		b.objects.OnAdd(o, false)
		b.services.OnAdd(s, false)
		b.services.OnDelete(s)
		b.objects.OnDelete(o)
		b.clock.SetTime(b.clock.Now().Add(time.Millisecond))
	}
}

// left are those of some addresses that cool down.
func (b timed) left(of []netip.Addr) []netip.Addr {
	return slices.DeleteFunc(slices.Clone(of), func(a netip.Addr) bool { return b.State(a) != allocator.Cooling })
}

// expectAccounts checks that an address is in the account of its namespace, or surplus, exactly if
// it can be drawn from those that cool down.
func (b timed) expectAccounts(t *testing.T) {
	t.Helper()
	in := 0
	for i := range b.coolDowns.byFamily {
		f := &b.coolDowns.byFamily[i]
		in += f.surplus.Len()
		for rank, one := range f.ranked {
			in += one.cooling.Len()
			if one.rank != rank || f.of[one.namespace] != one || rank > 0 && f.ranked[rank-1].cooling.Len() < one.cooling.Len() {
				t.Fatalf("account %d, of %q: %+v", rank, one.namespace, one)
			}
		}
		if len(f.of) != len(f.ranked) {
			t.Fatalf("accounts %v, ranked %v", f.of, f.ranked)
		}
	}
	for a, c := range b.coolDowns.at {
		f := b.coolDowns.family(a)
		_, known := f.surplus.Since(a)
		if one := f.of[c.Service.Namespace]; one != nil && !known {
			_, known = one.cooling.Since(a)
		}
		if cools := b.State(a) == allocator.Cooling; cools != known {
			t.Fatalf("%s is %v, in an account: %v", a, b.State(a), known)
		} else if known {
			in--
		}
	}
	if in != 0 {
		t.Fatalf("%d addresses too many are in accounts", in)
	}
}

func TestNamespaceEndsItsOwnCoolDowns(t *testing.T) {
	for _, prefix := range wideRanges {
		b := newTimed(rules{coolDown: time.Hour})
		all := some(prefix, 2*maxCooling)
		theirs, own := all[:20], all[20:]
		b.churn("neighbour", theirs...)
		b.churn("tenant", own...)
		b.Sweep()
		if got := b.left(theirs); len(got) != len(theirs) {
			t.Errorf("of the neighbour's %d addresses cool down %v", len(theirs), got)
		}
		if got, want := b.left(own), own[len(own)-maxCooling:]; !slices.Equal(got, want) {
			t.Errorf("of the tenant's cool down %d, %v; want the latest %d", len(got), got, len(want))
		}
		b.expectAccounts(t)
		b.pass(time.Hour)
		b.expectNothing(t, "an hour later")
	}
}

// After a restart the objects come in any order. The controller that deletes them is told of the
// same ones, each once, and what is deleted is free.
func TestSurplusIsTheSameAfterARestart(t *testing.T) {
	const surplus = 40
	for _, prefix := range wideRanges {
		b := newTimed(rules{coolDown: time.Hour})
		all := some(prefix, maxCooling+surplus)
		var woken []netip.Addr
		b.addressListeners.add(func(a netip.Addr) { woken = append(woken, a) })
		for _, i := range rand.New(rand.NewPCG(1, 2)).Perm(len(all)) {
			b.objects.OnAdd(cooling(all[i].String(), all[i].String(), "s", epoch.Add(time.Duration(i)*time.Millisecond)), true)
		}
		woken = nil
		b.pass(time.Minute)
		b.pass(time.Minute)
		slices.SortFunc(woken, netip.Addr.Compare)
		if !slices.Equal(woken, all[:surplus]) {
			t.Fatalf("woken for %v, want %v", woken, all[:surplus])
		}
		for _, a := range woken {
			if c, ok := b.Cooling(a); !ok || !c.Surplus {
				t.Errorf("%s cools (%v) as %+v", a, ok, c)
			}
			o := cooling(a.String(), a.String(), "s", epoch)
			touched := o.DeepCopy()
			touched.ResourceVersion = "touched"
			touched.Annotations = map[string]string{v1alpha1.AnnotationLastService: "ns/s", v1alpha1.AnnotationReleased: released(b, a)}
			b.objects.OnUpdate(o, touched)
			if c, _ := b.Cooling(a); !c.Surplus {
				t.Errorf("%s is none too many any more: %+v", a, c)
			}
			b.objects.OnDelete(touched)
			b.expect(t, "deleted", a.String(), allocator.Free)
		}
		b.expectAccounts(t)
	}
}

// released is when an address was, as its IPAddress has it.
func released(b timed, a netip.Addr) string {
	c, _ := b.Cooling(a)
	return c.Released.UTC().Format(time.RFC3339Nano)
}

// A surplus IPAddress that this process deletes does not cool on in memory, whether the watch is
// ahead of the API server's answer or behind it.
func TestSurplusThatIsDeletedIsFree(t *testing.T) {
	for _, ahead := range []bool{true, false} {
		b := newTimed(rules{coolDown: time.Hour})
		all := some("fd00:8::/116", maxCooling+1)
		o := cooling(all[0].String(), "1", "s", epoch)
		b.objects.OnAdd(o, true)
		b.churn("ns", all[1:]...)
		b.churn("ns", all[1]) // it is one of those that are there, so that there is room for another
		if taken, _ := b.Take(all[1], forService("s")); !taken || !b.BeginWrite(all[0]) {
			t.Fatal("cooling addresses cannot be taken")
		}
		if ahead {
			b.objects.OnDelete(o)
		}
		b.EndWrite(all[0], nil, "1")
		if !ahead {
			b.objects.OnDelete(o)
		}
		b.Sweep()
		b.expect(t, fmt.Sprintf("the watch is ahead: %v", ahead), all[0].String(), allocator.Free)
		b.expectAccounts(t)
	}
}

func TestWhoseCoolDownEndsFirst(t *testing.T) {
	for i, ips := range [][]netip.Addr{some("10.0.0.0/24", 20), some("fd00::/112", 20)} {
		order := tier(t, texts(ips)...)
		draw := func(b timed) netip.Addr {
			drawn, err := b.Draw(order, forService("x"))
			if err != nil || !drawn.Cooled {
				t.Fatalf("drew %+v, %v", drawn, err)
			}
			return drawn.Addr
		}

		b := newTimed(rules{coolDown: time.Hour})
		b.churn("neighbour", ips[:5]...)
		b.churn("tenant", ips[5:]...)
		elsewhere := some(wideRanges[i], 100)
		b.churn("another", elsewhere...) // has most, but nothing that may be drawn
		var got []netip.Addr
		for range 10 {
			got = append(got, draw(b))
		}
		// The tenant's, until it has as few as to be treated like all; then by age.
		if want := append(slices.Clone(ips[5:13]), ips[0], ips[1]); !slices.Equal(got, want) {
			t.Errorf("drew %v, want %v", got, want)
		}
		b.expectAccounts(t)

		b = newTimed(rules{coolDown: time.Hour})
		b.churn("neighbour", ips[:5]...)
		b.churn("tenant", ips[5:]...)
		b.churn("tenant", some(wideRanges[i], maxCooling-10)...) // and so five are surplus
		for _, want := range ips[5:10] {
			if got := draw(b); got != want {
				t.Errorf("drew %s, want %s, which is surplus", got, want)
			}
		}
		b.expectAccounts(t)
	}
}

func texts(all []netip.Addr) (out []string) {
	for _, a := range all {
		out = append(out, a.String())
	}
	return out
}

// coolDowns at random against the plainest that could be.
func TestCoolDownsAgainstAnOracle(t *testing.T) {
	for seed := range uint64(10) {
		random := rand.New(rand.NewPCG(seed, 5))
		var d coolDowns
		grounded := map[netip.Addr]CoolDown{} // those that are not in flight
		ips := append(some("10.0.0.0/24", 60), some("fd00::/120", 60)...)
		for range 500 {
			a := ips[random.IntN(len(ips))]
			c := CoolDown{
				Service:  types.NamespacedName{Namespace: fmt.Sprint("ns", min(random.IntN(8), random.IntN(8)))},
				Released: epoch.Add(time.Duration(random.IntN(50)) * time.Second),
			}
			switch random.IntN(6) {
			case 0:
				d.drop(a)
				delete(grounded, a)
			case 1:
				d.lift(a)
				delete(grounded, a)
			case 2:
				d.note(a, c)
				delete(grounded, a)
			default:
				d.put(a, c)
				grounded[a] = c
			}
			for _, prefix := range []string{"10.0.0.0/24", "fd00::/120"} {
				part := some(prefix, 60)[random.IntN(60):]
				got, ok := d.yields(tier(t, texts(part)...))
				if problem := judge(grounded, part, got, ok); problem != "" {
					t.Fatalf("seed %d: of %s yields %s (%v): %s", seed, prefix, got, ok, problem)
				}
			}
		}
		for _, a := range ips {
			d.drop(a)
		}
		for _, f := range d.byFamily {
			if len(d.at)+len(f.of)+len(f.ranked)+f.surplus.Len() > 0 {
				t.Fatalf("seed %d: something is left: %+v", seed, d)
			}
		}
	}
}

// judge says what is wrong with an answer of yields: some of the namespaces with equally many
// addresses may be first, and of the chosen one it has to be the oldest address.
func judge(cooling map[netip.Addr]CoolDown, part []netip.Addr, got netip.Addr, ok bool) string {
	counts, oldest := map[string]int{}, map[string]netip.Addr{}
	byAge := func(a, b netip.Addr) int {
		return cmp.Or(cooling[a].Released.Compare(cooling[b].Released), a.Compare(b))
	}
	for _, a := range slices.SortedFunc(maps.Keys(cooling), byAge) {
		if a.Is4() != part[0].Is4() {
			continue
		}
		namespace := cooling[a].Service.Namespace
		counts[namespace]++
		if _, known := oldest[namespace]; !known && slices.Contains(part, a) {
			oldest[namespace] = a
		}
	}
	most := 0
	for namespace := range oldest {
		most = max(most, counts[namespace])
	}
	switch {
	case most < crowd:
		if ok {
			return "no namespace has many"
		}
		return ""
	case !ok:
		return fmt.Sprintf("a namespace has %d", most)
	case counts[cooling[got].Service.Namespace] != most || oldest[cooling[got].Service.Namespace] != got:
		return fmt.Sprintf("counts %v, oldest %v", counts, oldest)
	default:
		return ""
	}
}
