package policy

import (
	"slices"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/clusterip-operator/clusterip-operator/api/v1alpha1"
	"github.com/clusterip-operator/clusterip-operator/internal/conditions"
)

// Reasons of the condition Ready beside those of the conditions that it sums up.
const (
	reasonReady          = "Ready"
	reasonNotYetEnforced = "EnforcementPending"
)

// ready sums up what a policy promises, for what waits for a condition of this name: kstatus, Flux,
// Helm, `kubectl wait`. Unknown is what comes by itself, False what an admin has to mend. A part
// that a better policy won is in Programmed if this one lacks it, and otherwise no reason to wait.
func ready(in inputs, parts ...metav1.Condition) metav1.Condition {
	if in.enforces && in.enforced != nil && in.enforced.ObservedGeneration == in.generation {
		parts = append(parts, *in.enforced)
	}
	lacking := slices.DeleteFunc(parts, func(c metav1.Condition) bool { return c.Status == metav1.ConditionTrue })
	if n := slices.IndexFunc(lacking, func(c metav1.Condition) bool { return !onItsWay(c) }); n >= 0 {
		return conditions.New(v1alpha1.PolicyReady, metav1.ConditionFalse, lacking[n].Reason, lacking[n].Message)
	}
	if len(lacking) > 0 {
		return conditions.New(v1alpha1.PolicyReady, metav1.ConditionUnknown, lacking[0].Reason, lacking[0].Message)
	}
	if in.enforces && (in.enforced == nil || in.enforced.ObservedGeneration != in.generation) {
		return conditions.New(v1alpha1.PolicyReady, metav1.ConditionUnknown, reasonNotYetEnforced, "The condition Enforced does not speak of this generation yet.")
	}
	return conditions.New(v1alpha1.PolicyReady, metav1.ConditionTrue, reasonReady, "The policy is followed, and all that it asks for is in place.")
}

// onItsWay reports whether a condition that is not True becomes so without an admin.
func onItsWay(c metav1.Condition) bool {
	return c.Reason == reasonUnready || c.Reason == reasonNotYetWritten || c.Type == v1alpha1.PolicyEnforced && c.Reason == v1alpha1.ReasonPending
}
