package steering

import (
	"fmt"
	"iter"
	"net/netip"
	"slices"
	"sort"
	"time"

	"k8s.io/apimachinery/pkg/types"

	"github.com/clusterip-operator/clusterip-operator/allocator"
)

// Compiled is what all policies together say. It does not change, and is safe for concurrent use. The zero Compiled is not ready;
// Compile makes one, of an empty Inputs too.
type Compiled struct {
	policies []*Policy // by rank
	byName   map[string]*Policy
	cidrs    map[string]ServiceCIDR

	// ranges are those that policies have, owned the same in order. The lengths of their prefixes make look-ups short.
	ranges             map[netip.Prefix]*ownedPrefix
	owned              []*ownedPrefix
	lengths4, lengths6 []int
	closes             map[bool]bool  // whether any of them has an exclusive owner, by family
	reserved           []*Reservation // by first address, disjoint
	reservedFor        map[types.NamespacedName][]Reservation
	statics            []allocator.Span      // in order, disjoint
	open               map[bool]func() bands // what no policy has exclusively, by family
	routes             *routes
	offered            offered
	// apiServer are the addresses of Service default/kubernetes. The API server creates it past every webhook, so that nothing of ours may stand there.
	apiServer []netip.Addr
	families  []bool // of the default ServiceCIDR
}

// ownedPrefix is a range that policies have. It exists, but need not be ready.
type ownedPrefix struct {
	prefix netip.Prefix
	// span are all addresses of the prefix.
	span allocator.Span
	// holders are the policies that have it, the best first; users are those of them that draw from it.
	holders, users []*Policy
	// owner is the best of the holders that has it exclusively, nil if none has.
	owner *Policy
}

func (s *Compiled) lengths(is4 bool) *[]int {
	if is4 {
		return &s.lengths4
	}
	return &s.lengths6
}

// Policies returns all policies, the best first. Do not change them.
func (s *Compiled) Policies() []*Policy { return s.policies }

// Policy returns a policy by its name, nil if there is none.
func (s *Compiled) Policy(name string) *Policy { return s.byName[name] }

// Reservation returns the reservation that an address belongs to.
func (s *Compiled) Reservation(a netip.Addr) (Reservation, bool) {
	i := sort.Search(len(s.reserved), func(i int) bool { return a.Less(s.reserved[i].Span.First) })
	if i == 0 || !s.reserved[i-1].Span.Contains(a) {
		return Reservation{}, false
	}
	return *s.reserved[i-1], true
}

// reservedIn returns the reservations that meet a span, in order.
func (s *Compiled) reservedIn(sp allocator.Span) []*Reservation {
	from := sort.Search(len(s.reserved), func(i int) bool { return !s.reserved[i].Span.Last.Less(sp.First) })
	to := from
	for to < len(s.reserved) && s.reserved[to].Span.Overlaps(sp) {
		to++
	}
	return s.reserved[from:to]
}

// ReservedFor returns the reservations of a Service, of both families, in the order of rank.
func (s *Compiled) ReservedFor(service types.NamespacedName) []Reservation {
	return s.reservedFor[service]
}

// Reserves implements addressindex.Rules.
func (s *Compiled) Reserves(a netip.Addr) bool {
	_, ok := s.Reservation(a)
	return ok
}

// CoolsDown implements addressindex.Rules.
func (s *Compiled) CoolsDown(a netip.Addr) time.Duration {
	d, _ := s.CoolDown(a)
	return d
}

// CoolDown returns how long a freed address rests, and by whose will: of the policies that have its range and want it to rest, the
// best. 0 and nil: it does not.
func (s *Compiled) CoolDown(a netip.Addr) (time.Duration, *Policy) {
	var best *Policy
	if slices.Contains(s.apiServer, a) {
		return 0, nil
	}
	for at := range s.around(a) {
		for _, p := range at.users {
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

// around yields the owned prefixes that an address lies in.
func (s *Compiled) around(a netip.Addr) iter.Seq[*ownedPrefix] {
	return func(yield func(*ownedPrefix) bool) {
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

// outside yields the owned prefixes that a prefix lies in, the same prefix included.
func (s *Compiled) outside(p netip.Prefix) iter.Seq[*ownedPrefix] {
	return func(yield func(*ownedPrefix) bool) {
		for at := range s.around(p.Addr()) {
			if at.prefix.Bits() <= p.Bits() && !yield(at) {
				return
			}
		}
	}
}

// inside returns the owned prefixes that lie in a prefix, without the same prefix.
func (s *Compiled) inside(p netip.Prefix) []*ownedPrefix {
	from, same := slices.BinarySearchFunc(s.owned, p, byPrefix)
	if same {
		from++
	}
	to := from
	for to < len(s.owned) && p.Contains(s.owned[to].prefix.Addr()) {
		to++
	}
	return s.owned[from:to]
}

// overlapping yields the owned prefixes outside and inside of a prefix. Prefixes overlap in no other way.
func (s *Compiled) overlapping(p netip.Prefix) iter.Seq[*ownedPrefix] {
	return func(yield func(*ownedPrefix) bool) {
		for at := range s.outside(p) {
			if !yield(at) {
				return
			}
		}
		for _, at := range s.inside(p) {
			if !yield(at) {
				return
			}
		}
	}
}

// MayHold returns nil if a Service may have the address as far as policies are concerned, and otherwise who has it for himself.
func (s *Compiled) MayHold(a netip.Addr, svc Service) *Refusal {
	if r, ok := s.Reservation(a); ok {
		if r.For == svc.NamespacedName {
			return nil
		}
		return refuseReserved(a, r)
	}
	owner, free := mayHold(s.around(a), svc)
	if owner == nil || free {
		return nil
	}
	return &Refusal{owner.Name, fmt.Sprintf("ServiceCIDRPolicy %q: the address %s lies in a range that this policy keeps for the Services that it selects; "+
		"choose another address, or leave the choice to the cluster", owner.Name, a)}
}

// mayHold returns the exclusive owner of what lies in all of these prefixes, nil for none, and whether a Service may have it: the owner, or a better
// policy that has one of them too, selects the Service.
func mayHold(around iter.Seq[*ownedPrefix], svc Service) (owner *Policy, may bool) {
	owner = bestOwner(around)
	if owner == nil {
		return nil, true
	}
	for at := range around {
		if slices.ContainsFunc(at.holders, func(p *Policy) bool { return p.rank <= owner.rank && p.selector.matches(svc) }) {
			return owner, true
		}
	}
	return owner, false
}

// bestOwner returns the best of the exclusive owners, nil if there is none.
func bestOwner(around iter.Seq[*ownedPrefix]) *Policy {
	var best *Policy
	for at := range around {
		if at.owner != nil && (best == nil || at.owner.rank < best.rank) {
			best = at.owner
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
func (s *Compiled) Knows(serviceCIDR string) bool {
	_, ok := s.cidrs[serviceCIDR]
	return ok
}

// Families returns the families of the cluster, true for IPv4, the default one first, as the default ServiceCIDR has them. None, while it
// is not there.
func (s *Compiled) Families() []bool { return s.families }

// Closes reports whether any policy has a range of the family exclusively.
func (s *Compiled) Closes(is4 bool) bool { return s.closes[is4] }

// Offers reports whether API servers allocate from a range with this address.
func (s *Compiled) Offers(a netip.Addr) bool {
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
