package check

import (
	"context"
	"slices"
	"strings"
	"time"

	networkingv1 "k8s.io/api/networking/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/clusterip-operator/clusterip-operator/api/v1alpha1"
	"github.com/clusterip-operator/clusterip-operator/controllers/policy"
	"github.com/clusterip-operator/clusterip-operator/controllers/servicecidr"
	"github.com/clusterip-operator/clusterip-operator/plugin/cli"
)

// rangeCheck names the check that a ServiceCIDR's condition fails, empty if the condition is fine.
func rangeCheck(c metav1.Condition) string {
	kind, prefixed := strings.CutPrefix(c.Type, v1alpha1.Prefix+"/")
	switch {
	case c.Type == networkingv1.ServiceCIDRConditionReady && c.Status != metav1.ConditionTrue:
		return "RangeNotReady"
	case prefixed && c.Status == metav1.ConditionTrue && checks["Range"+kind] != "":
		return "Range" + kind
	}
	return ""
}

// policyCheck names the check that a policy's condition fails, empty if the condition is fine.
func policyCheck(c metav1.Condition) string {
	if c.Type == v1alpha1.PolicyGrowing && c.Reason == v1alpha1.ReasonCreationFailed {
		return "PolicyGrowthRefused"
	}
	switch c.Type {
	case v1alpha1.PolicyConflicting, v1alpha1.PolicyViolated, v1alpha1.PolicyGrowthExhausted:
		if c.Status == metav1.ConditionTrue {
			return "Policy" + c.Type
		}
	case v1alpha1.PolicyAccepted, v1alpha1.PolicyProgrammed, v1alpha1.PolicyEnforced:
		if c.Type == v1alpha1.PolicyProgrammed && (c.Reason == policy.ReasonInvalid || c.Reason == policy.ReasonOutranked) {
			return "" // Accepted, or Conflicting, has told it
		}
		if c.Status == metav1.ConditionFalse {
			return "PolicyNot" + c.Type
		}
	}
	return ""
}

// unseenFor is how long the operator has to look at a policy that is new or changed: it takes a
// second.
const unseenFor = 10 * time.Second

// unseen says what of a policy the operator has not looked at, empty if nothing.
func unseen(o *v1alpha1.ServiceCIDRPolicy) string {
	switch {
	case len(o.Status.Conditions) == 0:
		return "It has no condition: the operator has not looked at it"
	case o.Status.ObservedGeneration < o.Generation:
		return "Its conditions are about an earlier spec: the operator has not looked at the change"
	}
	return ""
}

// changed is when the spec of a policy was written last, as far as its managed fields tell.
func changed(o *v1alpha1.ServiceCIDRPolicy) time.Time {
	last := o.CreationTimestamp.Time
	for _, f := range o.ManagedFields {
		if f.Time != nil && f.Time.After(last) && f.FieldsV1 != nil && strings.Contains(f.FieldsV1.GetRawString(), `"f:spec"`) {
			last = f.Time.Time
		}
	}
	return last
}

// RangesAndPolicies lists all ServiceCIDRs and policies. What a view has lacks the managed fields,
// by which Conditions tells a policy that has just changed: with a change in it that the operator
// has not looked at, policies are read from the API server.
func RangesAndPolicies(ctx context.Context, s *cli.Cluster) (*networkingv1.ServiceCIDRList, *v1alpha1.ServiceCIDRPolicyList, error) {
	ranges, policies, err := s.RangesAndPolicies(ctx)
	if err == nil && slices.ContainsFunc(policies.Items, func(o v1alpha1.ServiceCIDRPolicy) bool { return len(o.ManagedFields) == 0 && unseen(&o) != "" }) {
		policies = &v1alpha1.ServiceCIDRPolicyList{}
		err = s.ListNamed(ctx, policies, "ServiceCIDRPolicies")
	}
	return ranges, policies, err
}

// counted returns the ServiceCIDRs with conditions of how full they are by what is counted now: the
// operator may be down, and have written its own long ago, or never.
func counted(ranges []networkingv1.ServiceCIDR, count func(*networkingv1.ServiceCIDR) []metav1.Condition) []networkingv1.ServiceCIDR {
	out := slices.Clone(ranges)
	for i := range out {
		has := slices.Clone(out[i].Status.Conditions) // the view's own objects do not change
		for _, seen := range count(&out[i]) {
			if written := meta.FindStatusCondition(has, seen.Type); written == nil {
				has = append(has, seen)
			} else if !saysMore(*written, seen) {
				*written = seen
			}
		}
		out[i].Status.Conditions = has
	}
	return out
}

// saysMore reports whether a condition of the operator says more than one that is counted now: it
// has the forecast, for which a single look has no history.
func saysMore(written, seen metav1.Condition) bool {
	return seen.Type == v1alpha1.ConditionNearlyFull && written.Status == metav1.ConditionTrue &&
		(seen.Status == metav1.ConditionTrue || seen.Reason == servicecidr.ReasonEnoughFree && written.Reason == servicecidr.ReasonFullSoon)
}

// Conditions are what conditions report as wrong, each fault once, policies at which, or at whose
// last change, the operator has not looked, and exclusive ones that stop no tenant.
func Conditions(now time.Time, ranges []networkingv1.ServiceCIDR, policies []v1alpha1.ServiceCIDRPolicy) (all []Item) {
	for _, o := range ranges {
		all = append(all, failing("servicecidr/"+o.Name, o.Status.Conditions, rangeCheck)...)
	}
	for _, o := range policies {
		object := "servicecidrpolicy/" + o.Name
		all = append(all, failing(object, o.Status.Conditions, policyCheck)...)
		if what := unseen(&o); what != "" && now.Sub(changed(&o)) > unseenFor {
			all = append(all, Item{Check: "PolicyNotSeen", Object: object, Message: what + ". See whether it runs and leads: kubectl clusterip status."})
		}
		if o.Spec.SelectsByServiceLabelsAlone() {
			all = append(all, Item{Check: "PolicyByServiceLabels", Object: object,
				Message: "The author of a Service chooses its labels, so any tenant can have addresses of these ranges; set namespaceSelector to keep tenants apart."})
		}
	}
	slices.SortStableFunc(all, Item.compare)
	return all
}

// RangeFaults are the conditions of a ServiceCIDR that say what is wrong with it, each fault once,
// in their order.
func RangeFaults(all []metav1.Condition) []metav1.Condition { return faults(all, rangeCheck) }

// failing are the findings about an object, by its conditions.
func failing(object string, conditions []metav1.Condition, check func(metav1.Condition) string) (all []Item) {
	for _, c := range faults(conditions, check) {
		all = append(all, Item{Check: check(c), Object: object, Message: c.Message})
	}
	return all
}

// faults are the conditions of an object that fail a check and of which no other one tells.
func faults(conditions []metav1.Condition, check func(metav1.Condition) string) (all []metav1.Condition) {
	fails := map[string]bool{}
	for _, c := range conditions {
		fails[check(c)] = true
	}
	for _, c := range conditions {
		if name := check(c); name != "" && !toldBy(name, c, fails) {
			all = append(all, c)
		}
	}
	return all
}

// toldBy reports whether another condition of the object tells of the same fault, with its reason.
// check is the check that the condition fails, fails are all that the object fails.
func toldBy(check string, c metav1.Condition, fails map[string]bool) bool {
	switch check {
	case "RangeNotReady":
		return c.Reason == networkingv1.ServiceCIDRReasonTerminating && fails["RangeDeletionBlocked"]
	case "RangeNearlyFull": // it names bands that are full, of which the others tell, and those that will be
		return (fails["RangeDynamicBandFull"] || fails["RangeStaticBandFull"]) && ofFullBands(c.Message)
	case "PolicyNotProgrammed": // its words lead to the condition that says why, and say nothing else
		return fails["PolicyConflicting"] && strings.HasSuffix(c.Message, "; see the condition Conflicting.") ||
			fails["PolicyNotAccepted"] && strings.HasSuffix(c.Message, "; see the condition Accepted.")
	default:
		return false
	}
}

// ofFullBands reports whether the message of NearlyFull names no band but full ones. The last
// sentence says what to do.
func ofFullBands(message string) bool {
	sentences := strings.Split(message, ". ")
	return len(sentences) > 1 && !slices.ContainsFunc(sentences[:len(sentences)-1], func(s string) bool { return !strings.HasSuffix(s, " is full") })
}
