package inspect

import (
	"strings"
	"testing"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/clusterip-operator/clusterip-operator/api/v1alpha1"
	"github.com/clusterip-operator/clusterip-operator/plugin/cli"
	"github.com/clusterip-operator/clusterip-operator/plugin/internal/plugintest"
)

func counted(size, allocated int64, growth *int64) v1alpha1.BandUsage {
	return v1alpha1.BandUsage{Size: size, Allocated: allocated, Free: size - allocated, GrowthPerDay: growth}
}

func somePolicies() []v1alpha1.ServiceCIDRPolicy {
	p := v1alpha1.ServiceCIDRPolicy{ObjectMeta: metav1.ObjectMeta{Name: "team"}, Spec: v1alpha1.ServiceCIDRPolicySpec{Exclusive: true}}
	p.Status.Ranges = []v1alpha1.PolicyRange{{ServiceCIDR: "team", CIDR: "10.97.0.0/24"}}
	return []v1alpha1.ServiceCIDRPolicy{p}
}

func someRanges() []Range {
	blocked := plugintest.ServiceCIDR("old", "fd00:96::/64", metav1.Condition{Type: v1alpha1.ConditionDeletionBlocked, Status: metav1.ConditionTrue, Message: "one address"})
	cooling := counted(238, 200, new(int64(19)))
	cooling.Cooling, cooling.Free = 19, 19
	return []Range{
		NewRange(plugintest.ServiceCIDR("team", "10.97.0.0/24"), v1alpha1.RangeUsage{CIDR: "10.97.0.0/24", Static: counted(16, 16, nil), Dynamic: cooling}, somePolicies()),
		NewRange(blocked, v1alpha1.RangeUsage{CIDR: "fd00:96::/64", Static: counted(256, 1, nil), Dynamic: counted(1<<63-1, 1, nil)}, nil),
		NewRange(plugintest.ServiceCIDR("full", "10.98.0.0/28"), v1alpha1.RangeUsage{CIDR: "10.98.0.0/28", Dynamic: counted(14, 14, new(int64(0)))}, nil),
		NewRange(plugintest.ServiceCIDR("calm", "10.99.0.0/24"), v1alpha1.RangeUsage{CIDR: "10.99.0.0/24", Static: counted(16, 0, nil), Dynamic: counted(238, 3, new(int64(0)))}, nil),
	}
}

func TestRangesAsATable(t *testing.T) {
	for format, want := range map[string]string{
		"": `NAME   CIDR           SIZE   USED        FREE   RESERVED   COOLING   STATIC   FULL-IN     READY
team   10.97.0.0/24   254    216 (85%)   19     0          19        100%     2d          True
old    fd00:96::/64   2^63   2 (0%)      2^63   0          0         0%       <unknown>   Blocked
full   10.98.0.0/28   14     14 (100%)   0      0          0         <none>   full        True
calm   10.99.0.0/24   254    3 (1%)      251    0          0         0%       <none>      True
`,
		"name": "servicecidr.networking.k8s.io/calm\nservicecidr.networking.k8s.io/full\nservicecidr.networking.k8s.io/old\nservicecidr.networking.k8s.io/team\n",
	} {
		var b strings.Builder
		if err := (&cli.Output{Format: format}).Print(&b, listRanges(someRanges(), plugintest.Now)); err != nil || b.String() != want {
			t.Errorf("-o %q, error %v:\n%s\nwant\n%s", format, err, b.String(), want)
		}
	}
}

func TestWhatPoliciesDoWithARange(t *testing.T) {
	policies := somePolicies()
	cordoning, asked, plain := policies[0], policies[0], policies[0]
	cordoning.Name, cordoning.Spec.Allocation = "old", v1alpha1.AllocationCordoned
	asked.Name, asked.Spec = "asked", v1alpha1.ServiceCIDRPolicySpec{Allocation: v1alpha1.AllocationByRequest}
	plain.Name, plain.Spec = "plain", v1alpha1.ServiceCIDRPolicySpec{Allocation: v1alpha1.AllocationAutomatic}
	r := NewRange(plugintest.ServiceCIDR("team", "10.97.0.0/24"), v1alpha1.RangeUsage{CIDR: "10.97.0.0/24"}, append(policies, cordoning, asked, plain))
	if got, want := r.policies(), "team (exclusive),old (exclusive, cordoned),asked (by request),plain"; got != want {
		t.Errorf("got %s, want %s", got, want)
	}
}

// What why says of when a range is full are words, not the cells of a table.
func TestOutlook(t *testing.T) {
	few, one, many := int64(0), int64(1), int64(19)
	for name, tc := range map[string]struct {
		static, dynamic v1alpha1.BandUsage
		want            string
	}{
		"full":                         {counted(0, 0, nil), counted(14, 14, &few), "full"},
		"full, and nothing is known":   {counted(0, 0, nil), counted(14, 14, nil), "full"},
		"it grows":                     {counted(16, 16, nil), counted(238, 200, &many), "full in 2d"},
		"the static band alone grows":  {counted(16, 14, &one), counted(14, 14, nil), "full in 2d"},
		"nothing is known":             {counted(16, 0, nil), counted(238, 3, nil), "and it is not known how it grows"},
		"it does not grow":             {counted(16, 0, nil), counted(238, 3, &few), "and it does not grow"},
		"one band is known not to":     {counted(16, 0, &few), counted(238, 3, nil), "and it does not grow"},
		"of IPv6, nothing is known":    {counted(256, 1, nil), counted(1<<63-1, 1, nil), "and it is not known how it grows"},
		"of IPv6, further than a life": {counted(256, 1, nil), counted(1<<63-1, 1, &many), "full in 10y"},
	} {
		t.Run(name, func(t *testing.T) {
			r := NewRange(plugintest.ServiceCIDR("a", "10.97.0.0/24"), v1alpha1.RangeUsage{CIDR: "10.97.0.0/24", Static: tc.static, Dynamic: tc.dynamic}, nil)
			if got := r.outlook(); got != tc.want {
				t.Errorf("%q, want %q", got, tc.want)
			}
		})
	}
}

func TestRangesInAllFormats(t *testing.T) {
	for format, pieces := range map[string][]string{
		"wide": {"POLICIES", "IPv4     team (exclusive)   3d    <none>", "IPv6     <none>             3d    one address"},
		"json": {`"kind": "RangeList"`, `"serviceCIDR": "team"`, `"fullInSeconds": 172800`, `"exclusivePolicies": [`},
		"yaml": {"kind: RangeList", "blockedBy: one address"},
	} {
		var b strings.Builder
		if err := (&cli.Output{Format: format}).Print(&b, listRanges(someRanges(), plugintest.Now)); err != nil {
			t.Fatal(err)
		}
		for _, piece := range pieces {
			if !strings.Contains(b.String(), piece) {
				t.Errorf("-o %s lacks %q:\n%s", format, piece, b.String())
			}
		}
	}
}

// TestCountsOfOtherRangesAreNotBelieved: a user wrote the annotation, or the ranges are newer.
func TestCountsOfOtherRangesAreNotBelieved(t *testing.T) {
	for text, want := range map[string]bool{
		"": false, "{": false, `{"ranges":[]}`: false, `{"ranges":[{"cidr":"10.98.0.0/24"}]}`: false, `{"ranges":[{"cidr":"10.97.0.0/24"}]}`: true,
	} {
		o := plugintest.ServiceCIDR("team", "10.97.0.9/24")
		o.Annotations = map[string]string{v1alpha1.AnnotationUsage: text}
		if _, told := ToldUsage(o); told != want {
			t.Errorf("%q is believed: %t, want %t", text, told, want)
		}
	}
}
