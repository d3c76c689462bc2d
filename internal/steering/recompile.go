package steering

import (
	"iter"
	"maps"
	"net/netip"
	"slices"

	"k8s.io/apimachinery/pkg/api/equality"

	"github.com/clusterip-operator/clusterip-operator/api/v1alpha1"
	"github.com/clusterip-operator/clusterip-operator/internal/addressindex"
)

// Recompile says what Compile says of the inputs, and shares with s what has not changed: of a
// policy that nothing has touched it has the same *Policy. So a change costs what overlaps with it,
// and copies of lists of pointers. Policies that cannot be read any more are as they were in s.
func (s *Compiled) Recompile(in Inputs) *Compiled {
	next := &Compiled{
		space: s.space, inputs: in, objects: s.objectsOf(in.Policies), policies: s.policies, byName: s.byName,
		ranges: s.ranges, closes: s.closes, restricts: s.restricts, reserved: s.reserved, reservedFor: s.reservedFor,
	}
	moved := s.movement(in.ServiceCIDRs)
	if len(moved.all()) > 0 {
		next.space = s.with(moved)
	}
	if moved.many() {
		return s.whole(in, next.space)
	}
	r := reach{from: s, names: map[string]bool{}, prefixes: map[netip.Prefix]bool{}}
	fresh := s.changed(next, &r)
	for _, c := range moved.all() {
		r.serviceCIDR(c)
	}
	r.spread()
	if 2*len(r.names) > len(s.policies) {
		return s.whole(in, next.space)
	}
	for name := range r.names {
		if o := next.objects[name]; o != nil && fresh[name] == nil {
			fresh[name] = s.read(o, next.space)
		}
	}
	if len(r.names)+len(fresh) > 0 {
		next.dropPolicies(r.names)
		next.settle(slices.Collect(maps.Values(fresh)))
	}
	next.prepareOpen()
	return next
}

// objectsOf returns policies by name: the map of s, if they are the same.
func (s *Compiled) objectsOf(policies []*v1alpha1.ServiceCIDRPolicy) map[string]*v1alpha1.ServiceCIDRPolicy {
	changed := func(o *v1alpha1.ServiceCIDRPolicy) bool { return s.objects[o.Name] != o }
	if len(policies) == len(s.objects) && !slices.ContainsFunc(policies, changed) {
		return s.objects
	}
	return byName(policies)
}

// Changed yields the policies of which two compilations may say different things, as they were and
// as they are: nil where a policy came or went. Those that Recompile has kept are not among them.
func Changed(before, after *Compiled) iter.Seq2[*Policy, *Policy] {
	return func(yield func(*Policy, *Policy) bool) {
		old, now := trimmed(before.policies, after.policies)
		for _, p := range now {
			if was := before.byName[p.Name]; was != p && !yield(was, p) {
				return
			}
		}
		for _, p := range old {
			if after.byName[p.Name] == nil && !yield(p, nil) {
				return
			}
		}
	}
}

// trimmed returns two lists without what they have in common at both ends. Where few policies of a
// thousand differ, that is nearly all of them.
func trimmed(a, b []*Policy) (_, _ []*Policy) {
	for len(a) > 0 && len(b) > 0 && a[0] == b[0] {
		a, b = a[1:], b[1:]
	}
	for len(a) > 0 && len(b) > 0 && a[len(a)-1] == b[len(b)-1] {
		a, b = a[:len(a)-1], b[:len(b)-1]
	}
	return a, b
}

// Moved returns the ServiceCIDRs that came, went or changed between two compilations: as they were,
// and as they are.
func Moved(before, after *Compiled) []addressindex.ServiceCIDR {
	if before.space == after.space {
		return nil
	}
	return before.movement(after.inputs.ServiceCIDRs).all()
}

// With is Recompile with a policy added, or in the place of the one of its name.
func (s *Compiled) With(o *v1alpha1.ServiceCIDRPolicy) *Compiled {
	in := s.inputs
	in.Policies = append(slices.DeleteFunc(slices.Clone(in.Policies), func(other *v1alpha1.ServiceCIDRPolicy) bool { return other.Name == o.Name }), o)
	return s.Recompile(in)
}

// changed reads the policies that came or changed, by name. It reaches for these, and for those
// that went.
func (s *Compiled) changed(next *Compiled, r *reach) (fresh map[string]*Policy) {
	fresh = map[string]*Policy{}
	for _, o := range next.inputs.Policies {
		if was := s.objects[o.Name]; was != nil && sameSpec(was, o) {
			continue
		}
		fresh[o.Name] = s.read(o, next.space)
		r.asked(fresh[o.Name])
		r.policy(s.byName[o.Name])
	}
	for _, p := range s.policies {
		if next.objects[p.Name] == nil {
			r.policy(p)
		}
	}
	return fresh
}

// sameSpec reports whether two forms of a policy say the same: a new status says nothing here.
func sameSpec(a, b *v1alpha1.ServiceCIDRPolicy) bool {
	return a == b || a.UID == b.UID && a.Generation == b.Generation && equality.Semantic.DeepEqual(&a.Spec, &b.Spec)
}

// dropPolicies takes away policies of these names, and what they have. Until then s shares with the
// compilation before; after it s may be changed.
func (s *Compiled) dropPolicies(names map[string]bool) {
	s.policies = slices.DeleteFunc(slices.Clone(s.policies), func(p *Policy) bool { return names[p.Name] })
	before := s.byName
	s.byName = maps.Clone(before)
	var gone []Reservation
	for name := range names {
		p := before[name]
		delete(s.byName, name)
		for _, r := range p.wanted {
			s.ranges = s.ranges.DeletePersist(r.Range.Prefix())
		}
		gone = append(gone, p.Reservations...)
	}
	s.reserved = remaining(s.reserved, gone)
	s.reservedFor = maps.Clone(s.reservedFor)
	for family, of := range s.reservedFor {
		s.reservedFor[family] = maps.Clone(of)
	}
	services := map[serviceFamily]bool{}
	for _, r := range gone {
		services[r.by()] = true
	}
	for by := range services {
		s.giveBack(by, names)
	}
}

// remaining copies a sorted list without some of its reservations.
func remaining(sorted []*Reservation, gone []Reservation) []*Reservation {
	slices.SortFunc(gone, func(a, b Reservation) int { return byFirst(&a, &b) })
	left := make([]*Reservation, 0, len(sorted))
	for i := range gone {
		at, _ := slices.BinarySearchFunc(sorted, &gone[i], byFirst)
		left, sorted = append(left, sorted[:at]...), sorted[at+1:]
	}
	return append(left, sorted...)
}

// giveBack takes from a Service what policies of these names have reserved for it.
func (s *Compiled) giveBack(by serviceFamily, names map[string]bool) {
	of := s.reservedFor[by.family]
	left := slices.DeleteFunc(slices.Clone(of[by.service]), func(r Reservation) bool { return names[r.Policy] })
	if len(left) == 0 {
		delete(of, by.service)
	} else {
		of[by.service] = left
	}
}
