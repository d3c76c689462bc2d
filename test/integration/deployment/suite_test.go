// Package deployment_test installs config/ as an admin does, and runs the manager, its clean-up and
// the migration as these manifests' pods would: with the token of their ServiceAccount and the
// arguments of their containers. It wants them to be able to do all their work, and no more.
//
// One cluster lives as long as the suite. Its audit log shows what these accounts have asked for.
//
// Start with "The manager as it is deployed".
package deployment_test

import (
	"context"
	"testing"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"

	"github.com/clusterip-operator/clusterip-operator/test/framework"
	"github.com/clusterip-operator/clusterip-operator/test/integration/internal/cluster"
	"github.com/clusterip-operator/clusterip-operator/test/integration/internal/manifests"
)

func TestDeployment(t *testing.T) {
	RegisterFailHandler(Fail)
	RunSpecs(t, "deployment")
}

// What config/ installs.
const (
	folder    = "../../../config"
	defaults  = folder + "/default"
	uninstall = folder + "/components/uninstall"

	leaverAccount      = "clusterip-operator-uninstall"
	migrationNamespace = "kube-system"
	migrationAccount   = "clusterip-operator-migration"
)

// c has config/default in it, and no manager but while a spec runs one. witness is its audit log.
var (
	c       *cluster.Cluster
	witness manifests.AuditLog
)

var _ = BeforeSuite(func(ctx SpecContext) {
	c, witness = audited(ctx, framework.Options{})
	c.Kustomize(ctx, defaults)
})

// audited starts a cluster that writes down what our accounts ask for.
func audited(ctx context.Context, options framework.Options) (*cluster.Cluster, manifests.AuditLog) {
	GinkgoHelper()
	return cluster.StartAudited(ctx, options, cluster.OperatorNamespace+":"+cluster.OperatorAccount, cluster.OperatorNamespace+":"+leaverAccount,
		migrationNamespace+":"+migrationAccount)
}

// as writes a kubeconfig with the token of a ServiceAccount of ours.
func as(ctx context.Context, c *cluster.Cluster, namespace, account string) string {
	GinkgoHelper()
	config, err := c.ConfigForServiceAccount(ctx, namespace, account)
	Expect(err).NotTo(HaveOccurred())
	return cluster.KubeconfigOf(config)
}

// expectExact wants an account to have used exactly what it is granted, and been refused nothing.
func expectExact(used, granted []string) {
	GinkgoHelper()
	Expect(manifests.Beyond(used, granted)).To(BeEmpty(), "used, and not granted")
	Expect(manifests.Beyond(granted, used)).To(BeEmpty(), "granted, and not used")
}
