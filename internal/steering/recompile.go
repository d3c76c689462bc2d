package steering

import (
	"iter"
	"maps"
	"net/netip"
	"slices"

	"k8s.io/apimachinery/pkg/api/equality"
	"k8s.io/apimachinery/pkg/types"

	"github.com/clusterip-operator/clusterip-operator/allocator"
	"github.com/clusterip-operator/clusterip-operator/api/v1alpha1"
	"github.com/clusterip-operator/clusterip-operator/internal/addressindex"
)

// many is of how many moved ServiceCIDRs it costs more to ask each policy whether it asks for them
// than to compile all.
const many = 64

// Recompile says what Compile says of the inputs, and shares with s what has not changed: of a
// policy that nothing has touched it has the same *Policy. So a change costs what overlaps with it,
// and copies of lists of pointers. Policies that cannot be read any more are as they were in s.
func (s *Compiled) Recompile(in Inputs) *Compiled {
	next := &Compiled{space: s.space, inputs: in, objects: byName(in.Policies)}
	moved := s.moved(in.ServiceCIDRs)
	if len(moved) > 0 {
		next.space = newSpace(in.ServiceCIDRs)
	}
	if len(moved) > many {
		return s.whole(in, next.space)
	}
	r := reach{from: s, names: map[string]bool{}, prefixes: map[netip.Prefix]bool{}}
	fresh := s.changed(next, &r)
	for _, c := range moved {
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
	next.keep(s, r.names)
	next.settle(slices.Collect(maps.Values(fresh)))
	return next
}

// Changed yields the policies of which two compilations may say different things, as they were and
// as they are: nil where a policy came or went. Those that Recompile has kept are not among them.
func Changed(before, after *Compiled) iter.Seq2[*Policy, *Policy] {
	return func(yield func(*Policy, *Policy) bool) {
		for _, p := range after.policies {
			if was := before.byName[p.Name]; was != p && !yield(was, p) {
				return
			}
		}
		for _, p := range before.policies {
			if after.byName[p.Name] == nil && !yield(p, nil) {
				return
			}
		}
	}
}

// Moved returns the ServiceCIDRs that came, went or changed between two compilations: as they were,
// and as they are.
func Moved(before, after *Compiled) []addressindex.ServiceCIDR {
	if before.space == after.space {
		return nil
	}
	return before.moved(after.serviceCIDRs)
}

// With is Recompile with a policy added, or in the place of the one of its name.
func (s *Compiled) With(o *v1alpha1.ServiceCIDRPolicy) *Compiled {
	in := s.inputs
	in.Policies = append(slices.DeleteFunc(slices.Clone(in.Policies), func(other *v1alpha1.ServiceCIDRPolicy) bool { return other.Name == o.Name }), o)
	return s.Recompile(in)
}

// moved returns the ServiceCIDRs that came, went or changed: as they were, and as they are.
func (s *space) moved(now []addressindex.ServiceCIDR) (out []addressindex.ServiceCIDR) {
	kept := 0
	for _, c := range now {
		switch was, known := s.cidrs[c.Name]; {
		case known && was.Equal(c):
			kept++
		case known:
			kept++
			out = append(out, was, c)
		default:
			out = append(out, c)
		}
	}
	if kept == len(s.cidrs) {
		return out
	}
	names := make(map[string]bool, len(now))
	for _, c := range now {
		names[c.Name] = true
	}
	for name, c := range s.cidrs {
		if !names[name] {
			out = append(out, c)
		}
	}
	return out
}

// changed reads the policies that came or changed, by name. It reaches for these, and for those
// that went.
func (s *Compiled) changed(next *Compiled, r *reach) (fresh map[string]*Policy) {
	fresh = map[string]*Policy{}
	for name, o := range next.objects {
		if was := s.objects[name]; was != nil && sameSpec(was, o) {
			continue
		}
		fresh[name] = s.read(o, next.space)
		r.asked(fresh[name])
		r.policy(s.byName[name])
	}
	for name, p := range s.byName {
		if next.objects[name] == nil {
			r.policy(p)
		}
	}
	return fresh
}

// sameSpec reports whether two forms of a policy say the same: a new status says nothing here.
func sameSpec(a, b *v1alpha1.ServiceCIDRPolicy) bool {
	return a == b || a.UID == b.UID && a.Generation == b.Generation && equality.Semantic.DeepEqual(&a.Spec, &b.Spec)
}

// keep takes over what another compilation has, without policies of these names.
func (s *Compiled) keep(from *Compiled, without map[string]bool) {
	gone := func(p *Policy) bool { return without[p.Name] }
	s.policies = slices.DeleteFunc(slices.Clone(from.policies), gone)
	s.byName = maps.Clone(from.byName)
	s.ranges = from.ranges.Clone()
	s.reserved = slices.DeleteFunc(slices.Clone(from.reserved), func(r *Reservation) bool { return without[r.Policy] })
	s.reservedFor = map[allocator.Family]map[types.NamespacedName][]Reservation{}
	for family, of := range from.reservedFor {
		s.reservedFor[family] = maps.Clone(of)
	}
	services := map[serviceFamily]bool{}
	for name := range without {
		p := from.byName[name]
		delete(s.byName, name)
		for _, r := range p.wanted {
			s.ranges.Delete(r.Range.Prefix())
		}
		for _, r := range p.Reservations {
			services[r.by()] = true
		}
	}
	for by := range services {
		s.giveBack(by, without)
	}
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
