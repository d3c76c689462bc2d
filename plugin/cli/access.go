package cli

import (
	"context"
	"fmt"

	authorizationv1 "k8s.io/api/authorization/v1"
	networkingv1 "k8s.io/api/networking/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"github.com/clusterip-operator/clusterip-operator/api/v1alpha1"
)

// MayList reports whether the user may list all that View reads. It asks by reviews of the user's
// own access, which every user may have, so that nothing is asked for that is forbidden.
func (s *Cluster) MayList(ctx context.Context) (bool, error) {
	of := []schema.GroupResource{
		{Resource: "services"}, {Resource: "namespaces"}, {Group: networkingv1.GroupName, Resource: "ipaddresses"}, {Group: networkingv1.GroupName, Resource: "servicecidrs"},
	}
	if s.Policies {
		of = append(of, schema.GroupResource{Group: v1alpha1.GroupVersion.Group, Resource: "servicecidrpolicies"})
	}
	for _, one := range of {
		review := &authorizationv1.SelfSubjectAccessReview{}
		review.Spec.ResourceAttributes = &authorizationv1.ResourceAttributes{Verb: "list", Group: one.Group, Resource: one.Resource}
		if err := s.Create(ctx, review); err != nil {
			return false, fmt.Errorf("asking whether you may list %s: %w", one, err)
		}
		if !review.Status.Allowed {
			return false, nil
		}
	}
	return true, nil
}
