package policy

import (
	"fmt"
	"math"
	"net/netip"
	"strings"
	"testing"
	"time"
	"unicode/utf8"

	"github.com/google/go-cmp/cmp"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/clusterip-operator/clusterip-operator/allocator"
	"github.com/clusterip-operator/clusterip-operator/api/v1alpha1"
	"github.com/clusterip-operator/clusterip-operator/controllers/internal/steering"
	"github.com/clusterip-operator/clusterip-operator/controllers/internal/wording"
)

// aRange is a range of a policy with so many addresses allocated in its dynamic band.
func aRange(cidr string, allocated uint64) rangeUse {
	r := mustRange(cidr)
	use := func(b allocator.Band) bandUse {
		return bandUse{Usage: allocator.Usage{Size: r.Band(b).Size(), Free: r.Band(b).Size()}}
	}
	out := rangeUse{PolicyRange: steering.PolicyRange{ServiceCIDR: "a", Range: r}, static: use(allocator.Static), dynamic: use(allocator.Dynamic)}
	out.dynamic.Allocated, out.dynamic.Free = allocated, out.dynamic.Free-allocated
	return out
}

func absent(a, why string) absentee { return absentee{netip.MustParseAddr(a), "front", why} }

// said is a condition as one line.
func said(c *metav1.Condition) string { return fmt.Sprintf("%s %s: %s", c.Status, c.Reason, c.Message) }

func TestConditions(t *testing.T) {
	both := []rangeUse{aRange("10.0.0.0/24", 0), aRange("fd00::/120", 0)}
	const (
		valid       = "True Valid: The policy can be followed."
		noConflict  = "False NoConflict: No other policy wants the same."
		allInPlace  = "True Programmed: The ranges are ready, and the reservations are in place."
		whenItFrees = " An address is kept as soon as nobody has it any more."
	)
	for name, tc := range map[string]struct {
		s                                             sight
		wantAccepted, wantConflicting, wantProgrammed string // empty: all is well
	}{
		"all is well": {s: sight{asks: true, ranges: both, reserved: 7}},
		"reservations alone": {
			s:            sight{reserved: 2},
			wantAccepted: "True Valid: The policy names no ServiceCIDRs: it steers no Service, and keeps its reservations.",
		},
		"invalid": {
			s:            sight{asks: true, ranges: both, policy: &steering.Policy{Invalid: []string{"coolDown: -1s is negative", `reservations[x]: "y" is no address`}}},
			wantAccepted: `False Invalid: coolDown: -1s is negative; reservations[x]: "y" is no address. Correct this in the spec; until then what is wrong is left out.`,
		},
		"invalid, so that it has no range": {
			s:              sight{asks: true, selects: true, policy: &steering.Policy{Invalid: []string{"serviceCIDRSelector: no"}}},
			wantAccepted:   `False Invalid: serviceCIDRSelector: no. Correct this in the spec; until then what is wrong is left out.`,
			wantProgrammed: "False NoRange: The policy has no range; see the condition Accepted.",
		},
		"outranked": {
			s:               sight{asks: true, ranges: both, policy: &steering.Policy{Conflicts: []string{`ServiceCIDR a (10.0.0.0/24): ServiceCIDRPolicy "q" has it`}}},
			wantConflicting: `True Outranked: ServiceCIDR a (10.0.0.0/24): ServiceCIDRPolicy "q" has it. Change one of the policies, or the order of their priorities.`,
		},
		"outranked in everything": {
			s:               sight{asks: true, policy: &steering.Policy{Conflicts: []string{"a"}}},
			wantConflicting: "True Outranked: a. Change one of the policies, or the order of their priorities.",
			wantProgrammed:  "False NoRange: The policy has no range left; see the condition Conflicting.",
		},
		"a ServiceCIDR that does not exist": {
			s:              sight{asks: true, policy: &steering.Policy{Missing: []string{"a"}}},
			wantProgrammed: `False ServiceCIDRNotFound: ServiceCIDR "a" does not exist; create what is missing, or take it out of spec.serviceCIDRs.`,
		},
		"one missing, one deleted, one not ready": {
			s: sight{asks: true, policy: &steering.Policy{Missing: []string{"a", "b"}, Deleting: []string{"c"}, Unready: []string{"d"}}},
			wantProgrammed: `False ServiceCIDRNotFound: ServiceCIDRs "a", "b" do not exist; create what is missing, or take it out of spec.serviceCIDRs. ` +
				`ServiceCIDR "c" is being deleted, and gives out no address any more; give the policy another range. ServiceCIDR "d" is not ready yet; see the condition Ready there.`,
		},
		"labels that no ServiceCIDR has": {
			s:              sight{asks: true, selects: true},
			wantProgrammed: "False NoRange: No ServiceCIDR has the labels of spec.serviceCIDRSelector; label one, or correct the selector.",
		},
		"a ServiceCIDR of which nothing can be read": {
			s:              sight{asks: true},
			wantProgrammed: "False NoRange: The ServiceCIDRs of the policy have no usable range.",
		},
		"a reserved address that somebody has": {
			s:              sight{asks: true, ranges: both, reserved: 12, absent: 1, first: []absentee{absent("10.0.0.5", "Service a/b has it")}},
			wantProgrammed: "False ReservationsNotInPlace: 1 of 12 reserved addresses is not in place: 10.0.0.5 of front (Service a/b has it)." + whenItFrees,
		},
		"more than can be named": {
			s: sight{asks: true, ranges: both, reserved: 1024, absent: 1000, pending: 999, first: []absentee{
				absent("10.0.0.5", "Service a/b has it"), absent("10.0.0.6", ""), absent("fd00::6", "")}},
			wantProgrammed: "False ReservationsNotInPlace: 1000 of 1024 reserved addresses are not in place: 10.0.0.5 of front (Service a/b has it), " +
				"10.0.0.6 of front (it is being written), fd00::6 of front (it is being written), and 997 more." + whenItFrees,
		},
		"reservations that are being written": {
			s:              sight{asks: true, ranges: both, reserved: 12, absent: 1, pending: 1, first: []absentee{absent("fd00::5", "")}},
			wantProgrammed: "False ReservationsPending: 1 of 12 reserved addresses is not in place: fd00::5 of front (it is being written).",
		},
	} {
		t.Run(name, func(t *testing.T) {
			tc.s.generation = 3
			if tc.s.policy == nil {
				tc.s.policy = &steering.Policy{}
			}
			got := conditions(tc.s)
			for kind, want := range map[string][2]string{
				"Accepted": {tc.wantAccepted, valid}, "Conflicting": {tc.wantConflicting, noConflict}, "Programmed": {tc.wantProgrammed, allInPlace},
			} {
				text := want[0]
				if text == "" {
					text = want[1]
				}
				c := meta.FindStatusCondition(got, kind)
				if diff := cmp.Diff(text, said(c)); diff != "" {
					t.Errorf("%s (-want +got):\n%s", kind, diff)
				}
				if c.ObservedGeneration != 3 {
					t.Errorf("%s speaks of generation %d, want 3", kind, c.ObservedGeneration)
				}
			}
		})
	}
}

// The schema takes 32,768 characters for a message, events take 1,024 bytes; neither may cut a character in two.
func TestNoMessageIsTooLong(t *testing.T) {
	long := sight{policy: &steering.Policy{}, asks: true}
	for range 2000 {
		long.policy.Invalid = append(long.policy.Invalid, strings.Repeat("ü", 1000))
		long.policy.Conflicts = append(long.policy.Conflicts, strings.Repeat("ü", 1001))
		long.policy.Missing = append(long.policy.Missing, strings.Repeat("a", 253))
		long.policy.Deleting, long.policy.Unready = long.policy.Missing, long.policy.Missing
	}
	for _, c := range conditions(long) {
		if len(c.Message) > 32768 || !utf8.ValidString(c.Message) {
			t.Errorf("%s: %d bytes, valid %v", c.Type, len(c.Message), utf8.ValidString(c.Message))
		}
		if note := wording.Cut(c.Message, noteLimit); len(note) > noteLimit || !utf8.ValidString(note) {
			t.Errorf("event of %s: %d bytes, valid %v", c.Type, len(note), utf8.ValidString(note))
		}
	}
}

func TestReportCounts(t *testing.T) {
	four, six := aRange("10.0.0.0/24", 100), aRange("fd00::/64", 7)
	four.static = bandUse{Usage: allocator.Usage{Size: 16, Allocated: 2, Reserved: 5, Cooling: 3, Free: 6}, kept: 4}
	same := aRange("10.0.0.0/24", 100)
	same.static, same.ServiceCIDR = four.static, "b"

	got := report(sight{generation: 2, policy: &steering.Policy{}, ranges: []rangeUse{four, same, six}})
	static := v1alpha1.BandStatus{Size: 16, Used: 3, Free: 6, Cooling: 3, Reserved: 4}
	dynamic := v1alpha1.BandStatus{Size: 238, Used: 100, Free: 138}
	want := v1alpha1.ServiceCIDRPolicyStatus{
		ObservedGeneration: 2,
		Summary: v1alpha1.PolicySummary{Ranges: 2, BandStatus: v1alpha1.BandStatus{
			Size: math.MaxInt64, Used: 110, Free: math.MaxInt64, Cooling: 3, Reserved: 4,
		}},
		Ranges: []v1alpha1.PolicyRange{
			{CIDR: "10.0.0.0/24", ServiceCIDR: "a", Static: static, Dynamic: dynamic},
			{CIDR: "10.0.0.0/24", ServiceCIDR: "b", Static: static, Dynamic: dynamic},
			{
				CIDR: "fd00::/64", ServiceCIDR: "a", Static: v1alpha1.BandStatus{Size: 256, Free: 256},
				Dynamic: v1alpha1.BandStatus{Size: math.MaxInt64, Used: 7, Free: math.MaxInt64},
			},
		},
	}
	got.Conditions = nil
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
}

func TestWhichAbsenteesAreNamed(t *testing.T) {
	for name, tc := range map[string]struct {
		taken string // one letter for each address in order, t for those that somebody has
		want  []string
	}{
		"the first":                      {"-----", []string{"10.0.0.0", "10.0.0.1", "10.0.0.2"}},
		"those first that somebody has":  {"---t-ttt", []string{"10.0.0.3", "10.0.0.5", "10.0.0.6"}},
		"some that somebody has, if any": {"-----t", []string{"10.0.0.1", "10.0.0.2", "10.0.0.5"}},
		"fewer than there is room for":   {"t-", []string{"10.0.0.0", "10.0.0.1"}},
		"the first that somebody has":    {"tttt", []string{"10.0.0.0", "10.0.0.1", "10.0.0.2"}},
	} {
		t.Run(name, func(t *testing.T) {
			var first []absentee
			for i, c := range tc.taken {
				one := absentee{address: netip.AddrFrom4([4]byte{10, 0, 0, byte(i)})}
				if c == 't' {
					one.why = "taken"
				}
				first = keepFirst(first, one)
			}
			var got []string
			for _, one := range first {
				got = append(got, one.address.String())
			}
			if diff := cmp.Diff(tc.want, got); diff != "" {
				t.Errorf("(-want +got):\n%s", diff)
			}
		})
	}
}

// Server-side apply takes away what a manager once applied and leaves out later: refusals must never be in it.
func TestRefusalsAreNotApplied(t *testing.T) {
	full := v1alpha1.ServiceCIDRPolicyStatus{Refusals: []v1alpha1.PolicyRefusal{{Service: "ns/x"}}}
	got, err := applied(policyOn("p"), full)
	if err != nil {
		t.Fatal(err)
	}
	if refusals, ok := got.Object["status"].(map[string]any)["refusals"]; ok {
		t.Errorf("refusals %v are applied", refusals)
	}
	if uid := got.GetUID(); uid != "p" {
		t.Errorf("applied to UID %q, want p", uid)
	}
}

func TestWhichCountsCanWait(t *testing.T) {
	type bands struct{ static, dynamic v1alpha1.BandStatus }
	some := v1alpha1.BandStatus{Size: 9, Used: 3, Free: 3, Cooling: 2, Reserved: 1}
	without := func(change func(*v1alpha1.BandStatus)) v1alpha1.BandStatus {
		b := some
		change(&b)
		return b
	}
	moved := v1alpha1.BandStatus{Size: 9, Used: 2, Free: 1, Cooling: 3, Reserved: 3}
	full := without(func(b *v1alpha1.BandStatus) { b.Free, b.Used = 0, 6 })
	for name, tc := range map[string]struct {
		before, now bands
		want        bool
	}{
		"some more, some less":               {bands{some, some}, bands{moved, some}, true},
		"one band is full, the other is not": {bands{some, some}, bands{some, full}, true},
		"the last free one goes":             {bands{full, some}, bands{full, full}, false},
		"one comes back":                     {bands{full, full}, bands{some, full}, false},
		"full, and still full":               {bands{full, full}, bands{full, without(func(b *v1alpha1.BandStatus) { b.Free, b.Used, b.Cooling = 0, 5, 3 })}, true},
		"nothing cools any more":             {bands{dynamic: some}, bands{dynamic: without(func(b *v1alpha1.BandStatus) { b.Cooling = 0 })}, false},
		"nothing is reserved any more":       {bands{static: some}, bands{static: without(func(b *v1alpha1.BandStatus) { b.Reserved = 0 })}, false},
		"nothing is in use any more":         {bands{some, some}, bands{some, without(func(b *v1alpha1.BandStatus) { b.Used, b.Free = 0, 6 })}, true},
	} {
		for family, cidr := range map[string]string{"IPv4": "10.0.0.0/24", "IPv6": "fd00::/120"} {
			t.Run(name+", "+family, func(t *testing.T) {
				status := func(b bands) v1alpha1.ServiceCIDRPolicyStatus {
					return v1alpha1.ServiceCIDRPolicyStatus{Ranges: []v1alpha1.PolicyRange{
						{CIDR: cidr, ServiceCIDR: "a", Static: b.static, Dynamic: b.dynamic}, {CIDR: "10.9.0.0/24", ServiceCIDR: "b"},
					}}
				}
				if got := canWait(status(tc.before), status(tc.now)); got != tc.want {
					t.Errorf("can wait: %v, want %v", got, tc.want)
				}
				other := status(tc.now)
				other.Ranges[1].ServiceCIDR = "c"
				if canWait(status(tc.before), other) {
					t.Error("another range can wait")
				}
				newer := status(tc.now)
				newer.ObservedGeneration++
				if canWait(status(tc.before), newer) {
					t.Error("what was made of another spec can wait")
				}
			})
		}
	}
}

func TestWhatIsWorthAWriteAndAWarning(t *testing.T) {
	earlier := metav1.NewTime(now.Add(-time.Hour))
	at := func(kind string, status metav1.ConditionStatus, reason string, when metav1.Time) metav1.Condition {
		return metav1.Condition{Type: kind, Status: status, Reason: reason, LastTransitionTime: when}
	}
	good := at("Programmed", metav1.ConditionTrue, reasonProgrammed, earlier)
	for name, tc := range map[string]struct {
		before    []metav1.Condition
		now       metav1.Condition
		wantWrite bool
		wantSince metav1.Time
		wantWarn  bool
	}{
		"the first words, good":     {now: good, wantWrite: true, wantSince: metav1.NewTime(now)},
		"the first words, bad":      {now: at("Programmed", "False", reasonMissing, earlier), wantWrite: true, wantSince: metav1.NewTime(now), wantWarn: true},
		"still good":                {before: []metav1.Condition{good}, now: good, wantSince: earlier},
		"turned bad":                {before: []metav1.Condition{good}, now: at("Programmed", "False", reasonMissing, earlier), wantWrite: true, wantSince: metav1.NewTime(now), wantWarn: true},
		"still bad":                 {before: []metav1.Condition{at("Programmed", "False", reasonMissing, earlier)}, now: at("Programmed", "False", reasonMissing, earlier), wantSince: earlier},
		"bad in another way":        {before: []metav1.Condition{at("Programmed", "False", reasonMissing, earlier)}, now: at("Programmed", "False", reasonDeleting, earlier), wantWrite: true, wantSince: earlier, wantWarn: true},
		"a new range":               {now: at("Programmed", "False", reasonUnready, earlier), wantWrite: true, wantSince: metav1.NewTime(now)},
		"being written":             {before: []metav1.Condition{good}, now: at("Programmed", "False", reasonNotYetWritten, earlier), wantWrite: true, wantSince: metav1.NewTime(now)},
		"was being written, is bad": {before: []metav1.Condition{at("Programmed", "False", reasonNotYetWritten, earlier)}, now: at("Programmed", "False", reasonNotReserved, earlier), wantWrite: true, wantSince: earlier, wantWarn: true},
		"a conflict":                {now: at("Conflicting", "True", reasonOutranked, earlier), wantWrite: true, wantSince: metav1.NewTime(now), wantWarn: true},
		"no conflict":               {now: at("Conflicting", "False", reasonNoConflict, earlier), wantWrite: true, wantSince: metav1.NewTime(now)},
	} {
		t.Run(name, func(t *testing.T) {
			want := timed(tc.before, []metav1.Condition{tc.now}, metav1.NewTime(now))
			if !want[0].LastTransitionTime.Equal(&tc.wantSince) {
				t.Errorf("since %v, want %v", want[0].LastTransitionTime, tc.wantSince)
			}
			have := v1alpha1.ServiceCIDRPolicyStatus{Conditions: tc.before, Refusals: []v1alpha1.PolicyRefusal{{Service: "ns/x"}}}
			if write := !says(have, v1alpha1.ServiceCIDRPolicyStatus{Conditions: want}); write != tc.wantWrite {
				t.Errorf("written: %v, want %v", write, tc.wantWrite)
			}
			if warn := len(turnedBad(tc.before, want)) > 0; warn != tc.wantWarn {
				t.Errorf("warned of: %v, want %v", warn, tc.wantWarn)
			}
		})
	}
}
