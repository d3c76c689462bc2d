package migration

import (
	"cmp"
	"fmt"
	"maps"
	"net/netip"
	"slices"
	"strings"
	"testing"
	"time"

	"k8s.io/apimachinery/pkg/types"
)

// naive is an index that goes through everything each time it is asked.
type naive struct {
	services map[types.NamespacedName]Service
	objects  map[netip.Addr]IPAddress
}

// String lists every address of which there is something to say, in the way that indexText does.
func (n naive) String() string {
	claims := map[netip.Addr][]Service{}
	for a := range n.objects {
		claims[a] = nil
	}
	for _, s := range n.services {
		for _, a := range s.Addresses {
			claims[a] = append(claims[a], s)
		}
	}
	var b strings.Builder
	for _, a := range slices.SortedFunc(maps.Keys(claims), netip.Addr.Compare) {
		slices.SortFunc(claims[a], func(x, y Service) int {
			return cmp.Or(x.Created.Compare(y.Created), strings.Compare(x.Name.String(), y.Name.String()))
		})
		fmt.Fprintf(&b, "%s %v %s\n", a, textsOf(claims[a], func(s Service) string { return string(s.UID) }), n.objects[a].UID)
	}
	return b.String()
}

func indexText(b *addressIndex) string {
	var out strings.Builder
	for _, a := range slices.SortedFunc(maps.Keys(b.entries), netip.Addr.Compare) {
		e, uid := b.entries[a], types.UID("")
		if e.object != nil {
			uid = e.object.UID
		}
		fmt.Fprintf(&out, "%s %v %s\n", a, textsOf(e.claims, func(s *Service) string { return string(s.UID) }), uid)
	}
	return out.String()
}

// TestAddressIndex takes random steps in the index and in the naive one. Services are few, and so are addresses, so that they meet.
func TestAddressIndex(t *testing.T) {
	for seed := range uint64(300) {
		r := seeded(seed)
		b, n := newAddressIndex(Snapshot{}), naive{map[types.NamespacedName]Service{}, map[netip.Addr]IPAddress{}}
		var steps []string
		for i := range 60 {
			name := nsName(oneOf(r, "a", "b", "c", "d"))
			a := oneOf(r, addr("10.0.0.1"), addr("10.0.0.2"), addr("10.0.0.3"), addr("fd00::1"), addr("fd00::2"))
			var touched, wantTouched []netip.Addr
			switch r.IntN(5) {
			case 0, 1:
				s := Service{Name: name, UID: types.UID(fmt.Sprint(name.Name, i)), Created: noon.Add(time.Duration(r.IntN(3)) * time.Second)}
				for _, p := range []string{"10.0.0.%d", "fd00::%d"} {
					if r.IntN(3) > 0 {
						s.Addresses = append(s.Addresses, addr(fmt.Sprintf(p, 1+r.IntN(3))))
					}
				}
				steps = append(steps, fmt.Sprintf("put Service %s %v", s.UID, s.Addresses))
				wantTouched = append(slices.Clone(n.services[name].Addresses), s.Addresses...)
				n.services[name] = s
				touched = b.putService(&s)
			case 2:
				steps = append(steps, "drop Service "+name.Name)
				wantTouched = n.services[name].Addresses
				delete(n.services, name)
				touched = b.dropService(name)
			case 3:
				ip := anIP(a.String(), name.Name)
				ip.UID = types.UID(fmt.Sprint("ip", i))
				steps = append(steps, fmt.Sprintf("put IPAddress %s %s", a, ip.UID))
				n.objects[a] = ip
				touched, wantTouched = b.putIPAddress(&ip), []netip.Addr{a}
			default:
				steps = append(steps, fmt.Sprintf("drop IPAddress %s", a))
				delete(n.objects, a)
				touched, wantTouched = b.dropIPAddress(a), []netip.Addr{a}
			}
			if got, want := indexText(b), n.String(); got != want || !slices.Equal(distinct(touched), distinct(wantTouched)) {
				t.Fatalf("seed %d: after\n  %s\nthe index is\n%swant\n%stouched %v, want %v", seed, strings.Join(steps, "\n  "), got, want, touched, wantTouched)
			}
		}
	}
}

func distinct(all []netip.Addr) []netip.Addr {
	all = slices.Clone(all)
	slices.SortFunc(all, netip.Addr.Compare)
	return slices.Compact(all)
}
