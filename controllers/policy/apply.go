package policy

import (
	"context"
	"fmt"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/clusterip-operator/clusterip-operator/api/v1alpha1"
	"github.com/clusterip-operator/clusterip-operator/controllers/internal/wording"
)

// eventReasons are the reasons of the events that announce a condition which turned bad.
var eventReasons = map[string]string{
	v1alpha1.PolicyAccepted:    "ServiceCIDRPolicyInvalid",
	v1alpha1.PolicyConflicting: "ServiceCIDRPolicyConflicting",
	v1alpha1.PolicyProgrammed:  "ServiceCIDRPolicyNotProgrammed",
}

// publish applies the status if it says something new, and tells of conditions that turned bad. What can wait is put off: then it returns
// when to look again.
func (r *Reconciler) publish(
	ctx context.Context, o *v1alpha1.ServiceCIDRPolicy, want v1alpha1.ServiceCIDRPolicyStatus, last *turn,
) (again time.Duration, err error) {
	now := r.Clock.Now()
	want.Conditions = timed(o.Status.Conditions, want.Conditions, metav1.NewTime(now))
	if write, wait := due(o.Status, want, now.Sub(last.wrote)); !write {
		return wait, nil
	}
	if err := r.writes.Wait(ctx); err != nil {
		return 0, err
	}
	apply, err := applied(o, want)
	if err != nil {
		return 0, err
	}
	err = r.Client.Status().Apply(ctx, client.ApplyConfigurationFromUnstructured(apply), client.FieldOwner(v1alpha1.ManagerPolicy), client.ForceOwnership)
	if err != nil {
		return 0, err
	}
	last.wrote = now
	for _, c := range turnedBad(o.Status.Conditions, want.Conditions) {
		r.Events.Eventf(o, nil, corev1.EventTypeWarning, eventReasons[c.Type], "Program", "%s", wording.Cut(c.Message, wording.NoteLimit))
	}
	return 0, nil
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
		"apiVersion": v1alpha1.GroupVersion.String(), "kind": "ServiceCIDRPolicy",
		"metadata": map[string]any{"name": o.Name, "uid": string(o.UID)},
		"status":   status,
	}}, nil
}
