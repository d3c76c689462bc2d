package steering

import (
	"iter"
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
	for p := range r.from.askers().of(c) {
		r.policy(p)
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
	for reservation := range r.from.reserved.meeting(SpanOf(p)) {
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
	for _, p := range r.from.contested {
		r.policy(p)
	}
	for ; len(r.queue) > 0; r.queue = r.queue[1:] {
		r.asked(r.queue[0])
	}
}

// askers are policies by what they ask for: the name of a ServiceCIDR, or a label that it must
// have. others select ServiceCIDRs by what is no value of a label.
type askers struct {
	byName  map[string][]*Policy
	byLabel map[label][]*Policy
	others  []*Policy
}

func newAskers(policies []*Policy) askers {
	a := askers{byName: map[string][]*Policy{}, byLabel: map[label][]*Policy{}}
	for _, p := range policies {
		for _, name := range p.spec().ServiceCIDRs {
			a.byName[name] = append(a.byName[name], p)
		}
		if p.spec().ServiceCIDRSelector == nil {
			continue
		}
		required, named := requiredOf(p.selector.cidrs)
		if !named {
			a.others = append(a.others, p)
		}
		for _, by := range required {
			a.byLabel[by] = append(a.byLabel[by], p)
		}
	}
	return a
}

// of yields the policies that ask for a ServiceCIDR.
func (a askers) of(c addressindex.ServiceCIDR) iter.Seq[*Policy] {
	return func(yield func(*Policy) bool) {
		candidates := [][]*Policy{a.others}
		for key, value := range c.Labels {
			candidates = append(candidates, a.byLabel[label{key, value}])
		}
		for _, p := range slices.Concat(candidates...) {
			if p.selectsServiceCIDR(c) && !yield(p) {
				return
			}
		}
		for _, p := range a.byName[c.Name] {
			if !yield(p) {
				return
			}
		}
	}
}
