package growth

import (
	"encoding/json"
	"fmt"
	"net/netip"
	"slices"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	networkingv1 "k8s.io/api/networking/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	clocktesting "k8s.io/utils/clock/testing"

	"github.com/clusterip-operator/clusterip-operator/allocator"
	"github.com/clusterip-operator/clusterip-operator/api/v1alpha1"
	"github.com/clusterip-operator/clusterip-operator/internal/addressindex"
	"github.com/clusterip-operator/clusterip-operator/internal/loop"
	"github.com/clusterip-operator/clusterip-operator/internal/steering"
)

var now = time.Date(2026, 1, 1, 12, 0, 0, 0, time.UTC)

// blue is a policy with growth on the ServiceCIDRs with the label pool=blue; its UID is its name.
func blue(name string, priority int32, exclusive bool) *v1alpha1.ServiceCIDRPolicy {
	return &v1alpha1.ServiceCIDRPolicy{
		ObjectMeta: metav1.ObjectMeta{Name: name, UID: types.UID(name), Generation: 3},
		Spec: v1alpha1.ServiceCIDRPolicySpec{
			Priority: priority, Exclusive: exclusive, Growth: &v1alpha1.Growth{},
			ServiceCIDRSelector: &metav1.LabelSelector{MatchLabels: map[string]string{"pool": "blue"}},
		},
	}
}

// Another policy that keeps a range from draws leaves nothing there that the policy could count on.
func TestEnterCountsNothingThatIsWithheld(t *testing.T) {
	const automatic, byRequest, cordoned = v1alpha1.AllocationAutomatic, v1alpha1.AllocationByRequest, v1alpha1.AllocationCordoned
	for name, tc := range map[string]struct {
		own, other v1alpha1.Allocation
		want       uint64
		withheld   string
	}{
		"no policy keeps it":                      {automatic, automatic, 238, ""},
		"another one cordons it":                  {automatic, cordoned, 0, "other"},
		"another one gives by request":            {automatic, byRequest, 0, "other"},
		"by request, which it does not draw from": {byRequest, automatic, 238, ""},
		"by request, and another one cordons it":  {byRequest, cordoned, 0, "other"},
	} {
		t.Run(name, func(t *testing.T) {
			cidr, it, other := grownForIt("10.128.0.0/24", "fd00:128::/120"), blue("it", 1, false), blue("other", 0, false)
			it.Spec.Allocation, other.Spec.Allocation = tc.own, tc.other
			s := steering.Compile(steering.Inputs{
				Policies: []*v1alpha1.ServiceCIDRPolicy{it, other}, ServiceCIDRs: []addressindex.ServiceCIDR{addressindex.NewServiceCIDR(cidr)},
			})
			var in inputs
			newReconciler().enter(&in, cidr, it, s)
			for i, c := range in.created {
				if c.withheld != tc.withheld || c.lost {
					t.Errorf("created: %+v", c)
				}
				if free := in.ranges[i].usage.Free; free != tc.want && free != tc.want+1 { // IPv6 has no broadcast address
					t.Errorf("%s: %d free, want %d", in.ranges[i].prefix, free, tc.want)
				}
			}
		})
	}
}

// grownForIt is a labelled ServiceCIDR created for the policy two days ago, and unused for hours.
func grownForIt(cidrs ...string) *networkingv1.ServiceCIDR {
	unused := v1alpha1.BandUsage{Size: 14, Free: 14, GrowthPerDay: new(int64)}
	var usage v1alpha1.ServiceCIDRUsage
	for _, cidr := range cidrs {
		usage.Ranges = append(usage.Ranges, v1alpha1.RangeUsage{CIDR: cidr, Static: unused, Dynamic: unused})
	}
	return annotated(&networkingv1.ServiceCIDR{
		ObjectMeta: metav1.ObjectMeta{
			Name: "it", CreationTimestamp: metav1.NewTime(now.Add(-48 * time.Hour)), Labels: map[string]string{"pool": "blue"},
			Annotations: map[string]string{v1alpha1.AnnotationCreatedFor: "it"},
		},
		Spec: networkingv1.ServiceCIDRSpec{CIDRs: cidrs},
	}, usage)
}

func annotated(cidr *networkingv1.ServiceCIDR, usage v1alpha1.ServiceCIDRUsage) *networkingv1.ServiceCIDR {
	text, err := json.Marshal(usage)
	if err != nil {
		panic(err)
	}
	cidr.Annotations[v1alpha1.AnnotationUsage] = string(text)
	return cidr
}

func newReconciler() *Reconciler {
	return &Reconciler{Cluster: loop.Cluster{Index: addressindex.New(), Clock: clocktesting.NewFakePassiveClock(now)}}
}

// entered is what a ServiceCIDR means to policy "it", compiled with other policies and ranges.
func entered(cidr *networkingv1.ServiceCIDR, compiled steering.Inputs) inputs {
	o := blue("it", 0, false)
	compiled.Policies = append(compiled.Policies, o)
	r := newReconciler()
	in := inputs{supernets: []supernet{{netip.MustParsePrefix("10.128.0.0/16"), 24}, {netip.MustParsePrefix("fd00:10:128::/96"), 112}}}
	r.enter(&in, cidr, o, steering.Compile(compiled))
	return in
}

func TestEnterCountsWhatThePolicyMayDrawFrom(t *testing.T) {
	unlabelled := grownForIt("10.128.0.0/24")
	unlabelled.Labels = nil
	inner := &networkingv1.ServiceCIDR{
		ObjectMeta: metav1.ObjectMeta{Name: "inner", Labels: map[string]string{"pool": "blue"}}, Spec: networkingv1.ServiceCIDRSpec{CIDRs: []string{"10.128.0.128/25"}},
	}
	red := blue("red", 1, true)
	red.Spec.ServiceCIDRSelector, red.Spec.ServiceCIDRs = nil, []string{"inner"}
	lesser := red.DeepCopy()
	lesser.Spec.Priority = -1
	of := func(cidrs ...*networkingv1.ServiceCIDR) (out []addressindex.ServiceCIDR) {
		for _, c := range cidrs {
			out = append(out, addressindex.NewServiceCIDR(c))
		}
		return out
	}
	both := of(grownForIt("10.128.0.0/24"), inner)
	for name, tc := range map[string]struct {
		compiled steering.Inputs
		want     uint64
		lost     bool
	}{
		"its own":                       {steering.Inputs{ServiceCIDRs: of(grownForIt("10.128.0.0/24"))}, 238, false},
		"younger than what is compiled": {steering.Inputs{}, 238, false},
		"labelled since":                {steering.Inputs{ServiceCIDRs: of(unlabelled)}, 238, false},
		"without the part that a better policy has for itself": {steering.Inputs{ServiceCIDRs: both, Policies: []*v1alpha1.ServiceCIDRPolicy{red}}, 238 - 127, false},
		"with the part that a lesser policy has":               {steering.Inputs{ServiceCIDRs: both, Policies: []*v1alpha1.ServiceCIDRPolicy{lesser}}, 238, false},
		"with what another one shares":                         {steering.Inputs{ServiceCIDRs: both, Policies: []*v1alpha1.ServiceCIDRPolicy{blue("other", 1, false)}}, 238, false},
		"lost to a better policy":                              {steering.Inputs{ServiceCIDRs: both, Policies: []*v1alpha1.ServiceCIDRPolicy{blue("other", 1, true)}}, 0, true},
	} {
		t.Run(name, func(t *testing.T) {
			in := entered(grownForIt("10.128.0.0/24"), tc.compiled)
			idle := "it"
			if tc.lost {
				idle = ""
			}
			in.supernets = nil
			want := inputs{
				ranges:    []rangeUse{{prefix: netip.MustParsePrefix("10.128.0.0/24"), usage: allocator.Usage{Size: tc.want, Free: tc.want}, idle: idle}},
				created:   []created{{name: "it", prefix: netip.MustParsePrefix("10.128.0.0/24"), ready: true, lost: tc.lost}},
				obstacles: networks("ServiceCIDR it", "10.128.0.0/24"),
			}
			if diff := cmp.Diff(want, in, cmp.AllowUnexported(inputs{}, rangeUse{}, created{}), cmp.Comparer(func(a, b netip.Prefix) bool { return a == b })); diff != "" {
				t.Errorf("(-want +got):\n%s", diff)
			}
		})
	}
}

// A ServiceCIDR of another policy matters as an obstacle, and only where blocks are cut from.
func TestEnterForgetsWhatIsNoneOfThePolicy(t *testing.T) {
	other := grownForIt("10.128.7.0/24", "10.129.0.0/24", "fd00:10:128::7:0/112", "fd00:10:129::/112")
	other.Name, other.Labels, other.Annotations[v1alpha1.AnnotationCreatedFor] = "other", nil, "red"
	in := entered(other, steering.Inputs{})
	if want := networks(`ServiceCIDR other, created for ServiceCIDRPolicy "red",`, "10.128.7.0/24", "fd00:10:128::7:0/112"); !slices.Equal(in.obstacles, want) {
		t.Errorf("obstacles %v, want %v", in.obstacles, want)
	}
	if len(in.ranges)+len(in.created) > 0 {
		t.Errorf("the policy has ranges %v, created %v", in.ranges, in.created)
	}
}

func TestConcern(t *testing.T) {
	in := inputs{supernets: []supernet{{netip.MustParsePrefix("10.128.0.0/16"), 24}, {netip.MustParsePrefix("fd00:10:128::/96"), 112}}}
	for name, tc := range map[string]struct {
		label, creator string
		cidrs          []string
		want           bool
	}{
		"its own label":            {"blue", "", []string{"10.7.0.0/24"}, true},
		"created for it, long ago": {"", "it", []string{"fd00:7::/112"}, true},
		"in a supernet":            {"red", "other", []string{"10.7.0.0/24", "fd00:10:128::7:0/112"}, true},
		"around a supernet":        {"", "", []string{"10.0.0.0/8"}, true},
		"elsewhere":                {"red", "other", []string{"10.7.0.0/24", "fd00:7::/112"}, false},
		"no prefix":                {"", "", []string{"10.128.0.0"}, false},
	} {
		t.Run(name, func(t *testing.T) {
			cidr := grownForIt(tc.cidrs...)
			cidr.Labels["pool"], cidr.Annotations[v1alpha1.AnnotationCreatedFor] = tc.label, tc.creator
			if got := in.concern(addressindex.NewServiceCIDR(cidr), blue("it", 0, false)); got != tc.want {
				t.Errorf("%v, want %v", got, tc.want)
			}
		})
	}
}

// BenchmarkEnter is what one look at a policy costs among a thousand ServiceCIDRs, ten of its own.
func BenchmarkEnter(b *testing.B) {
	o := blue("it", 0, false)
	var cidrs []*networkingv1.ServiceCIDR
	var compiled steering.Inputs
	compiled.Policies = append(compiled.Policies, o)
	for i := range 1000 {
		c := grownForIt(fmt.Sprintf("10.%d.%d.0/24", i>>8, i&255), fmt.Sprintf("fd00:10:%x::/112", i))
		c.Name = fmt.Sprint("c-", i)
		if i >= 10 {
			c.Labels = nil
			c.Annotations[v1alpha1.AnnotationCreatedFor] = "other"
		}
		cidrs, compiled.ServiceCIDRs = append(cidrs, c), append(compiled.ServiceCIDRs, addressindex.NewServiceCIDR(c))
	}
	r, s := newReconciler(), steering.Compile(compiled)
	for b.Loop() {
		in := inputs{supernets: []supernet{{netip.MustParsePrefix("10.0.0.0/18"), 24}}}
		for _, c := range cidrs {
			if in.concern(addressindex.NewServiceCIDR(c), o) {
				r.enter(&in, c, o, s)
			}
		}
		decide(in)
		if len(in.ranges) != 20 {
			b.Fatal(len(in.ranges))
		}
	}
}

func TestEnterKnowsIdleRanges(t *testing.T) {
	used := func(change func(*v1alpha1.RangeUsage)) func(*networkingv1.ServiceCIDR) {
		return func(c *networkingv1.ServiceCIDR) {
			usage := usageOf(c)
			change(&usage.Ranges[0])
			annotated(c, usage)
		}
	}
	for name, tc := range map[string]struct {
		change func(*networkingv1.ServiceCIDR)
		want   bool
	}{
		"unused for long":     {func(*networkingv1.ServiceCIDR) {}, true},
		"somebody else's":     {func(c *networkingv1.ServiceCIDR) { c.Annotations[v1alpha1.AnnotationCreatedFor] = "other" }, false},
		"an admin's":          {func(c *networkingv1.ServiceCIDR) { delete(c.Annotations, v1alpha1.AnnotationCreatedFor) }, false},
		"created today":       {func(c *networkingv1.ServiceCIDR) { c.CreationTimestamp = metav1.NewTime(now.Add(-24 * time.Hour)) }, false},
		"not counted yet":     {func(c *networkingv1.ServiceCIDR) { delete(c.Annotations, v1alpha1.AnnotationUsage) }, false},
		"counted by a friend": {func(c *networkingv1.ServiceCIDR) { c.Annotations[v1alpha1.AnnotationUsage] = `{"ranges": 7}` }, false},
		"one address is used": {used(func(u *v1alpha1.RangeUsage) { u.Dynamic.Allocated = 1 }), false},
		"a static one":        {used(func(u *v1alpha1.RangeUsage) { u.Static.Allocated = 1 }), false},
		"one is kept":         {used(func(u *v1alpha1.RangeUsage) { u.Dynamic.Reserved = 1 }), false},
		"one cools down":      {used(func(u *v1alpha1.RangeUsage) { u.Dynamic.Cooling = 1 }), false},
		"used some hours ago": {used(func(u *v1alpha1.RangeUsage) { u.Dynamic.GrowthPerDay = new(int64(-3)) }), false},
		"not known whether":   {used(func(u *v1alpha1.RangeUsage) { u.Dynamic.GrowthPerDay = nil }), false},
	} {
		t.Run(name, func(t *testing.T) {
			cidr := grownForIt("fd00:10:128::/112")
			tc.change(cidr)
			in := entered(cidr, steering.Inputs{})
			if got := slices.ContainsFunc(in.ranges, func(r rangeUse) bool { return r.idle != "" }); got != tc.want {
				t.Errorf("idle %v, want %v", got, tc.want)
			}
		})
	}
}
