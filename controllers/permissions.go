package controllers

import (
	coordinationv1 "k8s.io/api/coordination/v1"
	networkingv1 "k8s.io/api/networking/v1"

	"github.com/clusterip-operator/clusterip-operator/api/v1alpha1"
	"github.com/clusterip-operator/clusterip-operator/controllers/enforcement"
	"github.com/clusterip-operator/clusterip-operator/controllers/internal/webhook"
)

// permission is one thing that the operator must be allowed to do, in the words of an RBAC rule. Without a
// namespace it is meant for the whole cluster, without a name for every object.
type permission struct {
	group, resource, subresource string
	verbs                        []string
	namespace, name              string
}

// Needs is what the manager does beside the work of every loop.
type Needs struct {
	// LeaseNamespace is where the leader election keeps its Lease; empty without an election.
	LeaseNamespace string
	// Reviews: metrics are served to those whom the API server lets read them.
	Reviews bool
	// Policies: the API server serves ServiceCIDRPolicies.
	Policies bool
	// Certificates: the webhooks have certificates of our own, kept in Namespace, for the configurations of the name Configuration.
	Certificates  bool
	Namespace     string
	Configuration string
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

func (n Needs) permissions() []permission {
	var out []permission
	if n.Reviews {
		out = append(out,
			permission{group: "authentication.k8s.io", resource: "tokenreviews", verbs: []string{"create"}},
			permission{group: "authorization.k8s.io", resource: "subjectaccessreviews", verbs: []string{"create"}})
	}
	if n.LeaseNamespace != "" {
		out = append(out, leases(n.LeaseNamespace, "get", "create", "update"))
	}
	if n.Policies {
		out = append(out, policyPermissions()...)
	}
	if n.Certificates {
		out = append(out, n.certificates()...)
	}
	return out
}

func leases(namespace string, verbs ...string) permission {
	return permission{group: coordinationv1.GroupName, resource: "leases", verbs: verbs, namespace: namespace}
}

// policyPermissions are those of the loops that policies need. A namespace that is too young to be watched yet is read by itself.
func policyPermissions() []permission {
	out := []permission{
		{resource: "namespaces", verbs: []string{"get", "list", "watch"}},
		{group: v1alpha1.GroupVersion.Group, resource: v1alpha1.Resource, verbs: []string{"get", "list", "watch"}},
		{group: v1alpha1.GroupVersion.Group, resource: v1alpha1.Resource, subresource: "status", verbs: []string{"patch"}},
		{group: v1alpha1.GroupVersion.Group, resource: "exclusiveranges", verbs: []string{"get"}},
	}
	for _, kind := range enforcement.Objects() {
		out = append(out, permission{
			group: kind.Group, resource: kind.Resource, verbs: []string{"create", "patch", "delete"}, name: v1alpha1.ExclusiveRangesName,
		})
	}
	return out
}

// certificates are those of the one who keeps the certificate: of each object by its name, but an object has none before it is created.
func (n Needs) certificates() []permission {
	out := []permission{
		{resource: "secrets", verbs: []string{"create"}, namespace: n.Namespace},
		{resource: "secrets", verbs: []string{"list", "watch", "update"}, namespace: n.Namespace, name: webhook.SecretName},
	}
	for _, resource := range []string{"mutatingwebhookconfigurations", "validatingwebhookconfigurations"} {
		out = append(out, permission{
			group: "admissionregistration.k8s.io", resource: resource, verbs: []string{"list", "watch", "patch"}, name: n.Configuration,
		})
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
