package policy

import (
	"math"
	"net/netip"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/clusterip-operator/clusterip-operator/allocator"
	"github.com/clusterip-operator/clusterip-operator/api/v1alpha1"
	"github.com/clusterip-operator/clusterip-operator/internal/conditions"
	"github.com/clusterip-operator/clusterip-operator/internal/steering"
)

var now = time.Date(2026, 1, 1, 12, 0, 0, 0, time.UTC)

func TestCounts(t *testing.T) {
	four, six := aRange("10.0.0.0/24", 100), aRange("fd00::/64", 7)
	four.static = bandUse{Usage: allocator.Usage{Size: 16, Allocated: 2, Reserved: 5, Cooling: 3, Free: 6}, kept: 4}
	same := aRange("10.0.0.0/24", 100)
	same.static, same.ServiceCIDR = four.static, "b"

	got := status(inputs{generation: 2, policy: &steering.Policy{}, ranges: []rangeUse{four, same, six}})
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

// kept is a range of which reservations keep so many addresses.
func kept(cidr string, n uint64) rangeUse {
	r := aRange(cidr, 0)
	r.static.kept, r.static.Reserved = n, n
	return r
}

// RESERVED counts what reservations keep in the policy's ranges, and what its own keep elsewhere: a
// policy that only reserves has no range.
func TestCountsOfReservations(t *testing.T) {
	for want, in := range map[int64]inputs{
		0: {reserved: 7, absent: 7}, 32: {reserved: 32, elsewhere: 32}, 30: {reserved: 32, absent: 2, elsewhere: 30},
		9:  {reserved: 5, ranges: []rangeUse{kept("10.0.0.0/24", 4), kept("fd00::/64", 5)}}, // four of them of another policy
		28: {reserved: 24, elsewhere: 19, ranges: []rangeUse{kept("10.0.0.0/24", 4), kept("fd00::/64", 5)}},
	} {
		in.policy = &steering.Policy{}
		if got := status(in).Summary; got.Reserved != want || got.Ranges != int32(len(in.ranges)) {
			t.Errorf("%+v, want %d reserved", got, want)
		}
	}
}

func TestWhichAbsenteesAreNamed(t *testing.T) {
	for name, tc := range map[string]struct {
		taken string // one letter for each address in order, t for those that are taken
		want  []string
	}{
		"the first":                    {"-----", []string{"10.0.0.0", "10.0.0.1", "10.0.0.2"}},
		"those first that are taken":   {"---t-ttt", []string{"10.0.0.3", "10.0.0.5", "10.0.0.6"}},
		"some that are taken, if any":  {"-----t", []string{"10.0.0.1", "10.0.0.2", "10.0.0.5"}},
		"fewer than there is room for": {"t-", []string{"10.0.0.0", "10.0.0.1"}},
		"the first that are taken":     {"tttt", []string{"10.0.0.0", "10.0.0.1", "10.0.0.2"}},
	} {
		t.Run(name, func(t *testing.T) {
			var in inputs
			for i, c := range tc.taken {
				one := absentee{address: netip.AddrFrom4([4]byte{10, 0, 0, byte(i)})}
				if c == 't' {
					one.why = "taken"
				}
				in.addAbsent(one)
			}
			var got []string
			for _, one := range in.first {
				got = append(got, one.address.String())
			}
			if diff := cmp.Diff(tc.want, got); diff != "" {
				t.Errorf("(-want +got):\n%s", diff)
			}
		})
	}
}

func TestWhichCountsWaitForTheNextWrite(t *testing.T) {
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
				expect := func(what string, now v1alpha1.ServiceCIDRPolicyStatus, since time.Duration, waits bool) {
					write, wait := due(status(tc.before), now, since)
					if write == waits || (wait == time.Second) != waits {
						t.Errorf("%s: written %v, waits %v; want that it waits for a second: %v", what, write, wait, waits)
					}
				}
				expect("at first", status(tc.now), countsEvery-time.Second, tc.want)
				expect("later", status(tc.now), countsEvery, false)
				other, newer := status(tc.now), status(tc.now)
				other.Ranges[1].ServiceCIDR = "c"
				newer.ObservedGeneration++
				expect("another range", other, countsEvery-time.Second, false)
				expect("another spec", newer, countsEvery-time.Second, false)
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
		"a conflict":                {now: at("Conflicting", "True", ReasonOutranked, earlier), wantWrite: true, wantSince: metav1.NewTime(now), wantWarn: true},
		"of a better policy, which Conflicting tells": {now: at("Programmed", "False", ReasonOutranked, earlier), wantWrite: true, wantSince: metav1.NewTime(now)},
		"of a mistake, which Accepted tells":          {now: at("Programmed", "False", ReasonInvalid, earlier), wantWrite: true, wantSince: metav1.NewTime(now)},
		"the sum of the others":                       {now: at("Ready", "False", reasonMissing, earlier), wantWrite: true, wantSince: metav1.NewTime(now)},
		"no conflict":                                 {now: at("Conflicting", "False", reasonNoConflict, earlier), wantWrite: true, wantSince: metav1.NewTime(now)},
	} {
		t.Run(name, func(t *testing.T) {
			want := conditions.Dated(tc.before, []metav1.Condition{tc.now}, now)
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
