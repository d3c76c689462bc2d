package steering

import (
	"iter"
	"maps"
	"net/netip"
	"slices"

	"github.com/gaissmai/bart"
	"k8s.io/apimachinery/pkg/api/equality"

	"github.com/clusterip-operator/clusterip-operator/api/v1alpha1"
	"github.com/clusterip-operator/clusterip-operator/internal/addressindex"
)

// change is what differs between two states of a cluster: by name the policies that came or
// changed, and nil for those that went; and the ServiceCIDRs.
type change struct {
	policies map[string]*v1alpha1.ServiceCIDRPolicy
	moved    movement
}

// Recompile says what Compile says of the inputs, and shares with s what has not changed: of a
// policy that nothing has touched it has the same *Policy. So a change costs what overlaps with it,
// and copies of lists of pointers. Policies that cannot be read any more are as they were in s.
func (s *Compiled) Recompile(in Inputs) *Compiled {
	c := change{s.changed(in.Policies), s.movement(in.ServiceCIDRs)}
	return s.after(c)
}

// With is Recompile with a policy added, or in the place of the one of its name.
func (s *Compiled) With(o *v1alpha1.ServiceCIDRPolicy) *Compiled {
	return s.after(change{policies: map[string]*v1alpha1.ServiceCIDRPolicy{o.Name: o}})
}

// after says what Compile says after a change.
func (s *Compiled) after(c change) *Compiled {
	next := &Compiled{
		space: s.with(c.moved), policies: s.policies, byName: s.byName, ranges: s.ranges, closes: s.closes, restricts: s.restricts,
		contested: s.contested, askers: s.askers, reserved: s.reserved, reservedFor: s.reservedFor,
	}
	r := reach{from: s, names: map[string]bool{}, prefixes: map[netip.Prefix]bool{}}
	fresh := map[string]*Policy{}
	for name, o := range c.policies {
		r.policy(s.byName[name])
		if o != nil {
			fresh[name] = s.read(o, next.space)
			r.asked(fresh[name])
		}
	}
	r.moved(c.moved)
	for name := range r.names {
		if _, changed := c.policies[name]; !changed {
			fresh[name] = s.read(s.byName[name].object, next.space)
		}
	}
	switch {
	case len(fresh)+len(r.names) == 0:
	case len(r.names) == len(s.policies):
		next = blank(next.space)
		next.settle(slices.Collect(maps.Values(fresh)))
	default:
		next.dropPolicies(r.names)
		next.settle(slices.Collect(maps.Values(fresh)))
	}
	next.prepareOpen()
	return next
}

// changed returns which policies came, changed or went, if these are there now.
func (s *Compiled) changed(now []*v1alpha1.ServiceCIDRPolicy) map[string]*v1alpha1.ServiceCIDRPolicy {
	out, kept := map[string]*v1alpha1.ServiceCIDRPolicy{}, map[string]bool{}
	for _, o := range now {
		if was := s.byName[o.Name]; was != nil && sameSpec(was.object, o) {
			kept[o.Name] = true
		} else {
			out[o.Name] = o
		}
	}
	for name := range s.byName {
		if !kept[name] && out[name] == nil {
			out[name] = nil
		}
	}
	return out
}

// sameSpec reports whether two forms of a policy say the same: a new status says nothing here.
func sameSpec(a, b *v1alpha1.ServiceCIDRPolicy) bool {
	return a.UID == b.UID && a.Generation == b.Generation && equality.Semantic.DeepEqual(&a.Spec, &b.Spec)
}

// Changed yields the policies of which two compilations may say different things, as they were and
// as they are: nil where a policy came or went. Those that Recompile has kept are not among them.
func Changed(before, after *Compiled) iter.Seq2[*Policy, *Policy] {
	return func(yield func(*Policy, *Policy) bool) {
		old, now := Trim(before.policies, after.policies, func(a, b *Policy) bool { return a == b })
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

// AnyChanged reports whether something holds for a policy of which two compilations may say
// different things, as it was or as it is.
func AnyChanged(before, after *Compiled, holds func(*Policy) bool) bool {
	for was, is := range Changed(before, after) {
		if was != nil && holds(was) || is != nil && holds(is) {
			return true
		}
	}
	return false
}

// Trim returns two lists without what is the same at both ends of them: where few of a thousand
// differ, that is nearly all. The lists themselves stay as they are.
func Trim[T any](a, b []T, same func(a, b T) bool) (_, _ []T) {
	for len(a) > 0 && len(b) > 0 && same(a[0], b[0]) {
		a, b = a[1:], b[1:]
	}
	for len(a) > 0 && len(b) > 0 && same(a[len(a)-1], b[len(b)-1]) {
		a, b = a[:len(a)-1], b[:len(b)-1]
	}
	return a, b
}

// Moved returns the ServiceCIDRs that came, went or changed between two compilations: as they were,
// and as they are.
func Moved(before, after *Compiled) []addressindex.ServiceCIDR {
	switch {
	case before.space == after.space:
		return nil
	case after.made.of == before.made.id:
		return after.made.by.all()
	default:
		return before.movement(after.serviceCIDRs()).all()
	}
}

// dropPolicies takes away policies of these names, and what they have. Until then s shares with the
// compilation before; after it s may be changed.
func (s *Compiled) dropPolicies(names map[string]bool) {
	before := s.byName
	s.policies, s.byName, s.closes, s.contested = slices.Clone(s.policies), maps.Clone(before), maps.Clone(s.closes), maps.Clone(s.contested)
	var gone []Reservation
	var prefixes []netip.Prefix
	for name := range names {
		p := before[name]
		delete(s.byName, name)
		at, _ := slices.BinarySearchFunc(s.policies, p, byRank)
		s.policies = slices.Delete(s.policies, at, at+1)
		s.count(p, -1)
		for _, r := range p.wanted {
			prefixes = append(prefixes, r.Range.Prefix())
		}
		gone = append(gone, p.Reservations...)
	}
	s.ranges = without(s.ranges, prefixes)
	s.reserved = s.reserved.without(gone)
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

// without returns a table without prefixes. Each costs a path through the table, so that of many a
// copy of all of it costs less.
func without(ranges *bart.Table[*ownedPrefix], prefixes []netip.Prefix) *bart.Table[*ownedPrefix] {
	if len(prefixes) > few {
		ranges = ranges.Clone()
	}
	for _, prefix := range prefixes {
		if len(prefixes) > few {
			ranges.Delete(prefix)
		} else {
			ranges = ranges.DeletePersist(prefix)
		}
	}
	return ranges
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
