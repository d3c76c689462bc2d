package steering

import (
	"fmt"
	"iter"
	"maps"
	"math/rand/v2"
	"net/netip"
	"slices"
	"testing"

	gocmp "github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/clusterip-operator/clusterip-operator/allocator"
	"github.com/clusterip-operator/clusterip-operator/api/v1alpha1"
	"github.com/clusterip-operator/clusterip-operator/internal/addressindex"
)

// A cluster changes in one thing or two at a time. What is compiled of the change and of what was
// compiled before says the same as what is compiled of everything: of policies, of each address, of
// each Service, and to the API server; also after more was compiled of it. Half of the time all
// tiers are made before the change.
func TestRecompileSaysWhatEverythingSays(t *testing.T) {
	shared, seeds := 0, 60
	if testing.Short() {
		seeds = 20
	}
	for seed := range uint64(seeds) {
		random := rand.New(rand.NewPCG(seed, 9))
		in := randomInputs(random)
		sparse(in, random)
		part, all := Compile(in), Compile(in)
		first := part
		for step := range 12 {
			if random.IntN(2) == 0 {
				for _, svc := range services() {
					part.Route(svc, allocator.IPv4)
					part.Route(svc, allocator.IPv6)
				}
			}
			in = changedInputs(in, random)
			next := part.Recompile(in)
			expectEnforcedAlike(t, part, next)
			expectMoved(t, part, next)
			expectMoved(t, first, next)
			for _, p := range next.Policies() {
				if part.Policy(p.Name) == p {
					shared++
				}
			}
			if expectSame(t, fmt.Sprintf("seed %d, after %d changes", seed, step), part, all); t.Failed() {
				return // one is enough to look at
			}
			part, all = next, all.anew(in)
		}
		expectSame(t, fmt.Sprintf("seed %d, in the end", seed), part, all)
	}
	if shared < 7*seeds {
		t.Errorf("only %d times was a policy kept", shared)
	}
}

// expectMoved: what moved is told alike, whether it is remembered or compared.
func expectMoved(t *testing.T, before, after *Compiled) {
	t.Helper()
	texts := func(all []addressindex.ServiceCIDR) (out []string) {
		for _, c := range all {
			out = append(out, fmt.Sprint(c))
		}
		slices.Sort(out)
		return out
	}
	if want, got := texts(before.movement(after.Inputs().ServiceCIDRs).all()), texts(Moved(before, after)); !slices.Equal(got, want) {
		t.Errorf("moved are %v, want %v", got, want)
	}
}

// anew compiles everything, of what s has only the earlier forms of policies.
func (s *Compiled) anew(in Inputs) *Compiled {
	earlier := blank(emptySpace())
	earlier.policies, earlier.byName = s.policies, s.byName
	c := change{s.changed(in.Policies), movement{are: in.ServiceCIDRs}}
	for _, o := range in.Policies {
		c.policies[o.Name] = o
	}
	return earlier.after(c)
}

// expectEnforcedAlike: the API server is told the same if no policy that it enforces has changed.
func expectEnforcedAlike(t *testing.T, before, after *Compiled) {
	t.Helper()
	for was, is := range Changed(before, after) {
		if was != nil && was.EnforcedByAPIServer() || is != nil && is.EnforcedByAPIServer() {
			return
		}
	}
	if d := gocmp.Diff(before.Enforce(plenty), after.Enforce(plenty)); d != "" {
		t.Errorf("enforced policies are the same, what is enforced is not:\n%s", d)
	}
}

// sparse has policies ask for little, so that they are in several parts, and one ServiceCIDR be the
// default one, whose first addresses no policy reserves.
func sparse(in Inputs, random *rand.Rand) {
	in.ServiceCIDRs[0].Name = v1alpha1.DefaultServiceCIDR
	for _, p := range in.Policies {
		p.Spec.ServiceCIDRs = p.Spec.ServiceCIDRs[:min(1+random.IntN(2), len(p.Spec.ServiceCIDRs))]
		if i := slices.Index(p.Spec.ServiceCIDRs, "cidr-0"); i >= 0 {
			p.Spec.ServiceCIDRs[i] = v1alpha1.DefaultServiceCIDR
		}
		p.Spec.Reservations = p.Spec.Reservations[:min(random.IntN(3), len(p.Spec.Reservations))]
	}
}

// changedInputs returns inputs in which a policy or a ServiceCIDR came, went or changed, or both.
func changedInputs(in Inputs, random *rand.Rand) Inputs {
	more := randomInputs(random)
	sparse(more, random)
	out := Inputs{Policies: slices.Clone(in.Policies), ServiceCIDRs: slices.Clone(in.ServiceCIDRs)}
	kinds := random.IntN(4)
	if kinds > 0 {
		name := fmt.Sprint("policy-", random.IntN(8))
		out.Policies = slices.DeleteFunc(out.Policies, func(p *v1alpha1.ServiceCIDRPolicy) bool { return p.Name == name })
		if len(more.Policies) > 0 {
			o := more.Policies[0]
			o.Name, o.Generation = name, random.Int64N(3)
			o.UID += []types.UID{"", "", "-anew"}[random.IntN(3)]
			out.Policies = append(out.Policies, o)
		}
	}
	if kinds < 2 {
		i := random.IntN(len(more.ServiceCIDRs))
		out.ServiceCIDRs = slices.DeleteFunc(out.ServiceCIDRs, func(c addressindex.ServiceCIDR) bool { return c.Name == more.ServiceCIDRs[i].Name })
		if random.IntN(4) > 0 || len(out.ServiceCIDRs) == 0 {
			out.ServiceCIDRs = append(out.ServiceCIDRs, more.ServiceCIDRs[i])
		}
	}
	return out
}

func expectSame(t *testing.T, what string, got, want *Compiled) {
	t.Helper()
	options := append(gocmp.Options{cmpopts.IgnoreUnexported(Policy{})}, byValue...)
	if d := gocmp.Diff(want.Policies(), got.Policies(), options); d != "" {
		t.Errorf("%s: policies (-everything +part):\n%s", what, d)
		return
	}
	if d := gocmp.Diff(want.Enforce(plenty), got.Enforce(plenty)); d != "" {
		t.Errorf("%s: enforced (-everything +part):\n%s", what, d)
	}
	for f, addresses := range universes() {
		for _, a := range addresses {
			if got, want := aboutAddress(got, a), aboutAddress(want, a); got != want {
				t.Errorf("%s: about %s: %s, want %s", what, a, got, want)
			}
		}
		for _, svc := range services() {
			if d := gocmp.Diff(aboutService(want, svc, f), aboutService(got, svc, f), byValue); d != "" {
				t.Errorf("%s: about %v (-everything +part):\n%s", what, svc, d)
			}
		}
		if got.closes[f] != want.closes[f] {
			t.Errorf("%s: closes %s: %v, want %v", what, f, got.closes[f], want.closes[f])
		}
	}
	for _, c := range want.Inputs().ServiceCIDRs {
		silent := func(p *Policy) bool {
			return !slices.Contains(p.spec().ServiceCIDRs, c.Name) && !p.selectsServiceCIDR(c)
		}
		asking := slices.DeleteFunc(slices.Clone(got.policies), silent)
		if d := gocmp.Diff(namesOf(slices.Values(asking)), namesOf(got.askers().of(c))); d != "" {
			t.Errorf("%s: who asks for %s (-all of them +by index):\n%s", what, c.Name, d)
		}
	}
	if got.restricts != want.restricts || !maps.Equal(got.contested, got.byContest()) || len(got.contested) != len(want.contested) {
		t.Errorf("%s: %d restrict, want %d; %d are contested, want %d", what, got.restricts, want.restricts, len(got.contested), len(want.contested))
	}
}

// byContest are the policies that have less than they reserve.
func (s *Compiled) byContest() map[string]*Policy {
	out := map[string]*Policy{}
	for _, p := range s.policies {
		if p.contested {
			out[p.Name] = p
		}
	}
	return out
}

// namesOf are the names of policies, each once, in order.
func namesOf(policies iter.Seq[*Policy]) (out []string) {
	for p := range policies {
		out = append(out, p.Name)
	}
	slices.Sort(out)
	return slices.Compact(out)
}

func aboutAddress(s *Compiled, a netip.Addr) string {
	r, _ := s.Reservation(a)
	coolDown, by := s.CoolDown(a)
	text := fmt.Sprint(r, coolDown, nameOf(by), nameOf(s.Owner(a)), nameOf(s.Restriction(a)), s.Offers(a))
	for _, svc := range services() {
		excluded, sure := s.Excluded(a, svc)
		text += fmt.Sprint(refuser(s.MayHold(a, svc)), excluded, sure)
	}
	return text
}

func nameOf(p *Policy) string {
	if p == nil {
		return ""
	}
	return p.Name
}

// answers are what a Compiled says about a Service in one family.
type answers struct {
	Policies   []string
	Fails      bool
	Full       string
	Tiers      [][]netip.Addr
	Reserved   []Reservation
	Additional map[string][][]netip.Addr
	Refused    map[string]string
}

func aboutService(s *Compiled, svc Service, f allocator.Family) answers {
	r := s.Route(svc, f)
	out := answers{
		Fails: r.Fails, Full: refuser(s.Full(r, f)), Tiers: listed(r.Tiers), Reserved: s.ReservedFor(svc.NamespacedName, f),
		Additional: map[string][][]netip.Addr{}, Refused: map[string]string{},
	}
	for _, p := range r.Policies {
		out.Policies = append(out.Policies, p.Name)
	}
	for _, c := range s.Inputs().ServiceCIDRs {
		tiers, refusal := s.Additional(svc, c.Name, f)
		out.Additional[c.Name], out.Refused[c.Name] = listed(tiers), refuser(refusal)
	}
	return out
}

// A change keeps the policies that it has nothing to do with, as they are: its cost is theirs.
func TestRecompileKeepsWhatIsNotTouched(t *testing.T) {
	in := thousands(100)
	before := Compile(in)
	touched := func(after *Compiled) (names []string) {
		for _, p := range after.Policies() {
			if before.Policy(p.Name) != p {
				names = append(names, p.Name)
			}
		}
		slices.Sort(names)
		return names
	}
	more := policy("more", 1)
	more.Spec.ServiceCIDRs = []string{"cidr-7", "cidr-19"}
	reserving := policy("reserving", 1)
	reserving.Spec.Reservations = []v1alpha1.Reservation{{Name: "r", Address: "fd00:8::7"}}
	elsewhere, inside := in, in
	elsewhere.ServiceCIDRs = append(slices.Clone(in.ServiceCIDRs), ready("elsewhere", "10.200.0.0/24", "fd00:ffff::/112"))
	inside.ServiceCIDRs = append(slices.Clone(in.ServiceCIDRs), ready("inside", "10.0.4.0/26"))
	status := in
	status.Policies = slices.Clone(in.Policies)
	status.Policies[3] = in.Policies[3].DeepCopy()
	status.Policies[3].Status.Summary.Ranges = 7
	for name, tc := range map[string]struct {
		after *Compiled
		want  []string
	}{
		"nothing":                         {before.Recompile(in), nil},
		"a new status":                    {before.Recompile(status), nil},
		"a policy that asks for ranges":   {before.With(more), []string{"more", "policy-19", "policy-7"}},
		"a policy that reserves":          {before.With(reserving), []string{"policy-7", "reserving"}},
		"a ServiceCIDR elsewhere":         {before.Recompile(elsewhere), nil},
		"a ServiceCIDR in that of others": {before.Recompile(inside), []string{"policy-4"}},
	} {
		if got := touched(tc.after); !slices.Equal(got, tc.want) {
			t.Errorf("%s: compiled anew are %v, want %v", name, got, tc.want)
		}
	}
}

// A policy that takes back what it said is as it was, whatever was compiled between.
func TestAPolicyTakesItsChangeBack(t *testing.T) {
	in := thousands(10)
	before := Compile(in)
	other := in.Policies[3].DeepCopy()
	other.Generation, other.Spec.ServiceCIDRs = 2, []string{"cidr-4"}
	after := before.With(other).With(in.Policies[3])
	if got, want := after.Policy("policy-3").Ranges, before.Policy("policy-3").Ranges; !slices.Equal(got, want) {
		t.Errorf("it has %v, want %v", got, want)
	}
}

// What was compiled before stays as it is when a policy with many ranges changes.
func TestAPolicyWithManyRangesChanges(t *testing.T) {
	in := thousands(140)
	wide := policy("wide", 9)
	for i := range few + 1 {
		wide.Spec.ServiceCIDRs = append(wide.Spec.ServiceCIDRs, fmt.Sprint("cidr-", i))
	}
	in.Policies = append(in.Policies, wide)
	closed := wide.DeepCopy()
	closed.Generation, closed.Spec.Exclusive = 2, true
	before := Compile(in)
	after := before.With(closed)
	for i := range 140 {
		a := netip.AddrFrom4([4]byte{10, 0, byte(i), 200})
		own, wants := "", ""
		if i%5 == 0 {
			own = fmt.Sprint("policy-", i)
		}
		if wants = own; i <= few {
			wants = "wide"
		}
		if was, is := nameOf(before.Owner(a)), nameOf(after.Owner(a)); was != own || is != wants {
			t.Errorf("%s belongs to %q and then to %q, want %q and %q", a, was, is, own, wants)
		}
	}
}

// After a restore all ServiceCIDRs become ready at once. Then all is compiled, and the ranges that
// two of them have are those of both.
func TestManyServiceCIDRsMoveAtOnce(t *testing.T) {
	in := thousands(70)
	for i := range 70 {
		c := in.ServiceCIDRs[i]
		in.ServiceCIDRs = append(in.ServiceCIDRs, ready(fmt.Sprint("twin-", i), c.Ranges[0].String()))
	}
	states := map[string]Inputs{"ready": in}
	for name, change := range map[string]func(i int, c *addressindex.ServiceCIDR) bool{
		"unready":       func(_ int, c *addressindex.ServiceCIDR) bool { c.Ready = false; return true },
		"a third of it": func(i int, c *addressindex.ServiceCIDR) bool { c.Ready = i%3 == 0; return true },
		"none":          func(int, *addressindex.ServiceCIDR) bool { return false },
		"without twins": func(i int, _ *addressindex.ServiceCIDR) bool { return i < 70 },
	} {
		state := Inputs{Policies: in.Policies}
		for i, c := range in.ServiceCIDRs {
			if change(i, &c) {
				state.ServiceCIDRs = append(state.ServiceCIDRs, c)
			}
		}
		states[name] = state
	}
	for was, in := range states {
		before := Compile(in)
		for is, after := range states {
			expectSameRanges(t, was+", then "+is, before.Recompile(after), Compile(after))
		}
		expectSameRanges(t, was+", after all that was made of it", before, Compile(in))
	}
}

// expectSameRanges compares what is said of ranges. An address that is not offered is awaited.
func expectSameRanges(t *testing.T, what string, got, want *Compiled) {
	t.Helper()
	options := append(gocmp.Options{cmpopts.IgnoreUnexported(Policy{})}, byValue...)
	if d := gocmp.Diff(want.Policies(), got.Policies(), options); d != "" {
		t.Errorf("%s: policies (-want +got):\n%s", what, d)
	}
	if got.places.Size() != want.places.Size() || len(got.cidrs) != len(want.cidrs) {
		t.Errorf("%s: %d ranges of %d ServiceCIDRs, want %d of %d", what, got.places.Size(), len(got.cidrs), want.places.Size(), len(want.cidrs))
	}
	for _, c := range want.cidrs {
		for _, r := range c.Ranges {
			a := r.Span().Last
			awaited := got.awaited(a)
			if offered := got.Offers(a); offered != want.Offers(a) || !slices.Equal(awaited, want.awaited(a)) || offered != (len(awaited) == 0) {
				t.Errorf("%s: %s is offered: %v, awaited of %v", what, a, offered, awaited)
			}
		}
	}
}

// What is kept of a policy for long has nothing that is written anew often.
func TestAPolicyKeepsItsSpecAlone(t *testing.T) {
	o := policy("p", 0)
	o.ManagedFields, o.Status.Summary.Ranges = []metav1.ManagedFieldsEntry{{Manager: "kubectl"}}, 7
	p := Compile(inputs(nil, o)).Policy("p")
	for _, kept := range []*v1alpha1.ServiceCIDRPolicy{p.object, p.form} {
		if kept.ManagedFields != nil || kept.Status.Summary.Ranges != 0 || kept.Generation != o.Generation {
			t.Errorf("kept is %+v", kept)
		}
	}
}

// A reservation that the address of Service default/kubernetes kept from a policy is the policy's
// once the default ServiceCIDR has moved, though nothing of it was there to be reached.
func TestAReservationComesBackFromTheAPIServer(t *testing.T) {
	in := thousands(4)
	in.ServiceCIDRs = append(in.ServiceCIDRs, ready(v1alpha1.DefaultServiceCIDR, "10.96.0.0/24", "fd96::/112"))
	for i, address := range []string{"10.96.0.1", "fd96::1"} {
		in.Policies = append(in.Policies, with(policy(fmt.Sprint("high-", i), 9), reserves("r", address, "ns/high")))
	}
	moved := Inputs{Policies: in.Policies, ServiceCIDRs: slices.Clone(in.ServiceCIDRs)}
	moved.ServiceCIDRs[4] = ready(v1alpha1.DefaultServiceCIDR, "10.97.0.0/24", "fd97::/112")
	before := Compile(in)
	after := before.Recompile(moved)
	for i := range 2 {
		name := fmt.Sprint("high-", i)
		if lost, kept := before.Policy(name), after.Policy(name); len(lost.Lost) != 1 || len(kept.Lost) != 0 || len(kept.Reservations) != 1 {
			t.Errorf("%s has lost %v, and then %v; it keeps %v", name, lost.Lost, kept.Lost, kept.Reservations)
		}
	}
}
