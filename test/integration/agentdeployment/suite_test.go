// Package agentdeployment_test installs config/proxyagent and its variants as an admin does, and
// runs the node agent as their pods would: with the token of their ServiceAccount, the arguments of
// their container, the file of their ConfigMap and no other capability than theirs, on a node with
// real packets. It wants the agent to be able to do all its work, and to be allowed nothing else.
//
// One cluster lives as long as the suite. Its audit log shows what the account has asked for.
//
// Start with "The agent as it is deployed".
package agentdeployment_test

import (
	"strings"
	"testing"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"
	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/clusterip-operator/clusterip-operator/test/framework"
	"github.com/clusterip-operator/clusterip-operator/test/integration/internal/cluster"
	"github.com/clusterip-operator/clusterip-operator/test/integration/internal/manifests"
)

func TestAgentDeployment(t *testing.T) {
	RegisterFailHandler(Fail)
	RunSpecs(t, "agentdeployment")
}

// What config/ installs.
const (
	folder    = "../../../config"
	base      = folder + "/proxyagent"
	beside    = folder + "/components/proxyagent-beside-kube-proxy"
	replace   = folder + "/components/proxyagent-replace-kube-proxy"
	uninstall = folder + "/components/proxyagent-uninstall"
	namespace = "kube-system"
	account   = "clusterip-operator-proxyagent"
)

// c has config/proxyagent in it, and no operator: the agent gets by without. witness is what c logs
// of the agent's requests.
var (
	c       *cluster.Cluster
	witness manifests.AuditLog
)

var _ = BeforeSuite(func(ctx SpecContext) {
	// An API server that cannot stream the state into a watch has to be listed. The agent does both.
	c, witness = cluster.StartAudited(ctx, framework.Options{FeatureGates: map[string]bool{"WatchList": false}}, namespace+":"+account)
	c.Kustomize(ctx, base)
	_, err := c.Client().CoreV1().Nodes().Create(ctx, &corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: node}}, metav1.CreateOptions{})
	Expect(err).NotTo(HaveOccurred())
})

// podOf is the pod of the one DaemonSet of a kustomization, agentOf its container.
func podOf(m manifests.Manifests) corev1.PodTemplateSpec {
	GinkgoHelper()
	return manifests.Only[appsv1.DaemonSet](m, "DaemonSet").Spec.Template
}

func agentOf(m manifests.Manifests) corev1.Container {
	GinkgoHelper()
	all := podOf(m).Spec.Containers
	Expect(all).To(HaveLen(1))
	return all[0]
}

// configMap returns the content of a ConfigMap of a name before the digest; nil when there is none.
func configMap(m manifests.Manifests, prefix string) map[string]string {
	GinkgoHelper()
	for _, found := range manifests.Every[corev1.ConfigMap](m, "ConfigMap") {
		if strings.HasPrefix(found.Name, prefix+"-") {
			return found.Data
		}
	}
	return nil
}
