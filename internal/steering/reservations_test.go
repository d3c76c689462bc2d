package steering

import (
	"fmt"
	"math/rand/v2"
	"net/netip"
	"slices"
	"strings"
	"testing"

	"github.com/clusterip-operator/clusterip-operator/api/v1alpha1"
)

// TestOverlappingReservations compares random reservations of both families with the slow way, by
// which each is held against all before it.
func TestOverlappingReservations(t *testing.T) {
	random := rand.New(rand.NewPCG(1, 3))
	for range 300 {
		o := &v1alpha1.ServiceCIDRPolicy{}
		var want []string
		kept := map[netip.Addr]bool{}
		for i := range 40 {
			base := netip.MustParseAddr([]string{"10.96.0.0", "fd00::"}[random.IntN(2)])
			span := [2]netip.Addr{base, base}
			for n, more := range []int{random.IntN(200), random.IntN(8)} {
				for range more {
					span[1] = span[1].Next()
				}
				if n == 0 {
					span[0] = span[1]
				}
			}
			r := v1alpha1.Reservation{Name: fmt.Sprint("r", i), Address: span[0].String() + "-" + span[1].String()}
			o.Spec.Reservations = append(o.Spec.Reservations, r)
			var all []netip.Addr
			for a := span[0]; a.Compare(span[1]) <= 0; a = a.Next() {
				all = append(all, a)
			}
			if slices.ContainsFunc(all, func(a netip.Addr) bool { return kept[a] }) {
				want = append(want, "reservations["+r.Name+"]: "+r.Address+" overlaps the reservation ")
				continue
			}
			for _, a := range all {
				kept[a] = true
			}
		}
		_, got := Validate(o)
		if !slices.EqualFunc(want, got, func(want, got string) bool { return strings.HasPrefix(got, want) }) {
			t.Fatalf("%v\nhas the mistakes %q\nwant %q", o.Spec.Reservations, got, want)
		}
	}
}

// BenchmarkReservations reads a policy that reserves as much as it may, each address for a Service.
func BenchmarkReservations(b *testing.B) {
	o := &v1alpha1.ServiceCIDRPolicy{}
	a := netip.MustParseAddr("10.96.1.0")
	for i := range MaxReserved {
		o.Spec.Reservations = append(o.Spec.Reservations, v1alpha1.Reservation{Name: fmt.Sprint("r", i), Address: a.String(), For: fmt.Sprint("shop/s", i)})
		a = a.Next()
	}
	for b.Loop() {
		if _, mistakes := Validate(o); len(mistakes) > 0 {
			b.Fatal(mistakes)
		}
	}
}
