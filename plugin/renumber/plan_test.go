package renumber

import (
	"fmt"
	"math/rand/v2"
	"net/netip"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/sets"

	"github.com/clusterip-operator/clusterip-operator/allocator"
	"github.com/clusterip-operator/clusterip-operator/api/v1alpha1"
)

// service is one of type ClusterIP with these addresses, changed a bit.
func service(name, addresses string, changes ...func(*corev1.Service)) corev1.Service {
	s := corev1.Service{ObjectMeta: metav1.ObjectMeta{Namespace: "shop", Name: name, UID: types.UID("uid of " + name)}}
	s.Spec.Type, s.Spec.ClusterIPs = corev1.ServiceTypeClusterIP, strings.Split(addresses, ",")
	for _, change := range changes {
		change(&s)
	}
	return s
}

func addrs(text string) []netip.Addr { return parse(strings.Split(text, ",")) }

func ranges(t *testing.T, texts string) (all []allocator.Range) {
	t.Helper()
	for text := range strings.SplitSeq(texts, ",") {
		all = append(all, allocator.MustParseRange(text))
	}
	return all
}

// inputs are Services that move from the ranges in from to those in to.
func inputs(t *testing.T, from, to string, services ...corev1.Service) Inputs {
	t.Helper()
	in := Inputs{From: ranges(t, from), Keep: KeepNone, Services: services, Taken: sets.New[netip.Addr]()}
	for _, r := range ranges(t, to) {
		in.To = append(in.To, Target{Range: r, ServiceCIDR: "new", Ready: true})
	}
	for _, s := range services {
		in.Taken.Insert(addresses(&s)...)
	}
	return in
}

// lines are the Services of a plan, and those that are left out.
func lines(p Plan) (moved, leftOut []string) {
	for _, i := range p.Services {
		moved = append(moved, fmt.Sprintf("%s %s -> %s", i.Name, texts(i.Old), texts(i.New)))
	}
	for _, l := range p.LeftOut {
		leftOut = append(leftOut, l.Name+" "+l.Why)
	}
	return moved, leftOut
}

func TestNewPlanChoosesAddresses(t *testing.T) {
	const old, dual, newDual = "10.96.0.0/24", "10.96.0.0/24,fd00:96::/120", "10.200.0.0/22,fd00:200::/118"
	for name, tc := range map[string]struct {
		from, to string
		services []corev1.Service
		taken    string
		named    []string
		want     []string
	}{
		"the same place":                 {from: old, to: "10.200.0.0/24", services: []corev1.Service{service("a", "10.96.0.77")}, want: []string{"a 10.96.0.77 -> 10.200.0.77"}},
		"the same place is taken":        {from: old, to: "10.200.0.0/24", services: []corev1.Service{service("a", "10.96.0.77")}, taken: "10.200.0.77", want: []string{"a 10.96.0.77 -> 10.200.0.17"}},
		"static stays static":            {from: old, to: "10.200.0.0/24", services: []corev1.Service{service("a", "10.96.0.7")}, want: []string{"a 10.96.0.7 -> 10.200.0.7"}},
		"dynamic does not become static": {from: old, to: "10.200.0.0/22", services: []corev1.Service{service("a", "10.96.0.20")}, want: []string{"a 10.96.0.20 -> 10.200.0.65"}},
		"static becomes dynamic where its place is taken": {
			from: old, to: "10.200.0.0/24", services: []corev1.Service{service("a", "10.96.0.7")}, taken: "10.200.0.7", want: []string{"a 10.96.0.7 -> 10.200.0.17"},
		},
		"the place is beyond the end": {
			from: "10.96.0.0/22", to: "10.200.0.0/24", services: []corev1.Service{service("a", "10.96.1.20"), service("b", "10.96.0.90")},
			want: []string{"a 10.96.1.20 -> 10.200.0.17", "b 10.96.0.90 -> 10.200.0.90"},
		},
		"the place is the broadcast address": {from: "10.96.0.0/22", to: "10.200.0.0/24", services: []corev1.Service{service("a", "10.96.0.255")}, want: []string{"a 10.96.0.255 -> 10.200.0.17"}},
		"the second of two ranges":           {from: "10.96.0.0/22", to: "10.200.0.0/28,10.201.0.0/22", services: []corev1.Service{service("a", "10.96.1.20")}, want: []string{"a 10.96.1.20 -> 10.201.1.20"}},
		"both families": {
			from: dual, to: newDual, services: []corev1.Service{service("a", "10.96.0.77,fd00:96::77"), service("b", "fd00:96::78,10.96.0.78")},
			want: []string{"a 10.96.0.77,fd00:96::77 -> 10.200.0.77,fd00:200::77", "b fd00:96::78,10.96.0.78 -> fd00:200::78,10.200.0.78"},
		},
		"one family of two": {
			from: old, to: newDual, services: []corev1.Service{service("a", "10.96.0.77,fd00:96::77"), service("b", "fd00:96::78")},
			want: []string{"a 10.96.0.77,fd00:96::77 -> 10.200.0.77,fd00:96::77"},
		},
		"other ranges and headless ones are no matter": {
			from: old, to: "10.200.0.0/24", services: []corev1.Service{service("a", "10.97.0.77"), service("b", "None"), service("c", "")}, want: nil,
		},
		"in the order of their names, named ones last": {
			from: old, to: "10.200.0.0/24", services: []corev1.Service{service("c", "10.96.0.3"), service("b", "10.96.0.2"), service("a", "10.96.0.1")}, named: []string{"a"},
			want: []string{"b 10.96.0.2 -> 10.200.0.2", "c 10.96.0.3 -> 10.200.0.3", "a 10.96.0.1 -> 10.200.0.1"},
		},
	} {
		t.Run(name, func(t *testing.T) {
			in := inputs(t, tc.from, tc.to, tc.services...)
			in.Taken.Insert(addrs(tc.taken)...)
			in.Rules.Named = sets.New[types.NamespacedName]()
			for _, name := range tc.named {
				in.Rules.Named.Insert(types.NamespacedName{Namespace: "shop", Name: name})
			}
			p := NewPlan(in)
			moved, leftOut := lines(p)
			if diff := cmp.Diff(tc.want, moved); diff != "" || len(leftOut) > 0 || len(p.Problems) > 0 {
				t.Errorf("left out %v, problems %v, moved (-want +got):\n%s", leftOut, p.Problems, diff)
			}
			if err := p.Validate(); err != nil {
				t.Errorf("it does not accept its own plan: %v", err)
			}
		})
	}
}

// written says that a field manager has written fields of the Service.
func written(by, fields, subresource string) func(*corev1.Service) {
	return func(s *corev1.Service) {
		f := &metav1.FieldsV1{}
		f.SetRawString(fields)
		s.ManagedFields = append(s.ManagedFields, metav1.ManagedFieldsEntry{Manager: by, FieldsV1: f, Subresource: subresource})
	}
}

func TestNewPlanLeavesOut(t *testing.T) {
	const address = "10.96.0.77"
	balanced := func(s *corev1.Service) { s.Spec.Type = corev1.ServiceTypeLoadBalancer }
	in := func(namespace string, port int32) func(*corev1.Service) {
		return func(s *corev1.Service) { s.Namespace, s.Spec.Ports = namespace, []corev1.ServicePort{{Port: port}} }
	}
	api := func(s *corev1.Service) { s.Namespace, s.Name = "default", "kubernetes" }
	for name, tc := range map[string]struct {
		service  corev1.Service
		rules    Rules
		want     string // why; empty if it is moved
		whenName string // why, although it is asked for by name
	}{
		"an ordinary one":           {service: service("a", address)},
		"default/kubernetes":        {service: service("", address, api), want: "pods reach the API servers by it"},
		"one that is being deleted": {service: service("a", address, func(s *corev1.Service) { s.DeletionTimestamp = new(metav1.Now()) }), want: "it is being deleted", whenName: "it is being deleted"},
		"a load balancer":           {service: service("a", address, balanced), want: "it is a load balancer", whenName: "it is a load balancer"},
		"it keeps an address of another one": {service: service("a", address), rules: Rules{Keeping: map[types.UID]string{service("a", address).UID: "10.96.0.77 of web"}},
			want: "it keeps 10.96.0.77 of web: see `kubectl clusterip renumber kept`", whenName: "it keeps 10.96.0.77 of web"},
		"a load balancer, included":             {service: service("a", address, balanced), rules: Rules{IncludeLoadBalancers: true}},
		"its manifest has clusterIP":            {service: service("a", address, written("kubectl", `{"f:spec":{"f:clusterIP":{}}}`, "")), want: `"kubectl" has written its address`},
		"its manifest has clusterIPs":           {service: service("a", address, written("helm", `{"f:spec":{"f:clusterIPs":{}}}`, "")), want: `"helm" has written its address`},
		"a renumbering has written its address": {service: service("a", address, written(v1alpha1.ManagerRenumbering, `{"f:spec":{"f:clusterIP":{}}}`, ""))},
		"its manifest has other fields":         {service: service("a", address, written("kubectl", `{"f:spec":{"f:ports":{},"f:internalTrafficPolicy":{}}}`, ""))},
		"a webhook is called there":             {service: service("a", address), rules: Rules{Callers: map[netip.Addr][]string{addrs(address)[0]: {"WebhookConfiguration x"}}}, want: "WebhookConfiguration x names 10.96.0.77"},
		"changes of Services wait for it": {service: service("a", address), rules: Rules{Awaited: map[types.NamespacedName][]string{{Namespace: "shop", Name: "a"}: {"WebhookConfiguration x"}}},
			want: "WebhookConfiguration x refuses changes", whenName: "WebhookConfiguration x refuses changes"},
		"DNS":                                       {service: service("dns", address, in("kube-system", 53)), want: "it serves DNS"},
		"port 53 elsewhere":                         {service: service("dns", address, in("shop", 53))},
		"something else of the system's":            {service: service("metrics", address, in("kube-system", 443))},
		"a subresource has fields of that name":     {service: service("a", address, written("x", `{"f:status":{"f:clusterIP":{}}}`, "status"))},
		"the address of its second family is named": {service: service("a", "fd00::1,"+address), rules: Rules{Callers: map[netip.Addr][]string{addrs(address)[0]: {"x"}}}, want: "x names 10.96.0.77"},
	} {
		t.Run(name, func(t *testing.T) {
			for _, named := range []bool{false, true} {
				in := inputs(t, "10.96.0.0/24", "10.200.0.0/24", tc.service)
				in.Rules, in.Rules.Named = tc.rules, sets.New[types.NamespacedName]()
				want := tc.want
				if named {
					in.Rules.Named.Insert(nameOf(&tc.service))
					want = tc.whenName
				}
				p := NewPlan(in)
				moved, leftOut := lines(p)
				switch {
				case want == "" && (len(moved) != 1 || len(leftOut) > 0), want != "" && (len(moved) > 0 || len(leftOut) != 1 || !strings.Contains(leftOut[0], want)):
					t.Errorf("asked for by name: %t; want %q, left out %q, moved %q", named, want, leftOut, moved)
				case want == "" && p.Services[0].Named != named:
					t.Error("the plan does not say who was asked for by name")
				}
			}
		})
	}
}

func TestNewPlanHasProblems(t *testing.T) {
	four := []corev1.Service{service("a", "10.96.0.77"), service("b", "10.96.0.78"), service("c", "10.96.0.79")}
	for name, tc := range map[string]struct {
		from, to  string
		services  []corev1.Service
		unready   bool
		want      string
		wantMoved int
	}{
		"none":         {from: "10.96.0.0/24", to: "10.200.0.0/24", services: four, wantMoved: 3},
		"overlap":      {from: "10.96.0.0/24", to: "10.96.0.0/22", services: four, want: "overlap"},
		"wrong family": {from: "10.96.0.0/24", to: "fd00:200::/120", services: four, want: "10.96.0.0/24 is IPv4, and none of the new ranges is"},
		"one of two families is missing": {
			from: "10.96.0.0/24,fd00:96::/120", to: "10.200.0.0/24", services: four, want: "fd00:96::/120 is IPv6, and none of the new ranges is",
		},
		"not ready": {from: "10.96.0.0/24", to: "10.200.0.0/24", services: four, unready: true, want: "is not ready"},
		"too small": {from: "10.96.0.0/24", to: "10.200.0.0/30", services: four, want: "no address left for 1 of the Services", wantMoved: 2},
	} {
		t.Run(name, func(t *testing.T) {
			in := inputs(t, tc.from, tc.to, tc.services...)
			in.To[0].Ready = !tc.unready
			p := NewPlan(in)
			problems := strings.Join(p.Problems, "\n")
			if tc.want == "" && problems != "" || !strings.Contains(problems, tc.want) {
				t.Errorf("problems %q, want %q", problems, tc.want)
			}
			if len(p.Services) != tc.wantMoved || len(p.LeftOut) != len(tc.services)-tc.wantMoved {
				t.Errorf("%d moved, %d left out", len(p.Services), len(p.LeftOut))
			}
			if err := p.Validate(); err != nil {
				t.Errorf("what run would say of this plan first: %v", err)
			}
		})
	}
}

// The oracle knows no spans and remembers no place: it looks at each address in order.
func TestDrawAgainstAnOracle(t *testing.T) {
	blocks := []string{"10.200.0.0/27", "10.201.0.0/28", "10.202.0.0/26", "10.203.0.16/29", "fd00:200::/123", "fd00:201::/125"}
	sources := []string{"10.96.0.0/26", "10.96.0.64/27", "fd00:96::/122"}
	for seed := range uint64(60) {
		random := rand.New(rand.NewPCG(seed, 1))
		from := ranges(t, sources[random.IntN(len(sources))])[0]
		in := inputs(t, from.String(), blocks[random.IntN(len(blocks))])
		for range random.IntN(3) {
			in.To = append(in.To, inputs(t, "10.0.0.0/24", blocks[random.IntN(len(blocks))]).To...)
		}
		d := drawer{from: in.From, to: in.To, taken: in.Taken}
		for step := range 150 {
			old := from.Span().First
			for range random.IntN(int(from.Size())) {
				old = old.Next()
			}
			want := oracle(old, from, in.To, d.taken)
			got := d.draw(old, from)
			if got != want {
				t.Fatalf("seed %d, step %d: %v of %v goes to %v, want %v (%v)", seed, step, old, from, got, want, in.To)
			}
			d.taken.Insert(got)
			if random.IntN(3) == 0 && want.IsValid() { // another Service takes one, too
				d.taken.Insert(want.Next())
			}
		}
	}
}

func oracle(old netip.Addr, from allocator.Range, to []Target, taken sets.Set[netip.Addr]) netip.Addr {
	nth := func(r allocator.Range, a netip.Addr) (n int) { // from the beginning of its range
		for x := r.Prefix().Addr(); x != a; x = x.Next() {
			n++
		}
		return n
	}
	band, _ := from.BandOf(old)
	all := map[allocator.Band][]netip.Addr{}
	for _, r := range to {
		if r.Prefix().Addr().Is4() != old.Is4() {
			continue
		}
		for a := r.Prefix().Addr(); r.Prefix().Contains(a); a = a.Next() {
			b, usable := r.BandOf(a)
			if !usable || taken.Has(a) {
				continue
			}
			all[b] = append(all[b], a)
			if b == band && nth(r.Range, a) == nth(from, old) {
				return a
			}
		}
	}
	for _, a := range slices.Concat(all[allocator.Dynamic], all[allocator.Static]) {
		return a
	}
	return netip.Addr{}
}

func TestValidate(t *testing.T) {
	good := func() Plan {
		return NewPlan(inputs(t, "10.96.0.0/24,fd00:96::/120", "10.200.0.0/24,fd00:200::/120", service("a", "10.96.0.77,fd00:96::77"), service("b", "10.96.0.78")))
	}
	for name, tc := range map[string]struct {
		change func(*Plan)
		want   string
	}{
		"as it was made":            {func(*Plan) {}, ""},
		"a line is taken out":       {func(p *Plan) { p.Services = p.Services[1:] }, ""},
		"nobody is moved":           {func(p *Plan) { p.Services = nil }, ""},
		"another way to keep":       {func(p *Plan) { p.Keep = "tight" }, `keep "tight" is none of agent, externalIPs, service, none`},
		"no name":                   {func(p *Plan) { p.Services[0].Name = "" }, "has no namespace, no name or no uid"},
		"no UID":                    {func(p *Plan) { p.Services[0].UID = "" }, "has no namespace, no name or no uid"},
		"default/kubernetes":        {func(p *Plan) { p.Services[0].Namespace, p.Services[0].Name = "default", "kubernetes" }, "has to be asked for by name"},
		"nothing to leave":          {func(p *Plan) { p.Services[1].Old, p.Services[1].New = nil, nil }, "give as many"},
		"fewer addresses":           {func(p *Plan) { p.Services[0].New = p.Services[0].New[:1] }, "give as many"},
		"families are exchanged":    {func(p *Plan) { slices.Reverse(p.Services[0].New) }, "of the same families"},
		"no address":                {func(p *Plan) { p.Services[1].New[0] = netip.Addr{} }, "give as many"},
		"three addresses":           {func(p *Plan) { i := &p.Services[0]; i.Old, i.New = append(i.Old, i.Old[0]), append(i.New, i.New[0]) }, "give as many"},
		"it stays where it is":      {func(p *Plan) { p.Services[1].New = p.Services[1].Old }, "the same addresses before and after"},
		"old and new exchanged":     {func(p *Plan) { p.Services[1] = p.Services[1].Back() }, "what it leaves must lie in [10.96.0.0/24"},
		"to where nobody decided":   {func(p *Plan) { p.Services[1].New = addrs("10.201.0.78") }, "what it gets in [10.200.0.0/24"},
		"from where nobody decided": {func(p *Plan) { p.Services[1].Old = addrs("10.97.0.78") }, "what it leaves must lie in [10.96.0.0/24"},
		"an IPv4-mapped address":    {func(p *Plan) { p.Services[0].New[1] = netip.MustParseAddr("::ffff:10.200.0.5") }, "what it gets in"},
		"twice":                     {func(p *Plan) { p.Services[0] = p.Services[1] }, "listed twice"},
		"two get the same address":  {func(p *Plan) { p.Services[1].New = p.Services[0].New[:1] }, "another one gets its address"},
	} {
		t.Run(name, func(t *testing.T) {
			p := good()
			tc.change(&p)
			err := p.Validate()
			if tc.want == "" && err != nil || tc.want != "" && (err == nil || !strings.Contains(err.Error(), tc.want)) {
				t.Errorf("%v, want %q", err, tc.want)
			}
		})
	}
}
