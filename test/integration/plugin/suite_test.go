// Package plugin_test runs `kubectl clusterip` as a user who may only look, on an installed operator: what it says is held against what the API server
// answers.
//
// Start with why_test.go.
package plugin_test

import (
	"context"
	"os"
	"path/filepath"
	"testing"
	"time"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"

	"github.com/clusterip-operator/clusterip-operator/test/framework"
	"github.com/clusterip-operator/clusterip-operator/test/integration/internal/cluster"
)

func TestPlugin(t *testing.T) {
	RegisterFailHandler(Fail)
	SetDefaultEventuallyTimeout(30 * time.Second)
	RunSpecs(t, "plugin")
}

var (
	c *cluster.Cluster
	// reader is the kubeconfig of a user who has the roles for looking, and no other.
	reader string
	// auditLog is where the API server writes down how it has answered the reader.
	auditLog string
	// settled is how many answers there were before RBAC knew the reader.
	settled int
)

var _ = BeforeSuite(func(ctx SpecContext) {
	policy := filepath.Join(GinkgoT().TempDir(), "audit.yaml")
	auditLog = filepath.Join(filepath.Dir(policy), "audit.log")
	Expect(os.WriteFile(policy, []byte(auditPolicy), 0o600)).To(Succeed())
	c = cluster.Start(ctx, cluster.Options{Options: framework.Options{
		ServiceClusterIPRange: "10.96.0.0/25,fd00:10:96::/121", Args: []string{"--audit-policy-file=" + policy, "--audit-log-path=" + auditLog},
	}, Installed: true, Replicas: 1})
	// kube-controller-manager would add the second role to view, which has the first one.
	for _, role := range []string{"system:aggregate-to-view", "clusterip-operator-view"} {
		c.Kubectl(ctx, "create", "clusterrolebinding", "reader-"+role[:6], "--clusterrole="+role, "--user=reader")
	}
	config, err := c.ConfigForUser("reader")
	Expect(err).NotTo(HaveOccurred())
	reader = cluster.KubeconfigOf(config)
	Eventually(run).WithArguments(ctx, "why", "10.96.0.1").Should(HaveField("ExitCode", 0)) // RBAC follows what is written
	settled = len(answered(0))
})

// run runs the plugin as the reader.
func run(ctx context.Context, args ...string) framework.PluginResult {
	GinkgoHelper()
	result, err := c.RunPlugin(ctx, framework.PluginOptions{Race: true, Kubeconfig: reader, Args: args})
	Expect(err).NotTo(HaveOccurred())
	return result
}

// tells runs the plugin and expects its answer to have all of the words.
func tells(ctx context.Context, words []string, args ...string) string {
	GinkgoHelper()
	result := run(ctx, args...)
	Expect(result.ExitCode).To(BeZero(), result.String())
	Expect(result.Stdout).To(cluster.ContainAll(words...))
	return result.Stdout
}

// refuses runs the plugin and expects an error with these words.
func refuses(ctx context.Context, words string, args ...string) {
	GinkgoHelper()
	result := run(ctx, args...)
	Expect(result.ExitCode).To(Equal(2), result.String())
	Expect(result.Stderr).To(ContainSubstring(words))
}
