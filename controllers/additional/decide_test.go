package additional

import (
	"errors"
	"net/netip"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"k8s.io/apimachinery/pkg/types"

	"github.com/clusterip-operator/clusterip-operator/allocator"
	"github.com/clusterip-operator/clusterip-operator/controllers/internal/steering"
)

const (
	me    = types.UID("me")
	other = types.UID("another of the same name")
)

// cluster builds inputs: blue has both families, red only IPv4, going is being deleted, and gone is not there.
type cluster struct{ inputs }

func newCluster(t *testing.T) *cluster {
	t.Helper()
	s := &cluster{inputs{name: types.NamespacedName{Namespace: "shop", Name: "web"}, offers: map[slot]offer{}}}
	s.offer(t, "blue", "10.1.0.0/24")
	s.offer(t, "blue", "fd01::/64")
	s.offer(t, "red", "10.2.0.0/24")
	s.offers[slot{"red", false}] = offer{exists: true, ready: true}
	s.offer(t, "going", "10.3.0.0/24")
	s.offer(t, "going", "fd03::/64")
	for _, is4 := range []bool{true, false} {
		s.change("going", is4, func(o *offer) { o.deleting = true })
	}
	return s
}

func (s *cluster) offer(t *testing.T, name, cidr string) {
	t.Helper()
	r, err := allocator.ParseRange(cidr)
	if err != nil {
		t.Fatalf("parsing %s: %v", cidr, err)
	}
	tier, err := allocator.NewTier([]allocator.Span{r.Span()}, nil)
	if err != nil {
		t.Fatalf("making a tier of %s: %v", cidr, err)
	}
	s.offers[slot{name, r.Prefix().Addr().Is4()}] = offer{exists: true, ready: true, ranges: []allocator.Range{r}, tiers: []*allocator.Tier{tier}}
}

func (s *cluster) change(name string, is4 bool, do func(*offer)) *cluster {
	o := s.offers[slot{name, is4}]
	do(&o)
	s.offers[slot{name, is4}] = o
	return s
}

// asks makes the Service, of families such as "46".
func (s *cluster) asks(families string, from ...string) *cluster {
	s.service = &service{uid: me, asks: steering.Wish{From: from, IPv4: strings.Contains(families, "4"), IPv6: strings.Contains(families, "6")}}
	return s
}

func (s *cluster) has(serviceCIDR, address string, whose types.UID) *cluster {
	s.held = append(s.held, held{address: netip.MustParseAddr(address), uid: types.UID("of " + address), serviceCIDR: serviceCIDR, service: whose})
	return s
}

func (s *cluster) with(do func(*service)) *cluster {
	do(s.service)
	return s
}

// answer is a decision in words.
type answer struct {
	Release, Draw []string
	Complaints    []string
}

func words(d decision) answer {
	a := answer{Complaints: d.complaints}
	for _, h := range d.release {
		a.Release = append(a.Release, h.address.String())
	}
	for _, at := range d.draw {
		a.Draw = append(a.Draw, at.serviceCIDR+" "+at.family())
	}
	return a
}

func TestDecide(t *testing.T) {
	for name, tc := range map[string]struct {
		change func(*cluster) *cluster
		want   answer
	}{
		"asks for nothing and has nothing": {func(s *cluster) *cluster { return s.asks("46") }, answer{}},
		"dual stack asks two ranges, one of them without IPv6": {
			func(s *cluster) *cluster { return s.asks("46", "blue", "red") },
			answer{Draw: []string{"blue IPv4", "blue IPv6", "red IPv4"}}},
		"IPv6 alone": {func(s *cluster) *cluster { return s.asks("6", "blue") }, answer{Draw: []string{"blue IPv6"}}},
		"has all": {
			func(s *cluster) *cluster {
				return s.asks("46", "blue").has("blue", "fd01::9", me).has("blue", "10.1.0.9", me)
			},
			answer{}},
		"the second family comes": {
			func(s *cluster) *cluster { return s.asks("46", "blue").has("blue", "10.1.0.9", me) },
			answer{Draw: []string{"blue IPv6"}}},
		"a family goes": {
			func(s *cluster) *cluster {
				return s.asks("6", "blue").has("blue", "10.1.0.9", me).has("blue", "fd01::9", me)
			},
			answer{Release: []string{"10.1.0.9"}}},
		"a range is dropped": {
			func(s *cluster) *cluster {
				return s.asks("4", "red").has("blue", "10.1.0.9", me).has("red", "10.2.0.9", me)
			},
			answer{Release: []string{"10.1.0.9"}}},
		"headless or ExternalName: no family, no request": {
			func(s *cluster) *cluster { return s.asks("").has("blue", "10.1.0.9", me) },
			answer{Release: []string{"10.1.0.9"}}},
		"the Service is gone": {
			func(s *cluster) *cluster { return s.has("blue", "10.1.0.9", me).has("blue", "fd01::9", me) },
			answer{Release: []string{"10.1.0.9", "fd01::9"}}},
		"another Service of the same name inherits nothing": {
			func(s *cluster) *cluster { return s.asks("4", "blue").has("blue", "10.1.0.9", other) },
			answer{Release: []string{"10.1.0.9"}, Draw: []string{"blue IPv4"}}},
		"a Service that goes keeps what it has and begins nothing": {
			func(s *cluster) *cluster {
				return s.asks("46", "blue", "gone").has("blue", "10.1.0.9", me).with(func(s *service) { s.deleting = true })
			},
			answer{}},
		"two for one slot: the lower stays": {
			func(s *cluster) *cluster {
				return s.asks("4", "blue").has("blue", "10.1.0.10", me).has("blue", "10.1.0.9", me)
			},
			answer{Release: []string{"10.1.0.10"}}},
		"two for one slot: the one of a Service that was does not count": {
			func(s *cluster) *cluster {
				return s.asks("4", "blue").has("blue", "10.1.0.10", me).has("blue", "10.1.0.9", other)
			},
			answer{Release: []string{"10.1.0.9"}}},
		"junk takes nothing away": {
			func(s *cluster) *cluster {
				return s.asks("4").has("blue", "10.1.0.9", me).with(func(s *service) { s.asks.Junk = errors.New("bla") })
			},
			answer{Complaints: []string{"the annotation clusterip-operator.io/additional-ips-from cannot be read: bla"}}},
		"junk keeps no family that the Service has not": {
			func(s *cluster) *cluster {
				return s.asks("6").has("blue", "10.1.0.9", me).with(func(s *service) { s.asks.Junk = errors.New("bla") })
			},
			answer{Release: []string{"10.1.0.9"}, Complaints: []string{"the annotation clusterip-operator.io/additional-ips-from cannot be read: bla"}}},
		"no such range, said once for both families; the other is drawn from": {
			func(s *cluster) *cluster { return s.asks("46", "gone", "red") },
			answer{Draw: []string{"red IPv4"}, Complaints: []string{"ServiceCIDR gone does not exist"}}},
		"its range is gone, by force: what it has stays": {
			func(s *cluster) *cluster { return s.asks("4", "gone").has("gone", "10.9.0.9", me) },
			answer{}},
		"its range was made anew with other addresses": {
			func(s *cluster) *cluster { return s.asks("4", "blue").has("blue", "10.9.0.9", me) },
			answer{Release: []string{"10.9.0.9"}, Draw: []string{"blue IPv4"}}},
		"a range that goes gives nothing": {
			func(s *cluster) *cluster { return s.asks("46", "going") },
			answer{Complaints: []string{"ServiceCIDR going is being deleted"}}},
		"a range that goes takes nothing": {
			func(s *cluster) *cluster { return s.asks("4", "going").has("going", "10.3.0.9", me) },
			answer{}},
		"no family in common": {
			func(s *cluster) *cluster { return s.asks("6", "red") },
			answer{Complaints: []string{"ServiceCIDR red has no range of a family of the Service"}}},
		"a range that others have for themselves": {
			func(s *cluster) *cluster {
				return s.asks("46", "blue").change("blue", true, func(o *offer) { o.tiers, o.refusal = nil, "not for you" })
			},
			answer{Draw: []string{"blue IPv6"}, Complaints: []string{"not for you"}}},
		"a range that others took for themselves later": {
			func(s *cluster) *cluster {
				return s.asks("4", "blue").has("blue", "10.1.0.9", me).change("blue", true, func(o *offer) { o.tiers, o.refusal = nil, "not for you" })
			},
			answer{}},
		"a range that is not ready": {
			func(s *cluster) *cluster {
				return s.asks("4", "blue").change("blue", true, func(o *offer) { o.tiers, o.ready = nil, false })
			},
			answer{Complaints: []string{"ServiceCIDR blue is not ready"}}},
		"a range that is all reserved": {
			func(s *cluster) *cluster {
				return s.asks("6", "blue").change("blue", false, func(o *offer) { o.tiers = nil })
			},
			answer{Complaints: []string{"no IPv6 address is left in ServiceCIDR blue"}}},
		"the annotation of an IPAddress was taken away": {
			func(s *cluster) *cluster { return s.asks("4", "blue").has("", "10.1.0.9", me) },
			answer{Release: []string{"10.1.0.9"}, Draw: []string{"blue IPv4"}}},
	} {
		t.Run(name, func(t *testing.T) {
			in := tc.change(newCluster(t)).inputs
			before := slices.Clone(in.held)
			d := decide(in)
			if diff := cmp.Diff(tc.want, words(d)); diff != "" {
				t.Errorf("(-want +got):\n%s", diff)
			}
			if d.idle() != (len(tc.want.Release)+len(tc.want.Draw)+len(tc.want.Complaints) == 0) {
				t.Errorf("idle is %v", d.idle())
			}
			if diff := cmp.Diff(before, in.held, cmp.AllowUnexported(held{}), cmp.Comparer(func(a, b netip.Addr) bool { return a == b })); diff != "" {
				t.Errorf("deciding changed the inputs (-before +after):\n%s", diff)
			}
		})
	}
}
