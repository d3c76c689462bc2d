package addressindex

import (
	"math/rand/v2"
	"net/netip"
	"slices"
	"strings"
	"testing"
	"time"

	networkingv1 "k8s.io/api/networking/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	clocktesting "k8s.io/utils/clock/testing"

	"github.com/clusterip-operator/clusterip-operator/allocator"
	"github.com/clusterip-operator/clusterip-operator/api/v1alpha1"
)

// both are addresses that most tests are done with, one of each family.
var both = []string{"10.0.0.200", "fd00::200"}

// epoch is when tests begin.
var epoch = time.Unix(1_700_000_000, 0).UTC()

// rules are plain Rules: everything cools equally long, and what is reserved is listed.
type rules struct {
	coolDown time.Duration
	reserved map[netip.Addr]bool
}

func (r rules) CoolsDown(netip.Addr) time.Duration { return r.coolDown }
func (r rules) Reserves(a netip.Addr) bool         { return r.reserved[a] }

func reserving(texts ...string) rules {
	r := rules{reserved: map[netip.Addr]bool{}}
	for _, text := range texts {
		r.reserved[addr(text)] = true
	}
	return r
}

// timed is an index whose clock is set by hand, in a cluster with one ServiceCIDR of each family.
type timed struct {
	index
	clock *clocktesting.FakePassiveClock
}

func newTimed(r Rules) timed {
	clk := clocktesting.NewFakePassiveClock(epoch)
	l := NewWithClock(clk)
	l.SetRules(r)
	b := index{l, Handler(l.serviceChanged), Handler(l.ipAddressChanged), Handler(l.serviceCIDRChanged), Handler(l.nodeChanged)}
	b.cidrs.OnAdd(cidr("kubernetes", "10.0.0.0/24", "fd00::/112"), true)
	return timed{b, clk}
}

// pass lets time go by, and sweeps.
func (b timed) pass(d time.Duration) {
	b.clock.SetTime(b.clock.Now().Add(d))
	b.Sweep()
}

// serve lets the API server give an address to a Service, release takes it back, event by event.
func (b timed) serve(name, ip string) {
	b.objects.OnAdd(allocated(ip, name), false)
	b.services.OnAdd(service(name, ip), false)
}

func (b timed) release(name, ip string) {
	b.services.OnDelete(service(name, ip))
	b.objects.OnDelete(allocated(ip, name))
}

// cooled is an index in which the address of a Service that came and went cools down for an hour.
func cooled(ip string) timed {
	b := newTimed(rules{coolDown: time.Hour})
	b.served("a", ip)
	return b
}

// served is serve and release: a Service came and went.
func (b timed) served(name, ip string) {
	b.serve(name, ip)
	b.release(name, ip)
}

// allocated is the IPAddress that the API server writes for a Service.
func allocated(ip, name string) *networkingv1.IPAddress {
	o := object(ip, v1alpha1.ManagedByAPIServer)
	o.Spec.ParentRef = &networkingv1.ParentReference{Resource: "services", Namespace: "ns", Name: name}
	return o
}

// ownedIP is an IPAddress of ours.
func ownedIP(ip, purpose, uid string) *networkingv1.IPAddress {
	o := object(ip, v1alpha1.ManagedByOperator)
	o.UID, o.ResourceVersion = types.UID(uid), uid
	o.CreationTimestamp = metav1.Time{Time: epoch}
	o.Labels[v1alpha1.LabelPurpose] = purpose
	return o
}

func cooling(ip, uid, service string, released time.Time) *networkingv1.IPAddress {
	o := ownedIP(ip, v1alpha1.PurposeCooling, uid)
	if released.After(epoch) {
		o.CreationTimestamp = metav1.Time{Time: released}
	}
	o.Annotations = map[string]string{
		v1alpha1.AnnotationLastService: "ns/" + service, v1alpha1.AnnotationReleased: released.UTC().Format(time.RFC3339Nano),
	}
	return o
}

func (b timed) expect(t *testing.T, what, ip string, want allocator.State) {
	t.Helper()
	if got := b.State(addr(ip)); got != want {
		t.Errorf("%s: %s is %v, want %v", what, ip, got, want)
	}
}

func (b timed) expectCoolDown(t *testing.T, what, ip, service string, released time.Time) {
	t.Helper()
	got, ok := b.Cooling(addr(ip))
	want := CoolDown{Service: types.NamespacedName{Namespace: "ns", Name: service}, Released: released}
	if !ok || got.Service != want.Service || !got.Released.Equal(want.Released) {
		t.Errorf("%s: %s cools (%v) as %v, want %v", what, ip, ok, got, want)
	}
}

// expectNothing checks that nothing is remembered of any address.
func (b timed) expectNothing(t *testing.T, what string) {
	t.Helper()
	if n := len(b.addresses) + len(b.owned.at) + len(b.owned.additional) + len(b.written.at) + len(b.written.additional) + b.flights.Len() + len(b.coolDowns.at); n != 0 {
		t.Errorf("%s: left are addresses %v, owned %v, written %v, %d in flight, cooling %v", what,
			b.addresses, b.owned, b.written, b.flights.Len(), b.coolDowns.at)
	}
	for _, s := range []string{"10.0.0.0/24", "fd00::/112"} {
		if u := b.Usage(mustRange(s).Span()); u.Free != u.Size {
			t.Errorf("%s: of %s the pool has %+v", what, s, u)
		}
	}
}

// tier is a preference order of one tier with these addresses.
func tier(t *testing.T, texts ...string) []*allocator.Tier {
	t.Helper()
	var spans []allocator.Span
	for _, text := range texts {
		spans = append(spans, allocator.Span{First: addr(text), Last: addr(text)})
	}
	tier, err := allocator.NewTier(spans, nil)
	if err != nil {
		t.Fatal(err)
	}
	return []*allocator.Tier{tier}
}

// An IPAddress whose Service was never seen is of a failed creation, probably: it cools briefly.
func TestNothingCoolsThatNoServiceHad(t *testing.T) {
	for _, ip := range both {
		b := newTimed(rules{coolDown: time.Minute})
		for what, o := range map[string]*networkingv1.IPAddress{
			"a creation that failed": allocated(ip, "a"), "an IPAddress of somebody else": object(ip, "somebody.example"),
		} {
			b.objects.OnAdd(o, false)
			b.objects.OnDelete(o)
			if c, ok := b.Cooling(addr(ip)); ok {
				t.Errorf("after %s: %s cools as %v", what, ip, c)
			}
			b.pass(doubt)
			b.expect(t, "after "+what, ip, allocator.Free)
		}
		b.SetRules(rules{})
		b.served("a", ip)
		b.expect(t, "without a cool-down", ip, allocator.Free)
		b.SetRules(rules{coolDown: time.Minute, reserved: map[netip.Addr]bool{addr(ip): true}})
		b.served("a", ip)
		b.expect(t, "of a reservation", ip, allocator.Free)
		b.expectNothing(t, "at the end")
	}
}

// The watches of Services and IPAddresses have no common order: whichever is ahead, and however
// far, a Service that came and went leaves an address that cools, for its time and in its name.
func TestAddressCoolsWhicheverWatchIsAhead(t *testing.T) {
	ip := "fd00::200"
	events := map[string]func(b timed){
		"+service": func(b timed) { b.services.OnAdd(service("a", ip), false) }, "-service": func(b timed) { b.services.OnDelete(service("a", ip)) },
		"ExternalName": func(b timed) { b.services.OnUpdate(service("a", ip), service("a")) },
		"+address":     func(b timed) { b.objects.OnAdd(allocated(ip, "a"), false) }, "-address": func(b timed) { b.objects.OnDelete(allocated(ip, "a")) },
	}
	for _, order := range [][]string{
		{"+service", "+address", "-service", "-address"}, {"+service", "+address", "-address", "-service"}, {"+service", "-service", "+address", "-address"},
		{"+address", "+service", "-service", "-address"}, {"+address", "+service", "-address", "-service"}, {"+address", "-address", "+service", "-service"},
		{"+service", "+address", "ExternalName", "-address"},
	} {
		b := newTimed(rules{coolDown: time.Minute})
		for _, event := range order {
			events[event](b)
			b.clock.SetTime(b.clock.Now().Add(10 * time.Millisecond))
		}
		b.pass(30 * time.Second)
		b.expect(t, strings.Join(order, " "), ip, allocator.Cooling)
		b.expectCoolDown(t, strings.Join(order, " "), ip, "a", epoch.Add(30*time.Millisecond))
		b.pass(31 * time.Second)
		b.expectNothing(t, strings.Join(order, " "))
	}
}

// Additional addresses of a Service cool down as its own do.
func TestAdditionalAddressesCool(t *testing.T) {
	for _, ip := range both {
		b := newTimed(rules{coolDown: time.Minute})
		o := ownedIP(ip, v1alpha1.PurposeAdditional, "1")
		o.Spec.ParentRef = allocated(ip, "a").Spec.ParentRef
		b.objects.OnAdd(o, true)
		if got := b.Additional(named("a")); len(got) != 1 || got[addr(ip)].UID != "1" {
			t.Errorf("additional addresses: %v", got)
		}
		b.objects.OnDelete(o)
		b.expectCoolDown(t, "deleted", ip, "a", epoch)
		b.pass(time.Minute)
		b.expectNothing(t, "a minute later")
	}
}

// A former address stays its Service's, whatever its labels, until the IPAddress is gone; being
// deleted is not enough. Then it cools like any address of the Service.
func TestFormerAddresses(t *testing.T) {
	for _, ip := range both {
		b := newTimed(rules{coolDown: time.Minute})
		b.serve("a", ip)
		held := allocated(ip, "a")
		held.Finalizers, held.UID, held.ResourceVersion = []string{v1alpha1.FinalizerFormer}, "1", "2"
		b.objects.OnUpdate(allocated(ip, "a"), held)
		deleted := held.DeepCopy()
		deleted.DeletionTimestamp, deleted.ResourceVersion = &metav1.Time{Time: epoch}, "3"
		b.objects.OnUpdate(held, deleted) // before the watch of Services shows why
		if got := b.Additional(named("a")); len(got) != 0 {
			t.Errorf("the Service has it: %v", got)
		}
		external := service("a")
		external.Spec.Type = "ExternalName"
		b.services.OnUpdate(service("a", ip), external)
		relabelled := deleted.DeepCopy()
		relabelled.Labels = map[string]string{networkingv1.LabelManagedBy: v1alpha1.ManagedByOperator, v1alpha1.LabelPurpose: v1alpha1.PurposeAdditional}
		relabelled.Annotations = map[string]string{v1alpha1.AnnotationServiceUID: "uid-a"}
		relabelled.ResourceVersion = "4"
		for _, now := range []*networkingv1.IPAddress{deleted, relabelled} {
			b.objects.OnUpdate(deleted, now)
			b.pass(time.Hour)
			b.expect(t, "former", ip, allocator.Allocated)
			got := b.Additional(named("a"))[addr(ip)]
			if !got.Former || !got.Deleted.Equal(epoch) || string(got.ServiceUID) != now.Annotations[v1alpha1.AnnotationServiceUID] {
				t.Errorf("%s is additional as %+v", ip, got)
			}
			if _, err := b.Draw(tier(t, ip), forService("x")); err == nil {
				t.Errorf("%s was drawn", ip)
			}
			if taken, _ := b.Take(addr(ip), forService("a")); taken {
				t.Errorf("%s was taken", ip)
			}
		}
		b.objects.OnDelete(relabelled)
		b.expectCoolDown(t, "gone", ip, "a", b.clock.Now())
		b.pass(time.Minute)
		b.expectNothing(t, "a minute later")
	}
}

// One whose IPAddress was found so by a new replica, which has not seen its Service, cools as long.
func TestAFormerAddressThatNobodyListsCools(t *testing.T) {
	for _, ip := range both {
		b := newTimed(rules{coolDown: time.Minute})
		o := allocated(ip, "a")
		o.Finalizers, o.DeletionTimestamp = []string{v1alpha1.FinalizerFormer}, &metav1.Time{Time: epoch}
		b.objects.OnAdd(o, true)
		b.objects.OnDelete(o)
		b.pass(doubt)
		b.expectCoolDown(t, "gone", ip, "a", epoch)
	}
}

// The one that has cooled for longest yields first, and only when nothing else is left.
func TestCoolingAddressesYieldInOrder(t *testing.T) {
	b := newTimed(rules{coolDown: time.Hour})
	ips := []string{"10.0.0.3", "10.0.0.1", "10.0.0.4", "10.0.0.2"}
	for _, ip := range ips {
		b.served("s", ip)
		b.pass(time.Second)
	}
	l := tier(t, append(ips, "10.0.0.9")...)
	for i, want := range append([]string{"10.0.0.9"}, ips...) {
		drawn, err := b.Draw(l, forService("x"))
		if err != nil || drawn.Addr != addr(want) || drawn.Cooled != (i > 0) {
			t.Fatalf("draw %d: %+v, %v; want %s", i, drawn, err, want)
		}
	}
	if drawn, err := b.Draw(l, forService("x")); err == nil {
		t.Errorf("a sixth address of five: %v", drawn)
	}
}

// After a restart the objects alone say what cools since when, in whatever order they come.
func TestCoolDownsSurviveARestart(t *testing.T) {
	random := rand.New(rand.NewPCG(3, 4))
	ips := []string{"fd00::3", "fd00::1", "fd00::4", "fd00::2", "fd00::5"}
	b := newTimed(rules{coolDown: time.Hour})
	for _, i := range random.Perm(len(ips)) {
		b.objects.OnAdd(cooling(ips[i], "uid-"+ips[i], "s", epoch.Add(time.Duration(i-10)*time.Minute)), true)
	}
	b.expectCoolDown(t, "restarted", ips[2], "s", epoch.Add(-8*time.Minute))
	l := tier(t, ips...)
	for _, want := range ips {
		drawn, err := b.Draw(l, forService("x"))
		if err != nil || drawn.Addr != addr(want) {
			t.Fatalf("drew %v, %v; want %s", drawn.Addr, err, want)
		}
	}
	for _, ip := range ips {
		b.Forget(addr(ip), forService("x"))
		b.expectCoolDown(t, "given back", ip, "s", epoch.Add(time.Duration(slices.Index(ips, ip)-10)*time.Minute))
	}
	if drawn, err := b.Draw(l, forService("x")); err != nil || drawn.Addr != addr(ips[0]) {
		t.Errorf("after all were given back: drew %v, %v; want %s, which has cooled for longest", drawn.Addr, err, ips[0])
	}
}

// A cool-down that is over stays until its object is gone; the controller that keeps it is woken.
func TestObjectOutlivesTheCoolDownUntilItIsDeleted(t *testing.T) {
	for _, ip := range both {
		b := newTimed(rules{coolDown: time.Minute})
		b.objects.OnAdd(cooling(ip, "1", "a", epoch.Add(-30*time.Second)), true)
		var woken []netip.Addr
		b.addressListeners.add(func(a netip.Addr) { woken = append(woken, a) })
		b.pass(29 * time.Second)
		if len(woken) > 0 {
			t.Errorf("woken for %v before the time is over", woken)
		}
		b.pass(time.Second)
		if len(woken) != 1 || woken[0] != addr(ip) {
			t.Errorf("when the time is over: woken for %v, want %s once", woken, ip)
		}
		b.pass(time.Second)
		b.expect(t, "over, with the object there", ip, allocator.Cooling)
		if len(woken) != 1 {
			t.Errorf("woken again for %v", woken[1:])
		}
		b.objects.OnDelete(cooling(ip, "1", "a", epoch))
		b.expectNothing(t, "the object is gone")
	}
}

// An object whose annotations were spoilt cools since its creation.
func TestSpoiltCoolingObject(t *testing.T) {
	o := ownedIP("10.0.0.9", v1alpha1.PurposeCooling, "1")
	o.Annotations = map[string]string{v1alpha1.AnnotationReleased: "yesterday", v1alpha1.AnnotationLastService: "nobody"}
	b := newTimed(rules{coolDown: time.Minute})
	b.objects.OnAdd(o, true)
	got, ok := b.Cooling(addr("10.0.0.9"))
	if want := (CoolDown{Service: types.NamespacedName{Namespace: "nobody"}, Released: epoch}); !ok || got.Service != want.Service || !got.Released.Equal(epoch) {
		t.Errorf("cools (%v) as %v, want %v", ok, got, want)
	}
}

func TestCoolDownsFollowTheRules(t *testing.T) {
	ip := "10.0.0.200"
	for name, tc := range map[string]struct {
		next   Rules
		passes time.Duration
		want   allocator.State
	}{
		"shortened to less than it has cooled":    {rules{coolDown: 10 * time.Second}, 0, allocator.Free},
		"shortened to more than it has cooled":    {rules{coolDown: 40 * time.Second}, 0, allocator.Cooling},
		"shortened, and then time passes":         {rules{coolDown: 40 * time.Second}, 10 * time.Second, allocator.Free},
		"taken away":                              {rules{}, 0, allocator.Free},
		"lengthened":                              {rules{coolDown: time.Hour}, time.Minute, allocator.Cooling},
		"lengthened, and then enough time passes": {rules{coolDown: time.Hour}, time.Hour, allocator.Free},
	} {
		t.Run(name, func(t *testing.T) {
			b := newTimed(rules{coolDown: time.Minute})
			b.served("a", ip)
			b.pass(30 * time.Second)
			b.SetRules(tc.next)
			b.pass(tc.passes)
			b.expect(t, "then", ip, tc.want)
		})
	}
}

// A Service that takes its cooling address again, and whose creation then fails, lets it cool on.
func TestFailedCreationDoesNotEndACoolDown(t *testing.T) {
	ip := "10.0.0.200"
	b := cooled(ip)
	b.pass(time.Second)
	if taken, _ := b.Take(addr(ip), forService("a")); !taken {
		t.Fatal("a cooling address cannot be taken")
	}
	b.objects.OnAdd(allocated(ip, "a"), false)
	b.objects.OnDelete(allocated(ip, "a"))
	b.pass(time.Minute)
	b.expect(t, "after the creation failed", ip, allocator.Cooling)
}

// A reservation that comes while an address cools ends the cool-down: reserved addresses have none.
func TestReservationEndsACoolDown(t *testing.T) {
	ip := "10.0.0.200"
	b := cooled(ip)
	r := reserving(ip)
	r.coolDown = time.Hour
	b.SetRules(r)
	b.objects.OnAdd(ownedIP(ip, v1alpha1.PurposeReservation, "1"), false)
	b.expect(t, "reserved", ip, allocator.Reserved)
	if c, ok := b.Cooling(addr(ip)); ok {
		t.Errorf("the reserved address cools, too: %v", c)
	}
}
