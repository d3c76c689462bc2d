// Package objects reads and writes single objects. Everything here is safe for concurrent use.
package objects

import (
	"context"
	"fmt"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"
	metav1ac "k8s.io/client-go/applyconfigurations/meta/v1"
	networkingv1ac "k8s.io/client-go/applyconfigurations/networking/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/clusterip-operator/clusterip-operator/api/v1alpha1"
)

// Get reads an object into the given one and returns it, nil when there is none of this name.
func Get[T client.Object](ctx context.Context, reader client.Reader, name types.NamespacedName, into T) (T, error) {
	var none T
	switch err := reader.Get(ctx, name, into); {
	case apierrors.IsNotFound(err):
		return none, nil
	case err != nil:
		return none, fmt.Errorf("reading %T %s: %w", into, name, err)
	}
	return into, nil
}

// IgnoreGone drops the errors of a write to an object that is gone, or not the same one any more.
func IgnoreGone(err error) error {
	if apierrors.IsNotFound(err) || apierrors.IsConflict(err) {
		return nil
	}
	return err
}

// ApplyToServiceCIDR applies what a field manager has to say in the conditions of a ServiceCIDR, of
// which object has the name and what guards the write.
func ApplyToServiceCIDR(
	ctx context.Context, c client.Client, object *networkingv1ac.ServiceCIDRApplyConfiguration, conditions []metav1.Condition, as client.FieldOwner,
) error {
	status := networkingv1ac.ServiceCIDRStatus()
	for _, one := range conditions {
		status.WithConditions(metav1ac.Condition().WithType(one.Type).WithStatus(one.Status).WithReason(one.Reason).
			WithMessage(one.Message).WithLastTransitionTime(one.LastTransitionTime))
	}
	if err := c.Status().Apply(ctx, object.WithStatus(status), as, client.ForceOwnership); err != nil {
		return fmt.Errorf("applying the conditions of ServiceCIDR %s: %w", *object.Name, err)
	}
	return nil
}

// ApplyConditions is ApplyStatus for a field manager that has nothing to say but conditions.
func ApplyConditions(ctx context.Context, c client.Client, o *v1alpha1.ServiceCIDRPolicy, conditions []metav1.Condition, as client.FieldOwner) error {
	var status struct {
		Conditions []metav1.Condition `json:"conditions"`
	}
	status.Conditions = append([]metav1.Condition{}, conditions...) // not nil: a status of which no field manager owns anything any more would be null, which the schema refuses
	if err := ApplyStatus(ctx, c, o, &status, as); err != nil {
		return fmt.Errorf("writing conditions of ServiceCIDRPolicy %s: %w", o.Name, err)
	}
	return nil
}

// ApplyStatus applies what a field manager has to say in the status of a policy, a pointer to a
// struct. The UID spares a policy of the same name that was created since.
func ApplyStatus(ctx context.Context, c client.Client, o *v1alpha1.ServiceCIDRPolicy, status any, as client.FieldOwner) error {
	content, err := runtime.DefaultUnstructuredConverter.ToUnstructured(status)
	if err != nil {
		return fmt.Errorf("converting a status: %w", err)
	}
	body := &unstructured.Unstructured{Object: map[string]any{
		"apiVersion": v1alpha1.GroupVersion.String(), "kind": "ServiceCIDRPolicy",
		"metadata": map[string]any{"name": o.Name, "uid": string(o.UID)}, "status": content,
	}}
	return c.Status().Apply(ctx, client.ApplyConfigurationFromUnstructured(body), as, client.ForceOwnership)
}
