// Package nodes_test deploys operator and node agent as their guides say, on a cluster with real
// containerds and kubelets, where the agent is the only Service proxy from the first boot on.
//
// Start with deployed_test.go.
package nodes_test

import (
	"context"
	"testing"
	"time"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"

	"github.com/clusterip-operator/clusterip-operator/test/cluster"
	"github.com/clusterip-operator/clusterip-operator/test/framework"
	"github.com/clusterip-operator/clusterip-operator/test/framework/network"
	"github.com/clusterip-operator/clusterip-operator/test/framework/suite"
)

// images are those of the product, a DNS server, and an application.
var images = []string{"manager", "proxyagent", "coredns", "demo"}

func TestMain(m *testing.M) {
	ctx := context.Background()
	network.Isolate(m, cluster.Fetch(ctx, append(images, "kube-proxy"), framework.V137, framework.V132), fetchPrevious(ctx), framework.Script(ctx, nil, "vm.sh"), rememberNetwork())
}

func TestNodes(t *testing.T) {
	network.NeedIsolation(t)
	RegisterFailHandler(Fail)
	RunSpecs(t, "nodes", Label("soak"))
}

// testCluster is a cluster of two nodes, and a copy of config/ that is made for it.
type testCluster struct {
	*cluster.Cluster
	config string
}

// start starts a cluster. It goes with the calling node of Ginkgo.
func start(ctx context.Context, options cluster.Options) testCluster {
	GinkgoHelper()
	within, cancel := context.WithTimeout(ctx, 9*time.Minute*deadlineFactor) // a SpecContext does not tell its deadline
	defer cancel()
	c := suite.Must(cluster.Start(within, options))
	DeferCleanup(c.Stop)
	config := suite.Must(c.Configuration())
	return testCluster{c, config}
}

// kubectl runs kubectl, which must succeed, and returns what it prints.
func (c testCluster) kubectl(ctx context.Context, args ...string) string {
	GinkgoHelper()
	return suite.Must(framework.Kubectl(ctx, c.Kubeconfig(), args...))
}
