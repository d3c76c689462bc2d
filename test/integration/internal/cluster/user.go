package cluster

import (
	"context"
	"path/filepath"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"
	authorizationv1 "k8s.io/api/authorization/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"

	"github.com/clusterip-operator/clusterip-operator/test/framework"
	"github.com/clusterip-operator/clusterip-operator/test/framework/suite"
)

// ClientAs returns a client of a user who may do everything, at one API server.
func ClientAs(api *framework.Access, user string) kubernetes.Interface {
	GinkgoHelper()
	config := suite.Must(api.ConfigForUser(user, "system:masters"))
	return suite.Must(kubernetes.NewForConfig(config))
}

// KubeconfigOf writes a kubeconfig that goes with the calling node.
func KubeconfigOf(config *rest.Config) string {
	GinkgoHelper()
	path := filepath.Join(GinkgoT().TempDir(), "kubeconfig")
	Expect(framework.WriteKubeconfig(path, config)).To(Succeed())
	return path
}

// Admin returns a client of a user who may do everything by RBAC, outside of system:masters, and
// the warnings that the user will get. Names are used once.
func (c *Cluster) Admin(ctx context.Context, name string) (kubernetes.Interface, *framework.Warnings) {
	GinkgoHelper()
	c.Kubectl(ctx, "create", "clusterrolebinding", "test-"+name, "--clusterrole=cluster-admin", "--user="+name)
	config := suite.Must(c.ConfigForUser(name))
	warnings := &framework.Warnings{}
	config.WarningHandler = warnings
	client := suite.Must(kubernetes.NewForConfig(config))
	question := &authorizationv1.SelfSubjectAccessReview{Spec: authorizationv1.SelfSubjectAccessReviewSpec{
		ResourceAttributes: &authorizationv1.ResourceAttributes{Verb: "*", Group: "*", Resource: "*"},
	}}
	Eventually(func(g Gomega) { // RBAC follows what is written
		answer, err := client.AuthorizationV1().SelfSubjectAccessReviews().Create(ctx, question, metav1.CreateOptions{})
		g.Expect(err).NotTo(HaveOccurred())
		g.Expect(answer.Status.Allowed).To(BeTrue(), "%+v", answer.Status)
	}).Should(Succeed())
	return client, warnings
}

// CreateNode creates a Node with pod networks, which may be none, and addresses.
func (c *Cluster) CreateNode(ctx context.Context, name string, podCIDRs []string, addresses ...string) {
	GinkgoHelper()
	node := &corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: name}, Spec: corev1.NodeSpec{PodCIDRs: podCIDRs}}
	if len(podCIDRs) > 0 {
		node.Spec.PodCIDR = podCIDRs[0]
	}
	node = suite.Must(c.Client().CoreV1().Nodes().Create(ctx, node, metav1.CreateOptions{}))
	for _, address := range addresses {
		node.Status.Addresses = append(node.Status.Addresses, corev1.NodeAddress{Type: corev1.NodeInternalIP, Address: address})
	}
	suite.Must(c.Client().CoreV1().Nodes().UpdateStatus(ctx, node, metav1.UpdateOptions{}))
}

// DeleteNode deletes a Node.
func (c *Cluster) DeleteNode(ctx context.Context, name string) {
	GinkgoHelper()
	Expect(c.Client().CoreV1().Nodes().Delete(ctx, name, metav1.DeleteOptions{})).To(Succeed())
}
