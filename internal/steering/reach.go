package steering

import (
	"net/netip"
	"slices"

	"github.com/clusterip-operator/clusterip-operator/internal/addressindex"
)

// reach finds the policies that a change may make get something else. Two policies have to do with
// each other if what they ask for or reserve overlaps, directly or through a chain of policies.
type reach struct {
	from     *Compiled
	names    map[string]bool
	queue    []*Policy
	prefixes map[netip.Prefix]bool // those that were looked at
}

// policy reaches for a policy of the compilation; nil for none.
func (r *reach) policy(p *Policy) {
	if p != nil && !r.names[p.Name] {
		r.names[p.Name] = true
		r.queue = append(r.queue, p)
	}
}

// serviceCIDR reaches for the policies that ask for a ServiceCIDR, or have to do with its ranges.
func (r *reach) serviceCIDR(c addressindex.ServiceCIDR) {
	for _, p := range r.from.policies {
		if slices.Contains(p.spec().ServiceCIDRs, c.Name) || p.selectsServiceCIDR(c) {
			r.policy(p)
		}
	}
	for _, of := range c.Ranges {
		r.prefix(of.Prefix())
	}
}

// asked reaches for the policies that have to do with what a policy asks for and reserves.
func (r *reach) asked(p *Policy) {
	for _, wanted := range p.wanted {
		r.prefix(wanted.Range.Prefix())
	}
	for _, reservation := range p.Reservations {
		for _, prefix := range prefixesOf(reservation.Span) {
			r.prefix(prefix)
		}
	}
}

func (r *reach) prefix(p netip.Prefix) {
	if r.prefixes[p] {
		return
	}
	r.prefixes[p] = true
	for at := range r.from.overlapping(p) {
		for _, other := range at.wanted {
			r.policy(other)
		}
	}
	for _, reservation := range r.from.reservedIn(SpanOf(p)) {
		r.policy(r.from.byName[reservation.Policy])
	}
}

// moved reaches for what has to do with ServiceCIDRs that moved, and with all that is reached: for
// all policies, where that costs less than to tell which.
func (r *reach) moved(m movement) {
	if !m.many() {
		for _, c := range m.all() {
			r.serviceCIDR(c)
		}
		r.spread()
	}
	if m.many() || 2*len(r.names) > len(r.from.policies) {
		for _, p := range r.from.policies {
			r.policy(p)
		}
	}
}

// spread reaches for all that have to do with what is reached. A policy that lost a part of its
// reservations is always reached: nothing else tells when it has that again.
func (r *reach) spread() {
	for _, p := range r.from.policies {
		if p.contested {
			r.policy(p)
		}
	}
	for ; len(r.queue) > 0; r.queue = r.queue[1:] {
		r.asked(r.queue[0])
	}
}
