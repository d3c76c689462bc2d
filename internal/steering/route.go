package steering

import (
	"fmt"
	"maps"
	"slices"
	"sync"

	"k8s.io/apimachinery/pkg/labels"

	"github.com/clusterip-operator/clusterip-operator/allocator"
	"github.com/clusterip-operator/clusterip-operator/api/v1alpha1"
	"github.com/clusterip-operator/clusterip-operator/internal/addressindex"
	"github.com/clusterip-operator/clusterip-operator/internal/wording"
)

// Route is where a Service gets an address of one family from. It is shared; do not change it.
type Route struct {
	// Tiers are drawn from in this order: all dynamic bands, by rank, before the static ones.
	Tiers []*allocator.Tier
	// Origins say of each of the Tiers whose it is.
	Origins []Origin
	// Policies steer the Service, the best first; after the last may come the ranges open to all.
	Policies []*Policy
	// Fails: the last of the Policies refuses the Service when the Tiers are full.
	Fails bool
}

// Origin is whose addresses a tier has: of a band of a policy, or without one of the open ranges.
type Origin struct {
	Policy *Policy
	Band   allocator.Band
}

// rangesText names the first ranges of a family.
func (p *Policy) rangesText(f allocator.Family) string {
	var texts []string
	for _, r := range p.ranges(f) {
		texts = append(texts, r.String())
	}
	if len(texts) == 0 {
		return "it has no ready range"
	}
	return wording.First(texts, 3)
}

// bands are the addresses of one family that can be drawn: a tier of each band, or none if empty.
type bands struct{ dynamic, static []*allocator.Tier }

// policyBands are those of a policy in one family. They are made when first needed: after a
// change of one policy, most are not needed before the next change. Compilations that share the
// policy share them, and make the same of it; none is kept for it.
type policyBands struct {
	once sync.Once
	made bands
}

func (p *Policy) prepareBands() {
	for _, f := range allocator.Families {
		if len(p.ranges(f)) > 0 {
			p.bands[f] = &policyBands{}
		}
	}
}

// bandsFor returns the tiers of a policy in a family of which it has ranges.
func (s *Compiled) bandsFor(p *Policy, f allocator.Family) bands {
	b := p.bands[f]
	b.once.Do(func() {
		ranges := p.ranges(f)
		b.made = s.bandsOf(ranges, s.undrawn(p, ranges))
	})
	return b.made
}

// prepareOpen prepares the tiers of the ranges open to all, which are made when first needed, too.
func (s *Compiled) prepareOpen() {
	s.open = map[allocator.Family]func() bands{}
	for _, f := range allocator.Families {
		s.open[f] = sync.OnceValue(func() bands {
			var ranges []allocator.Range
			for _, c := range s.cidrs {
				if c.Usable() {
					ranges = append(ranges, ofFamily(*c, f)...)
				}
			}
			return s.bandsOf(ranges, s.undrawn(nil, ranges))
		})
	}
}

func (p *Policy) ranges(f allocator.Family) []allocator.Range {
	var out []allocator.Range
	for _, r := range p.Ranges {
		if r.Range.Family() == f {
			out = append(out, r.Range)
		}
	}
	return out
}

// bandsOf parts ranges of one family into what is dynamic, and what is static in any range of the
// cluster, without what is closed or reserved.
func (s *Compiled) bandsOf(ranges []allocator.Range, closed []allocator.Span) bands {
	var spans, static []allocator.Span
	for _, r := range ranges {
		if r.Size() > 0 {
			spans = append(spans, r.Span())
			static = append(static, s.staticIn(r)...)
		}
	}
	exclude := slices.Clip(closed)
	for _, r := range ranges {
		exclude = append(exclude, s.ReservedIn(SpanOf(r.Prefix()))...)
	}
	return bands{dynamic: tier(spans, slices.Concat(exclude, static)), static: tier(static, exclude)}
}

// ClosedTo returns what a policy may not draw from: the parts of the ranges that better policies
// have exclusively. Without a policy: that any has.
func (s *Compiled) ClosedTo(p *Policy, ranges ...allocator.Range) []allocator.Span {
	var out []allocator.Span
	for _, r := range ranges {
		for at := range s.overlapping(r.Prefix()) {
			if at.owner != nil && (p == nil || at.owner.outranks(p)) {
				out = append(out, at.span)
			}
		}
	}
	return out
}

// undrawn returns what is not drawn from ranges for a policy, or without one for all Services: what
// better policies have exclusively, and what is given by request only or not at all.
func (s *Compiled) undrawn(p *Policy, ranges []allocator.Range) []allocator.Span {
	out := s.ClosedTo(p, ranges...)
	for _, r := range ranges {
		out = append(out, s.withheld(v1alpha1.AllocationByRequest, r.Prefix())...)
	}
	return out
}

// tier makes a tier, or none without addresses. Spans are of one family, so NewTier cannot fail.
func tier(spans, exclude []allocator.Span) []*allocator.Tier {
	if len(spans) == 0 {
		return nil
	}
	t, err := allocator.NewTier(spans, exclude)
	if err != nil {
		panic("steering: " + err.Error())
	}
	if t.Size() == 0 {
		return nil
	}
	return []*allocator.Tier{t}
}

// intersect returns what two spans that overlap have in common.
func intersect(a, b allocator.Span) allocator.Span {
	if a.First.Less(b.First) {
		a.First = b.First
	}
	if b.Last.Less(a.Last) {
		a.Last = b.Last
	}
	return a
}

// namespaceView is which policies select a namespace as long as it has these labels.
type namespaceView struct {
	labels   map[string]string
	families map[allocator.Family]*familyView
}

// familyView is which policies steer Services of a namespace in one family, up to the first that
// selects all of them and refuses them when it is full.
type familyView struct {
	policies []*Policy
	// choosy: a policy selects by labels of Services. If none does, all Services have the same route.
	choosy bool
	route  func() *Route
}

// view returns which policies select the namespace of a Service.
func (s *Compiled) view(svc Service) *namespaceView {
	if v, ok := s.namespaces.Load(svc.Namespace); ok && maps.Equal(v.(*namespaceView).labels, svc.NamespaceLabels) {
		return v.(*namespaceView)
	}
	v := &namespaceView{labels: svc.NamespaceLabels, families: map[allocator.Family]*familyView{allocator.IPv4: {}, allocator.IPv6: {}}}
	for _, p := range s.policies {
		if p.steers && p.selector.inNamespace(svc.NamespaceLabels) {
			for family, view := range v.families {
				if len(p.Ranges) == 0 || p.bands[family] != nil { // one without any range decides all the same
					view.add(p)
				}
			}
		}
	}
	for family, view := range v.families {
		view.route = sync.OnceValue(func() *Route { return s.newRoute(view.policies, family) })
	}
	s.namespaces.Store(svc.Namespace, v)
	return v
}

func (v *familyView) add(p *Policy) {
	if n := len(v.policies); n > 0 && v.policies[n-1].endsChain() && v.policies[n-1].selector.services.Empty() {
		return
	}
	v.policies = append(v.policies, p)
	v.choosy = v.choosy || !p.selector.services.Empty()
}

func (p *Policy) endsChain() bool { return p.OnFull == v1alpha1.OnFullFail }

// Route returns where a Service gets an address of a family from. Without any, Tiers is empty.
func (s *Compiled) Route(svc Service, f allocator.Family) *Route {
	view := s.view(svc).families[f]
	if !view.choosy {
		return view.route()
	}
	var chain []*Policy
	for _, p := range view.policies {
		if p.selector.services.Matches(labels.Set(svc.Labels)) {
			chain = append(chain, p)
			if p.endsChain() {
				break
			}
		}
	}
	return s.newRoute(chain, f)
}

func (s *Compiled) newRoute(chain []*Policy, f allocator.Family) *Route {
	r := &Route{Policies: chain, Fails: len(chain) > 0 && chain[len(chain)-1].endsChain()}
	var all []bands
	var whose []*Policy
	for _, p := range chain {
		if p.bands[f] != nil {
			all, whose = append(all, s.bandsFor(p, f)), append(whose, p)
		}
	}
	if !r.Fails {
		all, whose = append(all, s.open[f]()), append(whose, nil)
	}
	for i, b := range all {
		r.add(b.dynamic, Origin{whose[i], allocator.Dynamic})
	}
	for i, b := range all {
		r.add(b.static, Origin{whose[i], allocator.Static})
	}
	return r
}

func (r *Route) add(tiers []*allocator.Tier, from Origin) {
	for _, t := range tiers {
		r.Tiers, r.Origins = append(r.Tiers, t), append(r.Origins, from)
	}
}

// ofFamily returns the ranges of one family that have addresses.
func ofFamily(c addressindex.ServiceCIDR, f allocator.Family) []allocator.Range {
	return slices.DeleteFunc(slices.Clone(c.Ranges), func(r allocator.Range) bool { return r.Family() != f || r.Size() == 0 })
}

// AllowsAdditional returns nil if a policy that selects a Service allows it additional addresses of
// a ServiceCIDR, and otherwise the refusal, which does not tell whether the ServiceCIDR exists.
func (s *Compiled) AllowsAdditional(svc Service, serviceCIDR string) *Refusal {
	for _, p := range s.policies {
		if p.AdditionalAddresses && p.asksFor(s.space, serviceCIDR) && p.selector.matches(svc) {
			return nil
		}
	}
	return &Refusal{Message: fmt.Sprintf("no ServiceCIDRPolicy allows this Service additional addresses of ServiceCIDR %s; "+
		"an administrator allows it by additionalAddresses: true in a policy that selects the Service and has the ServiceCIDR", serviceCIDR)}
}

// asksFor reports whether a policy is about a ServiceCIDR, whether it exists or not.
func (p *Policy) asksFor(in *space, name string) bool {
	c := in.cidrs[name]
	return slices.Contains(p.spec().ServiceCIDRs, name) || c != nil && p.selectsServiceCIDR(*c)
}

func (p *Policy) selectsServiceCIDR(c addressindex.ServiceCIDR) bool {
	return p.spec().ServiceCIDRSelector != nil && p.selector.cidrs.Matches(labels.Set(c.Labels))
}

// Additional returns the tiers for an additional address of a Service from one ServiceCIDR, or why
// it may not have one. Neither: there is no such range, it is not ready or of the other family.
func (s *Compiled) Additional(svc Service, serviceCIDR string, f allocator.Family) ([]*allocator.Tier, *Refusal) {
	if refusal := s.AllowsAdditional(svc, serviceCIDR); refusal != nil {
		return nil, refusal
	}
	c := s.serviceCIDR(serviceCIDR)
	if !c.Usable() {
		return nil, nil
	}
	ranges := ofFamily(c, f)
	barred, refusal := s.barred(svc, serviceCIDR, ranges)
	b := s.bandsOf(ranges, barred)
	tiers := slices.Concat(b.dynamic, b.static)
	if len(tiers) == 0 && refusal != nil {
		return nil, refusal
	}
	return tiers, nil
}

// barred returns which parts of the ranges a Service may not have, and the last refusal. It is
// MayHold for whole prefixes: each is judged by those around it, and without those inside of it. A
// range that is by request only is not barred: a Service that names its ServiceCIDR asks for it.
func (s *Compiled) barred(svc Service, serviceCIDR string, ranges []allocator.Range) ([]allocator.Span, *Refusal) {
	var out []allocator.Span
	var refusal *Refusal
	for _, r := range ranges {
		for at := range s.overlapping(r.Prefix()) {
			if by := restriction(s.outside(at.prefix), cordons); by != nil {
				out, refusal = append(out, at.span), cordonedServiceCIDR(by, serviceCIDR)
				continue
			}
			owner, by := mayHold(s.outside(at.prefix))
			if owner == nil || selected(by, svc) {
				continue
			}
			var within []allocator.Span
			for other := range s.inside(at.prefix) {
				within = append(within, other.span)
			}
			out = append(out, at.span.Subtract(within...)...)
			refusal = &Refusal{owner.Name, fmt.Sprintf("ServiceCIDRPolicy %q: ServiceCIDR %s is not open to this Service", owner.Name, serviceCIDR),
				fmt.Sprintf("the policy keeps %s for the Services that it selects", at.prefix)}
		}
	}
	return out, refusal
}
