package steering

import (
	"cmp"
	"fmt"
	"net/netip"
	"slices"
	"strings"
	"sync"

	"github.com/gaissmai/bart"
	"k8s.io/apimachinery/pkg/types"

	"github.com/clusterip-operator/clusterip-operator/allocator"
	"github.com/clusterip-operator/clusterip-operator/api/v1alpha1"
)

// Compile decides what each policy gets of what it asks for. It is pure, and costs a sort of the
// policies, ranges and reservations, and a look-up for each: only what overlaps is compared.
func Compile(in Inputs) *Compiled { return blank(emptySpace()).Recompile(in) }

// blank has no policies.
func blank(of *space) *Compiled {
	return &Compiled{
		space: of, byName: map[string]*Policy{}, ranges: &bart.Table[*ownedPrefix]{}, closes: map[allocator.Family]int{},
		contested: map[string]*Policy{}, askers: func() askers { return askers{} },
		reservedFor: map[allocator.Family]map[types.NamespacedName][]Reservation{allocator.IPv4: {}, allocator.IPv6: {}},
	}
}

// settle adds policies, of which none has to do with one that is there; see reach.
func (s *Compiled) settle(fresh []*Policy) {
	slices.SortFunc(fresh, byRank)
	s.ranges = s.ranges.UnionPersist(askedFor(fresh))
	for _, p := range fresh {
		s.byName[p.Name] = p
		s.reserve(p)
		s.assign(p)
		p.prepareBands()
	}
	for _, p := range fresh {
		at, _ := slices.BinarySearchFunc(s.policies, p, byRank)
		s.policies = slices.Insert(s.policies, at, p)
		s.count(p, 1)
	}
	policies := s.policies // and not all of s, which a later compilation would keep
	s.askers = sync.OnceValue(func() askers { return newAskers(policies) })
	s.keepForServices(fresh)
}

// count notes whether a policy closes ranges, keeps them from draws, or has less than it reserves.
func (s *Compiled) count(p *Policy, by int) {
	for _, f := range allocator.Families {
		if (p.Exclusive || p.Restricts()) && p.claims(f) {
			s.closes[f] += by
		}
	}
	if p.Restricts() && len(p.Claimed) > 0 {
		s.restricts += by
	}
	if p.contested && by > 0 {
		s.contested[p.Name] = p
	} else {
		delete(s.contested, p.Name)
	}
}

// claims reports whether a policy has a range of a family.
func (p *Policy) claims(f allocator.Family) bool {
	return slices.ContainsFunc(p.Claimed, func(prefix netip.Prefix) bool { return allocator.FamilyOf(prefix.Addr()) == f })
}

// wantedRange is a range of a ServiceCIDR that a policy asks for and that exists.
type wantedRange struct {
	PolicyRange
	// usable: addresses may be drawn from it. A range is closed to other Services before that, and
	// until its object is gone.
	usable bool
}

// want notes the ranges that a policy asks for and that exist, in order, and which ServiceCIDRs are
// missing or give out no addresses.
func (s *space) want(p *Policy) {
	for _, name := range s.asked(p) {
		c := s.serviceCIDR(name)
		switch {
		case c.Name == "":
			p.Missing = append(p.Missing, name)
		case c.Terminating:
			p.Deleting = append(p.Deleting, name)
		case !c.Ready:
			p.Unready = append(p.Unready, name)
		}
		for _, r := range c.Ranges {
			p.wanted = append(p.wanted, wantedRange{PolicyRange{name, r}, c.Usable()})
		}
	}
	slices.SortFunc(p.wanted, func(a, b wantedRange) int {
		return cmp.Or(comparePrefixes(a.Range.Prefix(), b.Range.Prefix()), cmp.Compare(a.ServiceCIDR, b.ServiceCIDR))
	})
}

// reserve enters the reservations of a policy, without what better policies have reserved.
func (s *Compiled) reserve(p *Policy) {
	var left []Reservation
	for _, r := range p.Reservations {
		var taken []allocator.Span
		for other := range s.reserved.meeting(r.Span) {
			taken = append(taken, other.Span)
			p.lose(fmt.Sprintf("reservation %s: ServiceCIDRPolicy %q, which outranks this one, has %s", r.Name, other.Policy, spanText(other.Span)))
			p.contested = true
		}
		for _, a := range s.apiServer {
			if r.Span.Contains(a) {
				taken = append(taken, allocator.Span{First: a, Last: a})
				p.lose(fmt.Sprintf("reservation %s: %s is the address of Service default/kubernetes, which the API server creates by itself", r.Name, a))
				p.contested = true
			}
		}
		for _, span := range r.Span.Subtract(taken...) {
			r.Span = span
			left = append(left, r)
		}
	}
	p.Reservations = left
	s.awaitReady(p)
	s.reserved = s.reserved.with(left)
}

// keepForServices enters the reservations of policies, the best first, for the Services that they
// are for, without cordoned addresses. These stay reserved: another Service does not get them
// either.
func (s *Compiled) keepForServices(fresh []*Policy) {
	added := map[serviceFamily][]Reservation{}
	for _, p := range fresh {
		for _, r := range p.Reservations {
			if r.For.Name == "" {
				continue
			}
			for _, span := range r.Span.Subtract(s.cordonedIn(r.Span)...) {
				r.Span = span
				added[r.by()] = append(added[r.by()], r)
			}
		}
	}
	for by, more := range added {
		of := s.reservedFor[by.family]
		if there := of[by.service]; len(there) > 0 { // of another compilation, too
			more = slices.Concat(there, more)
			slices.SortStableFunc(more, func(a, b Reservation) int { return byRank(s.byName[a.Policy], s.byName[b.Policy]) })
		}
		of[by.service] = more
	}
}

// serviceFamily is a Service in one family.
type serviceFamily struct {
	service types.NamespacedName
	family  allocator.Family
}

func (r Reservation) by() serviceFamily {
	return serviceFamily{r.For, allocator.FamilyOf(r.Span.First)}
}

// cordonedIn returns the parts of a span that are cordoned.
func (s *Compiled) cordonedIn(sp allocator.Span) (out []allocator.Span) {
	for _, prefix := range prefixesOf(sp) {
		out = append(out, s.withheld(v1alpha1.AllocationCordoned, prefix)...)
	}
	return out
}

// awaitReady notes ServiceCIDRs that are not ready and have reserved addresses. Until they are
// ready, no Service gets these addresses, not even the one that they are kept for.
func (s *Compiled) awaitReady(p *Policy) {
	for _, r := range p.Reservations {
		p.Unready = append(p.Unready, s.awaited(r.Span.First)...)
	}
	slices.Sort(p.Unready)
	p.Unready = slices.Compact(p.Unready)
}

// lose notes a conflict by which the policy does not have something at all.
func (p *Policy) lose(conflict string) {
	p.Conflicts, p.Lost = append(p.Conflicts, conflict), append(p.Lost, conflict)
}

// assign gives a policy the ranges that no better one has exclusively.
//
// A range that lies in one that a better policy has exclusively is lost. One that is partly closed
// is kept, and the closed part left out when addresses are drawn.
func (s *Compiled) assign(p *Policy) {
	var left []wantedRange
	for _, r := range p.wanted {
		if !s.lost(p, r.PolicyRange) {
			left = append(left, r)
		}
	}
	for _, r := range left {
		s.enter(p, r)
		if n := len(p.Ranges); r.usable && (n == 0 || p.Ranges[n-1].Range != r.Range) {
			p.Ranges = append(p.Ranges, r.PolicyRange)
		}
	}
}

func comparePrefixes(a, b netip.Prefix) int {
	return cmp.Or(a.Addr().Compare(b.Addr()), cmp.Compare(a.Bits(), b.Bits()))
}

// lost reports whether a better policy has a range exclusively, and notes that or lesser conflicts.
func (s *Compiled) lost(p *Policy, r PolicyRange) bool {
	prefix := r.Range.Prefix()
	for other := range s.overlapping(prefix) {
		switch owner := other.owner; {
		case owner != nil && other.prefix.Bits() <= prefix.Bits():
			p.lose(fmt.Sprintf("ServiceCIDR %s (%s): ServiceCIDRPolicy %q has %s for itself, and outranks this one",
				r.ServiceCIDR, prefix, owner.Name, other.prefix))
			return true
		case owner != nil:
			p.Conflicts = append(p.Conflicts, fmt.Sprintf("ServiceCIDR %s (%s): its part %s belongs to ServiceCIDRPolicy %q, which outranks this one",
				r.ServiceCIDR, prefix, other.prefix, owner.Name))
		case p.Exclusive && len(other.holders) > 0:
			p.Conflicts = append(p.Conflicts, fmt.Sprintf("ServiceCIDR %s (%s): it is shared with ServiceCIDRPolicy %s, which outranks this one and has %s",
				r.ServiceCIDR, prefix, names(other.holders), other.prefix))
		}
	}
	return false
}

// askedFor returns the ranges that policies ask for, without telling whose they are.
func askedFor(policies []*Policy) *bart.Table[*ownedPrefix] {
	ranges := &bart.Table[*ownedPrefix]{}
	for _, p := range policies {
		for _, r := range p.wanted {
			prefix := r.Range.Prefix()
			at, known := ranges.Get(prefix)
			if !known {
				at = &ownedPrefix{prefix: prefix, span: SpanOf(prefix)}
				ranges.Insert(prefix, at)
			}
			at.wanted = append(at.wanted, p)
		}
	}
	return ranges
}

func (s *Compiled) enter(p *Policy, r wantedRange) {
	at, _ := s.ranges.Get(r.Range.Prefix())
	if n := len(p.Claimed); n == 0 || p.Claimed[n-1] != at.prefix {
		p.Claimed = append(p.Claimed, at.prefix)
	}
	at.holders = addLast(at.holders, p)
	if r.usable {
		at.users = addLast(at.users, p)
	}
	if p.Exclusive && at.owner == nil {
		at.owner = p
	}
}

// addLast appends a policy to a list unless it is last: two ServiceCIDRs may have the same range.
func addLast(list []*Policy, p *Policy) []*Policy {
	if n := len(list); n > 0 && list[n-1] == p {
		return list
	}
	return append(list, p)
}

// spanText writes a span for people.
func spanText(sp allocator.Span) string {
	if sp.First == sp.Last {
		return sp.First.String()
	}
	return sp.String()
}

func names(policies []*Policy) string {
	quoted := make([]string, 0, len(policies))
	for _, p := range policies {
		quoted = append(quoted, fmt.Sprintf("%q", p.Name))
	}
	return strings.Join(quoted, ", ")
}
