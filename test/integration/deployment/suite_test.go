// Package deployment_test installs config/ as an admin does, and runs the manager, its clean-up and the migration as the pods of these
// manifests would run: with the token of their ServiceAccount, and with the arguments of their containers. It wants them to be able
// to do their whole work, and to be allowed nothing beyond it.
//
// One cluster lives as long as the suite. Its audit log is the witness of what these accounts have asked for.
//
// Start with "The manager as it is deployed".
package deployment_test

import (
	"context"
	"path/filepath"
	"testing"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"

	"github.com/clusterip-operator/clusterip-operator/test/framework"
	"github.com/clusterip-operator/clusterip-operator/test/integration/internal/cluster"
)

func TestDeployment(t *testing.T) {
	RegisterFailHandler(Fail)
	RunSpecs(t, "deployment")
}

// What config/ installs.
const (
	folder         = "../../../config"
	defaults       = folder + "/default"
	uninstall      = folder + "/components/uninstall"
	namespace      = "clusterip-operator-system"
	managerAccount = "clusterip-operator-manager"
	leaverAccount  = "clusterip-operator-uninstall"

	migrationNamespace = "kube-system"
	migrationAccount   = "clusterip-operator-migration"
)

// homeOf is the namespace of an account.
func homeOf(account string) string {
	if account == migrationAccount {
		return migrationNamespace
	}
	return namespace
}

var (
	// c has config/default in it, and no manager but while a spec runs one.
	c *cluster.Cluster
	// witness is the audit log of c.
	witness auditLog
)

var _ = BeforeSuite(func(ctx SpecContext) {
	witness = auditLog(filepath.Join(GinkgoT().TempDir(), "audit.log"))
	c = audited(ctx, witness, framework.Options{})
	install(ctx, c, defaults)
})

// audited starts a cluster that writes down what our accounts ask for.
func audited(ctx context.Context, log auditLog, options framework.Options) *cluster.Cluster {
	GinkgoHelper()
	// Privileged pods are allowed by most clusters' API servers, so that it is the namespace which keeps them out.
	options.Args = append(log.flags(), "--allow-privileged=true")
	return cluster.Start(ctx, cluster.Options{WithoutOperator: true, Options: options})
}

// install applies a kustomization as the README says.
func install(ctx context.Context, c *cluster.Cluster, kustomization string) {
	GinkgoHelper()
	kubectl(ctx, c, "apply", "--server-side", "-k", kustomization)
}

// kubectl runs kubectl as an administrator.
func kubectl(ctx context.Context, c *cluster.Cluster, args ...string) string {
	GinkgoHelper()
	output, err := framework.Kubectl(ctx, c.Kubeconfig(), args...)
	Expect(err).NotTo(HaveOccurred())
	return output
}

// as writes a kubeconfig with the token of a ServiceAccount of ours.
func as(ctx context.Context, c *cluster.Cluster, account string) string {
	GinkgoHelper()
	config, err := c.ConfigForServiceAccount(ctx, homeOf(account), account)
	Expect(err).NotTo(HaveOccurred())
	path := filepath.Join(GinkgoT().TempDir(), account+".kubeconfig")
	Expect(framework.WriteKubeconfig(path, config)).To(Succeed())
	return path
}

// apply applies a text as an administrator.
func apply(ctx context.Context, text string) {
	GinkgoHelper()
	_, err := framework.KubectlWithInput(ctx, c.Kubeconfig(), text, "apply", "--server-side", "-f", "-")
	Expect(err).NotTo(HaveOccurred())
}
