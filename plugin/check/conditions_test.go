package check

import (
	"net/netip"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	networkingv1 "k8s.io/api/networking/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/clusterip-operator/clusterip-operator/api/v1alpha1"
	"github.com/clusterip-operator/clusterip-operator/plugin/internal/plugintest"
)

// checksOf are the checks that fail, in their order.
func checksOf(all []Item) (names []string) {
	for _, i := range all {
		names = append(names, i.Check)
	}
	return names
}

func condition(kind string, status metav1.ConditionStatus, reason, message string) metav1.Condition {
	return metav1.Condition{Type: kind, Status: status, Reason: reason, Message: message}
}

// What one fault does to several conditions of an object is told once.
func TestEachFaultOfARangeIsToldOnce(t *testing.T) {
	const yes, no = metav1.ConditionTrue, metav1.ConditionFalse
	terminating := condition(networkingv1.ServiceCIDRConditionReady, no, networkingv1.ServiceCIDRReasonTerminating, "it is being deleted")
	blocked := condition(v1alpha1.ConditionDeletionBlocked, yes, "AddressesInUse", "10.0.0.1")
	scarce := func(bands string) metav1.Condition {
		return condition(v1alpha1.ConditionNearlyFull, yes, "FewFree", bands+". Create another ServiceCIDR before allocation fails.")
	}
	nearly := scarce("The dynamic band of 10.0.0.0/24 is over 90 % in use")
	dynamic, static := condition(v1alpha1.ConditionDynamicBandFull, yes, "NoAddressFree", "full"), condition(v1alpha1.ConditionStaticBandFull, yes, "NoAddressFree", "full")
	for name, tc := range map[string]struct {
		conditions []metav1.Condition
		want       []string
	}{
		"well":                      {[]metav1.Condition{condition(v1alpha1.ConditionNearlyFull, no, "EnoughFree", "")}, nil},
		"being deleted":             {[]metav1.Condition{terminating, condition(v1alpha1.ConditionDeletionBlocked, no, "NothingInUse", "")}, []string{"RangeNotReady"}},
		"held":                      {[]metav1.Condition{terminating, blocked}, []string{"RangeDeletionBlocked"}},
		"held, in another order":    {[]metav1.Condition{blocked, terminating}, []string{"RangeDeletionBlocked"}},
		"not ready for a reason":    {[]metav1.Condition{condition(networkingv1.ServiceCIDRConditionReady, no, "Other", ""), blocked}, []string{"RangeDeletionBlocked", "RangeNotReady"}},
		"nearly full":               {[]metav1.Condition{nearly}, []string{"RangeNearlyFull"}},
		"full":                      {[]metav1.Condition{scarce("The dynamic band of fd00::/120 is full"), dynamic}, []string{"RangeDynamicBandFull"}},
		"both bands are full":       {[]metav1.Condition{dynamic, scarce("The static band of 10.0.0.0/24 is full. The dynamic band of 10.0.0.0/24 is full"), static}, []string{"RangeDynamicBandFull", "RangeStaticBandFull"}},
		"no static one":             {[]metav1.Condition{scarce("The static band of 10.0.0.0/24 is full"), static}, []string{"RangeStaticBandFull"}},
		"no static one, soon none":  {[]metav1.Condition{nearly, static}, []string{"RangeNearlyFull", "RangeStaticBandFull"}},
		"full, and soon in IPv6":    {[]metav1.Condition{scarce("The dynamic band of 10.0.0.0/24 is full. The dynamic band of fd00::/120 is over 90 % in use, full in 2 days"), dynamic}, []string{"RangeDynamicBandFull", "RangeNearlyFull"}},
		"in words of another time":  {[]metav1.Condition{condition(v1alpha1.ConditionNearlyFull, yes, "FewFree", "nearly"), dynamic}, []string{"RangeDynamicBandFull", "RangeNearlyFull"}},
		"a mismatch of the default": {[]metav1.Condition{condition(v1alpha1.ConditionDefaultRangeMismatch, yes, "Inconsistent", "")}, []string{"RangeDefaultRangeMismatch"}},
	} {
		t.Run(name, func(t *testing.T) {
			o := networkingv1.ServiceCIDR{ObjectMeta: metav1.ObjectMeta{Name: "a"}, Status: networkingv1.ServiceCIDRStatus{Conditions: tc.conditions}}
			if diff := cmp.Diff(tc.want, checksOf(Conditions(plugintest.Now, []networkingv1.ServiceCIDR{o}, nil))); diff != "" {
				t.Errorf("(-want +got):\n%s", diff)
			}
		})
	}
}

func TestFaultsOfPolicies(t *testing.T) {
	const yes, no = metav1.ConditionTrue, metav1.ConditionFalse
	accepted := condition(v1alpha1.PolicyAccepted, yes, "Valid", "")
	conflicting := condition(v1alpha1.PolicyConflicting, yes, "Outranked", "")
	for name, tc := range map[string]struct {
		age        time.Duration
		conditions []metav1.Condition
		want       []string
	}{
		"new":                        {time.Second, nil, nil},
		"not looked at":              {time.Minute, nil, []string{"PolicyNotSeen"}},
		"well":                       {time.Minute, []metav1.Condition{accepted}, nil},
		"no range but for conflicts": {time.Minute, []metav1.Condition{accepted, conflicting, condition(v1alpha1.PolicyProgrammed, no, "NoRange", "The policy has no range left; see the condition Conflicting.")}, []string{"PolicyConflicting"}},
		"more is missing": {time.Minute, []metav1.Condition{accepted, conflicting, condition(v1alpha1.PolicyProgrammed, no, "ServiceCIDRNotFound", `ServiceCIDR "a" does not exist.`)},
			[]string{"PolicyConflicting", "PolicyNotProgrammed"}},
		"no range":          {time.Minute, []metav1.Condition{accepted, condition(v1alpha1.PolicyProgrammed, no, "NoRange", "The policy has no range.")}, []string{"PolicyNotProgrammed"}},
		"growth is refused": {time.Minute, []metav1.Condition{accepted, condition(v1alpha1.PolicyGrowing, no, v1alpha1.ReasonCreationFailed, "forbidden")}, []string{"PolicyGrowthRefused"}},
		"growing":           {time.Minute, []metav1.Condition{accepted, condition(v1alpha1.PolicyGrowing, yes, "Creating", "")}, nil},
	} {
		t.Run(name, func(t *testing.T) {
			o := v1alpha1.ServiceCIDRPolicy{ObjectMeta: metav1.ObjectMeta{Name: "p", CreationTimestamp: metav1.NewTime(plugintest.Now.Add(-tc.age))}}
			o.Status.Conditions = tc.conditions
			if diff := cmp.Diff(tc.want, checksOf(Conditions(plugintest.Now, nil, []v1alpha1.ServiceCIDRPolicy{o}))); diff != "" {
				t.Errorf("(-want +got):\n%s", diff)
			}
		})
	}
}

// Conditions tell nothing of a change at which the operator has not looked.
func TestAChangedPolicyIsNotSeen(t *testing.T) {
	at := func(ago time.Duration, fields string) metav1.ManagedFieldsEntry {
		return metav1.ManagedFieldsEntry{Time: &metav1.Time{Time: plugintest.Now.Add(-ago)}, FieldsV1: metav1.NewFieldsV1(fields)}
	}
	spec, status, labels := `{"f:spec":{"f:priority":{}}}`, `{"f:status":{}}`, `{"f:metadata":{"f:labels":{}}}`
	for name, tc := range map[string]struct {
		observed int64
		fields   []metav1.ManagedFieldsEntry
		want     []string
	}{
		"seen":                          {2, []metav1.ManagedFieldsEntry{at(time.Minute, spec)}, nil},
		"changed a minute ago":          {1, []metav1.ManagedFieldsEntry{at(time.Hour, spec), at(time.Minute, spec)}, []string{"PolicyNotSeen"}},
		"just changed":                  {1, []metav1.ManagedFieldsEntry{at(time.Hour, spec), at(time.Second, spec)}, nil},
		"just labelled, changed before": {1, []metav1.ManagedFieldsEntry{at(time.Minute, spec), at(time.Second, labels), at(0, status)}, []string{"PolicyNotSeen"}},
		"it is not known when":          {1, nil, []string{"PolicyNotSeen"}},
	} {
		t.Run(name, func(t *testing.T) {
			o := v1alpha1.ServiceCIDRPolicy{ObjectMeta: metav1.ObjectMeta{Name: "p", Generation: 2, ManagedFields: tc.fields, CreationTimestamp: metav1.NewTime(plugintest.Now.Add(-time.Hour))}}
			o.Status.ObservedGeneration, o.Status.Conditions = tc.observed, []metav1.Condition{condition(v1alpha1.PolicyAccepted, metav1.ConditionTrue, "Valid", "")}
			if diff := cmp.Diff(tc.want, checksOf(Conditions(plugintest.Now, nil, []v1alpha1.ServiceCIDRPolicy{o}))); diff != "" {
				t.Errorf("(-want +got):\n%s", diff)
			}
		})
	}
}

// What is counted now is told, whether the operator wrote it, wrote something else, or nothing.
func TestFullRangesAreFoundWithoutTheOperator(t *testing.T) {
	const yes, no = metav1.ConditionTrue, metav1.ConditionFalse
	nearly := func(status metav1.ConditionStatus, reason string) metav1.Condition {
		return condition(v1alpha1.ConditionNearlyFull, status, reason, "The dynamic band of 10.0.0.0/24 is over 90 % in use. Create another ServiceCIDR.")
	}
	full := func(status metav1.ConditionStatus) metav1.Condition {
		return condition(v1alpha1.ConditionDynamicBandFull, status, "", "")
	}
	for name, tc := range map[string]struct {
		written, seen []metav1.Condition
		want          []string
	}{
		"nothing written":      {nil, []metav1.Condition{full(yes)}, []string{"RangeDynamicBandFull"}},
		"written before":       {[]metav1.Condition{full(no), nearly(no, "EnoughFree")}, []metav1.Condition{full(no), nearly(yes, "FewFree")}, []string{"RangeNearlyFull"}},
		"written as it is":     {[]metav1.Condition{full(yes), nearly(yes, "FewFree")}, []metav1.Condition{full(yes), nearly(yes, "FewFree")}, []string{"RangeDynamicBandFull", "RangeNearlyFull"}},
		"not full any more":    {[]metav1.Condition{full(yes), nearly(yes, "FewFree")}, []metav1.Condition{full(no), nearly(no, "EnoughFree")}, nil},
		"a forecast":           {[]metav1.Condition{nearly(yes, "FullSoon")}, []metav1.Condition{nearly(no, "EnoughFree")}, []string{"RangeNearlyFull"}},
		"a forecast, cordoned": {[]metav1.Condition{nearly(yes, "FullSoon")}, []metav1.Condition{nearly(no, "Cordoned")}, nil},
		"of other things":      {[]metav1.Condition{condition(v1alpha1.ConditionNetworkOverlap, yes, "", "")}, []metav1.Condition{full(no)}, []string{"RangeNetworkOverlap"}},
	} {
		t.Run(name, func(t *testing.T) {
			o := plugintest.ServiceCIDR("a", "10.0.0.0/24", tc.written...)
			before := o.DeepCopy()
			all := counted([]networkingv1.ServiceCIDR{*o}, func(*networkingv1.ServiceCIDR) []metav1.Condition { return tc.seen })
			if diff := cmp.Diff(tc.want, checksOf(Conditions(plugintest.Now, all, nil))); diff != "" {
				t.Errorf("(-want +got):\n%s", diff)
			}
			if diff := cmp.Diff(before, o); diff != "" {
				t.Errorf("the view's object has changed:\n%s", diff)
			}
		})
	}
}

// The manager's configuration says what nearly full is.
func TestNearlyFull(t *testing.T) {
	for file, want := range map[string]int{"": 10, "nearlyFull: {freePercent: 0}": 0, "nearlyFull: {within: 1h}": 10, "nearlyFull: {freePercent: 25}": 25} {
		if got := nearlyFull(file); got != want {
			t.Errorf("%q: %d %%, want %d", file, got, want)
		}
	}
}

// The Service needs the range: what is told of the range tells of both.
func TestDefaultsThatTheAPIServerDoesNotMakeAgain(t *testing.T) {
	for name, tc := range map[string]struct {
		d     Defaults
		want  []string
		words string
	}{
		"both are there":            {Defaults{}, nil, ""},
		"the range is missing":      {Defaults{WithoutRange: true}, []string{"RangeDefaultMissing"}, "admission policy"},
		"both are missing":          {Defaults{WithoutRange: true, WithoutService: true}, []string{"RangeDefaultMissing"}, "is missing with it"},
		"the Service is missing":    {Defaults{WithoutService: true, First: netip.MustParseAddr("10.96.0.1")}, []string{"APIServiceMissing"}, "kubectl clusterip why 10.96.0.1"},
		"of IPv6":                   {Defaults{WithoutService: true, First: netip.MustParseAddr("fd00::1")}, []string{"APIServiceMissing"}, "It gets fd00::1 and no other"},
		"nothing tells its address": {Defaults{WithoutService: true}, []string{"APIServiceMissing"}, "admission policy"},
	} {
		t.Run(name, func(t *testing.T) {
			got := tc.d.Items()
			if diff := cmp.Diff(tc.want, checksOf(got)); diff != "" {
				t.Errorf("(-want +got):\n%s", diff)
			}
			if len(got) > 0 && !strings.Contains(got[0].Message, tc.words) {
				t.Errorf("it says %q, want %q", got[0].Message, tc.words)
			}
			for _, i := range got {
				if checks[i.Check] == "" {
					t.Errorf("--list does not have %s", i.Check)
				}
			}
		})
	}
}
