package steering

import (
	"iter"
	"maps"
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
	cidrs map[string]*addressindex.ServiceCIDR // by name; of pointers a copy is a third of one of values
	// byLabel are the ServiceCIDRs with a label, or created for a policy, as if that was a label: made
	// when they are first asked for.
	byLabel func() map[label][]*addressindex.ServiceCIDR
	places  *bart.Table[place]
	// apiServer are the addresses of Service default/kubernetes. The API server creates it past every
	// webhook, so that nothing of ours may stand there.
	apiServer []netip.Addr
	families  []allocator.Family // of the default ServiceCIDR
	made      making
}

// making tells of which space one was made, and by which movement. The spaces themselves are not
// kept: each would keep all that were before it.
type making struct {
	id, of *byte
	by     movement
}

// place is a range and the names of the ServiceCIDRs that have it, sorted.
type place struct {
	of    allocator.Range
	names []string
}

func emptySpace() *space {
	return &space{cidrs: map[string]*addressindex.ServiceCIDR{}, places: &bart.Table[place]{}, byLabel: func() map[label][]*addressindex.ServiceCIDR { return nil }}
}

// movement is what happened to ServiceCIDRs: one that changed is among both, one that came or went
// among those that are, or were.
type movement struct{ were, are []addressindex.ServiceCIDR }

func (m movement) all() []addressindex.ServiceCIDR { return slices.Concat(m.were, m.are) }

// few is of how many things it costs less to do one by one what costs a fraction for each together.
const few = 64

// many reports whether so much moved that it costs less to compile all policies, and to copy the
// table of ranges whole, than to do each for what moved.
func (m movement) many() bool { return len(m.were)+len(m.are) > few }

// movement returns what happened to the ServiceCIDRs of s, if these are there now.
func (s *space) movement(now []addressindex.ServiceCIDR) (m movement) {
	names := make(map[string]bool, len(now))
	for _, c := range now {
		names[c.Name] = true
		s.move(&m, c.Name, c)
	}
	for name := range s.cidrs {
		if !names[name] {
			s.move(&m, name)
		}
	}
	return m
}

// move enters what happened to a ServiceCIDR of s: it is like this now, or not there.
func (s *space) move(m *movement, name string, is ...addressindex.ServiceCIDR) {
	was, known := s.cidrs[name]
	if known && len(is) > 0 && was.Equal(is[0]) {
		return
	}
	m.are = append(m.are, is...)
	if known {
		m.were = append(m.were, *was)
	}
}

// with returns what the ServiceCIDRs say after a movement. What did not move is shared with s.
func (s *space) with(m movement) *space {
	if len(m.were)+len(m.are) == 0 {
		return s
	}
	next := &space{cidrs: maps.Clone(s.cidrs), places: s.places, made: making{id: new(byte), of: s.made.id, by: m}}
	modify := func(at netip.Prefix, change func(place, bool) (place, bool)) {
		next.places = next.places.ModifyPersist(at, change)
	}
	if m.many() {
		next.places = s.places.Clone()
		modify = next.places.Modify
	}
	for _, c := range m.were {
		delete(next.cidrs, c.Name)
		for _, r := range c.Ranges {
			modify(r.Prefix(), func(at place, _ bool) (place, bool) { return at.without(c.Name) })
		}
	}
	for _, c := range m.are {
		next.cidrs[c.Name] = &c
		for _, r := range c.Ranges {
			modify(r.Prefix(), func(at place, _ bool) (place, bool) { return at.with(r, c.Name) })
		}
	}
	next.byLabel = sync.OnceValue(func() map[label][]*addressindex.ServiceCIDR { return indexLabels(next.cidrs) })
	for _, r := range next.serviceCIDR(v1alpha1.DefaultServiceCIDR).Ranges {
		next.families = append(next.families, r.Family())
		next.apiServer = append(next.apiServer, r.Span().First)
	}
	return next
}

// serviceCIDR returns the one of a name, zero for none.
func (s *space) serviceCIDR(name string) addressindex.ServiceCIDR {
	if c := s.cidrs[name]; c != nil {
		return *c
	}
	return addressindex.ServiceCIDR{}
}

// serviceCIDRs returns all of them, in no order.
func (s *space) serviceCIDRs() []addressindex.ServiceCIDR {
	all := make([]addressindex.ServiceCIDR, 0, len(s.cidrs))
	for _, c := range s.cidrs {
		all = append(all, *c)
	}
	return all
}

// with is the place with one more ServiceCIDR that has the range.
func (p place) with(of allocator.Range, name string) (place, bool) {
	p, _ = p.without(name) // twice in one ServiceCIDR
	p.of, p.names = of, append(p.names, name)
	slices.Sort(p.names)
	return p, false
}

// without is the place without a ServiceCIDR; empty: no other has the range.
func (p place) without(name string) (_ place, empty bool) {
	p.names = slices.DeleteFunc(slices.Clone(p.names), func(other string) bool { return other == name })
	return p, len(p.names) == 0
}

// having yields the ServiceCIDRs that have an address.
func (s *space) having(a netip.Addr) iter.Seq[addressindex.ServiceCIDR] {
	return func(yield func(addressindex.ServiceCIDR) bool) {
		for _, at := range s.places.Supernets(single(a)) {
			for _, name := range at.names {
				if at.of.Contains(a) && !yield(*s.cidrs[name]) {
					return
				}
			}
		}
	}
}

// awaited returns the names of the ServiceCIDRs that are to become ready before API servers
// allocate an address: none if they do already.
func (s *space) awaited(a netip.Addr) (names []string) {
	for c := range s.having(a) {
		switch {
		case c.Usable():
			return nil
		case !c.Terminating:
			names = append(names, c.Name)
		}
	}
	return names
}

// staticIn returns which addresses of a range are static, in it or in another range.
func (s *space) staticIn(r allocator.Range) (out []allocator.Span) {
	add := func(at place) {
		if static := at.of.Band(allocator.Static); !static.IsEmpty() && static.Overlaps(r.Span()) {
			out = append(out, intersect(static, r.Span()))
		}
	}
	for _, at := range s.places.Supernets(r.Prefix()) {
		add(at)
	}
	for _, at := range s.places.Subnets(r.Prefix()) {
		add(at)
	}
	return out
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
func (s *space) candidates(by labels.Selector) (out []*addressindex.ServiceCIDR) {
	required, named := requiredOf(by)
	if !named {
		return slices.Collect(maps.Values(s.cidrs))
	}
	for _, one := range required {
		out = append(out, s.byLabel()[one]...)
	}
	return out
}

// requiredOf returns labels of which one must be there for a selector to match; none, and true, if
// it matches nothing. It is false if the selector requires no value.
func requiredOf(by labels.Selector) (anyOf []label, named bool) {
	requirements, selectable := by.Requirements()
	for _, r := range requirements {
		switch r.Operator() {
		case selection.Equals, selection.DoubleEquals, selection.In:
			for _, value := range r.ValuesUnsorted() {
				anyOf = append(anyOf, label{r.Key(), value})
			}
			return anyOf, true
		default: // says nothing about which values there are
		}
	}
	return nil, !selectable
}

// Related returns the ServiceCIDRs that have all these labels, were created for a policy of this
// name, or have a range that overlaps one of the prefixes; by name, and each once. It costs as much
// as it returns, with those that have the first label.
func (s *space) Related(matchLabels map[string]string, policy string, prefixes []netip.Prefix) (out []addressindex.ServiceCIDR) {
	names := s.labelled(labels.SelectorFromSet(matchLabels))
	for _, c := range s.byLabel()[label{v1alpha1.AnnotationCreatedFor, policy}] {
		names = append(names, c.Name)
	}
	for _, p := range prefixes {
		for _, at := range s.places.Supernets(p) {
			names = append(names, at.names...)
		}
		for _, at := range s.places.Subnets(p) {
			names = append(names, at.names...)
		}
	}
	slices.Sort(names)
	for _, name := range slices.Compact(names) {
		out = append(out, *s.cidrs[name])
	}
	return out
}

// indexLabels returns the ServiceCIDRs that have a label with a value.
func indexLabels(all map[string]*addressindex.ServiceCIDR) map[label][]*addressindex.ServiceCIDR {
	out := map[label][]*addressindex.ServiceCIDR{}
	for _, c := range all {
		if by := (label{v1alpha1.AnnotationCreatedFor, c.CreatedFor}); c.CreatedFor != "" {
			out[by] = append(out[by], c)
		}
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
	for c := range s.having(a) {
		if c.Usable() {
			return true
		}
	}
	return false
}
