package steering

import (
	"net/netip"
	"slices"
	"sync"

	"github.com/gaissmai/bart"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/selection"

	"github.com/clusterip-operator/clusterip-operator/allocator"
	"github.com/clusterip-operator/clusterip-operator/api/v1alpha1"
	"github.com/clusterip-operator/clusterip-operator/internal/addressindex"
)

// space is what the ServiceCIDRs of a cluster say, whatever policies there are. It is immutable,
// and all Compiled of the same ServiceCIDRs share it.
type space struct {
	serviceCIDRs []addressindex.ServiceCIDR
	cidrs        map[string]addressindex.ServiceCIDR // by name
	// byLabel are the ServiceCIDRs with a label: made when a policy first selects by labels.
	byLabel func() map[label][]addressindex.ServiceCIDR
	offered bart.Table[allocator.Range] // those that API servers allocate from
	unready bart.Table[[]PolicyRange]   // those of ServiceCIDRs that are to become ready
	statics []allocator.Span            // the static bands of all ranges, in order and disjoint: an address that is static in one is static
	// apiServer are the addresses of Service default/kubernetes. The API server creates it past every
	// webhook, so that nothing of ours may stand there.
	apiServer []netip.Addr
	families  []allocator.Family // of the default ServiceCIDR
}

func newSpace(all []addressindex.ServiceCIDR) *space {
	s := &space{
		serviceCIDRs: all, cidrs: make(map[string]addressindex.ServiceCIDR, len(all)),
		byLabel: sync.OnceValue(func() map[label][]addressindex.ServiceCIDR { return indexLabels(all) }),
	}
	for _, c := range all {
		s.cidrs[c.Name] = c
		s.awaited(c)
		for _, r := range c.Ranges {
			if c.Usable() {
				s.offered.Insert(r.Prefix(), r)
			}
			if span := r.Band(allocator.Static); !span.IsEmpty() {
				s.statics = append(s.statics, span)
			}
		}
	}
	s.statics = union(s.statics)
	for _, r := range s.cidrs[v1alpha1.DefaultServiceCIDR].Ranges {
		s.families = append(s.families, r.Family())
		s.apiServer = append(s.apiServer, r.Span().First)
	}
	return s
}

// awaited notes a ServiceCIDR that is not ready.
func (s *space) awaited(c addressindex.ServiceCIDR) {
	if c.Ready || c.Terminating {
		return
	}
	for _, r := range c.Ranges {
		at, _ := s.unready.Get(r.Prefix())
		s.unready.Insert(r.Prefix(), append(at, PolicyRange{c.Name, r}))
	}
}

// asked returns the names of the ServiceCIDRs that a policy asks for, sorted.
func (s *space) asked(p *Policy) []string {
	spec := p.spec()
	names := slices.Clone(spec.ServiceCIDRs)
	// A selector beside names is a mistake, for which none of these ranges is opened.
	if spec.ServiceCIDRSelector != nil {
		names = append(names, s.labelled(p.selector.cidrs)...)
	}
	slices.Sort(names)
	return slices.Compact(names)
}

// labelled returns the names of the ServiceCIDRs with matching labels, sorted. It looks only at
// those with a value that the selector asks for, if it asks for any.
func (s *space) labelled(by labels.Selector) []string {
	var names []string
	for _, c := range s.candidates(by) {
		if by.Matches(labels.Set(c.Labels)) {
			names = append(names, c.Name)
		}
	}
	slices.Sort(names)
	return names
}

// label is a label with its value.
type label struct{ key, value string }

// candidates returns the ServiceCIDRs that a selector may match: no others do.
func (s *space) candidates(by labels.Selector) (out []addressindex.ServiceCIDR) {
	requirements, selectable := by.Requirements()
	if !selectable {
		return nil
	}
	for _, r := range requirements {
		switch r.Operator() {
		case selection.Equals, selection.DoubleEquals, selection.In:
			for _, value := range r.ValuesUnsorted() {
				out = append(out, s.byLabel()[label{r.Key(), value}]...)
			}
			return out
		default: // says nothing about which values there are
		}
	}
	return s.serviceCIDRs
}

// indexLabels returns the ServiceCIDRs that have a label with a value.
func indexLabels(all []addressindex.ServiceCIDR) map[label][]addressindex.ServiceCIDR {
	out := map[label][]addressindex.ServiceCIDR{}
	for _, c := range all {
		for key, value := range c.Labels {
			out[label{key, value}] = append(out[label{key, value}], c)
		}
	}
	return out
}

// Knows reports whether there is a ServiceCIDR of this name.
func (s *space) Knows(serviceCIDR string) bool {
	_, ok := s.cidrs[serviceCIDR]
	return ok
}

// Families returns the families of the cluster, the default one first, as the default ServiceCIDR
// has them: none while it does not exist.
func (s *space) Families() []allocator.Family { return s.families }

// Offers reports whether API servers allocate from a range with this address.
func (s *space) Offers(a netip.Addr) bool {
	for _, r := range s.offered.Supernets(single(a)) {
		if r.Contains(a) {
			return true
		}
	}
	return false
}
