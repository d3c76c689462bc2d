package addressindex

import (
	"cmp"
	"fmt"
	"math/rand/v2"
	"net/netip"
	"slices"
	"testing"

	corev1 "k8s.io/api/core/v1"
	networkingv1 "k8s.io/api/networking/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/clusterip-operator/clusterip-operator/allocator"
	"github.com/clusterip-operator/clusterip-operator/api/v1alpha1"
)

func cidrs(name string, texts ...string) *networkingv1.ServiceCIDR {
	return &networkingv1.ServiceCIDR{ObjectMeta: metav1.ObjectMeta{Name: name}, Spec: networkingv1.ServiceCIDRSpec{CIDRs: texts}}
}

// TestCovering has ranges inside of others, equal ones and a declared one come, change and go. The
// oracle looks at all of them.
func TestCovering(t *testing.T) {
	r := rand.New(rand.NewPCG(1, 2))
	l := New()
	l.Declare([]allocator.Range{mustRange("10.0.0.0/16"), mustRange("fd00::/112")})
	objects := map[string]*networkingv1.ServiceCIDR{}
	for step := range 2000 {
		name := []string{v1alpha1.DefaultServiceCIDR, "a", "b", "c", "d"}[r.IntN(5)]
		before := objects[name]
		if r.IntN(4) == 0 {
			if before != nil {
				l.serviceCIDRChanged(before, nil, false)
				delete(objects, name)
			}
		} else {
			four, six := 14+2*r.IntN(8), 104+4*r.IntN(5)
			now := cidrs(name, netip.PrefixFrom(someAddress(r, true), four).Masked().String(), netip.PrefixFrom(someAddress(r, false), six).Masked().String())
			if before != nil && r.IntN(3) == 0 {
				now.Spec = before.Spec
			}
			l.serviceCIDRChanged(before, now, false)
			objects[name] = now
		}
		a := someAddress(r, r.IntN(2) == 0)
		var got, named, want []string
		inside := false
		for _, c := range l.Covering(a) {
			got = append(got, c.Name)
		}
		for _, names := range l.names.Supernets(netip.PrefixFrom(a, a.BitLen())) {
			named = append(named, names...)
		}
		for _, c := range l.ServiceCIDRs() {
			if c.Contains(a) {
				want = append(want, c.Name)
			}
			for _, r := range c.Ranges {
				inside = inside || r.Prefix().Contains(a)
				if first := r.Prefix().Addr(); !l.Inside(first) {
					t.Fatalf("step %d: %s, which no Service can have, is not inside %s", step, first, r)
				}
			}
		}
		if l.Inside(a) != inside {
			t.Fatalf("step %d: %s is inside: %v, want %v", step, a, !inside, inside)
		}
		slices.Sort(got)
		slices.Sort(named)
		if !slices.Equal(got, want) || !slices.Equal(slices.Compact(named), want) {
			t.Fatalf("step %d: %s is covered by %v, its prefixes name %v, want %v", step, a, got, named, want)
		}
	}
}

// someAddress is one of few, so that ranges meet.
func someAddress(r *rand.Rand, four bool) netip.Addr {
	if four {
		return netip.AddrFrom4([4]byte{10, byte(r.IntN(4)), byte(r.IntN(256)), byte(r.IntN(256))})
	}
	b := netip.MustParseAddr("fd00::").As16()
	b[13], b[14], b[15] = byte(r.IntN(4)), byte(r.IntN(256)), byte(r.IntN(256))
	return netip.AddrFrom16(b)
}

// TestOverlapsAgainstAnOracle has nodes come, change and go. The oracle looks at all their
// networks, and at all ranges.
func TestOverlapsAgainstAnOracle(t *testing.T) {
	r := rand.New(rand.NewPCG(3, 4))
	some := func() netip.Prefix {
		if r.IntN(2) == 0 {
			return netip.PrefixFrom(someAddress(r, true), 12+r.IntN(21)).Masked()
		}
		return netip.PrefixFrom(someAddress(r, false), 100+r.IntN(29)).Masked()
	}
	l := newIndex()
	nodes := map[string]*corev1.Node{}
	for step := range 2000 {
		name := fmt.Sprint("n-", r.IntN(6))
		before := nodes[name]
		delete(nodes, name)
		if r.IntN(3) > 0 {
			nodes[name] = &corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: name}, Spec: corev1.NodeSpec{PodCIDRs: []string{some().String(), some().String()}}}
		}
		l.nodeChanged(cmp.Or(before, &corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: name}}), nodes[name], false)
		l.serviceCIDRChanged(nil, cidrs(fmt.Sprint("c-", r.IntN(4)), some().String()), false)

		asked := []netip.Prefix{some(), some()}
		overlap := func(p netip.Prefix) bool { return slices.ContainsFunc(asked, p.Overlaps) }
		var got, want []string
		for _, n := range l.Overlaps(asked, nil) {
			got = append(got, n.Owner+" "+n.Prefix.String())
		}
		for name, n := range nodes {
			for _, text := range slices.Compact(slices.Clone(n.Spec.PodCIDRs)) {
				if overlap(netip.MustParsePrefix(text)) {
					want = append(want, "node "+name+" "+text)
				}
			}
		}
		slices.Sort(got)
		slices.Sort(want)
		var met []string
		for _, c := range l.ServiceCIDRs() {
			if overlap(c.Ranges[0].Prefix()) {
				met = append(met, c.Name)
			}
		}
		if !slices.Equal(got, want) || !slices.Equal(l.meeting(asked), met) {
			t.Fatalf("step %d: %v meets %v and %v, want %v and %v", step, asked, got, l.meeting(asked), want, met)
		}
	}
}

// BenchmarkOverlaps asks for the networks in a range, among those of so many nodes.
func BenchmarkOverlaps(b *testing.B) {
	for _, n := range []int{50, 5000} {
		l := New()
		for i := range n {
			l.nodeChanged(nil, node(fmt.Sprint("n-", i), fmt.Sprintf("172.%d.%d.0/24", 16+i>>8, i&255), fmt.Sprintf("fd01:%x::/64", i)), true)
		}
		asked := []netip.Prefix{netip.MustParsePrefix("10.96.0.0/16"), netip.MustParsePrefix("fd00::/112")}
		b.Run(fmt.Sprint("nodes=", n), func(b *testing.B) {
			for b.Loop() {
				if len(l.Overlaps(asked, nil)) > 0 {
					b.Fatal("there is one")
				}
			}
		})
	}
}

// BenchmarkCovering looks addresses up among so many ServiceCIDRs of two families.
func BenchmarkCovering(b *testing.B) {
	for _, n := range []int{1, 1000} {
		l := New()
		for i := range n {
			l.serviceCIDRChanged(nil, cidrs(fmt.Sprint("z-", i), fmt.Sprintf("10.%d.%d.0/24", i>>8, i&255), fmt.Sprintf("fd00:%x::/120", i)), true)
		}
		for _, a := range []string{"10.0.0.9", "fd00::9"} {
			b.Run(fmt.Sprintf("servicecidrs=%d/%s", n, a), func(b *testing.B) {
				for at := addr(a); b.Loop(); {
					if len(l.Covering(at)) != 1 {
						b.Fatal("no range")
					}
				}
			})
		}
	}
}
