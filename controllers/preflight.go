package controllers

import (
	"context"
	"fmt"
	"strings"

	authorizationv1 "k8s.io/api/authorization/v1"
	coordinationv1 "k8s.io/api/coordination/v1"
	networkingv1 "k8s.io/api/networking/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	authorizationclient "k8s.io/client-go/kubernetes/typed/authorization/v1"

	"github.com/clusterip-operator/clusterip-operator/api/v1alpha1"
	"github.com/clusterip-operator/clusterip-operator/internal/history"
	"github.com/clusterip-operator/clusterip-operator/internal/webhook"
)

// Preflight asks the API server whether all that the loops and needs do is allowed, and returns one
// error that lists what is not. Without it a missing verb shows as a watch that never synchronises,
// or as a manager that stands by for ever.
func Preflight(ctx context.Context, reviews authorizationclient.SelfSubjectAccessReviewInterface, needs Needs) error {
	var missing []string
	for _, p := range needs.permissions() {
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
		return fmt.Errorf("permissions are missing: %s; apply config/rbac, and for a history config/components/history, or grant them to this account", strings.Join(missing, ", "))
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

// permission is one thing that the operator must be allowed to do, in the words of an RBAC rule.
// Without a namespace it is meant for the whole cluster, without a name for every object.
type permission struct {
	group, resource, subresource string
	verbs                        []string
	namespace, name              string
}

// Needs is what the manager does beside the work of every loop.
type Needs struct {
	// LeaseNamespace is where the leader election keeps its Lease; empty without an election.
	LeaseNamespace string
	// Reviews: metrics are served to clients that the API server lets read them.
	Reviews bool
	// Policies: the API server serves ServiceCIDRPolicies.
	Policies bool
	// Namespace is that of the operator: the certificates of the webhooks and the ConfigMap of
	// exclusive ranges are there.
	Namespace string
	// History: who had which address is kept in ConfigMaps.
	History bool
	// Certificates: the webhooks have certificates of our own, for the configurations so named.
	Certificates  bool
	Configuration string
}

// permissions is what the loops and needs use and config/rbac grants; a test holds both together.
func (n Needs) permissions() []permission {
	out := []permission{
		{resource: "services", verbs: []string{"get", "list", "watch"}},
		{resource: "nodes", verbs: []string{"list", "watch"}},
		{group: networkingv1.GroupName, resource: "ipaddresses", verbs: []string{"get", "list", "watch", "create", "patch", "delete"}},
		{group: networkingv1.GroupName, resource: "servicecidrs", verbs: []string{"get", "list", "watch", "create", "patch"}},
		{group: networkingv1.GroupName, resource: "servicecidrs", subresource: "status", verbs: []string{"patch"}},
		{group: "events.k8s.io", resource: "events", verbs: []string{"create", "patch"}},
	}
	add := func(group, resource, subresource, namespace, name string, verbs ...string) {
		out = append(out, permission{group: group, resource: resource, subresource: subresource, namespace: namespace, name: name, verbs: verbs})
	}
	if n.Reviews {
		add("authentication.k8s.io", "tokenreviews", "", "", "", "create")
		add("authorization.k8s.io", "subjectaccessreviews", "", "", "", "create")
	}
	if n.LeaseNamespace != "" {
		add(coordinationv1.GroupName, "leases", "", n.LeaseNamespace, "", "get", "create", "update")
	}
	if n.Policies {
		add("", "namespaces", "", "", "", "get", "list", "watch") // one that is too young to be watched yet is read by itself
		add(v1alpha1.GroupVersion.Group, v1alpha1.Resource, "", "", "", "get", "list", "watch")
		add(v1alpha1.GroupVersion.Group, v1alpha1.Resource, "status", "", "", "patch")
		// A user that binds a ValidatingAdmissionPolicy has to be allowed to get its parameter. An
		// apply may create an object by its name.
		add("", "configmaps", "", n.Namespace, v1alpha1.ExclusiveName, "get", "list", "watch", "create", "patch", "delete")
		add("admissionregistration.k8s.io", "validatingadmissionpolicies", "", "", v1alpha1.ExclusiveName, "list", "watch")
		add("admissionregistration.k8s.io", "validatingadmissionpolicybindings", "", "", v1alpha1.ExclusiveName, "list", "watch", "create", "patch", "delete")
	}
	if n.History {
		// The role names all of them; to ask for the first and the last is enough to miss it.
		for _, shard := range []int{0, history.Shards - 1} {
			add("", "configmaps", "", n.Namespace, history.NameOf(shard), "get", "create", "patch")
		}
	}
	if n.Certificates { // of each object by its name, but an object has none before it is created
		add("", "secrets", "", n.Namespace, "", "create")
		add("", "secrets", "", n.Namespace, webhook.SecretName, "list", "watch", "update")
		for _, resource := range []string{"mutatingwebhookconfigurations", "validatingwebhookconfigurations"} {
			add("admissionregistration.k8s.io", resource, "", "", n.Configuration, "list", "watch", "update")
		}
	}
	return out
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
	if p.name != "" {
		name += " " + p.name
	}
	if p.namespace != "" {
		name += " in namespace " + p.namespace
	}
	return name
}
