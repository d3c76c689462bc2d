package controllers

import (
	"context"
	"fmt"
	"strings"

	authorizationv1 "k8s.io/api/authorization/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	authorizationclient "k8s.io/client-go/kubernetes/typed/authorization/v1"
)

// Preflight asks the API server whether everything that the loops and needs do is allowed, and returns one error
// that lists all that is not. Without it a missing verb shows as a watch that never synchronises, or as a manager that
// stands by for ever.
func Preflight(ctx context.Context, reviews authorizationclient.SelfSubjectAccessReviewInterface, needs Needs) error {
	var missing []string
	for _, p := range append(permissions(), needs.permissions()...) {
		for _, verb := range p.verbs {
			allowed, err := may(ctx, reviews, p, verb)
			if err != nil {
				return err
			}
			if !allowed {
				missing = append(missing, strings.TrimSpace(verb+" "+p.String()))
			}
		}
	}
	if len(missing) > 0 {
		return fmt.Errorf("permissions are missing: %s; apply config/rbac, or grant them to this account", strings.Join(missing, ", "))
	}
	return nil
}

func may(ctx context.Context, reviews authorizationclient.SelfSubjectAccessReviewInterface, p permission, verb string) (bool, error) {
	review := &authorizationv1.SelfSubjectAccessReview{Spec: authorizationv1.SelfSubjectAccessReviewSpec{
		ResourceAttributes: &authorizationv1.ResourceAttributes{
			Group: p.group, Resource: p.resource, Subresource: p.subresource, Verb: verb, Namespace: p.namespace, Name: p.name,
		},
	}}
	answer, err := reviews.Create(ctx, review, metav1.CreateOptions{})
	if err != nil {
		return false, fmt.Errorf("asking the API server whether %s %s is allowed: %w", verb, p, err)
	}
	return answer.Status.Allowed, nil
}
