package additional

import (
	"errors"
	"fmt"
	"net/netip"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"k8s.io/apimachinery/pkg/types"

	"github.com/clusterip-operator/clusterip-operator/allocator"
	"github.com/clusterip-operator/clusterip-operator/internal/steering"
)

const (
	me    = types.UID("me")
	other = types.UID("another of the same name")
)

// cluster builds inputs: blue has both families, red IPv4; going is being deleted, gone is absent.
type cluster struct{ inputs }

func newCluster(t *testing.T) *cluster {
	t.Helper()
	s := &cluster{inputs{name: types.NamespacedName{Namespace: "shop", Name: "web"}, offers: map[slot]offer{}}}
	s.offer(t, "blue", "10.1.0.0/24")
	s.offer(t, "blue", "fd01::/64")
	s.offer(t, "red", "10.2.0.0/24")
	s.offers[slot{"red", allocator.IPv6}] = offer{exists: true, ready: true}
	s.offer(t, "going", "10.3.0.0/24")
	s.offer(t, "going", "fd03::/64")
	for _, f := range allocator.Families {
		s.change("going", f, func(o *offer) { o.deleting = true })
	}
	return s
}

func (s *cluster) offer(t *testing.T, name, cidr string) {
	t.Helper()
	r := allocator.MustParseRange(cidr)
	tier, err := allocator.NewTier([]allocator.Span{r.Span()}, nil)
	if err != nil {
		t.Fatalf("making a tier of %s: %v", cidr, err)
	}
	s.offers[slot{name, r.Family()}] = offer{exists: true, ready: true, ranges: []allocator.Range{r}, tiers: []*allocator.Tier{tier}}
}

func (s *cluster) change(name string, f allocator.Family, do func(*offer)) *cluster {
	o := s.offers[slot{name, f}]
	do(&o)
	s.offers[slot{name, f}] = o
	return s
}

// asks makes the Service, of families such as "46".
func (s *cluster) asks(families string, from ...string) *cluster {
	s.service = &service{uid: me, asks: steering.AdditionalRequest{From: from}}
	for _, f := range allocator.Families {
		if strings.Contains(families, fmt.Sprint(uint8(f))) {
			s.service.asks.Families = append(s.service.asks.Families, f)
		}
	}
	return s
}

func (s *cluster) has(serviceCIDR, address string, whose types.UID) *cluster {
	s.held = append(s.held, held{address: netip.MustParseAddr(address), uid: types.UID("of " + address), serviceCIDR: serviceCIDR, service: whose})
	return s
}

// had enters a former address, with the UID of the Service that renumbering wrote, or none yet.
func (s *cluster) had(address string, whose types.UID) *cluster {
	s.held = append(s.held, held{address: netip.MustParseAddr(address), uid: types.UID("of " + address), service: whose, former: true, deleted: letGo})
	return s
}

// ofRange has all addresses name a ServiceCIDR, as they do that once were drawn.
func (s *cluster) ofRange(name string) *cluster {
	for i := range s.held {
		s.held[i].serviceCIDR = name
	}
	return s
}

// lists enters what the annotation of the Service says.
func (s *cluster) lists(addresses ...string) *cluster {
	for _, text := range addresses {
		s.service.asks.Former = append(s.service.asks.Former, netip.MustParseAddr(text))
	}
	return s
}

// letGo is when the API server let go of former addresses.
var letGo = time.Unix(1_700_000_000, 0)

func younger(s *service) { s.created = letGo.Add(time.Second) }

func formerJunk(s *service) { s.asks.FormerError = errors.New("bla") }

func renumbering(s *service) { s.asks.Renumbering = true }

func (s *cluster) with(do func(*service)) *cluster {
	do(s.service)
	return s
}

func deleted(s *service) { s.deleting = true }

func junk(s *service) { s.asks.FromError = errors.New("bla") }

func unready(o *offer) { o.tiers, o.ready = nil, false }

func reserved(o *offer) { o.tiers = nil }

func refused(o *offer) { o.tiers, o.refusal = nil, "not for you" }

const (
	unreadable       = "the annotation clusterip-operator.io/additional-ips-from cannot be read: bla"
	unreadableFormer = "the annotation clusterip-operator.io/former-ips cannot be read: bla"
)

// answer is a decision in words.
type answer struct{ release, draw, complaints string }

func words(d decision) answer {
	var release, draw []string
	for _, h := range d.release {
		release = append(release, h.address.String())
	}
	for _, at := range d.draw {
		draw = append(draw, at.serviceCIDR+" "+at.family.String())
	}
	return answer{strings.Join(release, " "), strings.Join(draw, ", "), strings.Join(d.complaints, "; ")}
}

func TestDecide(t *testing.T) {
	c := func() *cluster { return newCluster(t) }
	for name, tc := range map[string]struct {
		in   *cluster
		want answer
	}{
		"asks for nothing and has nothing":                   {c().asks("46"), answer{}},
		"dual stack, a range without IPv6":                   {c().asks("46", "blue", "red"), answer{draw: "blue IPv4, blue IPv6, red IPv4"}},
		"IPv6 alone":                                         {c().asks("6", "blue"), answer{draw: "blue IPv6"}},
		"has all":                                            {c().asks("46", "blue").has("blue", "fd01::9", me).has("blue", "10.1.0.9", me), answer{}},
		"the second family comes":                            {c().asks("46", "blue").has("blue", "10.1.0.9", me), answer{draw: "blue IPv6"}},
		"a family goes":                                      {c().asks("6", "blue").has("blue", "10.1.0.9", me).has("blue", "fd01::9", me), answer{release: "10.1.0.9"}},
		"a range is dropped":                                 {c().asks("4", "red").has("blue", "10.1.0.9", me).has("red", "10.2.0.9", me), answer{release: "10.1.0.9"}},
		"headless or ExternalName: no family":                {c().asks("").has("blue", "10.1.0.9", me), answer{release: "10.1.0.9"}},
		"the Service is gone":                                {c().has("blue", "10.1.0.9", me).has("blue", "fd01::9", me), answer{release: "10.1.0.9 fd01::9"}},
		"another of the same name inherits nothing":          {c().asks("4", "blue").has("blue", "10.1.0.9", other), answer{release: "10.1.0.9", draw: "blue IPv4"}},
		"a Service that goes begins nothing":                 {c().asks("46", "blue", "gone").has("blue", "10.1.0.9", me).with(deleted), answer{}},
		"two for one slot: the lower stays":                  {c().asks("4", "blue").has("blue", "10.1.0.10", me).has("blue", "10.1.0.9", me), answer{release: "10.1.0.10"}},
		"two for one slot, one of a former Service":          {c().asks("4", "blue").has("blue", "10.1.0.10", me).has("blue", "10.1.0.9", other), answer{release: "10.1.0.9"}},
		"junk takes nothing away":                            {c().asks("4").has("blue", "10.1.0.9", me).with(junk), answer{complaints: unreadable}},
		"junk keeps no family that is gone":                  {c().asks("6").has("blue", "10.1.0.9", me).with(junk), answer{release: "10.1.0.9", complaints: unreadable}},
		"no such range, said once; the other gives":          {c().asks("46", "gone", "red"), answer{draw: "red IPv4", complaints: "ServiceCIDR gone does not exist"}},
		"its range is gone: what it has stays":               {c().asks("4", "gone").has("gone", "10.9.0.9", me), answer{}},
		"its range has other addresses now":                  {c().asks("4", "blue").has("blue", "10.9.0.9", me), answer{release: "10.9.0.9", draw: "blue IPv4"}},
		"a range that goes gives nothing":                    {c().asks("46", "going"), answer{complaints: "ServiceCIDR going is being deleted"}},
		"a range that goes takes nothing":                    {c().asks("4", "going").has("going", "10.3.0.9", me), answer{}},
		"no family in common":                                {c().asks("6", "red"), answer{complaints: "ServiceCIDR red has no range of a family of the Service"}},
		"a range that others have":                           {c().asks("46", "blue").change("blue", allocator.IPv4, refused), answer{draw: "blue IPv6", complaints: "not for you"}},
		"no policy allows it, and who knows if there is one": {c().asks("4", "gone").change("gone", allocator.IPv4, refused), answer{complaints: "not for you"}},
		"no policy allows it any more: what it has stays":    {c().asks("46", "blue").has("blue", "10.1.0.9", me).has("blue", "fd01::9", me).change("blue", allocator.IPv4, refused).change("blue", allocator.IPv6, refused), answer{}},
		"no policy allows it any more: the other family":     {c().asks("46", "blue").has("blue", "10.1.0.9", me).change("blue", allocator.IPv4, refused).change("blue", allocator.IPv6, refused), answer{complaints: "not for you"}},
		"no policy allows it, whatever its families":         {c().asks("6", "red").change("red", allocator.IPv6, refused), answer{complaints: "not for you"}},
		"a range that others took later":                     {c().asks("4", "blue").has("blue", "10.1.0.9", me).change("blue", allocator.IPv4, refused), answer{}},
		"a range that is not ready":                          {c().asks("4", "blue").change("blue", allocator.IPv4, unready), answer{complaints: "ServiceCIDR blue is not ready"}},
		"a range that is all reserved":                       {c().asks("6", "blue").change("blue", allocator.IPv6, reserved), answer{complaints: "no IPv6 address is left in ServiceCIDR blue"}},
		"former ones, listed: no slot is theirs": {c().asks("46", "blue").had("10.9.0.9", me).had("10.9.0.8", "").had("fd09::9", me).lists("10.9.0.8", "10.9.0.9", "fd09::9"),
			answer{draw: "blue IPv4, blue IPv6"}},
		"former ones that name a range: no slot is theirs": {c().asks("4", "blue").has("blue", "10.1.0.9", me).had("10.1.0.8", me).had("10.1.0.10", me).lists("10.1.0.8", "10.1.0.10").ofRange("blue"),
			answer{}},
		"former ones, not listed any more":     {c().asks("46").had("10.9.0.9", me).had("fd09::9", "").lists("10.9.0.7"), answer{release: "10.9.0.9 fd09::9"}},
		"former ones, the Service is gone":     {c().had("10.9.0.9", me).had("fd09::9", ""), answer{release: "10.9.0.9 fd09::9"}},
		"former ones of one of the same name":  {c().asks("46").had("10.9.0.9", other).had("fd09::9", other).lists("10.9.0.9", "fd09::9"), answer{release: "10.9.0.9 fd09::9"}},
		"former ones of an older one, no UID":  {c().asks("46").had("10.9.0.9", "").had("fd09::9", "").lists("10.9.0.9", "fd09::9").with(younger), answer{release: "10.9.0.9 fd09::9"}},
		"former ones, with junk in the list":   {c().asks("4").had("10.9.0.9", me).had("fd09::9", "").with(formerJunk), answer{complaints: unreadableFormer}},
		"junk in the list keeps nothing else":  {c().asks("4").has("blue", "10.1.0.9", me).with(formerJunk), answer{release: "10.1.0.9", complaints: unreadableFormer}},
		"junk in names keeps no former one":    {c().asks("4").had("10.9.0.9", me).with(junk), answer{release: "10.9.0.9", complaints: unreadable}},
		"a family that the Service has lost":   {c().asks("4").had("fd09::9", me).lists("fd09::9"), answer{}},
		"listed, but not held by renumbering":  {c().asks("4").has("", "10.9.0.9", me).lists("10.9.0.9"), answer{release: "10.9.0.9"}},
		"a Service that goes keeps its former": {c().asks("4").had("10.9.0.9", me).lists("10.9.0.9").with(deleted), answer{}},
		"between two updates all stays": {c().asks("").has("blue", "10.1.0.9", me).has("blue", "fd01::9", me).had("10.9.0.9", "").lists("10.9.0.9").with(renumbering),
			answer{}},
		"an IPAddress lost its annotation": {c().asks("4", "blue").has("", "10.1.0.9", me), answer{release: "10.1.0.9", draw: "blue IPv4"}},
	} {
		t.Run(name, func(t *testing.T) {
			in := tc.in.inputs
			before := slices.Clone(in.held)
			d := decide(in)
			if diff := cmp.Diff(tc.want, words(d), cmp.AllowUnexported(answer{})); diff != "" {
				t.Errorf("(-want +got):\n%s", diff)
			}
			if d.idle() != (tc.want == answer{}) {
				t.Errorf("idle is %v", d.idle())
			}
			if diff := cmp.Diff(before, in.held, cmp.AllowUnexported(held{}), cmp.Comparer(func(a, b netip.Addr) bool { return a == b })); diff != "" {
				t.Errorf("deciding changed the inputs (-before +after):\n%s", diff)
			}
		})
	}
}
