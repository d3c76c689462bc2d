package servicecidr

import (
	"cmp"
	"fmt"
	"math"
	"net/netip"
	"strings"
	"testing"
	"time"

	networkingv1 "k8s.io/api/networking/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/clusterip-operator/clusterip-operator/allocator"
	"github.com/clusterip-operator/clusterip-operator/api/v1alpha1"
	"github.com/clusterip-operator/clusterip-operator/internal/addressindex"
	"github.com/clusterip-operator/clusterip-operator/internal/refusal"
	"github.com/clusterip-operator/clusterip-operator/internal/wording"
)

var now = time.Date(2026, 1, 1, 12, 0, 0, 0, time.UTC)

// band is a dynamic band with size addresses of which free are free.
func band(size, free uint64) bandUse {
	return bandUse{cidr: netip.MustParsePrefix("10.0.0.0/24"), band: allocator.Dynamic,
		usage: allocator.Usage{Size: size, Allocated: size - free, Free: free}}
}

func growing(b bandUse, perHour float64) bandUse { b.perHour, b.known = perHour, true; return b }

func TestDecideLifecycle(t *testing.T) {
	blockers := []blocker{{netip.MustParseAddr("10.0.0.5"), "Service ns/a"}}
	for name, tc := range map[string]struct {
		in          inputs
		wantKeep    bool
		wantReady   metav1.ConditionStatus // empty: no such condition
		wantReason  string
		wantBlocked metav1.ConditionStatus // empty: no such condition
		wantAgain   time.Duration
	}{
		"alive":             {in: inputs{}, wantKeep: true, wantReady: metav1.ConditionTrue},
		"alive and in use":  {in: inputs{orphans: 0, bands: []bandUse{band(10, 5)}}, wantKeep: true, wantReady: metav1.ConditionTrue},
		"not in use yet":    {in: inputs{unused: true}, wantKeep: true},
		"deleted, unused":   {in: inputs{unused: true, deleted: now}, wantKeep: true, wantReady: metav1.ConditionFalse, wantReason: "Terminating", wantBlocked: metav1.ConditionFalse, wantAgain: 10 * time.Second},
		"deleted, in use":   {in: inputs{deleted: now.Add(-time.Hour), orphans: 1, blockers: blockers}, wantKeep: true, wantReady: metav1.ConditionFalse, wantReason: "Terminating", wantBlocked: metav1.ConditionTrue},
		"deleted just now":  {in: inputs{deleted: now.Add(-3 * time.Second)}, wantKeep: true, wantReady: metav1.ConditionFalse, wantReason: "Terminating", wantBlocked: metav1.ConditionFalse, wantAgain: 7 * time.Second},
		"deleted and over":  {in: inputs{deleted: now.Add(-10 * time.Second)}},
		"a clock behind us": {in: inputs{deleted: now.Add(5 * time.Second)}, wantKeep: true, wantReady: metav1.ConditionFalse, wantReason: "Terminating", wantBlocked: metav1.ConditionFalse, wantAgain: 15 * time.Second},
	} {
		t.Run(name, func(t *testing.T) {
			tc.in.now = now
			d := decide(tc.in)
			if d.keep != tc.wantKeep || d.again != tc.wantAgain {
				t.Fatalf("keep %v, again %v; want %v, %v", d.keep, d.again, tc.wantKeep, tc.wantAgain)
			}
			if !d.keep {
				return
			}
			ready := cmp.Or(meta.FindStatusCondition(d.conditions, networkingv1.ServiceCIDRConditionReady), &metav1.Condition{})
			if ready.Status != tc.wantReady || ready.Reason != tc.wantReason {
				t.Errorf("Ready is %s %q, want %s %q", ready.Status, ready.Reason, tc.wantReady, tc.wantReason)
			}
			var blocked metav1.ConditionStatus
			if c := meta.FindStatusCondition(d.conditions, v1alpha1.ConditionDeletionBlocked); c != nil {
				blocked = c.Status
			}
			if blocked != tc.wantBlocked {
				t.Errorf("DeletionBlocked is %q, want %q", blocked, tc.wantBlocked)
			}
		})
	}
}

func TestBlockersAreNamed(t *testing.T) {
	in := inputs{orphans: 12}
	for i := range 10 {
		in.blockers = append(in.blockers, blocker{netip.MustParseAddr(fmt.Sprintf("10.0.0.%d", i+1)), fmt.Sprintf("Service ns/s%d", i)})
	}
	got := deletionBlocked(in).Message
	for _, want := range []string{"12 addresses", "10.0.0.1 (Service ns/s0)", "10.0.0.10 (Service ns/s9)", " and 2 more", "create a ServiceCIDR"} {
		if !strings.Contains(got, want) {
			t.Errorf("%q does not say %q", got, want)
		}
	}
	in.orphans, in.blockers = 1, in.blockers[:1]
	if got := deletionBlocked(in).Message; !strings.HasPrefix(got, "1 address would") || strings.Contains(got, "more") || !strings.Contains(got, "Delete it,") {
		t.Errorf("a single blocker reads %q", got)
	}
}

// An event that is too long is refused by the API server, so nothing at all would be said.
func TestMessagesFitIntoAnEvent(t *testing.T) {
	long := strings.Repeat("x", 63)
	in := inputs{orphans: math.MaxUint64}
	for i := range 30 {
		in.blockers = append(in.blockers, blocker{netip.MustParseAddr("fd00:1111:2222:3333:4444:5555:6666:7777"), "Service " + long + "/" + long})
		in.overlaps = append(in.overlaps, addressindex.Network{Owner: "node " + strings.Repeat("n", 253), Prefix: netip.MustParsePrefix(fmt.Sprintf("10.0.%d.0/24", i))})
	}
	for _, c := range []metav1.Condition{deletionBlocked(in), networkOverlap(in)} {
		if len(c.Message) > wording.NoteLimit || !strings.HasSuffix(c.Message, ".") || !strings.Contains(c.Message, " more. ") {
			t.Errorf("%s: %d bytes: %q", c.Type, len(c.Message), c.Message)
		}
	}
}

func TestNearlyFull(t *testing.T) {
	limits := Limits{FreePercent: 10, Within: 24 * time.Hour}
	for name, tc := range map[string]struct {
		band       bandUse
		limits     Limits
		wantReason string
		wantText   string
	}{
		"empty band":                    {band(0, 0), limits, "EnoughFree", ""},
		"half free":                     {band(100, 50), limits, "EnoughFree", ""},
		"eleven percent free":           {band(100, 11), limits, "EnoughFree", ""},
		"ten percent free":              {band(100, 10), limits, "FewFree", "The dynamic band of 10.0.0.0/24 is over 90 % in use"},
		"the last of six":               {band(6, 1), limits, "FewFree", ""},
		"two of six":                    {band(6, 2), limits, "EnoughFree", ""},
		"full":                          {band(6, 0), limits, "FewFree", "full"},
		"an IPv6 /64 does not overflow": {band(math.MaxUint64, math.MaxUint64/2), limits, "EnoughFree", ""},
		"an IPv6 /64 nearly full":       {band(math.MaxUint64, math.MaxUint64/20), limits, "FewFree", ""},
		"full tomorrow":                 {growing(band(1000, 400), 20), limits, "FullSoon", "full in more than 16 hours"},
		"full in days":                  {growing(band(1000, 400), 10), limits, "EnoughFree", ""},
		"fast, but more than half free": {growing(band(1000, 600), 900), limits, "EnoughFree", ""},
		"shrinking":                     {growing(band(1000, 400), -20), limits, "EnoughFree", ""},
		"within the hour":               {growing(band(1000, 100), 200), limits, "FewFree", "full in less than an hour"},
		"limits switched off":           {growing(band(1000, 0), 200), Limits{}, "EnoughFree", ""},
	} {
		t.Run(name, func(t *testing.T) {
			c := nearlyFull(inputs{bands: []bandUse{tc.band}, limits: tc.limits})
			if c.Reason != tc.wantReason || !strings.Contains(c.Message, tc.wantText) {
				t.Errorf("got %s: %q, want %s: …%s…", c.Reason, c.Message, tc.wantReason, tc.wantText)
			}
			if (c.Status == metav1.ConditionTrue) != (tc.wantReason != "EnoughFree") {
				t.Errorf("status %s does not go with reason %s", c.Status, c.Reason)
			}
		})
	}
}

// A range that fills up one address at a time must not be written for every one of them.
func TestWordsChangeInSteps(t *testing.T) {
	messages := map[string]bool{}
	for free := uint64(100); free > 0; free-- {
		in := inputs{bands: []bandUse{growing(band(1000, free), 50)}, limits: Limits{FreePercent: 10}}
		messages[nearlyFull(in).Message] = true
	}
	if len(messages) > 5 {
		t.Errorf("a hundred allocations made %d wordings", len(messages))
	}
}

func TestBandFullNamesTheRange(t *testing.T) {
	in := inputs{bands: []bandUse{band(10, 0), band(10, 3)}}
	if c := bandFull(in, allocator.Dynamic, "x", "Do something."); c.Status != metav1.ConditionTrue || !strings.Contains(c.Message, "10.0.0.0/24 is full. Do something.") {
		t.Errorf("got %s %q", c.Status, c.Message)
	}
	if c := bandFull(in, allocator.Static, "x", ""); c.Status != metav1.ConditionFalse {
		t.Errorf("a band that the ranges do not have is full: %q", c.Message)
	}
}

// "Create another ServiceCIDR" is no advice about one that is being deleted.
func TestARangeThatIsBeingDeletedIsNotFull(t *testing.T) {
	in := inputs{now: now, deleted: now.Add(-time.Hour), orphans: 1, bands: []bandUse{band(10, 0)}, limits: Limits{FreePercent: 10, Within: 24 * time.Hour}}
	full := 0
	for _, c := range decide(in).conditions {
		switch c.Type {
		case v1alpha1.ConditionNearlyFull, v1alpha1.ConditionDynamicBandFull, v1alpha1.ConditionStaticBandFull:
			full++
			if c.Status != metav1.ConditionFalse || strings.Contains(c.Message, "create") {
				t.Errorf("%s is %s: %s", c.Type, c.Status, c.Message)
			}
		}
	}
	if full != 3 {
		t.Errorf("%d conditions tell how full it is; a condition that is left out keeps what it said", full)
	}
}

// No Service is given an address of a cordoned range, so that it is not full for any.
func TestACordonedRangeIsNotFull(t *testing.T) {
	cordoned := band(6, 0)
	cordoned.cordoned = "old"
	limits := Limits{FreePercent: 10}
	conditions := usageConditions(inputs{bands: []bandUse{cordoned}, limits: limits})
	for _, kind := range []string{v1alpha1.ConditionNearlyFull, v1alpha1.ConditionDynamicBandFull, v1alpha1.ConditionStaticBandFull} {
		if c := meta.FindStatusCondition(conditions, kind); c.Status != metav1.ConditionFalse || c.Reason != "Cordoned" || !strings.Contains(c.Message, `"old"`) {
			t.Errorf("%s of a cordoned range: %+v", kind, c)
		}
	}
	six := band(6, 0)
	six.cidr = netip.MustParsePrefix("fd00::/125")
	c := meta.FindStatusCondition(usageConditions(inputs{bands: []bandUse{cordoned, six}, limits: limits}), v1alpha1.ConditionNearlyFull)
	if c.Status != metav1.ConditionTrue || strings.Contains(c.Message, "10.0.0.0/24") || !strings.Contains(c.Message, "fd00::/125") {
		t.Errorf("with a range that is not cordoned: %+v", c)
	}
}

func TestOverlapNamesNetworks(t *testing.T) {
	in := inputs{overlaps: []addressindex.Network{{Owner: "node n", Prefix: netip.MustParsePrefix("10.0.1.0/24")}}}
	if c := networkOverlap(in); c.Status != metav1.ConditionTrue || !strings.Contains(c.Message, "10.0.1.0/24 (node n)") {
		t.Errorf("got %s %q", c.Status, c.Message)
	}
}

func TestSame(t *testing.T) {
	ours, theirs := terminating("a"), terminating("a")
	theirs.Message = "There are still IPAddresses"
	if !same(theirs, ours) {
		t.Error("Ready in other words is answered: two controllers would answer each other for ever")
	}
	if same(terminating("b"), ours) {
		t.Error("our own outdated words stay")
	}
	if same(ready(), ours) {
		t.Error("another status is the same")
	}
	blocked, other := deletionBlocked(inputs{orphans: 1}), deletionBlocked(inputs{orphans: 2})
	if same(blocked, other) {
		t.Error("a condition of ours with other words is the same")
	}
}

func TestHistory(t *testing.T) {
	var h history
	key := bandKey{servicecidr: "a", band: allocator.Dynamic}
	if _, known := h.rate(key, now, 100); known {
		t.Error("one sample is a rate")
	}
	for minute := 1; minute < 60; minute++ {
		h.rate(key, now.Add(time.Duration(minute)*time.Minute), 100+uint64(minute))
	}
	perHour, known := h.rate(key, now.Add(time.Hour), 160)
	if !known || perHour != 60 {
		t.Errorf("one address a minute is %v/h (%v), want 60", perHour, known)
	}
	if n := len(h.bands[key]); n > 13 {
		t.Errorf("an hour takes %d samples, want one in five minutes", n)
	}
	if perHour, _ := h.rate(key, now.Add(20*time.Hour), 160); perHour != 0 {
		t.Errorf("after a day without growth the rate is %v/h", perHour)
	}
	h.forget("a")
	if len(h.bands) != 0 {
		t.Error("a deleted range is remembered")
	}
}

func TestRoughly(t *testing.T) {
	for d, want := range map[time.Duration]string{
		10 * time.Minute: "less than an hour", time.Hour: "more than 1 hour", 3 * time.Hour: "more than 2 hours",
		31 * time.Hour: "more than 16 hours", 40 * time.Hour: "more than 1 day", 300 * time.Hour: "more than 10 days",
	} {
		if got := roughly(d); got != want {
			t.Errorf("%v is %q, want %q", d, got, want)
		}
	}
}

func TestDecideDefault(t *testing.T) {
	one, two, other := []string{"10.0.0.0/16"}, []string{"10.0.0.0/16", "fd00::/112"}, []string{"10.1.0.0/16"}
	for name, tc := range map[string]struct {
		in   defaultInputs
		want defaultDecision
	}{
		"agree":                           {defaultInputs{exists: true, cidrs: two, ranges: two, bitmap: false}, defaultFine},
		"API server will create it":       {defaultInputs{exists: false, cidrs: nil, ranges: one, bitmap: false}, defaultAbsent},
		"bitmap: nobody else will":        {defaultInputs{exists: false, cidrs: nil, ranges: one, bitmap: true}, defaultCreate},
		"bitmap: being replaced":          {defaultInputs{exists: true, deleting: true, cidrs: one, ranges: two, bitmap: true}, defaultAbsent},
		"bitmap: single to dual":          {defaultInputs{exists: true, cidrs: one, ranges: two, bitmap: true}, defaultExtend},
		"single to dual, API server does": {defaultInputs{exists: true, cidrs: one, ranges: two, bitmap: false}, defaultMismatch},
		"dual to single":                  {defaultInputs{exists: true, cidrs: two, ranges: one, bitmap: true}, defaultMismatch},
		"another range":                   {defaultInputs{exists: true, cidrs: one, ranges: other, bitmap: true}, defaultMismatch},
		"the range is not told":           {defaultInputs{exists: true, cidrs: one}, defaultUnknown},
		"nor is the object there":         {defaultInputs{}, defaultAbsent},
		"another range in dual stack":     {defaultInputs{exists: true, cidrs: other, ranges: two, bitmap: true}, defaultMismatch},
	} {
		if got := decideDefault(tc.in); got != tc.want {
			t.Errorf("%s: got %d, want %d", name, got, tc.want)
		}
	}
}

// Refused writes are told on the default ServiceCIDR alone, with what an admin can do.
func TestRefusedWritesAreTold(t *testing.T) {
	refused := []refusal.Refused{
		{Operation: "change", For: "band labels", Remedy: ", or start it with --band-labels=false", Said: "the platform keeps IPAddresses"},
		{Operation: "create", For: "repair", Said: "no"},
	}
	for name, tc := range map[string]struct {
		in    inputs
		want  metav1.ConditionStatus
		parts []string
	}{
		"another ServiceCIDR": {in: inputs{refused: refused}},
		"nothing is refused":  {in: inputs{cluster: true}, want: metav1.ConditionFalse},
		"it is being deleted": {in: inputs{cluster: true, refused: refused, deleted: now, now: now}, want: metav1.ConditionTrue},
		"some are": {in: inputs{cluster: true, refused: refused}, want: metav1.ConditionTrue, parts: []string{
			"change IPAddresses for band labels", "ServiceAccount, or start it with --band-labels=false", "the platform keeps IPAddresses", "create IPAddresses for repair"}},
	} {
		c := cmp.Or(meta.FindStatusCondition(decide(tc.in).conditions, v1alpha1.ConditionWritesRefused), &metav1.Condition{})
		if c.Status != tc.want {
			t.Errorf("%s: %q, want %q", name, c.Status, tc.want)
		}
		for _, part := range tc.parts {
			if !strings.Contains(c.Message, part) {
				t.Errorf("%s: no %q in %q", name, part, c.Message)
			}
		}
	}
}

// A draw finds addresses that cool down when nothing else is free; the API server alone does not.
func TestCoolingAddressesAreAvailable(t *testing.T) {
	for _, cidr := range []string{"10.0.0.0/24", "fd00::/120"} {
		used := bandUse{cidr: netip.MustParsePrefix(cidr), band: allocator.Dynamic, usage: allocator.Usage{Size: 238, Allocated: 100, Cooling: 138}}
		unsteered := used
		unsteered.unsteered = true
		for want, b := range map[metav1.ConditionStatus]bandUse{metav1.ConditionFalse: growing(used, 5), metav1.ConditionTrue: growing(unsteered, 5)} {
			in := inputs{bands: []bandUse{b}, limits: Limits{FreePercent: 10, Within: 24 * time.Hour}}
			for _, kind := range []string{v1alpha1.ConditionNearlyFull, v1alpha1.ConditionDynamicBandFull} {
				if got := meta.FindStatusCondition(usageConditions(in), kind); got.Status != want {
					t.Errorf("%s, unsteered %v: %s is %s: %s", cidr, b.unsteered, kind, got.Status, got.Message)
				}
			}
		}
	}
}
