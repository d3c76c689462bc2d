package admission

import (
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/clusterip-operator/clusterip-operator/allocator"
	"github.com/clusterip-operator/clusterip-operator/api/v1alpha1"
	"github.com/clusterip-operator/clusterip-operator/internal/addressindex"
	"github.com/clusterip-operator/clusterip-operator/internal/steering"
)

// policyOption changes a policy of a test.
type policyOption func(*v1alpha1.ServiceCIDRPolicy)

func policy(name string, options ...policyOption) *v1alpha1.ServiceCIDRPolicy {
	p := &v1alpha1.ServiceCIDRPolicy{ObjectMeta: metav1.ObjectMeta{Name: name, CreationTimestamp: metav1.Unix(1, 0)}}
	for _, o := range options {
		o(p)
	}
	return p
}

func from(cidrs ...string) policyOption {
	return func(p *v1alpha1.ServiceCIDRPolicy) { p.Spec.ServiceCIDRs = cidrs }
}

func exclusively(p *v1alpha1.ServiceCIDRPolicy) { p.Spec.Exclusive = true }

func first(p *v1alpha1.ServiceCIDRPolicy) { p.Spec.Priority = 100 }

func reserves(name, address string) policyOption {
	return func(p *v1alpha1.ServiceCIDRPolicy) {
		p.Spec.Reservations = append(p.Spec.Reservations, v1alpha1.Reservation{Name: name, Address: address})
	}
}

// ranges are blue, red and going, which is being deleted; all of both families.
func ranges(t *testing.T) []addressindex.ServiceCIDR {
	t.Helper()
	var out []addressindex.ServiceCIDR
	for name, cidrs := range map[string][]string{
		"blue": {"10.1.0.0/24", "fd01::/112"}, "red": {"10.2.0.0/24", "fd02::/112"}, "going": {"10.3.0.0/24", "fd03::/112"},
	} {
		c := addressindex.ServiceCIDR{Name: name, Ready: true, Terminating: name == "going"}
		for _, text := range cidrs {
			c.Ranges = append(c.Ranges, allocator.MustParseRange(text))
		}
		out = append(out, c)
	}
	return out
}

func TestOverlappingReservations(t *testing.T) {
	theirs := policy("theirs", reserves("dns", "10.1.0.10"), reserves("vips", "10.1.0.32/28"), reserves("six", "fd01::a-fd01::f"))
	for name, tc := range map[string]struct {
		before, now *v1alpha1.ServiceCIDRPolicy
		want        []string
	}{
		"beside each other": {now: policy("mine", reserves("a", "10.1.0.11"), reserves("b", "10.1.0.16/28"), reserves("c", "fd01::10/124"))},
		"the same address": {now: policy("mine", reserves("a", "10.1.0.10")),
			want: []string{`reservations[a]: ServiceCIDRPolicy "theirs" has reserved 10.1.0.10 already, by its reservation "dns"`}},
		"a run over two of theirs, each said once": {now: policy("mine", reserves("a", "10.1.0.5-10.1.0.50")), want: []string{
			`reservations[a]: ServiceCIDRPolicy "theirs" has reserved 10.1.0.10 already, by its reservation "dns"`,
			`reservations[a]: ServiceCIDRPolicy "theirs" has reserved 10.1.0.32 already, by its reservation "vips"`}},
		"IPv6": {now: policy("mine", reserves("a", "fd01::/120")),
			want: []string{`reservations[a]: ServiceCIDRPolicy "theirs" has reserved fd01::a already, by its reservation "six"`}},
		"their own are no theft": {before: policy("theirs"), now: policy("theirs", reserves("other", "10.1.0.10"))},
		"what was there before stays": {before: policy("mine", reserves("a", "10.1.0.10")),
			now: policy("mine", first, reserves("renamed", "10.1.0.10"))},
		"the last addresses of a family": {now: policy("mine", reserves("a", "255.255.255.0-255.255.255.255"),
			reserves("b", "ffff:ffff:ffff:ffff:ffff:ffff:ffff:fff0/124"))},
		"nonsense is another's business": {now: policy("mine", reserves("a", "bla"))},
	} {
		t.Run(name, func(t *testing.T) {
			s := steering.Compile(steering.Inputs{Policies: []*v1alpha1.ServiceCIDRPolicy{theirs}, ServiceCIDRs: ranges(t)})
			reservations, _ := steering.Validate(tc.now)
			if diff := cmp.Diff(tc.want, overlappingReservations(tc.before, tc.now, reservations, s)); diff != "" {
				t.Errorf("(-want +got):\n%s", diff)
			}
		})
	}
}

func TestProspects(t *testing.T) {
	for name, tc := range map[string]struct {
		others []*v1alpha1.ServiceCIDRPolicy
		now    *v1alpha1.ServiceCIDRPolicy
		want   []string
	}{
		"all is there":         {now: policy("mine", from("blue", "red"))},
		"one is missing":       {now: policy("mine", from("blue", "gone")), want: []string{"ServiceCIDR gone does not exist; the policy has its ranges when it does"}},
		"one is being deleted": {now: policy("mine", from("going")), want: []string{"ServiceCIDR going is being deleted; the policy gets no addresses from it"}},
		"another one keeps out": {others: []*v1alpha1.ServiceCIDRPolicy{policy("theirs", from("blue"), exclusively, first)}, now: policy("mine", from("blue", "red")), want: []string{
			`ServiceCIDR blue (10.1.0.0/24): ServiceCIDRPolicy "theirs" has 10.1.0.0/24 for itself, and outranks this one`,
			`ServiceCIDR blue (fd01::/112): ServiceCIDRPolicy "theirs" has fd01::/112 for itself, and outranks this one`}},
		"it keeps another one out": {others: []*v1alpha1.ServiceCIDRPolicy{policy("theirs", from("blue"))}, now: policy("mine", from("blue"), exclusively, first), want: []string{
			`ServiceCIDRPolicy theirs: ServiceCIDR blue (10.1.0.0/24): ServiceCIDRPolicy "mine" has 10.1.0.0/24 for itself, and outranks this one`,
			`ServiceCIDRPolicy theirs: ServiceCIDR blue (fd01::/112): ServiceCIDRPolicy "mine" has fd01::/112 for itself, and outranks this one`}},
		"what others quarrel about is not said": {others: []*v1alpha1.ServiceCIDRPolicy{policy("a", from("blue"), exclusively), policy("b", from("blue"))}, now: policy("mine", from("red"))},
	} {
		t.Run(name, func(t *testing.T) {
			before := steering.Compile(steering.Inputs{Policies: tc.others, ServiceCIDRs: ranges(t)})
			if diff := cmp.Diff(tc.want, prospects("mine", before, before.With(tc.now))); diff != "" {
				t.Errorf("(-want +got):\n%s", diff)
			}
		})
	}
}

// forNamespaces and forServices select something, forAll nothing less than everything.
func forNamespaces(p *v1alpha1.ServiceCIDRPolicy) {
	p.Spec.NamespaceSelector = &metav1.LabelSelector{MatchLabels: map[string]string{"a": "b"}}
}

func forServices(p *v1alpha1.ServiceCIDRPolicy) {
	p.Spec.ServiceSelector = &metav1.LabelSelector{MatchLabels: map[string]string{"a": "b"}}
}

func forAll(p *v1alpha1.ServiceCIDRPolicy) {
	p.Spec.NamespaceSelector, p.Spec.ServiceSelector = &metav1.LabelSelector{}, &metav1.LabelSelector{}
}

func orFail(p *v1alpha1.ServiceCIDRPolicy) { p.Spec.OnFull = v1alpha1.OnFullFail }

func TestCareless(t *testing.T) {
	const failing, labels = "onFull: Fail without", "exclusive without namespaceSelector"
	for name, tc := range map[string]struct {
		now  *v1alpha1.ServiceCIDRPolicy
		want []string // how each warning begins
	}{
		"a tenant's":                            {now: policy("p", from("blue"), forNamespaces, exclusively, orFail)},
		"refuses everybody":                     {now: policy("p", from("blue"), orFail), want: []string{failing}},
		"refuses everybody, in other words":     {now: policy("p", from("blue"), orFail, forAll), want: []string{failing}},
		"refuses some Services":                 {now: policy("p", from("blue"), orFail, forServices)},
		"has no ranges, and so refuses nobody":  {now: policy("p", orFail)},
		"keeps out those without a label":       {now: policy("p", from("blue"), exclusively, forServices), want: []string{labels}},
		"keeps them out, and other namespaces":  {now: policy("p", from("blue"), exclusively, forServices, forNamespaces)},
		"keeps nobody out":                      {now: policy("p", from("blue"), exclusively, forAll)},
		"is for some Services, and is generous": {now: policy("p", from("blue"), forServices)},
	} {
		t.Run(name, func(t *testing.T) {
			expectBeginnings(t, careless(tc.now.Spec), tc.want)
		})
	}
}

func expectBeginnings(t *testing.T, got, want []string) {
	t.Helper()
	ok := slices.EqualFunc(got, want, strings.HasPrefix)
	if !ok {
		t.Errorf("got %q, want what begins with %q", got, want)
	}
}

func TestClosing(t *testing.T) {
	const last4, last6, usual4 = "exclusive closes the last open IPv4 range", "exclusive closes the last open IPv6 range",
		"exclusive closes the default ServiceCIDR kubernetes: Services that the policy does not select, those of kube-system included, get no IPv4"
	usual6 := strings.TrimSuffix(usual4, "4") + "6"
	defaults := func(cidrs ...string) addressindex.ServiceCIDR {
		c := addressindex.ServiceCIDR{Name: v1alpha1.DefaultServiceCIDR, Ready: true}
		for _, text := range cidrs {
			c.Ranges = append(c.Ranges, allocator.MustParseRange(text))
		}
		return c
	}
	both := defaults("10.96.0.0/24", "fd96::/112")
	theirs := policy("theirs", from("blue", "red"), exclusively, forNamespaces)
	for name, tc := range map[string]struct {
		others []*v1alpha1.ServiceCIDRPolicy
		cidrs  []addressindex.ServiceCIDR
		now    *v1alpha1.ServiceCIDRPolicy
		want   []string
	}{
		"others are open":                 {cidrs: append(ranges(t), both), now: policy("mine", from("blue"), exclusively, forNamespaces)},
		"the default one":                 {cidrs: append(ranges(t), both), now: policy("mine", from("kubernetes"), exclusively, forNamespaces), want: []string{usual4, usual6}},
		"the default one, not for itself": {cidrs: []addressindex.ServiceCIDR{both}, now: policy("mine", from("kubernetes"), forNamespaces)},
		"the default one, for everybody":  {cidrs: []addressindex.ServiceCIDR{both}, now: policy("mine", from("kubernetes"), exclusively, forAll)},
		"the last":                        {cidrs: []addressindex.ServiceCIDR{both}, now: policy("mine", from("kubernetes"), exclusively, forServices), want: []string{last4, last6}},
		"the last of one family": {cidrs: append(ranges(t), defaults("fd96::/112")), now: policy("mine", from("blue", "red"), exclusively, forNamespaces),
			want: []string{last4}},
		"the last, the others are theirs": {others: []*v1alpha1.ServiceCIDRPolicy{theirs}, cidrs: append(ranges(t), both),
			now: policy("mine", from("kubernetes"), exclusively, forNamespaces), want: []string{last4, last6}},
		"one that others have": {others: []*v1alpha1.ServiceCIDRPolicy{theirs}, cidrs: ranges(t),
			now: policy("mine", from("blue"), exclusively, forNamespaces, func(p *v1alpha1.ServiceCIDRPolicy) { p.Spec.Priority = -1 })},
		"a part of the last of one family": {cidrs: append(ranges(t), defaults("10.1.0.0/16")),
			now: policy("mine", from("blue", "red"), exclusively, forNamespaces), want: []string{last6}},
	} {
		t.Run(name, func(t *testing.T) {
			before := steering.Compile(steering.Inputs{Policies: tc.others, ServiceCIDRs: tc.cidrs})
			expectBeginnings(t, closing(tc.now, before.With(tc.now)), tc.want)
		})
	}
}

func TestWithholding(t *testing.T) {
	const last4, last6 = "allocation: Cordoned closes the last open IPv4 range", "allocation: Cordoned closes the last open IPv6 range"
	as := func(a v1alpha1.Allocation) policyOption {
		return func(p *v1alpha1.ServiceCIDRPolicy) { p.Spec.Allocation = a }
	}
	cordoned := as(v1alpha1.AllocationCordoned)
	theirs := []*v1alpha1.ServiceCIDRPolicy{policy("theirs", from("blue"), as(v1alpha1.AllocationByRequest))}
	for name, tc := range map[string]struct {
		others []*v1alpha1.ServiceCIDRPolicy
		now    *v1alpha1.ServiceCIDRPolicy
		want   []string
	}{
		"another one is open":         {now: policy("mine", from("blue"), cordoned)},
		"all":                         {now: policy("mine", from("blue", "red"), cordoned), want: []string{last4, last6}},
		"the rest is by request only": {others: theirs, now: policy("mine", from("red"), cordoned), want: []string{last4, last6}},
		"it keeps none from draws":    {others: theirs, now: policy("mine", from("red"), as(v1alpha1.AllocationAutomatic))},
		"of no range":                 {now: policy("mine", from("gone"), cordoned)},
	} {
		t.Run(name, func(t *testing.T) {
			before := steering.Compile(steering.Inputs{Policies: tc.others, ServiceCIDRs: ranges(t)})
			expectBeginnings(t, withholding(tc.now, before.With(tc.now)), tc.want)
		})
	}
}
