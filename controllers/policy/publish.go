package policy

import (
	"context"
	"fmt"
	"slices"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/equality"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/clusterip-operator/clusterip-operator/api/v1alpha1"
	"github.com/clusterip-operator/clusterip-operator/controllers/internal/wording"
)

// publish applies the status if it says something new, and tells of conditions that turned bad. What can wait is put off: then it returns
// when to look again.
func (r *Reporter) publish(
	ctx context.Context, o *v1alpha1.ServiceCIDRPolicy, want v1alpha1.ServiceCIDRPolicyStatus,
) (again time.Duration, err error) {
	now := r.Clock.Now()
	want.Conditions = timed(o.Status.Conditions, want.Conditions, metav1.NewTime(now))
	switch {
	case says(o.Status, want):
		return 0, nil
	case canWait(o.Status, want):
		if left := r.pace.mayCount(o.Name, now); left > 0 {
			return left, nil
		}
	default:
		if err := r.pace.wait(ctx); err != nil {
			return 0, err
		}
	}
	if err := r.write(ctx, o, want); err != nil {
		return 0, err
	}
	r.pace.wrote(o.Name, now)
	return 0, nil
}

func (r *Reporter) write(ctx context.Context, o *v1alpha1.ServiceCIDRPolicy, want v1alpha1.ServiceCIDRPolicyStatus) error {
	apply, err := applied(o, want)
	if err != nil {
		return err
	}
	err = r.Client.Status().Apply(ctx, client.ApplyConfigurationFromUnstructured(apply),
		client.FieldOwner(v1alpha1.ManagerPolicy), client.ForceOwnership)
	if err != nil {
		return err
	}
	for _, c := range turnedBad(o.Status.Conditions, want.Conditions) {
		r.Events.Eventf(o, nil, corev1.EventTypeWarning, eventReasons[c.Type], "Program", "%s", wording.Cut(c.Message, noteLimit))
	}
	return nil
}

// noteLimit is how many bytes events.k8s.io takes for the note of an event; a longer one is refused.
const noteLimit = 1024

// eventReasons are the reasons of the events that announce a condition which turned bad.
var eventReasons = map[string]string{
	v1alpha1.PolicyAccepted:    "ServiceCIDRPolicyInvalid",
	v1alpha1.PolicyConflicting: "ServiceCIDRPolicyConflicting",
	v1alpha1.PolicyProgrammed:  "ServiceCIDRPolicyNotProgrammed",
}

// timed keeps the time of the last transition as long as there was none.
func timed(before, want []metav1.Condition, now metav1.Time) []metav1.Condition {
	out := slices.Clone(want)
	for i, c := range out {
		out[i].LastTransitionTime = now
		if was := meta.FindStatusCondition(before, c.Type); was != nil && was.Status == c.Status {
			out[i].LastTransitionTime = was.LastTransitionTime
		}
	}
	return out
}

// says reports whether a status has all that is wanted, whatever else it has.
func says(have, want v1alpha1.ServiceCIDRPolicyStatus) bool {
	return have.Summary == want.Summary && equality.Semantic.DeepEqual(have.Ranges, want.Ranges) && judges(have, want)
}

// judges reports whether a status has the conditions that are wanted.
func judges(have, want v1alpha1.ServiceCIDRPolicyStatus) bool {
	return have.ObservedGeneration == want.ObservedGeneration &&
		!slices.ContainsFunc(want.Conditions, func(c metav1.Condition) bool {
			was := meta.FindStatusCondition(have.Conditions, c.Type)
			return was == nil || !equality.Semantic.DeepEqual(*was, c)
		})
}

// canWait reports whether a status that is not what is wanted lacks nothing but counts, none of which came from nothing or went to it.
func canWait(have, want v1alpha1.ServiceCIDRPolicyStatus) bool {
	return judges(have, want) && slices.EqualFunc(have.Ranges, want.Ranges, func(a, b v1alpha1.PolicyRange) bool {
		return a.CIDR == b.CIDR && a.ServiceCIDR == b.ServiceCIDR && present(a) == present(b)
	})
}

// present says which kinds of addresses there are in a range: free, cooling, reserved.
func present(r v1alpha1.PolicyRange) [3]bool {
	return [3]bool{
		r.Static.Free > 0 || r.Dynamic.Free > 0,
		r.Static.Cooling > 0 || r.Dynamic.Cooling > 0,
		r.Static.Reserved > 0 || r.Dynamic.Reserved > 0,
	}
}

// applied is the body of the apply. Refusals are left out, so that they stay the admission replicas'. The UID keeps it from a policy of
// the same name that was created since.
func applied(o *v1alpha1.ServiceCIDRPolicy, want v1alpha1.ServiceCIDRPolicyStatus) (*unstructured.Unstructured, error) {
	want.Refusals = nil
	status, err := runtime.DefaultUnstructuredConverter.ToUnstructured(&want)
	if err != nil {
		return nil, fmt.Errorf("converting a status: %w", err)
	}
	return &unstructured.Unstructured{Object: map[string]any{
		"apiVersion": v1alpha1.GroupVersion.String(), "kind": policyKind,
		"metadata": map[string]any{"name": o.Name, "uid": string(o.UID)},
		"status":   status,
	}}, nil
}

// turnedBad returns the conditions that say now what is wrong and said something else before.
func turnedBad(before, now []metav1.Condition) []metav1.Condition {
	return slices.DeleteFunc(slices.Clone(now), func(c metav1.Condition) bool {
		was := meta.FindStatusCondition(before, c.Type)
		return !bad(c) || (was != nil && bad(*was) && was.Reason == c.Reason)
	})
}

// bad reports whether somebody has to do something. What is on its way, a new range or a reservation that is being written, is nothing
// to warn of.
func bad(c metav1.Condition) bool {
	if c.Type == v1alpha1.PolicyConflicting {
		return c.Status == metav1.ConditionTrue
	}
	return c.Status == metav1.ConditionFalse && c.Reason != reasonUnready && c.Reason != reasonNotYetWritten
}
