package steering

import (
	"fmt"
	"maps"
	"slices"
	"strings"
	"sync"
	"sync/atomic"

	"github.com/clusterip-operator/clusterip-operator/allocator"
	"github.com/clusterip-operator/clusterip-operator/api/v1alpha1"
)

// Route is where a Service gets an address of one family from. It is shared; do not change it.
type Route struct {
	// Tiers are drawn from in this order: all dynamic bands, by rank, before the static ones.
	Tiers []*allocator.Tier
	// Policies steer the Service, the best first; the last one may be followed by the ranges that nobody has for himself.
	Policies []*Policy
	// Fails: the last of the Policies refuses the Service when the Tiers are full.
	Fails bool
}

// Full is the refusal of a route that fails with nothing left of a family.
func (r *Route) Full(is4 bool) *Refusal {
	family := "IPv6"
	if is4 {
		family = "IPv4"
	}
	last := r.Policies[len(r.Policies)-1]
	return &Refusal{last.Name, fmt.Sprintf("ServiceCIDRPolicy %q: no %s address is left in its ranges (%s); "+
		"delete Services there, add a ServiceCIDR to the policy, or set onFull: Fallback", last.Name, family, last.rangesText(is4))}
}

// rangesText names the first ranges of a family.
func (p *Policy) rangesText(is4 bool) string {
	const named = 3
	var texts []string
	for _, r := range p.Ranges {
		if r.Range.Prefix().Addr().Is4() == is4 {
			texts = append(texts, r.Range.String())
		}
	}
	switch {
	case len(texts) == 0:
		return "it has no ready range"
	case len(texts) > named:
		return strings.Join(texts[:named], ", ") + fmt.Sprintf(" and %d more", len(texts)-named)
	}
	return strings.Join(texts, ", ")
}

// bands are the tiers of the addresses that somebody may draw from, of one family.
type bands struct{ dynamic, static *allocator.Tier }

// compileTiers makes the tiers of every policy, and those that are open to all.
func (s *Snapshot) compileTiers() {
	s.open = map[bool]bands{}
	for _, is4 := range []bool{true, false} {
		s.open[is4] = s.bands(s.openSpans(is4), s.closedSpans(is4, nil))
		for _, p := range s.policies {
			if p.tiers == nil {
				p.tiers = map[bool]bands{}
			}
			if p.has(is4) {
				p.tiers[is4] = s.bands(p.spans(is4), s.closedSpans(is4, p))
			}
		}
	}
}

// openSpans are the addresses of all ranges from which may be drawn, of one family.
func (s *Snapshot) openSpans(is4 bool) []allocator.Span {
	var out []allocator.Span
	for _, c := range s.cidrs {
		for _, r := range c.Ranges {
			if c.usable() && r.Prefix().Addr().Is4() == is4 && r.Size() > 0 {
				out = append(out, r.Span())
			}
		}
	}
	return out
}

func (p *Policy) spans(is4 bool) []allocator.Span {
	var out []allocator.Span
	for _, r := range p.Ranges {
		if r.Range.Prefix().Addr().Is4() == is4 && r.Range.Size() > 0 {
			out = append(out, r.Range.Span())
		}
	}
	return out
}

// closedSpans are what a policy may not draw from: the ranges that better ones have for themselves. Without a policy: all that anybody
// has for himself.
func (s *Snapshot) closedSpans(is4 bool, p *Policy) []allocator.Span {
	var out []allocator.Span
	for _, at := range s.places {
		if at.closer != nil && at.prefix.Addr().Is4() == is4 && (p == nil || at.closer.rank < p.rank) {
			out = append(out, at.span())
		}
	}
	return out
}

// bands parts spans into what is dynamic and what is static in some range of the cluster, without what is closed or reserved.
func (s *Snapshot) bands(spans, closed []allocator.Span) bands {
	if len(spans) == 0 {
		return bands{}
	}
	exclude := meeting(closed, spans)
	for _, sp := range spans {
		for _, r := range s.reservedIn(sp) {
			exclude = append(exclude, r.Span)
		}
	}
	statics := meeting(s.statics, spans)
	var static []allocator.Span
	for _, sp := range spans {
		for _, band := range statics {
			if both := intersect(sp, band); !both.IsEmpty() {
				static = append(static, both)
			}
		}
	}
	return bands{dynamic: tier(spans, append(slices.Clone(exclude), statics...)), static: tier(static, exclude)}
}

// meeting returns those of the list that meet any of the spans. Most policies have a range or two of a cluster's many.
func meeting(list, spans []allocator.Span) []allocator.Span {
	const few = 8
	if len(spans) > few {
		return slices.DeleteFunc(slices.Clone(list), func(sp allocator.Span) bool { return sp.First.Is4() != spans[0].First.Is4() })
	}
	var out []allocator.Span
	for _, sp := range list {
		if slices.ContainsFunc(spans, sp.Overlaps) {
			out = append(out, sp)
		}
	}
	return out
}

// tier makes a tier; spans are of one family by construction, which is all that NewTier refuses.
func tier(spans, exclude []allocator.Span) *allocator.Tier {
	if len(spans) == 0 {
		return nil
	}
	t, err := allocator.NewTier(spans, exclude)
	if err != nil {
		panic("steering: " + err.Error())
	}
	return t
}

func intersect(a, b allocator.Span) allocator.Span {
	if !a.Overlaps(b) {
		return allocator.Span{}
	}
	if a.First.Less(b.First) {
		a.First = b.First
	}
	if b.Last.Less(a.Last) {
		a.Last = b.Last
	}
	return a
}

// routes remembers the answers: which policies select a namespace, and the tiers of a chain of policies.
type routes struct {
	namespaces sync.Map // namespace -> namespaceView
	chains     sync.Map // key of a chain -> *Route
	answers    atomic.Int64
}

// manyAnswers is how many answers are remembered: labels of Services choose the chain, so users could have it grow without end.
const manyAnswers = 20_000

// room counts an answer that is about to be remembered, and is false when there are too many.
func (r *routes) room() bool { return r.answers.Add(1) <= manyAnswers }

// namespaceView is which policies select a namespace as long as it has these labels.
type namespaceView struct {
	labels   map[string]string
	policies []*Policy
}

func newRoutes() *routes { return &routes{} }

// Steers returns the policies that select a Service, the best first, whether they end the chain or not.
func (s *Snapshot) Steers(svc Service) []*Policy {
	var out []*Policy
	for _, p := range s.inNamespace(svc) {
		if p.selector.matches(svc) {
			out = append(out, p)
		}
	}
	return out
}

// inNamespace returns the policies whose namespaceSelector matches.
func (s *Snapshot) inNamespace(svc Service) []*Policy {
	if v, ok := s.routes.namespaces.Load(svc.Namespace); ok && maps.Equal(v.(namespaceView).labels, svc.NamespaceLabels) {
		return v.(namespaceView).policies
	}
	var matching []*Policy
	for _, p := range s.policies {
		if p.steers && p.selector.inNamespace(svc.NamespaceLabels) {
			matching = append(matching, p)
		}
	}
	if s.routes.room() {
		s.routes.namespaces.Store(svc.Namespace, namespaceView{svc.NamespaceLabels, matching})
	}
	return matching
}

// Route returns where a Service gets an address of a family from. Tiers is empty where there is none at all.
func (s *Snapshot) Route(svc Service, is4 bool) *Route {
	var chain [4]*Policy
	policies := chain[:0]
	fails := false
	for _, p := range s.inNamespace(svc) {
		if !p.steersFamily(is4) || !p.selector.matches(svc) {
			continue
		}
		policies = append(policies, p)
		if fails = p.OnFull == v1alpha1.OnFullFail; fails {
			break
		}
	}
	return s.route(policies, fails, is4)
}

// route returns the remembered route of a chain.
func (s *Snapshot) route(policies []*Policy, fails, is4 bool) *Route {
	var room [64]byte
	key := append(room[:0], "6"...)
	if is4 {
		key[0] = '4'
	}
	for _, p := range policies {
		key = append(key, byte(p.rank), byte(p.rank>>8), byte(p.rank>>16))
	}
	if r, ok := s.routes.chains.Load(string(key)); ok {
		return r.(*Route)
	}
	r := s.newRoute(slices.Clone(policies), fails, is4)
	if s.routes.room() {
		s.routes.chains.Store(string(key), r)
	}
	return r
}

func (s *Snapshot) newRoute(policies []*Policy, fails, is4 bool) *Route {
	r := &Route{Policies: policies, Fails: fails}
	var all []bands
	for _, p := range policies {
		all = append(all, p.tiers[is4])
	}
	if !fails {
		all = append(all, s.open[is4])
	}
	for _, b := range all {
		if b.dynamic != nil {
			r.Tiers = append(r.Tiers, b.dynamic)
		}
	}
	for _, b := range all {
		if b.static != nil {
			r.Tiers = append(r.Tiers, b.static)
		}
	}
	return r
}

// Additional returns the tiers for an additional address of a Service from one ServiceCIDR, or why it may not have one there. Neither: there
// is no such range, it is not ready or of the other family.
func (s *Snapshot) Additional(svc Service, serviceCIDR string, is4 bool) ([]*allocator.Tier, *Refusal) {
	c, ok := s.cidrs[serviceCIDR]
	if !ok || !c.usable() {
		return nil, nil
	}
	var spans []allocator.Span
	for _, r := range c.Ranges {
		if r.Prefix().Addr().Is4() == is4 && r.Size() > 0 {
			spans = append(spans, r.Span())
		}
	}
	if len(spans) == 0 {
		return nil, nil
	}
	barred, refusal := s.barred(svc, spans)
	b := s.bands(spans, barred)
	var tiers []*allocator.Tier
	for _, t := range []*allocator.Tier{b.dynamic, b.static} {
		if t != nil && t.Size() > 0 {
			tiers = append(tiers, t)
		}
	}
	if len(tiers) == 0 && refusal != nil {
		return nil, refusal
	}
	return tiers, nil
}

// barred returns what of the spans a Service may not have addresses of, and the refusal of the last. It is MayHold for whole places: each is
// judged by those that lie around it, and without those that lie inside of it.
func (s *Snapshot) barred(svc Service, spans []allocator.Span) ([]allocator.Span, *Refusal) {
	var out []allocator.Span
	var refusal *Refusal
	for _, at := range s.places {
		if !slices.ContainsFunc(spans, at.span().Overlaps) {
			continue
		}
		closer := s.closes(at, svc)
		if closer == nil {
			continue
		}
		var within []allocator.Span
		for _, other := range s.inside(at.prefix) {
			within = append(within, other.span())
		}
		out = append(out, at.span().Subtract(within...)...)
		refusal = &Refusal{closer.Name, fmt.Sprintf("ServiceCIDRPolicy %q: it keeps %s for the Services that it selects", closer.Name, at.prefix)}
	}
	return out, refusal
}

// closes returns who keeps a Service out of a place, nil if nobody does.
func (s *Snapshot) closes(at *place, svc Service) *Policy {
	var closer *Policy
	around := s.outside(at.prefix)
	for _, other := range around {
		if other.closer != nil && (closer == nil || other.closer.rank < closer.rank) {
			closer = other.closer
		}
	}
	if closer == nil {
		return nil
	}
	for _, other := range around {
		if slices.ContainsFunc(other.holders, func(p *Policy) bool { return p.rank <= closer.rank && p.selector.matches(svc) }) {
			return nil
		}
	}
	return closer
}

// span returns all addresses of a place.
func (at *place) span() allocator.Span {
	return allocator.Span{First: at.prefix.Addr(), Last: lastOf(at.prefix)}
}
