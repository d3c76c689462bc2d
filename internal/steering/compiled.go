package steering

import (
	"iter"
	"net/netip"
	"slices"
	"sync"
	"time"

	"github.com/gaissmai/bart"
	"k8s.io/apimachinery/pkg/types"

	"github.com/clusterip-operator/clusterip-operator/allocator"
)

// Compiled is what all policies together say. It is immutable, and safe for concurrent use.
type Compiled struct {
	*space

	policies []*Policy // by rank
	byName   map[string]*Policy

	// ranges are those that policies ask for.
	ranges      *bart.Table[*ownedPrefix]
	closes      map[allocator.Family]int // how many policies keep Services from drawing there
	restricts   int                      // how many have ranges that are cordoned or by request only
	contested   map[string]*Policy       // by name
	askers      func() askers            // made when a ServiceCIDR moves
	reserved    reservedList
	reservedFor map[allocator.Family]map[types.NamespacedName][]Reservation
	open        map[allocator.Family]func() bands // what no policy has exclusively, or keeps from draws
	namespaces  sync.Map                          // name of a namespace -> *namespaceView
}

// ownedPrefix is a range that policies have. It exists, but need not be ready.
type ownedPrefix struct {
	prefix netip.Prefix
	// span are all addresses of the prefix.
	span allocator.Span
	// holders are the policies that have it, the best first; users are those that draw from it.
	holders, users []*Policy
	// wanted are the policies that ask for it, also those that a better one has kept from it.
	wanted []*Policy
	// owner is the best of the holders that has it exclusively, nil if none has.
	owner *Policy
}

// Inputs returns what the policies were compiled of, of policies the specs. Do not change them.
func (s *Compiled) Inputs() Inputs {
	in := Inputs{ServiceCIDRs: s.serviceCIDRs()}
	for _, p := range s.policies {
		in.Policies = append(in.Policies, p.object)
	}
	return in
}

// Policies returns all policies, the best first. Do not change them.
func (s *Compiled) Policies() []*Policy { return s.policies }

// Policy returns a policy by its name, nil if there is none.
func (s *Compiled) Policy(name string) *Policy { return s.byName[name] }

// Users returns the policies that draw from the ranges of a ServiceCIDR, the best first.
func (s *Compiled) Users(serviceCIDR string) (out []*Policy) {
	for _, r := range s.serviceCIDR(serviceCIDR).Ranges {
		if at, ok := s.ranges.Get(r.Prefix()); ok {
			out = append(out, at.users...)
		}
	}
	slices.SortFunc(out, byRank)
	return slices.Compact(out)
}

// Reservation returns the reservation that an address belongs to.
func (s *Compiled) Reservation(a netip.Addr) (Reservation, bool) {
	for r := range s.reserved.meeting(allocator.Span{First: a, Last: a}) {
		return *r, true
	}
	return Reservation{}, false
}

// Reservations returns the reservations that meet a span, in order.
func (s *Compiled) Reservations(sp allocator.Span) (out []Reservation) {
	for r := range s.reserved.meeting(sp) {
		out = append(out, *r)
	}
	return out
}

// ReservedIn returns the parts of a span that reservations keep, in order.
func (s *Compiled) ReservedIn(sp allocator.Span) (out []allocator.Span) {
	for r := range s.reserved.meeting(sp) {
		out = append(out, intersect(r.Span, sp))
	}
	return out
}

// ReservedFor returns the reservations of a Service, of one family, in the order of rank, without
// addresses that are cordoned.
func (s *Compiled) ReservedFor(service types.NamespacedName, f allocator.Family) []Reservation {
	return s.reservedFor[f][service]
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

// CoolDown returns how long a freed address cools down, and by which policy: the best of those that
// draw from its range and have a cool-down. 0 and nil: it does not.
func (s *Compiled) CoolDown(a netip.Addr) (time.Duration, *Policy) {
	var best *Policy
	if slices.Contains(s.apiServer, a) {
		return 0, nil
	}
	for at := range s.around(a) {
		for _, p := range at.users {
			if p.CoolDown > 0 && (best == nil || p.outranks(best)) {
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
func (s *Compiled) around(a netip.Addr) iter.Seq[*ownedPrefix] { return s.outside(single(a)) }

// outside yields the owned prefixes that a prefix lies in, the same prefix included.
func (s *Compiled) outside(p netip.Prefix) iter.Seq[*ownedPrefix] {
	return func(yield func(*ownedPrefix) bool) {
		for _, at := range s.ranges.Supernets(p) {
			if !yield(at) {
				return
			}
		}
	}
}

// single is the prefix of one address.
func single(a netip.Addr) netip.Prefix { return netip.PrefixFrom(a, a.BitLen()) }

// Closed reports whether a policy has a prefix, or one that it lies in, for itself, or keeps it
// from draws.
func (s *Compiled) Closed(p netip.Prefix) bool {
	return bestOwner(s.outside(p)) != nil || restriction(s.outside(p), (*Policy).Restricts) != nil
}

// inside yields the owned prefixes that lie in a prefix, without the same prefix.
func (s *Compiled) inside(p netip.Prefix) iter.Seq[*ownedPrefix] {
	return func(yield func(*ownedPrefix) bool) {
		for prefix, at := range s.ranges.Subnets(p) {
			if prefix != p && !yield(at) {
				return
			}
		}
	}
}

// overlapping yields the owned prefixes outside and inside of a prefix: there is no other overlap.
func (s *Compiled) overlapping(p netip.Prefix) iter.Seq[*ownedPrefix] {
	return func(yield func(*ownedPrefix) bool) {
		for at := range s.outside(p) {
			if !yield(at) {
				return
			}
		}
		for at := range s.inside(p) {
			if !yield(at) {
				return
			}
		}
	}
}

// MayHold returns nil if a Service may have the address as far as policies are concerned.
func (s *Compiled) MayHold(a netip.Addr, svc Service) *Refusal {
	r, reserved := s.Reservation(a)
	if reserved && r.For != svc.NamespacedName {
		return reservedFor(r, a)
	}
	if by := s.Restriction(a); by != nil && cordons(by) {
		return cordoned(by, a)
	}
	if reserved {
		return nil
	}
	if owner := s.Keeps(a, svc); owner != nil {
		return closedTo(owner, a)
	}
	return nil
}

// Keeps returns the policy that has an address exclusively, and for other Services than this one:
// nil if there is none. Reservations are not looked at.
func (s *Compiled) Keeps(a netip.Addr, svc Service) *Policy {
	owner, by := mayHold(s.around(a))
	if owner == nil || selected(by, svc) {
		return nil
	}
	return owner
}

// mayHold returns the best exclusive owner of what lies in all of these prefixes, and the policies
// whose Services may have it, the best first: the owner, and better policies that have one of the
// prefixes. A policy of which no form can be read is not among them. None where it has no owner.
func mayHold(around iter.Seq[*ownedPrefix]) (owner *Policy, by []*Policy) {
	if owner = bestOwner(around); owner == nil {
		return nil, nil
	}
	for at := range around {
		for _, p := range at.holders {
			if !owner.outranks(p) && !p.selectsNone() {
				by = append(by, p)
			}
		}
	}
	slices.SortFunc(by, byRank)
	return owner, slices.Compact(by)
}

// selected reports whether any of the policies selects a Service.
func selected(by []*Policy, svc Service) bool {
	return slices.ContainsFunc(by, func(p *Policy) bool { return p.selector.matches(svc) })
}

// bestOwner returns the best of the exclusive owners, nil if there is none.
func bestOwner(around iter.Seq[*ownedPrefix]) *Policy {
	var best *Policy
	for at := range around {
		if at.owner != nil && (best == nil || at.owner.outranks(best)) {
			best = at.owner
		}
	}
	return best
}
