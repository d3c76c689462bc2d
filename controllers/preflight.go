package controllers

import (
	"context"
	"fmt"
	"strings"

	authorizationv1 "k8s.io/api/authorization/v1"
	networkingv1 "k8s.io/api/networking/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	authorizationclient "k8s.io/client-go/kubernetes/typed/authorization/v1"
)

// permission is one thing that the operator must be allowed to do, in the words of an RBAC rule. Without a
// namespace it is meant for the whole cluster.
type permission struct {
	group, resource, subresource string
	verbs                        []string
	namespace                    string
}

// Needs is what the manager does beside the loops.
type Needs struct {
	// LeaseNamespace is where the leader election keeps its Lease; empty without an election.
	LeaseNamespace string
	// Reviews: metrics are served to those whom the API server lets read them.
	Reviews bool
}

// permissions is what the loops use, and config/rbac grants; a test holds the two together.
func permissions() []permission {
	return []permission{
		{resource: "services", verbs: []string{"get", "list", "watch"}},
		{resource: "nodes", verbs: []string{"list", "watch"}},
		{group: networkingv1.GroupName, resource: "ipaddresses", verbs: []string{"get", "list", "watch", "create", "patch", "delete"}},
		{group: networkingv1.GroupName, resource: "servicecidrs", verbs: []string{"get", "list", "watch", "create", "patch"}},
		{group: networkingv1.GroupName, resource: "servicecidrs", subresource: "status", verbs: []string{"patch"}},
		{group: "events.k8s.io", resource: "events", verbs: []string{"create", "patch"}},
	}
}

// permissions are those of the needs.
func (n Needs) permissions() []permission {
	var out []permission
	if n.Reviews {
		out = append(out,
			permission{group: "authentication.k8s.io", resource: "tokenreviews", verbs: []string{"create"}},
			permission{group: "authorization.k8s.io", resource: "subjectaccessreviews", verbs: []string{"create"}})
	}
	if n.LeaseNamespace != "" {
		out = append(out, permission{
			group: "coordination.k8s.io", resource: "leases", verbs: []string{"get", "create", "update"}, namespace: n.LeaseNamespace,
		})
	}
	return out
}

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
		ResourceAttributes: &authorizationv1.ResourceAttributes{Group: p.group, Resource: p.resource, Subresource: p.subresource, Verb: verb, Namespace: p.namespace},
	}}
	answer, err := reviews.Create(ctx, review, metav1.CreateOptions{})
	if err != nil {
		return false, fmt.Errorf("asking the API server whether %s %s is allowed: %w", verb, p, err)
	}
	return answer.Status.Allowed, nil
}

// String names the resource as kubectl does.
func (p permission) String() string {
	name := p.resource
	if p.group != "" {
		name += "." + p.group
	}
	if p.subresource != "" {
		name += "/" + p.subresource
	}
	if p.namespace != "" {
		name += " in namespace " + p.namespace
	}
	return name
}
