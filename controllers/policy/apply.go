package policy

import (
	"context"
	"time"

	corev1 "k8s.io/api/core/v1"

	"github.com/clusterip-operator/clusterip-operator/api/v1alpha1"
	"github.com/clusterip-operator/clusterip-operator/controllers/internal/objects"
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
	want.Conditions = wording.Dated(o.Status.Conditions, want.Conditions, now)
	if write, wait := due(o.Status, want, now.Sub(last.wrote)); !write {
		return wait, nil
	}
	if err := r.writes.Wait(ctx); err != nil {
		return 0, err
	}
	want.Refusals = nil // they stay the admission replicas'
	if err := objects.ApplyStatus(ctx, r.Client, o, &want, v1alpha1.ManagerPolicy); err != nil {
		return 0, err
	}
	last.wrote = now
	for _, c := range turnedBad(o.Status.Conditions, want.Conditions) {
		r.Events.Eventf(o, nil, corev1.EventTypeWarning, eventReasons[c.Type], "Program", "%s", wording.Cut(c.Message, wording.NoteLimit))
	}
	return 0, nil
}
