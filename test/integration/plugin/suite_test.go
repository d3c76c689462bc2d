// Package plugin_test runs `kubectl clusterip` as a user who may only look, on an installed
// operator, and compares its output with what the API server answers.
//
// Start with why_test.go.
package plugin_test

import (
	"context"
	"testing"
	"time"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"

	"github.com/clusterip-operator/clusterip-operator/test/framework"
	"github.com/clusterip-operator/clusterip-operator/test/framework/suite"
	"github.com/clusterip-operator/clusterip-operator/test/integration/internal/cluster"
)

func TestPlugin(t *testing.T) {
	RegisterFailHandler(Fail)
	SetDefaultEventuallyTimeout(30 * time.Second)
	RunSpecs(t, "plugin")
}

var (
	c      *cluster.Cluster
	reader *cluster.Reader
)

var _ = BeforeSuite(func(ctx SpecContext) {
	var audit []string
	reader, audit = cluster.NewReader("tenant")
	c = cluster.Start(ctx, cluster.Options{
		Options: framework.Options{ServiceClusterIPRange: "10.96.0.0/25,fd00:10:96::/121", Args: audit}, Installed: true, Replicas: 1,
	})
	reader.Admit(ctx, c)
})

// No spec has the reader ask what a user who may only look is not allowed.
var _ = AfterSuite(func() { Expect(reader.Refused()).To(BeEmpty()) })

// run runs the plugin as the reader.
func run(ctx context.Context, args ...string) framework.PluginResult {
	GinkgoHelper()
	result := suite.Must(c.RunPlugin(ctx, framework.PluginOptions{Kubeconfig: reader.Kubeconfig, Args: args}))
	return result
}

// tells runs the plugin and expects its answer to have all of the words.
func tells(ctx context.Context, words []string, args ...string) string {
	GinkgoHelper()
	result := suite.Exits(0, run(ctx, args...))
	Expect(result.Stdout).To(cluster.ContainAll(words...))
	return result.Stdout
}

// refuses runs the plugin and expects an error with these words.
func refuses(ctx context.Context, words string, args ...string) {
	GinkgoHelper()
	Expect(suite.Exits(2, run(ctx, args...)).Stderr).To(ContainSubstring(words))
}

// awaitList waits until RBAC knows that a user may list a resource. Until then kubectl ends with 1.
func awaitList(ctx context.Context, user, resource string) {
	GinkgoHelper()
	Eventually(framework.Kubectl).WithArguments(ctx, c.Kubeconfig(), "auth", "can-i", "list", resource, "--as="+user).Should(HavePrefix("yes"))
}
