// Package agentdeployment_test installs config/proxyagent and its variants as an admin does, and runs the node agent as the pods of
// these manifests would run: with the token of their ServiceAccount, the arguments of their container, the file of their ConfigMap and
// no other capability than theirs, on a node with real packets. It wants the agent to be able to do its whole work, and to be allowed
// nothing beyond it.
//
// One cluster lives as long as the suite. Its audit log is the witness of what the account has asked for.
//
// Start with "The agent as it is deployed".
package agentdeployment_test

import (
	"context"
	"path/filepath"
	"testing"
	"time"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"

	"github.com/clusterip-operator/clusterip-operator/test/framework"
	"github.com/clusterip-operator/clusterip-operator/test/integration/internal/cluster"
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

// timeout is how long anything may take on a busy machine.
const timeout = time.Minute

var (
	// c has config/proxyagent in it, and no operator: the agent gets by without.
	c *cluster.Cluster
	// witness is the audit log of c.
	witness auditLog
)

var _ = BeforeSuite(func(ctx SpecContext) {
	witness = auditLog(filepath.Join(GinkgoT().TempDir(), "audit.log"))
	c = cluster.Start(ctx, cluster.Options{WithoutOperator: true, Options: framework.Options{
		Args: append(witness.flags(), "--allow-privileged=true"),
		// An API server that cannot stream the present state into a watch has to be listed. The agent works with both.
		FeatureGates: map[string]bool{"WatchList": false},
	}})
	apply(ctx, base)
})

// apply applies a kustomization as its comments say.
func apply(ctx context.Context, kustomization string) {
	GinkgoHelper()
	kubectl(ctx, "apply", "--server-side", "-k", kustomization)
}

// kubectl runs kubectl as an administrator.
func kubectl(ctx context.Context, args ...string) string {
	GinkgoHelper()
	output, err := framework.Kubectl(ctx, c.Kubeconfig(), args...)
	Expect(err).NotTo(HaveOccurred())
	return output
}
