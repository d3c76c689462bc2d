package cli

import (
	"context"
	"fmt"

	authorizationv1 "k8s.io/api/authorization/v1"
	corev1 "k8s.io/api/core/v1"
	networkingv1 "k8s.io/api/networking/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/clusterip-operator/clusterip-operator/api/v1alpha1"
)

// MayList reports whether the user may list all that View reads.
func (s *Cluster) MayList(ctx context.Context) (bool, error) {
	of := []schema.GroupResource{
		{Resource: "services"}, {Resource: "namespaces"}, {Group: networkingv1.GroupName, Resource: "ipaddresses"}, {Group: networkingv1.GroupName, Resource: "servicecidrs"},
	}
	if s.Policies {
		of = append(of, schema.GroupResource{Group: v1alpha1.GroupVersion.Group, Resource: "servicecidrpolicies"})
	}
	for _, one := range of {
		refused, err := s.May(ctx, authorizationv1.ResourceAttributes{Verb: "list", Group: one.Group, Resource: one.Resource})
		if err != nil || refused != "" {
			return false, err
		}
	}
	return true, nil
}

// May says what the user may not do, empty for what is allowed. It asks by a review of the user's
// own access, which every user may have: an attempt that is refused shows in the audit log.
func (s *Cluster) May(ctx context.Context, what authorizationv1.ResourceAttributes) (refused string, err error) {
	review := &authorizationv1.SelfSubjectAccessReview{Spec: authorizationv1.SelfSubjectAccessReviewSpec{ResourceAttributes: &what}}
	if err := s.Create(ctx, review); err != nil && !apierrors.IsForbidden(err) {
		return "", fmt.Errorf("asking for permissions: %w", err)
	}
	if review.Status.Allowed {
		return "", nil
	}
	resource, where := what.Resource, ""
	if what.Subresource != "" {
		resource += "/" + what.Subresource
	}
	if what.Namespace != "" {
		where = " in namespace " + what.Namespace
	}
	return fmt.Sprintf("the user may not %s %s%s", what.Verb, resource, where), nil
}

// PodsOf lists the pods of a Deployment or a DaemonSet; what names both in an error.
func (s *Cluster) PodsOf(ctx context.Context, namespace string, by *metav1.LabelSelector, what string) ([]corev1.Pod, error) {
	selector, err := metav1.LabelSelectorAsSelector(by)
	if err != nil {
		return nil, fmt.Errorf("the selector of the %s: %w", what, err)
	}
	pods := &corev1.PodList{}
	err = s.ListNamed(ctx, pods, "pods of the "+what, client.InNamespace(namespace), client.MatchingLabelsSelector{Selector: selector})
	return pods.Items, err
}
