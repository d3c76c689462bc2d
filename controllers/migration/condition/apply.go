package condition

import (
	"context"
	"fmt"
	"time"

	networkingv1 "k8s.io/api/networking/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	metav1ac "k8s.io/client-go/applyconfigurations/meta/v1"
	networkingv1ac "k8s.io/client-go/applyconfigurations/networking/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/clusterip-operator/clusterip-operator/api/v1alpha1"
)

// Write writes the condition on the default ServiceCIDR if it says something new. Without the object it does nothing.
func Write(ctx context.Context, c client.Client, apiVersion string, want metav1.Condition, now time.Time) error {
	return write(ctx, c, apiVersion, want, now, func(there *metav1.Condition) bool { return there == nil || news(*there, want) })
}

// Renew is Write for clusters that have the condition already: others never allocated from a bitmap under our eyes.
func Renew(ctx context.Context, c client.Client, apiVersion string, want metav1.Condition, now time.Time) error {
	return write(ctx, c, apiVersion, want, now, func(there *metav1.Condition) bool { return there != nil && news(*there, want) })
}

func news(there, want metav1.Condition) bool {
	return there.Status != want.Status || there.Reason != want.Reason || there.Message != want.Message
}

func write(ctx context.Context, c client.Client, apiVersion string, want metav1.Condition, now time.Time, needed func(there *metav1.Condition) bool) error {
	cidr := &networkingv1.ServiceCIDR{}
	if err := c.Get(ctx, client.ObjectKey{Name: v1alpha1.DefaultServiceCIDR}, cidr); err != nil {
		return client.IgnoreNotFound(err)
	}
	if !needed(of(cidr.Status.Conditions)) {
		return nil
	}
	return apply(ctx, c, apiVersion, cidr, want, now)
}

// apply keeps the time of the last transition while the status is the same.
func apply(ctx context.Context, c client.Client, apiVersion string, cidr *networkingv1.ServiceCIDR, want metav1.Condition, now time.Time) error {
	since := metav1.NewTime(now)
	if there := of(cidr.Status.Conditions); there != nil && there.Status == want.Status {
		since = there.LastTransitionTime
	}
	status := networkingv1ac.ServiceCIDRStatus().WithConditions(metav1ac.Condition().
		WithType(want.Type).WithStatus(want.Status).WithReason(want.Reason).WithMessage(want.Message).WithLastTransitionTime(since))
	object := networkingv1ac.ServiceCIDR(cidr.Name).WithAPIVersion(apiVersion).WithUID(cidr.UID).WithStatus(status)
	if err := c.Status().Apply(ctx, object, client.FieldOwner(v1alpha1.ManagerMigration), client.ForceOwnership); err != nil {
		return fmt.Errorf("applying the condition %s: %w", want.Type, err)
	}
	return nil
}
