package steering

import (
	"fmt"
	"slices"
	"sort"
	"strings"

	"k8s.io/apimachinery/pkg/labels"

	"github.com/clusterip-operator/clusterip-operator/allocator"
)

// RangesOf returns the ranges of a family of which a tier of an origin has an address, by name. A
// range that a policy has exclusively is not open to all.
func (s *Compiled) RangesOf(o Origin, f allocator.Family, t *allocator.Tier) (texts []string) {
	var ranges []allocator.Range
	if o.Policy != nil {
		ranges = o.Policy.ranges(f)
	} else {
		for _, c := range s.cidrs {
			if c.Usable() {
				ranges = append(ranges, ofFamily(*c, f)...)
			}
		}
	}
	runs := t.Spans()
	for _, r := range ranges {
		if meets(runs, r.Span()) {
			texts = append(texts, r.String())
		}
	}
	slices.Sort(texts)
	return slices.Compact(texts)
}

// meets reports whether one of the runs of a tier, which are in order and disjoint, meets a span.
func meets(runs []allocator.Span, sp allocator.Span) bool {
	i := sort.Search(len(runs), func(i int) bool { return !runs[i].Last.Less(sp.First) })
	return i < len(runs) && runs[i].Overlaps(sp)
}

// Selection says of a policy whether it steers a Service in one family, and why not.
type Selection struct {
	Policy *Policy
	Steers bool
	// Why is the reason in the words of the policy's fields, empty if it steers.
	Why string
}

// Selections says so of all policies, the best first.
func (s *Compiled) Selections(svc Service, f allocator.Family) (all []Selection) {
	route := s.Route(svc, f)
	for _, p := range s.policies {
		v := Selection{Policy: p, Steers: slices.Contains(route.Policies, p)}
		if !v.Steers {
			v.Why = s.passedOver(p, route, svc, f)
		}
		all = append(all, v)
	}
	return all
}

// passedOver says why a policy has no say about a Service.
func (s *Compiled) passedOver(p *Policy, r *Route, svc Service, f allocator.Family) string {
	switch {
	case p.selectsNone():
		return "it selects no Service, for its selectors cannot be read: " + strings.Join(p.Invalid, "; ")
	case !p.steers:
		return "it names no ServiceCIDRs"
	case !p.selector.inNamespace(svc.NamespaceLabels):
		return "its namespaceSelector does not match the namespace"
	case !p.selector.services.Matches(labels.Set(svc.Labels)):
		return "its serviceSelector does not match the labels of the Service"
	case len(p.Ranges) > 0 && p.bands[f] == nil:
		return "it has no range of this family"
	case r.Fails:
		return fmt.Sprintf("ServiceCIDRPolicy %q, which ranks higher, refuses instead of going on (onFull: Fail)", r.Policies[len(r.Policies)-1].Name)
	default:
		return "policies that rank higher decide"
	}
}
