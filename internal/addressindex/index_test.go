package addressindex

import (
	"fmt"
	"math/rand/v2"
	"net/netip"
	"slices"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	networkingv1 "k8s.io/api/networking/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	toolscache "k8s.io/client-go/tools/cache"

	"github.com/clusterip-operator/clusterip-operator/allocator"
	"github.com/clusterip-operator/clusterip-operator/api/v1alpha1"
)

// index is an address index driven by hand, as informers drive it.
type index struct {
	*Index
	services, objects, cidrs, nodes toolscache.ResourceEventHandler
}

func newIndex() index {
	l := New()
	return index{l, Handler(l.serviceChanged), Handler(l.ipAddressChanged), Handler(l.serviceCIDRChanged), Handler(l.nodeChanged)}
}

func service(name string, ips ...string) *corev1.Service {
	return &corev1.Service{
		ObjectMeta: metav1.ObjectMeta{Namespace: "ns", Name: name, UID: types.UID("uid-" + name)},
		Spec:       corev1.ServiceSpec{Type: corev1.ServiceTypeClusterIP, ClusterIPs: ips},
	}
}

func object(name, manager string) *networkingv1.IPAddress {
	return &networkingv1.IPAddress{ObjectMeta: metav1.ObjectMeta{
		Name: name, ResourceVersion: manager, Labels: map[string]string{networkingv1.LabelManagedBy: manager},
	}}
}

func cidr(name string, cidrs ...string) *networkingv1.ServiceCIDR {
	return &networkingv1.ServiceCIDR{ObjectMeta: metav1.ObjectMeta{Name: name}, Spec: networkingv1.ServiceCIDRSpec{CIDRs: cidrs}}
}

func terminating(c *networkingv1.ServiceCIDR) *networkingv1.ServiceCIDR {
	c = c.DeepCopy()
	c.DeletionTimestamp = &metav1.Time{Time: time.Unix(1, 0)}
	return c
}

func addr(text string) netip.Addr { return netip.MustParseAddr(text) }

func TestClaimsFollowTheService(t *testing.T) {
	b := newIndex()
	before, after := service("a", "10.0.0.5"), service("a", "10.0.0.5", "fd00::5")
	b.services.OnAdd(before, true)
	b.services.OnAdd(service("b", "10.0.0.5"), true)
	b.services.OnUpdate(before, after)

	want := []types.NamespacedName{{Namespace: "ns", Name: "a"}, {Namespace: "ns", Name: "b"}}
	if diff := cmp.Diff(want, b.Claims(addr("10.0.0.5"))); diff != "" {
		t.Errorf("claims of a duplicate (-want +got):\n%s", diff)
	}
	external := service("a", "10.0.0.5") // an old API server left the address there
	external.Spec.Type = corev1.ServiceTypeExternalName
	b.services.OnUpdate(after, external)
	if got := b.Claims(addr("fd00::5")); len(got) != 0 {
		t.Errorf("an ExternalName Service claims %v", got)
	}
}

func TestClusterIPs(t *testing.T) {
	for name, tc := range map[string]struct {
		service *corev1.Service
		want    []netip.Addr
	}{
		"dual stack":           {service("a", "10.0.0.5", "fd00::5"), []netip.Addr{addr("10.0.0.5"), addr("fd00::5")}},
		"headless":             {service("a", corev1.ClusterIPNone), nil},
		"leading zeros":        {service("a", "010.000.0.05"), []netip.Addr{addr("10.0.0.5")}},
		"IPv4-mapped":          {service("a", "::ffff:10.0.0.5"), []netip.Addr{addr("10.0.0.5")}},
		"not canonical":        {service("a", "FD00:0:0::05"), []netip.Addr{addr("fd00::5")}},
		"no address, left out": {service("a", "ten"), nil},
		"not yet allocated":    {service("a", ""), nil},
	} {
		t.Run(name, func(t *testing.T) {
			if diff := cmp.Diff(tc.want, ClusterIPs(tc.service), cmp.Comparer(func(a, b netip.Addr) bool { return a == b })); diff != "" {
				t.Errorf("(-want +got):\n%s", diff)
			}
		})
	}
}

func TestOrphans(t *testing.T) {
	span := func(first, last string) allocator.Span { return allocator.Span{First: addr(first), Last: addr(last)} }
	for name, tc := range map[string]struct {
		others []*networkingv1.ServiceCIDR
		want   []allocator.Span
	}{
		"alone": {nil, []allocator.Span{span("10.0.0.1", "10.0.0.254"), span("fd00::1", "fd00::ff")}},
		"covered by a wider range of each family, whose network address is not ours": {
			[]*networkingv1.ServiceCIDR{cidr("wide", "10.0.0.0/16", "fd00::/64")}, nil},
		"equal range that is deleted too is no cover": {
			[]*networkingv1.ServiceCIDR{terminating(cidr("twin", "10.0.0.0/24", "fd00::/120"))},
			[]allocator.Span{span("10.0.0.1", "10.0.0.254"), span("fd00::1", "fd00::ff")}},
		"upper half covered; its network address was usable in the whole and is not in the half": {
			[]*networkingv1.ServiceCIDR{cidr("half", "10.0.0.128/25"), cidr("six", "fd00::/64")},
			[]allocator.Span{span("10.0.0.1", "10.0.0.128")}},
	} {
		t.Run(name, func(t *testing.T) {
			b := newIndex()
			b.cidrs.OnAdd(terminating(cidr("it", "10.0.0.0/24", "fd00::/120")), true)
			for _, o := range tc.others {
				b.cidrs.OnAdd(o, true)
			}
			got := b.Orphans("it")
			if !slices.Equal(got, tc.want) {
				t.Errorf("got %v, want %v", got, tc.want)
			}
		})
	}
}

func TestBandOf(t *testing.T) {
	b := newIndex()
	b.cidrs.OnAdd(cidr("wide", "10.0.0.0/16", "fd00::/112"), true)
	b.cidrs.OnAdd(cidr("narrow", "10.0.4.0/24"), true)
	for a, want := range map[string]string{
		"10.0.0.200": "static", "10.0.3.200": "dynamic", "fd00::100": "static", "fd00::101": "dynamic",
		"10.0.4.5":   "static", // dynamic in the wide range, static in the narrow one
		"10.0.4.200": "dynamic",
	} {
		if got, ok := b.BandOf(addr(a)); !ok || got.String() != want {
			t.Errorf("%s is %v (%v), want %s", a, got, ok, want)
		}
	}
	if _, ok := b.BandOf(addr("192.168.0.1")); ok {
		t.Error("an address outside of every range has a band")
	}
}

// An event must wake exactly the listeners that it can concern.
func TestListeners(t *testing.T) {
	b := newIndex()
	var addresses, covers []netip.Addr
	var ranges []string
	b.addressListeners.add(func(a netip.Addr) { addresses = append(addresses, a) })
	b.coverListeners.add(func(a netip.Addr) { covers = append(covers, a) })
	b.rangeListeners.add(func(n string) { ranges = append(ranges, n) })
	b.usageListeners.add(func(n string) { ranges = append(ranges, "use of "+n) })
	expect := func(what string, wantAddresses, wantCovers []netip.Addr, wantRanges []string) {
		t.Helper()
		slices.Sort(ranges)
		if !slices.Equal(addresses, wantAddresses) || !slices.Equal(covers, wantCovers) || !slices.Equal(slices.Compact(ranges), wantRanges) {
			t.Errorf("%s woke addresses %v, covers %v, ranges %v; want %v, %v, %v", what, addresses, covers, ranges, wantAddresses, wantCovers, wantRanges)
		}
		addresses, covers, ranges = nil, nil, nil
	}
	five := []netip.Addr{addr("10.0.0.5")}

	b.cidrs.OnAdd(cidr("a", "10.0.0.0/24"), true)
	expect("a new range", nil, nil, []string{"a"})
	b.services.OnAdd(service("s", "10.0.0.5"), false)
	expect("a new claim", five, nil, []string{"use of a"})
	b.services.OnUpdate(service("s", "10.0.0.5"), service("s", "10.0.0.5"))
	expect("an update of something else", nil, nil, nil)
	b.objects.OnUpdate(object("10.0.0.5", "x"), object("10.0.0.5", "x"))
	expect("a resync", nil, nil, nil)
	b.cidrs.OnAdd(cidr("b", "10.0.0.0/16"), false)
	expect("an overlapping range", nil, five, []string{"a", "b"})
	b.cidrs.OnUpdate(cidr("b"), cidr("b", "10.0.0.0/16"))
	expect("a new condition", nil, nil, []string{"b"})
	b.cidrs.OnUpdate(cidr("b"), terminating(cidr("b", "10.0.0.0/16")))
	expect("the end of the cover", nil, append(five, five...), []string{"a", "b"})
	b.nodes.OnAdd(node("n", "10.0.0.128/25"), false)
	expect("a node inside of both", nil, nil, []string{"use of a", "use of b"})
	b.nodes.OnUpdate(node("n"), node("n", "10.0.0.128/25"))
	expect("a heartbeat", nil, nil, nil)
	b.nodes.OnUpdate(node("n"), node("n", "10.0.77.0/24"))
	expect("a node that moved out of one", nil, nil, []string{"use of a", "use of b"})
}

func node(name string, podCIDRs ...string) *corev1.Node {
	return &corev1.Node{
		ObjectMeta: metav1.ObjectMeta{Name: name},
		Spec:       corev1.NodeSpec{PodCIDRs: podCIDRs},
		Status:     corev1.NodeStatus{Addresses: []corev1.NodeAddress{{Type: corev1.NodeHostName, Address: name}, {Type: corev1.NodeInternalIP, Address: "192.0.2.7"}}},
	}
}

func TestAllocationsAreCountedAfterTheFirstListing(t *testing.T) {
	b := newIndex()
	for _, name := range []string{"a", "b"} {
		b.cidrs.OnAdd(cidr(name, "10.0.0.0/24"), true)
	}
	b.objects.OnAdd(object("10.0.0.200", v1alpha1.ManagedByAPIServer), true)
	b.objects.OnAdd(object("10.0.0.201", v1alpha1.ManagedByAPIServer), false)
	b.objects.OnAdd(object("10.0.0.202", "somebody.example"), false)
	one, another := object("10.0.0.203", v1alpha1.ManagedByAPIServer), object("10.0.0.203", v1alpha1.ManagedByAPIServer)
	b.objects.OnAdd(one, true)
	b.objects.OnUpdate(one, another)
	another.UID = "another"
	b.objects.OnUpdate(one, another)
	b.cidrs.OnUpdate(cidr("a"), cidr("a", "10.0.0.0/24"))
	dynamic := RangeBand{netip.MustParsePrefix("10.0.0.0/24"), allocator.Dynamic}
	for _, name := range []string{"a", "b"} {
		if got := b.Allocations(name, dynamic); got != 2 {
			t.Errorf("%s counts %d allocations, want the one that came after the listing, and the one that came in the place of another", name, got)
		}
	}
	b.cidrs.OnDelete(cidr("a", "10.0.0.0/24"))
	b.cidrs.OnAdd(cidr("a", "10.0.0.0/24"), false)
	if got := b.Allocations("a", dynamic); got != 0 {
		t.Errorf("a range that was created anew inherits %d allocations", got)
	}
}

// After a restore of etcd an IPAddress may have the version of another one that had its name.
func TestAnotherIPAddressOfOneVersionIsIndexed(t *testing.T) {
	for _, ip := range both {
		b := newIndex()
		one := object(ip, v1alpha1.ManagedByAPIServer)
		another := ownedIP(ip, v1alpha1.PurposeReservation, "another")
		another.ResourceVersion = one.ResourceVersion
		b.objects.OnAdd(one, true)
		b.objects.OnUpdate(one, another)
		if got := b.State(addr(ip)); got != allocator.Reserved {
			t.Errorf("%s is %s, not reserved", ip, got)
		}
	}
}

// On an API server with the bitmap the flag is the truth, whatever the object says.
func TestDeclaredRangesHold(t *testing.T) {
	b := newIndex()
	b.Declare([]allocator.Range{mustRange("10.0.0.0/16"), mustRange("fd00::/112")})
	offered := func(what string) {
		t.Helper()
		for _, a := range []string{"10.0.0.5", "fd00::5"} {
			if got := b.Covering(addr(a)); len(got) != 1 || got[0].Name != v1alpha1.DefaultServiceCIDR {
				t.Errorf("%s: %s is offered by %v", what, a, got)
			}
		}
		if got := len(b.ServiceCIDRs()[0].Ranges); got != 2 {
			t.Errorf("%s: the default ServiceCIDR has %d ranges, want two", what, got)
		}
	}
	offered("before the object exists")
	b.cidrs.OnAdd(cidr(v1alpha1.DefaultServiceCIDR, "10.0.0.0/16"), false)
	offered("while the object knows one family")
	if got := b.Orphans(v1alpha1.DefaultServiceCIDR); len(got) != 0 {
		t.Errorf("the default ServiceCIDR would orphan %v, which the flag covers", got)
	}
	b.cidrs.OnDelete(cidr(v1alpha1.DefaultServiceCIDR, "10.0.0.0/16"))
	offered("after the object was deleted")
}

func mustRange(text string) allocator.Range {
	return allocator.MustParseRange(text)
}

// Whatever the order of events on the two watches, the index must end up as if it had been kept:
// used is what has an object or a claim.
func TestRandomHistoryAgainstRecount(t *testing.T) {
	random := rand.New(rand.NewPCG(1, 2))
	b := newIndex()
	b.cidrs.OnAdd(cidr("all", "10.0.0.0/24", "fd00::/120"), true)
	services := map[string]*corev1.Service{}
	objects := map[string]*networkingv1.IPAddress{}
	anyAddress := func() string {
		if random.IntN(2) == 0 {
			return fmt.Sprintf("10.0.0.%d", 1+random.IntN(40))
		}
		return addr(fmt.Sprintf("fd00::%x", 1+random.IntN(40))).String()
	}
	for range 5000 {
		switch name := fmt.Sprint("s", random.IntN(30)); random.IntN(4) {
		case 0:
			next := service(name, anyAddress(), anyAddress())
			if old := services[name]; old != nil {
				b.services.OnUpdate(old, next)
			} else {
				b.services.OnAdd(next, false)
			}
			services[name] = next
		case 1:
			if old := services[name]; old != nil {
				b.services.OnDelete(old)
				delete(services, name)
			}
		case 2:
			o := object(anyAddress(), []string{v1alpha1.ManagedByAPIServer, "somebody.example", ""}[random.IntN(3)])
			b.objects.OnAdd(o, false)
			objects[o.Name] = o
		case 3:
			if o := objects[anyAddress()]; o != nil {
				b.objects.OnDelete(o)
				delete(objects, o.Name)
			}
		}
	}
	used, claimed, reserved := map[netip.Addr]bool{}, map[netip.Addr]bool{}, uint64(0)
	for _, s := range services {
		for _, a := range ClusterIPs(s) {
			used[a], claimed[a] = true, true
			if !slices.Contains(b.Claims(a), types.NamespacedName{Namespace: s.Namespace, Name: s.Name}) {
				t.Errorf("%s claims %s, and the index does not know", s.Name, a)
			}
		}
	}
	for name, o := range objects {
		used[addr(name)] = true
		if stateOf(o) == allocator.Reserved && !claimed[addr(name)] {
			reserved++
		}
	}
	var got allocator.Usage
	for _, r := range b.ServiceCIDRs()[0].Ranges {
		u := b.Usage(r.Span())
		got.Allocated += u.Allocated
		got.Reserved += u.Reserved
		for a := range used {
			if r.Contains(a) && b.State(a) == allocator.Free {
				t.Errorf("%s is in use and the pool has it free", a)
			}
		}
	}
	if got.Allocated+got.Reserved != uint64(len(used)) || got.Reserved != reserved {
		t.Errorf("the index has %d allocated and %d reserved, the recount %d used and %d reserved", got.Allocated, got.Reserved, len(used), reserved)
	}
}

func TestOverlapsAreThoseOfNodesAndThoseDeclared(t *testing.T) {
	l := newIndex()
	l.nodes.OnAdd(node("a", "10.1.3.0/24", "fd01::/64"), true)
	l.nodes.OnAdd(node("b", "10.2.0.0/24"), true)
	l.nodes.OnAdd(node("gone", "10.1.4.0/24"), true)
	l.nodes.OnDelete(node("gone"))
	declared := []Network{{"network office", netip.MustParsePrefix("10.0.0.0/8")}, {"network lab", netip.MustParsePrefix("fd09::/64")}}
	for name, tc := range map[string]struct {
		prefixes []string
		want     []string
	}{
		"nothing":       {prefixes: []string{"192.168.0.0/16", "fd02::/64"}},
		"IPv4":          {prefixes: []string{"10.1.0.0/16"}, want: []string{"network office 10.0.0.0/8", "node a 10.1.3.0/24"}},
		"IPv6":          {prefixes: []string{"fd01::/112"}, want: []string{"node a fd01::/64"}},
		"a host":        {prefixes: []string{"192.0.2.0/24"}, want: []string{"node a 192.0.2.7/32", "node b 192.0.2.7/32"}},
		"both families": {prefixes: []string{"10.2.0.128/25", "fd09::/80"}, want: []string{"network lab fd09::/64", "network office 10.0.0.0/8", "node b 10.2.0.0/24"}},
	} {
		t.Run(name, func(t *testing.T) {
			var prefixes []netip.Prefix
			for _, text := range tc.prefixes {
				prefixes = append(prefixes, netip.MustParsePrefix(text))
			}
			var got []string
			for _, n := range l.Overlaps(prefixes, declared) {
				got = append(got, n.Owner+" "+n.Prefix.String())
			}
			if diff := cmp.Diff(tc.want, got); diff != "" {
				t.Errorf("(-want +got):\n%s", diff)
			}
		})
	}
}
