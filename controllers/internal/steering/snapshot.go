package steering

import (
	"fmt"
	"net/netip"
	"slices"
	"sort"
	"time"

	"k8s.io/apimachinery/pkg/types"

	"github.com/clusterip-operator/clusterip-operator/allocator"
)

// Snapshot is what all policies together say. It does not change, and is safe for concurrent use. The zero Snapshot is not ready;
// Compile makes one, of an empty World too.
type Snapshot struct {
	policies []*Policy // by rank
	byName   map[string]*Policy
	cidrs    map[string]ServiceCIDR

	// ranges are those of policies, places the same in order. The lengths of their prefixes make look-ups short.
	ranges             map[netip.Prefix]*place
	places             []*place
	lengths4, lengths6 []int
	reserved           []Reservation // by first address, disjoint
	reservedFor        map[types.NamespacedName][]Reservation
	statics            []allocator.Span
	open               map[bool]bands // what nobody has for himself, by family
	routes             *routes
	offered            offered
	// apiServer are the addresses of Service default/kubernetes. The API server creates it past every webhook, so that nothing of ours may stand there.
	apiServer []netip.Addr
	families  []bool // of the default ServiceCIDR
}

// place is a range that policies have, the best first.
type place struct {
	prefix  netip.Prefix
	holders []*Policy
	// closer is the best of them that has it for itself, nil if none has.
	closer *Policy
}

func (s *Snapshot) lengths(is4 bool) *[]int {
	if is4 {
		return &s.lengths4
	}
	return &s.lengths6
}

// Policies returns all policies, the best first. Do not change them.
func (s *Snapshot) Policies() []*Policy { return s.policies }

// Policy returns a policy by its name, nil if there is none.
func (s *Snapshot) Policy(name string) *Policy { return s.byName[name] }

// Reservation returns the reservation that an address belongs to.
func (s *Snapshot) Reservation(a netip.Addr) (Reservation, bool) {
	i := sort.Search(len(s.reserved), func(i int) bool { return a.Less(s.reserved[i].Span.First) })
	if i == 0 || !s.reserved[i-1].Span.Contains(a) {
		return Reservation{}, false
	}
	return s.reserved[i-1], true
}

// reservedIn returns the reservations that meet a span, in order.
func (s *Snapshot) reservedIn(sp allocator.Span) []Reservation {
	from := sort.Search(len(s.reserved), func(i int) bool { return !s.reserved[i].Span.Last.Less(sp.First) })
	to := from
	for to < len(s.reserved) && s.reserved[to].Span.Overlaps(sp) {
		to++
	}
	return s.reserved[from:to]
}

// ReservedFor returns the reservations of a Service, of both families, in the order of rank.
func (s *Snapshot) ReservedFor(service types.NamespacedName) []Reservation {
	return s.reservedFor[service]
}

// Reserves implements ledger.Rules.
func (s *Snapshot) Reserves(a netip.Addr) bool {
	_, ok := s.Reservation(a)
	return ok
}

// CoolsDown implements ledger.Rules.
func (s *Snapshot) CoolsDown(a netip.Addr) time.Duration {
	d, _ := s.CoolDown(a)
	return d
}

// CoolDown returns how long a freed address rests, and by whose will: of the policies that have its range and want it to rest, the
// best. 0 and nil: it does not.
func (s *Snapshot) CoolDown(a netip.Addr) (time.Duration, *Policy) {
	var best *Policy
	if slices.Contains(s.apiServer, a) {
		return 0, nil
	}
	for at := range s.around(a) {
		for _, p := range at.holders {
			if p.CoolDown > 0 && (best == nil || p.rank < best.rank) {
				best = p
			}
		}
	}
	if best == nil {
		return 0, nil
	}
	return best.CoolDown, best
}

// around yields the places that an address lies in.
func (s *Snapshot) around(a netip.Addr) func(yield func(*place) bool) {
	return func(yield func(*place) bool) {
		for _, bits := range *s.lengths(a.Is4()) {
			prefix, err := a.Prefix(bits)
			if err != nil {
				continue
			}
			if at := s.ranges[prefix]; at != nil && !yield(at) {
				return
			}
		}
	}
}

// outside returns the places that a prefix lies in, one of the same prefix included.
func (s *Snapshot) outside(p netip.Prefix) []*place {
	var out []*place
	for at := range s.around(p.Addr()) {
		if at.prefix.Bits() <= p.Bits() {
			out = append(out, at)
		}
	}
	return out
}

// inside returns the places that lie in a prefix, without one of the same prefix.
func (s *Snapshot) inside(p netip.Prefix) []*place {
	from, same := slices.BinarySearchFunc(s.places, p, byPrefix)
	if same {
		from++
	}
	to := from
	for to < len(s.places) && p.Contains(s.places[to].prefix.Addr()) {
		to++
	}
	return s.places[from:to]
}

// MayHold returns nil if a Service may have the address as far as policies are concerned, and otherwise who has it for himself.
func (s *Snapshot) MayHold(a netip.Addr, svc Service) *Refusal {
	if r, ok := s.Reservation(a); ok {
		if r.For == svc.NamespacedName {
			return nil
		}
		return refuseReserved(a, r)
	}
	closer := s.closer(a)
	if closer == nil {
		return nil
	}
	for at := range s.around(a) {
		if slices.ContainsFunc(at.holders, func(p *Policy) bool { return p.rank <= closer.rank && p.selector.matches(svc) }) {
			return nil
		}
	}
	return &Refusal{closer.Name, fmt.Sprintf("ServiceCIDRPolicy %q: the address %s lies in a range that this policy keeps for the Services that it selects; "+
		"choose another address, or leave the choice to the cluster", closer.Name, a)}
}

// closer returns the best policy that has the address for itself.
func (s *Snapshot) closer(a netip.Addr) *Policy {
	var best *Policy
	for at := range s.around(a) {
		if at.closer != nil && (best == nil || at.closer.rank < best.rank) {
			best = at.closer
		}
	}
	return best
}

func refuseReserved(a netip.Addr, r Reservation) *Refusal {
	whose := "for nobody"
	if r.For.Name != "" {
		whose = "for Service " + r.For.String()
	}
	return &Refusal{r.Policy, fmt.Sprintf("ServiceCIDRPolicy %q: the address %s is kept %s by the reservation %q; choose another address, or leave the choice to the cluster",
		r.Policy, a, whose, r.Name)}
}

// Knows reports whether there is a ServiceCIDR of this name.
func (s *Snapshot) Knows(serviceCIDR string) bool {
	_, ok := s.cidrs[serviceCIDR]
	return ok
}

// Families returns the families of the cluster, true for IPv4, the default one first, as the default ServiceCIDR has them. None, while it
// is not there.
func (s *Snapshot) Families() []bool { return s.families }

// Closes reports whether any policy has a range of the family for itself.
func (s *Snapshot) Closes(is4 bool) bool {
	return slices.ContainsFunc(s.places, func(at *place) bool { return at.closer != nil && at.prefix.Addr().Is4() == is4 })
}

// Offers reports whether API servers allocate from a range with this address.
func (s *Snapshot) Offers(a netip.Addr) bool {
	for _, bits := range s.offered.bits[a.Is4()] {
		prefix, err := a.Prefix(bits)
		if r, ok := s.offered.ranges[prefix]; err == nil && ok && r.Contains(a) {
			return true
		}
	}
	return false
}

// offered are the ranges that API servers allocate from, to be looked up by an address.
type offered struct {
	ranges map[netip.Prefix]allocator.Range
	bits   map[bool][]int // the lengths of their prefixes, by family
}

func newOffered(cidrs []ServiceCIDR) offered {
	o := offered{ranges: map[netip.Prefix]allocator.Range{}, bits: map[bool][]int{}}
	for _, c := range cidrs {
		for _, r := range c.Ranges {
			if p := r.Prefix(); c.usable() {
				o.ranges[p] = r
				if is4 := p.Addr().Is4(); !slices.Contains(o.bits[is4], p.Bits()) {
					o.bits[is4] = append(o.bits[is4], p.Bits())
				}
			}
		}
	}
	return o
}
