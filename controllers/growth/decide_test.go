package growth

import (
	"fmt"
	"net/netip"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/clusterip-operator/clusterip-operator/allocator"
	"github.com/clusterip-operator/clusterip-operator/api/v1alpha1"
)

// use is a range of which some addresses of the dynamic band are free.
func use(prefix string, free uint64, perDay ...int64) rangeUse {
	r := allocator.MustParseRange(prefix)
	out := rangeUse{prefix: r.Prefix(), usage: allocator.Usage{Size: r.Band(allocator.Dynamic).Size(), Free: free}}
	for _, n := range perDay {
		out.perDay = n
	}
	return out
}

// grown is a ServiceCIDR that was created for the policy, and is ready.
func grown(prefix string) created {
	p := netip.MustParsePrefix(prefix)
	return created{name: nameOf(p), prefix: p, ready: true}
}

// given is a policy with 10.96.0.0/24 (238 dynamic addresses) that grows by /24 in 10.128.0.0/22.
func given(change func(*inputs)) inputs {
	in := inputs{
		generation: 3, percent: 20, maxRanges: 8, families: allocator.Families,
		supernets: []supernet{{netip.MustParsePrefix("10.128.0.0/22"), 24}},
		ranges:    []rangeUse{use("10.96.0.0/24", 238)},
		obstacles: networks("ServiceCIDR kubernetes", "10.96.0.0/24"),
	}
	change(&in)
	return in
}

// full has the range of the policy used up.
func full(in *inputs) { in.ranges = []rangeUse{use("10.96.0.0/24", 0)} }

func six(in *inputs) {
	in.supernets = append(in.supernets, supernet{netip.MustParsePrefix("fd00:10:128::/64"), 112})
	in.ranges = append(in.ranges, use("fd00:10:96::/112", 0))
}

func TestDecide(t *testing.T) {
	const growing, exhausted = v1alpha1.PolicyGrowing, v1alpha1.PolicyGrowthExhausted
	for name, tc := range map[string]struct {
		in   inputs
		want []string // what is created
		// says are type, status and reason of a condition, and words of its message.
		says []string
	}{
		"enough is free: the next range is told beforehand": {
			given(func(in *inputs) {}), nil, []string{growing + " False EnoughFree", "grown-10-128-0-0-24 (10.128.0.0/24)"},
		},
		"one address more than the share is free": {given(func(in *inputs) { in.ranges = []rangeUse{use("10.96.0.0/24", 48)} }), nil, nil},
		"the share is free": {
			given(func(in *inputs) { in.ranges = []rangeUse{use("10.96.0.0/24", 47)} }), []string{"10.128.0.0/24"},
			[]string{growing + " True Creating", "grown-10-128-0-0-24", "no more than 20 % of the IPv4 addresses"},
		},
		"the share is that of all ranges": {
			given(func(in *inputs) { in.ranges = []rangeUse{use("10.96.0.0/24", 0), use("10.97.0.0/24", 100)} }), nil, nil,
		},
		"a large range and small blocks do not grow while a block's worth is free": {
			given(func(in *inputs) { in.ranges = []rangeUse{use("10.96.0.0/12", 238)} }), nil, nil,
		},
		"a large range and small blocks grow behind that": {
			given(func(in *inputs) { in.ranges = []rangeUse{use("10.96.0.0/12", 237)} }), []string{"10.128.0.0/24"}, nil,
		},
		"a range that is not ready counts, so that one need makes one range": {
			given(func(in *inputs) {
				in.ranges = []rangeUse{use("10.96.0.0/24", 0), use("10.128.0.0/24", 238)}
				in.created = []created{{name: "grown-10-128-0-0-24", prefix: netip.MustParsePrefix("10.128.0.0/24")}}
				in.obstacles = append(in.obstacles, networks("ServiceCIDR grown-10-128-0-0-24", "10.128.0.0/24")...)
			}), nil, []string{growing + " True ServiceCIDRNotReady", "grown-10-128-0-0-24, which is not ready yet"},
		},
		"ranges that overlap are counted once": {
			given(func(in *inputs) { in.ranges = []rangeUse{use("10.96.0.0/25", 45), use("10.96.0.0/24", 45)} }), []string{"10.128.0.0/24"}, nil,
		},
		"a policy without a range gets its first": {
			given(func(in *inputs) { in.ranges = nil }), []string{"10.128.0.0/24"}, []string{growing + " True Creating", "the policy has no IPv4 range"},
		},
		"both families at once": {given(func(in *inputs) { full(in); six(in) }), []string{"10.128.0.0/24", "fd00:10:128::/112"}, nil},
		"IPv6 alone":            {given(six), []string{"fd00:10:128::/112"}, nil},
		"IPv6 ranges as large as they get": {
			given(func(in *inputs) {
				in.supernets = []supernet{{netip.MustParsePrefix("fd00:10:128::/48"), 64}}
				in.ranges = []rangeUse{use("fd00::/64", 1<<61), use("fd00:0:0:1::/64", 1<<61)}
			}), []string{"fd00:10:128::/64"}, nil,
		},
		"a family that the cluster has not": {
			given(func(in *inputs) { six(in); in.families = []allocator.Family{allocator.IPv4} }), nil, []string{exhausted + " True FamilyNotServed", "no IPv6 Services"},
		},
		"past what is in the way, inside and around": {
			given(func(in *inputs) {
				full(in)
				in.obstacles = networks("node worker-1", "10.128.0.7/32", "10.128.1.0/25")
				in.obstacles = append(in.obstacles, networks("growth.reservedNetworks", "10.128.2.0/24")...)
			}), []string{"10.128.3.0/24"}, nil,
		},
		"the second supernet when the first is used up": {
			given(func(in *inputs) {
				full(in)
				in.supernets = append(in.supernets, supernet{netip.MustParsePrefix("10.200.0.0/16"), 20})
				in.obstacles = networks("network corporate", "10.128.0.0/16")
			}), []string{"10.200.0.0/20"}, nil,
		},
		"how much a block brings is that of the next one": {
			given(func(in *inputs) {
				in.supernets = append(in.supernets, supernet{netip.MustParsePrefix("10.200.0.0/16"), 28})
				in.ranges = []rangeUse{use("10.96.0.0/20", 14)}
				in.obstacles = networks("network corporate", "10.128.0.0/16")
			}), nil, []string{growing + " False EnoughFree", "10.200.0.0/28"},
		},
		"a supernet that is used up is told beforehand": {
			given(func(in *inputs) {
				in.obstacles = networks(`ServiceCIDR grown-10-128-0-0-23, created for ServiceCIDRPolicy "other",`, "10.128.0.0/23")
				in.obstacles = append(in.obstacles, networks("node worker-1", "10.128.2.1/32", "10.128.3.1/32")...)
			}), nil, []string{exhausted + " True NoBlockLeft", `created for ServiceCIDRPolicy "other", has 10.128.0.0/23, node worker-1 has`, "Add a supernet"},
		},
		"a range that is needed and cannot be had": {
			given(func(in *inputs) { full(in); in.obstacles = networks("network corporate", "10.0.0.0/8") }), nil,
			[]string{growing + " False NoBlockLeft", "no more than 20 % of the IPv4 addresses", "network corporate has 10.0.0.0/8"},
		},
		"as many ranges as are allowed": {
			given(func(in *inputs) { full(in); in.maxRanges, in.created = 1, []created{grown("10.128.0.0/24")} }), nil,
			[]string{exhausted + " True MaxRangesReached", "1 IPv4 ranges were created", "raise it"},
		},
		"each family has its own number": {
			given(func(in *inputs) { six(in); in.maxRanges, in.created = 1, []created{grown("10.128.0.0/24")} }), []string{"fd00:10:128::/112"}, nil,
		},
		"a range that another policy has taken": {
			given(func(in *inputs) {
				full(in)
				c := grown("10.128.0.0/24")
				c.lost = true
				in.created = []created{c}
			}), nil, []string{exhausted + " True ServiceCIDRLost", "Another policy has ServiceCIDR grown-10-128-0-0-24"},
		},
		"a spec with mistakes": {given(func(in *inputs) { full(in); in.invalid = true }), nil, []string{exhausted + " True Invalid", "see Accepted"}},
		"dry run": {
			given(func(in *inputs) { full(in); in.dryRun = true }), nil, []string{growing + " False DryRun", "Would create ServiceCIDR grown-10-128-0-0-24 (10.128.0.0/24)"},
		},
		"the forecast": {
			given(func(in *inputs) { in.within, in.ranges = 72*time.Hour, []rangeUse{use("10.96.0.0/24", 100, 34)} }), []string{"10.128.0.0/24"},
			[]string{growing + " True Creating", "will be full within 72h"},
		},
		"a forecast that is later":            {given(func(in *inputs) { in.within, in.ranges = 72*time.Hour, []rangeUse{use("10.96.0.0/24", 100, 33)} }), nil, nil},
		"a forecast of ranges that shrink":    {given(func(in *inputs) { in.within, in.ranges = 72*time.Hour, []rangeUse{use("10.96.0.0/24", 100, -34)} }), nil, nil},
		"a forecast that nobody asked for":    {given(func(in *inputs) { in.ranges = []rangeUse{use("10.96.0.0/24", 100, 1000)} }), nil, nil},
		"a forecast of a range not half full": {given(func(in *inputs) { in.within, in.ranges = 72*time.Hour, []rangeUse{use("10.96.0.0/24", 200, 1000)} }), nil, nil},
	} {
		t.Run(name, func(t *testing.T) {
			d := decide(tc.in)
			var got []string
			for _, block := range d.create {
				got = append(got, block.String())
			}
			if diff := cmp.Diff(tc.want, got); diff != "" {
				t.Errorf("created (-want +got):\n%s", diff)
			}
			if len(tc.says) > 0 {
				says(t, d.conditions, tc.says[0], tc.says[1:]...)
			}
		})
	}
}

// empty is a range that was created for the policy, and has long been without use.
func empty(prefix string) rangeUse {
	r := use(prefix, 0)
	r.usage.Free, r.idle = r.usage.Size, nameOf(r.prefix)
	return r
}

// A cordoned policy gives out nothing, and needs nothing; one whose new ranges another policy keeps
// from draws would create one after another.
func TestDecideForWithheldRanges(t *testing.T) {
	for name, tc := range map[string]struct {
		in        inputs
		reason    string
		exhausted metav1.ConditionStatus
	}{
		"the policy is cordoned": {given(func(in *inputs) { full(in); six(in); in.cordoned = true }), reasonCordoned, metav1.ConditionFalse},
		"another one withholds what was created": {given(func(in *inputs) {
			full(in)
			in.created = []created{{name: "new", prefix: netip.MustParsePrefix("10.128.0.0/24"), ready: true, withheld: "other"}}
		}), reasonWithheld, metav1.ConditionTrue},
	} {
		t.Run(name, func(t *testing.T) {
			d := decide(tc.in)
			growing, exhausted := meta.FindStatusCondition(d.conditions, v1alpha1.PolicyGrowing), meta.FindStatusCondition(d.conditions, v1alpha1.PolicyGrowthExhausted)
			if len(d.create) > 0 || growing.Status != metav1.ConditionFalse || growing.Reason != tc.reason || exhausted.Status != tc.exhausted || growing.ObservedGeneration != 3 {
				t.Errorf("creates %v, %+v", d.create, d.conditions)
			}
		})
	}
}

func TestSpare(t *testing.T) {
	const four, other, six = "grown-10-128-0-0-24", "grown-10-128-1-0-24", "grown-fd00-10-128---112"
	for name, tc := range map[string]struct {
		ranges []rangeUse
		want   string // what to delete, empty if nothing
	}{
		"one that nobody needs": {[]rangeUse{use("10.96.0.0/20", 3000), empty("10.128.0.0/24")}, four},
		"two":                   {[]rangeUse{use("10.96.0.0/20", 3000), empty("10.128.0.0/24"), empty("10.128.1.0/24")}, four + " " + other},
		"of two the one without which enough is left": {[]rangeUse{use("10.96.0.0/24", 238), empty("10.128.0.0/24"), empty("10.128.1.0/24")}, four},
		"none that is used":                           {[]rangeUse{use("10.96.0.0/20", 3000), use("10.128.0.0/24", 237)}, ""},
		"none without which a range is needed":        {[]rangeUse{use("10.96.0.0/24", 0), empty("10.128.0.0/24")}, ""},
		"none without which one is needed soon":       {[]rangeUse{use("10.96.0.0/24", 238), empty("10.128.0.0/24")}, ""},
		"not the only one":                            {[]rangeUse{empty("10.128.0.0/24")}, ""},
		"not while the forecast counts on it":         {[]rangeUse{use("10.96.0.0/20", 1000, 200), empty("10.128.0.0/24")}, ""},
		"each family by itself": {
			[]rangeUse{use("10.96.0.0/24", 238), empty("10.128.0.0/24"), use("fd00:10:96::/108", 1<<20), empty("fd00:10:128::/112")}, six,
		},
	} {
		t.Run(name, func(t *testing.T) {
			d := decide(given(func(in *inputs) {
				in.supernets = append(in.supernets, supernet{netip.MustParsePrefix("fd00:10:128::/64"), 112})
				in.within, in.ranges = 96*time.Hour, tc.ranges
				if len(tc.ranges) < 4 {
					in.ranges = append(in.ranges, use("fd00:10:96::/108", 1<<19)) // enough
				}
			}))
			says(t, d.conditions, v1alpha1.PolicyGrowing+" False EnoughFree")
			message := meta.FindStatusCondition(d.conditions, v1alpha1.PolicyGrowing).Message
			_, command, _ := strings.Cut(message, "kubectl delete servicecidr ")
			got, _, _ := strings.Cut(command, " gives up")
			if got != tc.want {
				t.Errorf("delete %q, want %q: %s", got, tc.want, message)
			}
		})
	}
}

// says wants a condition with a status, a reason and words in the message.
func says(t *testing.T, all []metav1.Condition, head string, words ...string) {
	t.Helper()
	c := meta.FindStatusCondition(all, strings.Fields(head)[0])
	if c == nil {
		t.Fatalf("no condition %s in %v", head, all)
	}
	if got := fmt.Sprint(c.Type, " ", c.Status, " ", c.Reason); got != head {
		t.Errorf("%s, want %s: %s", got, head, c.Message)
	}
	for _, w := range words {
		if !strings.Contains(c.Message, w) {
			t.Errorf("%q does not say %q", c.Message, w)
		}
	}
	if c.ObservedGeneration != 3 {
		t.Errorf("%s speaks of generation %d", c.Type, c.ObservedGeneration)
	}
}

// Of two policies that want one block, the one asked second sees the ServiceCIDR of the first.
func TestDecideForTwoPolicies(t *testing.T) {
	last := func(in *inputs) { full(in); in.supernets[0].prefix = netip.MustParsePrefix("10.128.0.0/24") }
	first := decide(given(last))
	if len(first.create) != 1 {
		t.Fatalf("the first creates %v", first.create)
	}
	second := given(last)
	second.obstacles = networks(`ServiceCIDR `+nameOf(first.create[0])+`, created for ServiceCIDRPolicy "first",`, first.create[0].String())
	d := decide(second)
	if len(d.create) != 0 {
		t.Errorf("the second creates %v", d.create)
	}
	says(t, d.conditions, v1alpha1.PolicyGrowing+" False NoBlockLeft", `ServiceCIDR grown-10-128-0-0-24, created for ServiceCIDRPolicy "first", has 10.128.0.0/24`)
}

// Conditions must not be written anew for every Service.
func TestConditionsDoNotMove(t *testing.T) {
	some := decide(given(func(in *inputs) { in.ranges = []rangeUse{use("10.96.0.0/24", 90)} }))
	fewer := decide(given(func(in *inputs) { in.ranges = []rangeUse{use("10.96.0.0/24", 89)} }))
	if diff := cmp.Diff(some, fewer, cmp.AllowUnexported(decision{})); diff != "" {
		t.Error(diff)
	}
}
