// Package signetwork_test lets Kubernetes' [sig-network] specs judge the agent in each mode, and
// kube-proxy on the same nodes, to tell the agent's faults from the cluster's. From the reports in
// bin/sig-network, test/conformance makes docs/reference/proxy-conformance.md.
//
// Start with proxies_test.go.
package signetwork_test

import (
	"context"
	"testing"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"

	"github.com/clusterip-operator/clusterip-operator/test/cluster"
	"github.com/clusterip-operator/clusterip-operator/test/framework"
	"github.com/clusterip-operator/clusterip-operator/test/framework/network"
)

// images are the Service proxies, and what the specs need.
var images = []string{"proxyagent", "kube-proxy", "coredns", "agnhost", "regression-issue-74839"}

func TestMain(m *testing.M) {
	_, err := framework.Assets(toolModule)
	network.Isolate(m, err, cluster.Fetch(context.Background(), images))
}

func TestSigNetwork(t *testing.T) {
	network.NeedIsolation(t)
	RegisterFailHandler(Fail)
	RunSpecs(t, "sig-network", Label("soak"))
}
