package steering

import (
	"cmp"
	"fmt"
	"math/rand/v2"
	"net/netip"
	"slices"
	"testing"
	"time"

	gocmp "github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/clusterip-operator/clusterip-operator/allocator"
	"github.com/clusterip-operator/clusterip-operator/api/v1alpha1"
	"github.com/clusterip-operator/clusterip-operator/internal/addressindex"
)

// oracle answers as a Compiled does, address by address and policy by policy, however slowly.
type oracle struct {
	inputs Inputs
	// ranked are the policies, best first; claims are each one's ranges, has those that it draws from.
	ranked      []*v1alpha1.ServiceCIDRPolicy
	claims, has [][]PolicyRange
	// seen are the addresses that were looked at.
	seen map[netip.Addr]facts
}

// facts are what an address is.
type facts struct {
	// covers are the policies that have a range around it, draws those that draw from one.
	covers, draws []bool
	// owner is the best policy that has it for itself, -1 for none.
	owner int
	// reservation is the one it is in; of is the policy's rank, -1 for none.
	reservation v1alpha1.Reservation
	of          int
	// static in any range; offered by one that is ready.
	static, offered bool
}

// strictest is the allocation that counts for an address among some policies, and the best policy
// that has it: -1 for none that restricts it.
func (o oracle) strictest(a netip.Addr, among func(i int) bool) (v1alpha1.Allocation, int) {
	for _, allocation := range []v1alpha1.Allocation{v1alpha1.AllocationCordoned, v1alpha1.AllocationByRequest} {
		for i, p := range o.ranked {
			if p.Spec.Allocation == allocation && among(i) && o.facts(a).covers[i] {
				return allocation, i
			}
		}
	}
	return v1alpha1.AllocationAutomatic, -1
}

func anyPolicy(int) bool { return true }

func (o oracle) cordoned(a netip.Addr) bool {
	allocation, _ := o.strictest(a, anyPolicy)
	return allocation == v1alpha1.AllocationCordoned
}

func (o oracle) drawn(a netip.Addr) bool {
	allocation, _ := o.strictest(a, anyPolicy)
	return allocation == v1alpha1.AllocationAutomatic
}

func newOracle(w Inputs) oracle {
	o := oracle{inputs: w, ranked: slices.Clone(w.Policies), seen: map[netip.Addr]facts{}}
	slices.SortFunc(o.ranked, func(a, b *v1alpha1.ServiceCIDRPolicy) int {
		return cmp.Or(cmp.Compare(b.Spec.Priority, a.Spec.Priority), cmp.Compare(a.Name, b.Name))
	})
	for i := range o.ranked {
		o.claims = append(o.claims, o.won(i))
		o.has = append(o.has, slices.DeleteFunc(slices.Clone(o.claims[i]), func(r PolicyRange) bool { return !o.usable(r.ServiceCIDR) }))
	}
	return o
}

// readable reports whether the selectors of a policy can be followed.
func (o oracle) readable(i int) bool {
	spec := o.ranked[i].Spec
	for _, s := range []*metav1.LabelSelector{spec.ServiceCIDRSelector, spec.NamespaceSelector, spec.ServiceSelector} {
		if _, err := metav1.LabelSelectorAsSelector(s); err != nil {
			return false
		}
	}
	return len(spec.ServiceCIDRs) == 0 || spec.ServiceCIDRSelector == nil
}

// asks reports whether a policy asks for ranges.
func (o oracle) asks(i int) bool {
	spec := o.ranked[i].Spec
	return len(spec.ServiceCIDRs) > 0 || spec.ServiceCIDRSelector != nil
}

func (o oracle) named(i int, c addressindex.ServiceCIDR) bool {
	spec := o.ranked[i].Spec
	_, err := metav1.LabelSelectorAsSelector(spec.ServiceCIDRSelector)
	return slices.Contains(spec.ServiceCIDRs, c.Name) || spec.ServiceCIDRSelector != nil && err == nil && matches(spec.ServiceCIDRSelector, c.Labels)
}

func (o oracle) usable(name string) bool {
	return slices.ContainsFunc(o.inputs.ServiceCIDRs, func(c addressindex.ServiceCIDR) bool { return c.Name == name && c.Ready && !c.Terminating })
}

func (o oracle) won(i int) []PolicyRange {
	var out []PolicyRange
	if !o.asks(i) {
		return nil
	}
	for _, c := range o.inputs.ServiceCIDRs {
		if !o.named(i, c) {
			continue
		}
		for _, r := range c.Ranges {
			lost := false
			for j, theirs := range o.claims[:i] {
				lost = lost || o.ranked[j].Spec.Exclusive && slices.ContainsFunc(theirs, func(t PolicyRange) bool {
					return t.Range.Prefix().Bits() <= r.Prefix().Bits() && t.Range.Prefix().Overlaps(r.Prefix())
				})
			}
			if !lost {
				out = append(out, PolicyRange{c.Name, r})
			}
		}
	}
	return out
}

func (o oracle) selects(i int, svc Service) bool {
	spec := o.ranked[i].Spec
	return o.asks(i) && o.readable(i) && (spec.NamespaceSelector == nil || matches(spec.NamespaceSelector, svc.NamespaceLabels)) &&
		(spec.ServiceSelector == nil || matches(spec.ServiceSelector, svc.Labels))
}

func matches(s *metav1.LabelSelector, labels map[string]string) bool {
	for k, v := range s.MatchLabels {
		if labels[k] != v {
			return false
		}
	}
	return true
}

// facts collects the facts about an address.
func (o oracle) facts(a netip.Addr) facts {
	if f, ok := o.seen[a]; ok {
		return f
	}
	f := facts{owner: -1, static: o.static(a), offered: o.offered(a)}
	for i, p := range o.ranked {
		around := func(r PolicyRange) bool { return r.Range.Prefix().Contains(a) }
		f.covers = append(f.covers, slices.ContainsFunc(o.claims[i], around))
		f.draws = append(f.draws, slices.ContainsFunc(o.has[i], around))
		if f.covers[i] && p.Spec.Exclusive && f.owner < 0 {
			f.owner = i
		}
	}
	f.of, f.reservation = o.reserved(a)
	o.seen[a] = f
	return f
}

// allowed reports whether a Service may have an address as far as closed ranges are concerned.
func (o oracle) allowed(a netip.Addr, svc Service) bool {
	f := o.facts(a)
	for i := 0; i <= f.owner; i++ {
		if f.covers[i] && o.selects(i, svc) {
			return true
		}
	}
	return f.owner < 0
}

// reserved is whose reservation has an address: of the best policy, its first that is no mistake.
func (o oracle) reserved(a netip.Addr) (policy int, r v1alpha1.Reservation) {
	for i, p := range o.ranked {
		for _, r := range goodReservations(p) {
			if first, last := ends(r.Address); !a.Less(first) && !last.Less(a) && a.Is4() == first.Is4() {
				return i, r
			}
		}
	}
	return -1, v1alpha1.Reservation{}
}

func goodReservations(p *v1alpha1.ServiceCIDRPolicy) (good []v1alpha1.Reservation) {
	for _, r := range p.Spec.Reservations {
		if first, last := ends(r.Address); first.IsValid() && !slices.ContainsFunc(good, func(g v1alpha1.Reservation) bool {
			gf, gl := ends(g.Address)
			return gf.Is4() == first.Is4() && !last.Less(gf) && !gl.Less(first)
		}) {
			good = append(good, r)
		}
	}
	return good
}

// ends are the ends of a reservation as randomInputs writes it: FIRST-LAST. The rest are mistakes.
func ends(text string) (first, last netip.Addr) {
	var a, b string
	if n, _ := fmt.Sscanf(text, "%s to %s", &a, &b); n > 0 {
		a, b = "", ""
	}
	for i := range text {
		if text[i] == '-' {
			a, b = text[:i], text[i+1:]
		}
	}
	first, _ = netip.ParseAddr(a)
	last, _ = netip.ParseAddr(b)
	return first, last
}

func (o oracle) static(a netip.Addr) bool {
	for _, c := range o.inputs.ServiceCIDRs {
		for _, r := range c.Ranges {
			if band, ok := r.BandOf(a); ok && band == allocator.Static {
				return true
			}
		}
	}
	return false
}

// tiers are the addresses that satisfy a condition, the dynamic ones and the static ones.
func (o oracle) tiers(universe []netip.Addr, condition func(netip.Addr) bool) [2][]netip.Addr {
	var out [2][]netip.Addr
	for _, a := range universe {
		f := o.facts(a)
		if f.of >= 0 || !condition(a) {
			continue
		}
		band := 0
		if f.static {
			band = 1
		}
		out[band] = append(out[band], a)
	}
	return out
}

func (o oracle) route(universe []netip.Addr, svc Service, f allocator.Family) (policies []string, fails bool, tiers [][]netip.Addr) {
	var bands [][2][]netip.Addr
	for i, p := range o.ranked {
		hasFamily := slices.ContainsFunc(o.has[i], func(r PolicyRange) bool { return r.Range.Family() == f })
		if fails || !o.selects(i, svc) || !hasFamily && len(o.has[i]) > 0 {
			continue
		}
		policies, fails = append(policies, p.Name), p.Spec.OnFull == v1alpha1.OnFullFail
		bands = append(bands, o.tiers(universe, func(a netip.Addr) bool {
			owner := o.facts(a).owner
			return (owner < 0 || owner >= i) && o.drawn(a) && slices.ContainsFunc(o.has[i], func(r PolicyRange) bool { return r.Range.Contains(a) })
		}))
	}
	if !fails {
		bands = append(bands, o.tiers(universe, func(a netip.Addr) bool { f := o.facts(a); return f.offered && f.owner < 0 && o.drawn(a) }))
	}
	for band := range 2 {
		for _, b := range bands {
			if len(b[band]) > 0 {
				tiers = append(tiers, b[band])
			}
		}
	}
	return policies, fails, tiers
}

func (o oracle) offered(a netip.Addr) bool {
	return slices.ContainsFunc(o.inputs.ServiceCIDRs, func(c addressindex.ServiceCIDR) bool {
		return c.Ready && !c.Terminating && slices.ContainsFunc(c.Ranges, func(r allocator.Range) bool { return r.Contains(a) })
	})
}

func (o oracle) coolDown(a netip.Addr) (time.Duration, string) {
	for i, p := range o.ranked {
		if p.Spec.CoolDown != nil && p.Spec.CoolDown.Duration > 0 && o.facts(a).draws[i] {
			return p.Spec.CoolDown.Duration, p.Name
		}
	}
	return 0, ""
}

// additional are the addresses a Service may get from a ServiceCIDR, and whether any are barred.
func (o oracle) additional(universe []netip.Addr, svc Service, name string) (tiers [][]netip.Addr, barred bool) {
	if !o.allows(svc, name) {
		return nil, true
	}
	inside := func(a netip.Addr) bool {
		return slices.ContainsFunc(o.inputs.ServiceCIDRs, func(c addressindex.ServiceCIDR) bool {
			return c.Name == name && c.Ready && !c.Terminating && slices.ContainsFunc(c.Ranges, func(r allocator.Range) bool { return r.Contains(a) })
		})
	}
	for _, band := range o.tiers(universe, func(a netip.Addr) bool { return inside(a) && o.allowed(a, svc) && !o.cordoned(a) }) {
		if len(band) > 0 {
			tiers = append(tiers, band)
		}
	}
	return tiers, slices.ContainsFunc(universe, func(a netip.Addr) bool { return inside(a) && (!o.allowed(a, svc) || o.cordoned(a)) })
}

// allows reports whether any policy that selects a Service allows it additional addresses of a
// ServiceCIDR.
func (o oracle) allows(svc Service, name string) bool {
	for i, p := range o.ranked {
		for _, c := range o.inputs.ServiceCIDRs {
			if c.Name == name && p.Spec.AdditionalAddresses && o.selects(i, svc) && o.named(i, c) {
				return true
			}
		}
	}
	return false
}

// universes are all addresses that random inputs has anything to do with, by family.
func universes() map[allocator.Family][]netip.Addr {
	out := map[allocator.Family][]netip.Addr{}
	for _, text := range []string{"10.0.0.0/26", "fd00::/122"} {
		p := netip.MustParsePrefix(text)
		for a := p.Addr(); p.Contains(a); a = a.Next() {
			f := allocator.FamilyOf(a)
			out[f] = append(out[f], a)
		}
	}
	return out
}

// randomInputs has few names, labels and addresses, so that everything meets everything.
func randomInputs(random *rand.Rand) Inputs {
	var w Inputs
	all := universes()
	anyAddr := func(f allocator.Family) netip.Addr { return all[f][random.IntN(len(all[f]))] }
	labels := func() map[string]string { return map[string]string{"l": fmt.Sprint(random.IntN(2))} }
	selector := func(odds int) *metav1.LabelSelector {
		switch n := random.IntN(odds); {
		case n == 0:
			return &metav1.LabelSelector{}
		case n <= 3:
			return &metav1.LabelSelector{MatchLabels: labels()}
		case n == 4 && random.IntN(4) == 0:
			return &metav1.LabelSelector{MatchExpressions: []metav1.LabelSelectorRequirement{{Key: "l", Operator: "Like"}}}
		}
		return nil
	}
	for i := range 1 + random.IntN(12) {
		c := addressindex.ServiceCIDR{Name: fmt.Sprint("cidr-", i), Labels: labels(), Ready: random.IntN(8) > 0, Terminating: random.IntN(8) == 0}
		for _, f := range allocator.Families {
			if random.IntN(3) > 0 {
				a := anyAddr(f)
				p, _ := a.Prefix(a.BitLen() - []int{0, 1, 2, 4, 4, 5, 5, 6}[random.IntN(8)])
				r, err := allocator.NewRange(p)
				if err == nil {
					c.Ranges = append(c.Ranges, r)
				}
			}
		}
		w.ServiceCIDRs = append(w.ServiceCIDRs, c)
	}
	for i := range random.IntN(6) {
		p := policy(fmt.Sprint("policy-", i), random.Int32N(3))
		p.CreationTimestamp = metav1.Time{Time: time.Unix(random.Int64N(2), 0)}
		p.Spec.Exclusive, p.Spec.AdditionalAddresses = random.IntN(2) == 0, random.IntN(2) == 0
		p.Spec.OnFull = []v1alpha1.OnFull{v1alpha1.OnFullFail, v1alpha1.OnFullFallback, v1alpha1.OnFullFallback, ""}[random.IntN(4)]
		p.Spec.NamespaceSelector, p.Spec.ServiceSelector = selector(10), selector(10)
		if random.IntN(4) == 0 {
			p.Spec.ServiceCIDRSelector = selector(5)
		}
		if random.IntN(8) > 0 && (p.Spec.ServiceCIDRSelector == nil || random.IntN(8) == 0) {
			for range 1 + random.IntN(12) {
				p.Spec.ServiceCIDRs = append(p.Spec.ServiceCIDRs, fmt.Sprint("cidr-", random.IntN(14)))
			}
		}
		if n := random.IntN(4); n > 0 {
			p.Spec.CoolDown = &metav1.Duration{Duration: time.Duration(n-2) * time.Minute}
		}
		for j := range random.IntN(4) {
			a, b := anyAddr(allocator.Families[j%2]), anyAddr(allocator.Families[j%2])
			if b.Less(a) && random.IntN(4) > 0 {
				a, b = b, a
			}
			r := v1alpha1.Reservation{Name: fmt.Sprint("r", j), Address: a.String() + "-" + b.String()}
			if b.Less(a) {
				r.Address = a.String() + " to " + b.String() // a mistake
			}
			if random.IntN(2) == 0 {
				r.For = fmt.Sprintf("ns/s%d", random.IntN(2))
			}
			p.Spec.Reservations = append(p.Spec.Reservations, r)
		}
		p.Spec.Allocation = []v1alpha1.Allocation{"", v1alpha1.AllocationAutomatic, v1alpha1.AllocationAutomatic, v1alpha1.AllocationByRequest, v1alpha1.AllocationCordoned}[random.IntN(5)]
		w.Policies = append(w.Policies, p)
	}
	return w
}

func policy(name string, priority int32) *v1alpha1.ServiceCIDRPolicy {
	return &v1alpha1.ServiceCIDRPolicy{
		ObjectMeta: metav1.ObjectMeta{Name: name, UID: types.UID("uid-" + name), Generation: 7},
		Spec:       v1alpha1.ServiceCIDRPolicySpec{Priority: priority},
	}
}

// services are all that random inputs's policies can tell apart.
func services() (out []Service) {
	for i := range 4 {
		out = append(out, Service{
			NamespacedName: types.NamespacedName{Namespace: "ns", Name: fmt.Sprint("s", i%2)},
			Labels:         map[string]string{"l": fmt.Sprint(i % 2)}, NamespaceLabels: map[string]string{"l": fmt.Sprint(i / 2)},
		})
	}
	return out
}

// addressesOf lists what a tier has, by drawing all of it.
func addressesOf(t *allocator.Tier) []netip.Addr {
	pool := allocator.NewPool()
	var out []netip.Addr
	for {
		d, err := pool.Draw(allocator.Request{Tiers: []*allocator.Tier{t}})
		if err != nil {
			slices.SortFunc(out, netip.Addr.Compare)
			return out
		}
		out = append(out, d.Addr)
	}
}

func listed(tiers []*allocator.Tier) (out [][]netip.Addr) {
	for _, t := range tiers {
		if all := addressesOf(t); len(all) > 0 {
			out = append(out, all)
		}
	}
	return out
}

// byValue compares addresses, ranges and the like by ==.
var byValue = gocmp.Options{
	gocmp.Comparer(func(a, b netip.Addr) bool { return a == b }), gocmp.Comparer(func(a, b netip.Prefix) bool { return a == b }), gocmp.Comparer(func(a, b allocator.Range) bool { return a == b }),
	cmpopts.EquateEmpty(),
}

func diff(t *testing.T, seed uint64, what string, want, got any) {
	t.Helper()
	if d := gocmp.Diff(want, got, byValue); d != "" {
		t.Errorf("inputs %d: %s (-want +got):\n%s", seed, what, d)
	}
}

func refuser(r *Refusal) string {
	if r == nil {
		return ""
	}
	return r.Policy
}

// Of every address and to every Service, a Compiled says what the slow oracle says.
func TestCompiledAgainstOracle(t *testing.T) {
	all := universes()
	for seed := range uint64(60) {
		if t.Failed() {
			return // one is enough to look at
		}
		w := randomInputs(rand.New(rand.NewPCG(seed, 1)))
		s, o := Compile(w), newOracle(w)
		o.comparePolicies(t, seed, s)
		for _, f := range allocator.Families {
			for _, a := range all[f] {
				o.compareAddress(t, seed, s, a)
			}
			for _, svc := range services() {
				o.compareService(t, seed, s, svc, f, all[f])
				o.compareAdditional(t, seed, s, svc, f, all[f])
			}
		}
	}
}

func (o oracle) comparePolicies(t *testing.T, seed uint64, s *Compiled) {
	t.Helper()
	for i, p := range s.Policies() {
		want := slices.Clone(o.has[i])
		slices.SortFunc(want, func(a, b PolicyRange) int {
			return cmp.Or(comparePrefixes(a.Range.Prefix(), b.Range.Prefix()), cmp.Compare(a.ServiceCIDR, b.ServiceCIDR))
		})
		want = slices.CompactFunc(want, func(a, b PolicyRange) bool { return a.Range == b.Range })
		diff(t, seed, "rank", o.ranked[i].Name, p.Name)
		diff(t, seed, p.Name+": ranges", want, p.Ranges)
		if s.Policy(p.Name) != p {
			t.Errorf("inputs %d: %s is not found by its name", seed, p.Name)
		}
	}
}

func (o oracle) compareAddress(t *testing.T, seed uint64, s *Compiled, a netip.Addr) {
	t.Helper()
	f := o.facts(a)
	i, want, reserved := f.of, f.reservation, f.of >= 0
	got, ok := s.Reservation(a)
	if ok != reserved || ok && (got.Policy != o.ranked[i].Name || got.PolicyUID != o.ranked[i].UID || got.Name != want.Name || !got.Span.Contains(a)) {
		t.Errorf("inputs %d: %s is in reservation %v (%v), want %v (%v)", seed, a, got, ok, want, reserved)
	}
	if s.Reserves(a) != reserved || s.Offers(a) != f.offered {
		t.Errorf("inputs %d: %s: reserved %v, offered %v; want %v, %v", seed, a, s.Reserves(a), s.Offers(a), reserved, f.offered)
	}
	d, by := s.CoolDown(a)
	wantD, wantBy := o.coolDown(a)
	if d != wantD || s.CoolsDown(a) != wantD || (by == nil) != (wantBy == "") || by != nil && by.Name != wantBy {
		t.Errorf("inputs %d: %s cools for %s by %v, want %s by %q", seed, a, d, by, wantD, wantBy)
	}
	if owner := s.Owner(a); !slices.Contains(s.apiServer, a) && (owner == nil) != (f.owner < 0) || owner != nil && owner.Name != o.ranked[f.owner].Name {
		t.Errorf("inputs %d: %s is kept by %v, want %d", seed, a, owner, f.owner)
	}
	_, strictest := o.strictest(a, anyPolicy)
	if by := s.Restriction(a); !slices.Contains(s.apiServer, a) && (by == nil) != (strictest < 0) || by != nil && by.Name != o.ranked[strictest].Name {
		t.Errorf("inputs %d: %s is restricted by %v, want %d", seed, a, by, strictest)
	}
	for _, svc := range services() {
		o.compareExcluded(t, seed, s, a, svc)
		wantRefuser := ""
		switch {
		case reserved && want.For != svc.String():
			wantRefuser = o.ranked[i].Name
		case o.cordoned(a):
			_, by := o.strictest(a, anyPolicy)
			wantRefuser = o.ranked[by].Name
		case !reserved && !o.allowed(a, svc):
			wantRefuser = o.ranked[f.owner].Name
		}
		if got := refuser(s.MayHold(a, svc)); got != wantRefuser {
			t.Errorf("inputs %d: %s for %s %v in %v is refused by %q, want %q", seed, a, svc.Name, svc.Labels, svc.NamespaceLabels, got, wantRefuser)
		}
	}
}

// compareExcluded: Excluded is sure without the Service's labels where they make no difference.
func (o oracle) compareExcluded(t *testing.T, seed uint64, s *Compiled, a netip.Addr, svc Service) {
	t.Helper()
	f := o.facts(a)
	want := (f.of < 0 || f.reservation.For != svc.String()) && !o.allowed(a, svc) && !slices.Contains(s.apiServer, a)
	unlabelled := svc
	unlabelled.Labels = nil
	got, _ := s.Excluded(a, svc)
	if without, sure := s.Excluded(a, unlabelled); got != want || sure && without != want {
		t.Errorf("inputs %d: %s of %s %v in %v: stranger %v, %v without labels, want %v", seed, a, svc, svc.Labels, svc.NamespaceLabels, got, without, want)
	}
}

func (o oracle) compareService(t *testing.T, seed uint64, s *Compiled, svc Service, f allocator.Family, universe []netip.Addr) {
	t.Helper()
	who := fmt.Sprintf("%s %v in %v, %s", svc.Name, svc.Labels, svc.NamespaceLabels, f)
	r := s.Route(svc, f)
	policies, fails, tiers := o.route(universe, svc, f)
	var got []string
	for _, p := range r.Policies {
		got = append(got, p.Name)
	}
	diff(t, seed, who+": policies", policies, got)
	diff(t, seed, who+": fails", fails, r.Fails)
	diff(t, seed, who+": tiers", tiers, listed(r.Tiers))
	var reserved, left []netip.Addr
	for _, a := range universe {
		if f := o.facts(a); f.of >= 0 && f.reservation.For == svc.String() && !o.cordoned(a) {
			reserved = append(reserved, a)
		}
	}
	for _, r := range s.ReservedFor(svc.NamespacedName, f) {
		left = slices.AppendSeq(left, r.Addresses())
	}
	slices.SortFunc(left, netip.Addr.Compare)
	diff(t, seed, who+": reserved", reserved, left)
}

func (o oracle) compareAdditional(t *testing.T, seed uint64, s *Compiled, svc Service, f allocator.Family, universe []netip.Addr) {
	t.Helper()
	who := fmt.Sprintf("%s %v in %v, %s", svc.Name, svc.Labels, svc.NamespaceLabels, f)
	for _, c := range o.inputs.ServiceCIDRs {
		want, barred := o.additional(universe, svc, c.Name)
		tiers, refusal := s.Additional(svc, c.Name, f)
		diff(t, seed, who+": additional from "+c.Name, want, listed(tiers))
		if barred && len(want) == 0 && refusal == nil || refusal != nil && len(want) > 0 {
			t.Errorf("inputs %d: %s: an additional address from %s is refused with %v; barred %v, left %v", seed, who, c.Name, refusal, barred, want)
		}
	}
}

// The order of the input means nothing: for ranks, ranges, reservations, routes and what is said.
func TestOrderOfInputDoesNotMatter(t *testing.T) {
	for seed := range uint64(40) {
		random := rand.New(rand.NewPCG(seed, 2))
		w := randomInputs(random)
		before := Compile(w)
		random.Shuffle(len(w.Policies), func(i, j int) { w.Policies[i], w.Policies[j] = w.Policies[j], w.Policies[i] })
		random.Shuffle(len(w.ServiceCIDRs), func(i, j int) { w.ServiceCIDRs[i], w.ServiceCIDRs[j] = w.ServiceCIDRs[j], w.ServiceCIDRs[i] })
		after := Compile(w)
		if d := gocmp.Diff(before.Policies(), after.Policies(), byValue, cmpopts.IgnoreUnexported(Policy{})); d != "" {
			t.Fatalf("inputs %d: shuffled, policies differ:\n%s", seed, d)
		}
		for _, svc := range services() {
			for _, f := range allocator.Families {
				if d := gocmp.Diff(listed(before.Route(svc, f).Tiers), listed(after.Route(svc, f).Tiers), byValue); d != "" {
					t.Fatalf("inputs %d: shuffled, tiers differ:\n%s", seed, d)
				}
			}
		}
	}
}
