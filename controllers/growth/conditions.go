package growth

import (
	"fmt"
	"strings"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/clusterip-operator/clusterip-operator/api/v1alpha1"
	"github.com/clusterip-operator/clusterip-operator/internal/conditions"
)

// Reasons of the conditions.
const (
	reasonCreating        = "Creating"
	reasonNotReady        = "ServiceCIDRNotReady"
	reasonDryRun          = "DryRun"
	reasonEnoughFree      = "EnoughFree"
	reasonFailed          = v1alpha1.ReasonCreationFailed
	reasonInvalid         = "Invalid"
	reasonBlocksLeft      = "BlocksLeft"
	reasonNoBlockLeft     = "NoBlockLeft"
	reasonMaxRanges       = "MaxRangesReached"
	reasonRangeLost       = "ServiceCIDRLost"
	reasonFamilyNotServed = "FamilyNotServed"
	reasonCordoned        = "Cordoned"
	reasonWithheld        = "ServiceCIDRWithheld"
)

// cordoned are the conditions of a policy that gives out no addresses.
func cordoned() []metav1.Condition {
	return []metav1.Condition{
		conditions.New(v1alpha1.PolicyGrowing, metav1.ConditionFalse, reasonCordoned, "The policy gives out no addresses (allocation: Cordoned), and does not grow."),
		conditions.New(v1alpha1.PolicyGrowthExhausted, metav1.ConditionFalse, reasonCordoned, "The policy is cordoned, and needs no further range."),
	}
}

// growing says what is on its way, then what is lacking, then what comes next, without counts that
// move with each Service.
func growing(in inputs, all []outlook) metav1.Condition {
	var creates, lacks, next, unready, spare []string
	for _, o := range all {
		switch text := fmt.Sprintf("ServiceCIDR %s (%s)", nameOf(o.next), o.next); {
		case o.creates():
			creates = append(creates, fmt.Sprintf("%s, for %s", text, o.need))
		case o.need != "":
			lacks = append(lacks, fmt.Sprintf("Another range is needed, for %s, and cannot be created. %s", o.need, o.why))
		case o.next.IsValid():
			next = append(next, text)
		}
		spare = append(spare, o.spare...)
	}
	for _, c := range in.created {
		if !c.ready {
			unready = append(unready, c.name)
		}
	}
	switch {
	case len(creates) > 0 && in.dryRun:
		return conditions.New(v1alpha1.PolicyGrowing, metav1.ConditionFalse, reasonDryRun,
			"Would create "+strings.Join(creates, " and ")+". Set growth.dryRun to false to have it created.")
	case len(creates) > 0:
		return conditions.New(v1alpha1.PolicyGrowing, metav1.ConditionTrue, reasonCreating, "Creating "+strings.Join(creates, " and ")+".")
	case len(lacks) > 0:
		return conditions.New(v1alpha1.PolicyGrowing, metav1.ConditionFalse, lackReason(all), lacks...)
	case len(unready) > 0:
		return conditions.New(v1alpha1.PolicyGrowing, metav1.ConditionTrue, reasonNotReady, "Created "+strings.Join(unready, ", ")+", which is not ready yet.")
	default:
		return conditions.New(v1alpha1.PolicyGrowing, metav1.ConditionFalse, reasonEnoughFree, enough(next, spare)...)
	}
}

// enough says what comes next, and what is no longer needed.
func enough(next, spare []string) []string {
	texts := []string{"Enough addresses are free."}
	if len(next) > 0 {
		texts = append(texts, "The next range will be "+strings.Join(next, ", ")+".")
	} else {
		texts = append(texts, "There will be no further range; see GrowthExhausted.")
	}
	if len(spare) > 0 {
		texts = append(texts, "No address of "+strings.Join(spare, ", ")+" is in use, nor was a while ago, and enough would be free without: "+
			"kubectl delete servicecidr "+strings.Join(spare, " ")+" gives up what no Service needs.")
	}
	return texts
}

// lackReason is why the first family that needs a range cannot have one.
func lackReason(all []outlook) string {
	for _, o := range all {
		if o.need != "" && o.reason != "" {
			return o.reason
		}
	}
	return reasonNoBlockLeft
}

// exhausted says beforehand that a family cannot grow any more.
func exhausted(all []outlook) metav1.Condition {
	var reason string
	var texts []string
	for _, o := range all {
		if o.reason == "" {
			continue
		}
		if reason == "" {
			reason = o.reason
		}
		texts = append(texts, o.why)
	}
	if reason == "" {
		return conditions.New(v1alpha1.PolicyGrowthExhausted, metav1.ConditionFalse, reasonBlocksLeft, "There is room for another range.")
	}
	return conditions.New(v1alpha1.PolicyGrowthExhausted, metav1.ConditionTrue, reason, texts...)
}

// failed is Growing when the API server has refused ranges.
func failed(failures []error) metav1.Condition {
	var texts []string
	refused := false
	for _, err := range failures {
		texts, refused = append(texts, err.Error()+"."), refused || apierrors.IsForbidden(err) || apierrors.IsInvalid(err)
	}
	if refused {
		texts = append(texts, "Have what refuses it, permissions or an admission policy of the platform, let the operator's ServiceAccount create ServiceCIDRs, or create ranges with "+
			"the labels of spec.serviceCIDRSelector yourself. It is tried again.")
	}
	return conditions.New(v1alpha1.PolicyGrowing, metav1.ConditionFalse, reasonFailed, texts...)
}
