package steering

import (
	"maps"
	"slices"

	"github.com/clusterip-operator/clusterip-operator/api/v1alpha1"
	"github.com/clusterip-operator/clusterip-operator/internal/addressindex"
)

// With returns the Inputs with a policy added, or in the place of the one of its name, without the
// policies that it has nothing to do with: Compile says the same of the rest. So the cost is that
// of what overlaps.
//
// Two policies have to do with each other if the ranges that they ask for overlap, directly or
// through a chain of such policies. Reservations are not indexed by the policies that want them:
// with any in the chain, nothing is left out.
func (s *Compiled) With(o *v1alpha1.ServiceCIDRPolicy) Inputs {
	changed := newPolicy(o)
	s.want(changed)
	met, queue := map[string]*Policy{o.Name: changed}, []*Policy{changed}
	if before := s.byName[o.Name]; before != nil {
		queue = append(queue, before)
	}
	cidrs := map[string]addressindex.ServiceCIDR{}
	s.copyServiceCIDRs(cidrs, v1alpha1.DefaultServiceCIDR)
	for ; len(queue) > 0; queue = queue[1:] {
		p := queue[0]
		if len(p.spec().Reservations) > 0 {
			return s.withAll(o)
		}
		s.copyServiceCIDRs(cidrs, s.asked(p)...)
		for _, r := range p.wanted {
			for at := range s.overlapping(r.Range.Prefix()) {
				for _, other := range at.wanted {
					if met[other.Name] == nil {
						met[other.Name], queue = other, append(queue, other)
					}
				}
			}
		}
	}
	in := Inputs{ServiceCIDRs: slices.Collect(maps.Values(cidrs)), LastReadable: s.inputs.LastReadable}
	for _, p := range met {
		in.Policies = append(in.Policies, p.object)
	}
	return in
}

func (s *Compiled) copyServiceCIDRs(to map[string]addressindex.ServiceCIDR, names ...string) {
	for _, name := range names {
		if c, ok := s.cidrs[name]; ok {
			to[name] = c
		}
	}
}

// withAll is With that leaves nothing out.
func (s *Compiled) withAll(o *v1alpha1.ServiceCIDRPolicy) Inputs {
	in := s.inputs
	in.Policies = append(slices.DeleteFunc(slices.Clone(in.Policies), func(other *v1alpha1.ServiceCIDRPolicy) bool { return other.Name == o.Name }), o)
	return in
}
