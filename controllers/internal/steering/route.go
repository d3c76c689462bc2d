package steering

import (
	"fmt"
	"maps"
	"net/netip"
	"slices"
	"sort"
	"strings"
	"sync"
	"sync/atomic"

	"k8s.io/apimachinery/pkg/labels"

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

// prepareBands prepares the tiers of every policy, and those that are open to all. They are made when a Service first needs them: after a change of one policy,
// most are not needed before the next change.
func (s *Compiled) prepareBands() {
	s.open = map[bool]func() bands{}
	for _, is4 := range []bool{true, false} {
		s.open[is4] = sync.OnceValue(func() bands { return s.drawable(nil, s.openRanges(is4)) })
		for _, p := range s.policies {
			if p.has(is4) {
				p.bands[is4] = sync.OnceValue(func() bands { return s.drawable(p, p.ranges(is4)) })
			}
		}
	}
}

// drawable returns what a policy may draw from its ranges; without a policy what is open to all.
func (s *Compiled) drawable(p *Policy, ranges []allocator.Range) bands {
	return s.bandsOf(ranges, s.closedTo(p, ranges))
}

// openRanges are all ranges from which may be drawn, of one family.
func (s *Compiled) openRanges(is4 bool) []allocator.Range {
	var out []allocator.Range
	for _, c := range s.cidrs {
		if c.usable() {
			out = append(out, c.family(is4)...)
		}
	}
	return out
}

// ranges are those of one family.
func (p *Policy) ranges(is4 bool) []allocator.Range {
	var out []allocator.Range
	for _, r := range p.Ranges {
		if r.Range.Prefix().Addr().Is4() == is4 {
			out = append(out, r.Range)
		}
	}
	return out
}

// bandsOf parts ranges of one family into what is dynamic and what is static in some range of the cluster, without what is closed or reserved.
func (s *Compiled) bandsOf(ranges []allocator.Range, closed []allocator.Span) bands {
	var spans, static []allocator.Span
	for _, r := range ranges {
		if r.Size() > 0 {
			spans = append(spans, r.Span())
			static = append(static, s.staticIn(r.Span())...)
		}
	}
	exclude := slices.Clip(closed)
	for _, p := range outermost(ranges) {
		for _, r := range s.reservedIn(SpanOf(p)) {
			exclude = append(exclude, r.Span)
		}
	}
	return bands{dynamic: tier(spans, slices.Concat(exclude, static)), static: tier(static, exclude)}
}

// closedTo returns what a policy may not draw from: the parts of the ranges that better policies have exclusively. Without a policy: that any has.
func (s *Compiled) closedTo(p *Policy, ranges []allocator.Range) []allocator.Span {
	var out []allocator.Span
	for _, prefix := range outermost(ranges) {
		for at := range s.overlapping(prefix) {
			if at.owner != nil && (p == nil || at.owner.rank < p.rank) {
				out = append(out, at.span)
			}
		}
	}
	return out
}

// outermost returns the prefixes of ranges without those that lie in others.
func outermost(ranges []allocator.Range) []netip.Prefix {
	all := make([]netip.Prefix, 0, len(ranges))
	for _, r := range ranges {
		all = append(all, r.Prefix())
	}
	slices.SortFunc(all, comparePrefixes)
	out := all[:0]
	for _, p := range all {
		if n := len(out); n == 0 || !out[n-1].Overlaps(p) {
			out = append(out, p)
		}
	}
	return out
}

// staticIn returns the parts of a span that are static.
func (s *Compiled) staticIn(sp allocator.Span) []allocator.Span {
	from := sort.Search(len(s.statics), func(i int) bool { return !s.statics[i].Last.Less(sp.First) })
	var out []allocator.Span
	for _, band := range s.statics[from:] {
		if !band.Overlaps(sp) {
			break
		}
		out = append(out, intersect(sp, band))
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
	namespaces sync.Map // namespace -> *namespaceView
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
	families map[bool]*familyView
}

// familyView is which policies steer Services of a namespace in one family, up to the first that selects all of them and refuses them when it is full.
type familyView struct {
	policies []*Policy
	// choosy is whether any of them selects by the labels of Services. If not, all Services of the namespace have the same route.
	choosy bool
	route  atomic.Pointer[Route]
}

func newRoutes() *routes { return &routes{} }

// view returns which policies select the namespace of a Service.
func (s *Compiled) view(svc Service) *namespaceView {
	if v, ok := s.routes.namespaces.Load(svc.Namespace); ok && maps.Equal(v.(*namespaceView).labels, svc.NamespaceLabels) {
		return v.(*namespaceView)
	}
	v := &namespaceView{labels: svc.NamespaceLabels, families: map[bool]*familyView{true: {}, false: {}}}
	for _, p := range s.policies {
		if p.steers && p.selector.inNamespace(svc.NamespaceLabels) {
			for is4, f := range v.families {
				if p.steersFamily(is4) {
					f.add(p)
				}
			}
		}
	}
	if s.routes.room() {
		s.routes.namespaces.Store(svc.Namespace, v)
	}
	return v
}

// add notes the next policy in order of rank.
func (f *familyView) add(p *Policy) {
	if n := len(f.policies); n > 0 && f.policies[n-1].endsChain() && f.policies[n-1].selector.services.Empty() {
		return
	}
	f.policies = append(f.policies, p)
	f.choosy = f.choosy || !p.selector.services.Empty()
}

// endsChain reports whether no other policy has its turn after this one.
func (p *Policy) endsChain() bool { return p.OnFull == v1alpha1.OnFullFail }

// Route returns where a Service gets an address of a family from. Tiers is empty where there is none at all.
func (s *Compiled) Route(svc Service, is4 bool) *Route {
	f := s.view(svc).families[is4]
	if !f.choosy {
		if r := f.route.Load(); r != nil {
			return r
		}
		r := s.route(f.policies, is4)
		f.route.Store(r)
		return r
	}
	var few [4]*Policy
	chain := few[:0]
	for _, p := range f.policies {
		if p.selector.services.Matches(labels.Set(svc.Labels)) {
			if chain = append(chain, p); p.endsChain() {
				break
			}
		}
	}
	return s.route(chain, is4)
}

// route returns the remembered route of a chain.
func (s *Compiled) route(chain []*Policy, is4 bool) *Route {
	var room [64]byte
	key := append(room[:0], "6"...)
	if is4 {
		key[0] = '4'
	}
	for _, p := range chain {
		key = append(key, byte(p.rank), byte(p.rank>>8), byte(p.rank>>16))
	}
	if r, ok := s.routes.chains.Load(string(key)); ok {
		return r.(*Route)
	}
	r := s.newRoute(slices.Clone(chain), is4)
	if s.routes.room() {
		s.routes.chains.Store(string(key), r)
	}
	return r
}

func (s *Compiled) newRoute(chain []*Policy, is4 bool) *Route {
	r := &Route{Policies: chain, Fails: len(chain) > 0 && chain[len(chain)-1].endsChain()}
	var all []bands
	for _, p := range chain {
		if made, ok := p.bands[is4]; ok {
			all = append(all, made())
		}
	}
	if !r.Fails {
		all = append(all, s.open[is4]())
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
func (s *Compiled) Additional(svc Service, serviceCIDR string, is4 bool) ([]*allocator.Tier, *Refusal) {
	c, ok := s.cidrs[serviceCIDR]
	if !ok || !c.usable() {
		return nil, nil
	}
	ranges := slices.DeleteFunc(c.family(is4), func(r allocator.Range) bool { return r.Size() == 0 })
	if len(ranges) == 0 {
		return nil, nil
	}
	barred, refusal := s.barred(svc, ranges)
	b := s.bandsOf(ranges, barred)
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

// barred returns what of the ranges a Service may not have addresses of, and the refusal of the last. It is MayHold for whole prefixes: each is
// judged by those that lie around it, and without those that lie inside of it.
func (s *Compiled) barred(svc Service, ranges []allocator.Range) ([]allocator.Span, *Refusal) {
	var out []allocator.Span
	var refusal *Refusal
	for _, prefix := range outermost(ranges) {
		for at := range s.overlapping(prefix) {
			owner, may := mayHold(s.outside(at.prefix), svc)
			if may {
				continue
			}
			var within []allocator.Span
			for _, other := range s.inside(at.prefix) {
				within = append(within, other.span)
			}
			out = append(out, at.span.Subtract(within...)...)
			refusal = &Refusal{owner.Name, fmt.Sprintf("ServiceCIDRPolicy %q: it keeps %s for the Services that it selects", owner.Name, at.prefix)}
		}
	}
	return out, refusal
}
