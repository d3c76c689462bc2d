package growth

import (
	"context"
	"errors"
	"fmt"
	"net/netip"

	corev1 "k8s.io/api/core/v1"
	networkingv1 "k8s.io/api/networking/v1"
	"k8s.io/apimachinery/pkg/api/equality"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/log"

	"github.com/clusterip-operator/clusterip-operator/api/v1alpha1"
	"github.com/clusterip-operator/clusterip-operator/internal/conditions"
	"github.com/clusterip-operator/clusterip-operator/internal/objects"
	"github.com/clusterip-operator/clusterip-operator/internal/wording"
)

// apply creates what was decided and says so, or why it was refused, each family for itself.
func (r *Reconciler) apply(ctx context.Context, o *v1alpha1.ServiceCIDRPolicy, in inputs, d decision) error {
	var failures []error
	for _, block := range d.create {
		if err := r.create(ctx, o, block); err != nil {
			failures = append(failures, err)
		}
	}
	if len(failures) > 0 {
		meta.SetStatusCondition(&d.conditions, conditions.Observed(in.generation, failed(failures))[0])
	}
	return errors.Join(append(failures, r.publish(ctx, o, d.conditions))...)
}

// create creates the ServiceCIDR of a block. Its name is its lock: a second creation is refused.
func (r *Reconciler) create(ctx context.Context, o *v1alpha1.ServiceCIDRPolicy, block netip.Prefix) error {
	cidr := &networkingv1.ServiceCIDR{
		ObjectMeta: metav1.ObjectMeta{
			Name: nameOf(block), Labels: o.Spec.ServiceCIDRSelector.MatchLabels, Annotations: map[string]string{v1alpha1.AnnotationCreatedFor: o.Name},
		},
		Spec: networkingv1.ServiceCIDRSpec{CIDRs: []string{block.String()}},
	}
	switch err := r.Client.Create(ctx, cidr, client.FieldOwner(v1alpha1.ManagerGrowth)); {
	case apierrors.IsAlreadyExists(err):
		return fmt.Errorf("there is a ServiceCIDR %s already, which is not %s or has just been created: if it is yours, give it another name", cidr.Name, block)
	case err != nil:
		return fmt.Errorf("creating ServiceCIDR %s (%s): %w", cidr.Name, block, err)
	}
	log.FromContext(ctx).Info("Created a ServiceCIDR", "serviceCIDR", cidr.Name, "cidr", block)
	r.Events.Eventf(o, cidr, corev1.EventTypeNormal, "ServiceCIDRCreated", "Grow", "Created ServiceCIDR %s (%s)", cidr.Name, block)
	return nil
}

// warning is the reason of the event that announces a condition, empty if no admin has to act.
func warning(c metav1.Condition) string {
	switch {
	case c.Type == v1alpha1.PolicyGrowthExhausted && c.Status == metav1.ConditionTrue:
		return "ServiceCIDRPolicyGrowthExhausted"
	case c.Reason == reasonFailed:
		return "ServiceCIDRCreationFailed"
	default:
		return ""
	}
}

// publish writes conditions if they are new, removes them if want is empty, and warns of those that
// an admin has to act on. The API server tells what is new: a cache that lags would repeat events.
func (r *Reconciler) publish(ctx context.Context, o *v1alpha1.ServiceCIDRPolicy, want []metav1.Condition) error {
	if _, same := r.dated(o, want); same {
		return nil
	}
	live, err := objects.Get(ctx, r.Live, client.ObjectKeyFromObject(o), &v1alpha1.ServiceCIDRPolicy{})
	if err != nil || live == nil || live.UID != o.UID {
		return err
	}
	want, same := r.dated(live, want)
	if same {
		return nil
	}
	if err := objects.ApplyConditions(ctx, r.Client, live, want, v1alpha1.ManagerGrowth); err != nil {
		return objects.IgnoreGone(err)
	}
	for _, c := range want {
		was := meta.FindStatusCondition(live.Status.Conditions, c.Type)
		if reason := warning(c); reason != "" && (was == nil || warning(*was) == "" || was.Reason != c.Reason) {
			r.Events.Eventf(o, nil, corev1.EventTypeWarning, reason, "Grow", "%s", wording.Cut(c.Message, wording.NoteLimit))
		}
	}
	return nil
}

// dated returns conditions with their times, and whether a policy has the same already.
func (r *Reconciler) dated(o *v1alpha1.ServiceCIDRPolicy, want []metav1.Condition) (dated []metav1.Condition, same bool) {
	has := growthConditions(o.Status.Conditions)
	dated = conditions.Dated(has, want, r.Clock.Now())
	return dated, equality.Semantic.DeepEqual(has, dated)
}

// growthConditions are those conditions that this controller writes, in their order.
func growthConditions(all []metav1.Condition) []metav1.Condition {
	return conditions.Pick(all, v1alpha1.PolicyGrowing, v1alpha1.PolicyGrowthExhausted)
}
