package agentdeployment_test

import (
	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"
	authorizationv1 "k8s.io/api/authorization/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes"
)

// The API server is asked in the agent's name, so that roles which clusters have by themselves count too.
var _ = DescribeTable("The account of the agent", func(ctx SpecContext, verb, group, resource, name string, want bool) {
	as, err := c.ConfigForServiceAccount(ctx, namespace, account)
	Expect(err).NotTo(HaveOccurred())
	client, err := kubernetes.NewForConfig(as)
	Expect(err).NotTo(HaveOccurred())
	review, err := client.AuthorizationV1().SelfSubjectAccessReviews().Create(ctx, &authorizationv1.SelfSubjectAccessReview{
		Spec: authorizationv1.SelfSubjectAccessReviewSpec{ResourceAttributes: &authorizationv1.ResourceAttributes{
			Verb: verb, Group: group, Resource: resource, Name: name,
		}},
	}, metav1.CreateOptions{})
	Expect(err).NotTo(HaveOccurred())
	Expect(review.Status.Allowed).To(Equal(want))
},
	func(verb, group, resource, name string, want bool) string {
		what := permission(verb, group, resource, "")
		if want {
			return "may " + what
		}
		return "may not " + what + " " + name
	},
	Entry(nil, "list", "", "services", "", true),
	Entry(nil, "watch", "", "services", "", true),
	Entry(nil, "list", "discovery.k8s.io", "endpointslices", "", true),
	Entry(nil, "watch", "discovery.k8s.io", "endpointslices", "", true),
	Entry(nil, "list", "", "nodes", "", true),
	Entry(nil, "watch", "", "nodes", "node-1", true),
	Entry(nil, "list", "networking.k8s.io", "servicecidrs", "", true),
	Entry(nil, "watch", "networking.k8s.io", "servicecidrs", "", true),
	Entry(nil, "list", "networking.k8s.io", "ipaddresses", "", true),
	Entry(nil, "watch", "networking.k8s.io", "ipaddresses", "", true),
	Entry(nil, "create", "events.k8s.io", "events", "", true),
	Entry(nil, "patch", "events.k8s.io", "events", "", true),

	// It has the token of a pod on every node: who breaks into one node must not rule the others with it.
	Entry(nil, "get", "", "secrets", "", false),
	Entry(nil, "list", "", "configmaps", "", false),
	Entry(nil, "list", "", "pods", "", false),
	Entry(nil, "create", "", "pods", "", false),
	Entry(nil, "update", "", "services", "", false),
	Entry(nil, "patch", "", "services/status", "", false),
	Entry(nil, "create", "discovery.k8s.io", "endpointslices", "", false),
	Entry(nil, "patch", "", "nodes", "node-1", false),
	Entry(nil, "patch", "", "nodes/status", "node-1", false),
	Entry(nil, "create", "networking.k8s.io", "ipaddresses", "", false),
	Entry(nil, "delete", "networking.k8s.io", "ipaddresses", "10.96.0.1", false),
	Entry(nil, "update", "networking.k8s.io", "servicecidrs", "kubernetes", false),
	Entry(nil, "list", "events.k8s.io", "events", "", false),
	Entry(nil, "delete", "events.k8s.io", "events", "", false),
	Entry(nil, "create", "", "serviceaccounts/token", "", false),
	Entry(nil, "impersonate", "", "users", "system:admin", false),
	Entry(nil, "update", "apps", "daemonsets", account, false),
	Entry(nil, "create", "coordination.k8s.io", "leases", "", false),
)
