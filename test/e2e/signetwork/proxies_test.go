package signetwork_test

import (
	"context"
	"os"
	"path/filepath"
	"time"

	. "github.com/onsi/ginkgo/v2"
	"github.com/onsi/ginkgo/v2/types"
	. "github.com/onsi/gomega"

	"github.com/clusterip-operator/clusterip-operator/test/cluster"
	"github.com/clusterip-operator/clusterip-operator/test/framework"
	"github.com/clusterip-operator/clusterip-operator/test/framework/suite"
)

// timeout is for one proxy: a quarter of an hour on two cores, 36 minutes beside other work.
const timeout = SpecTimeout(90 * time.Minute)

// withAgent makes the agent the only Service proxy of a cluster, with some configuration.
func withAgent(configuration string) func(context.Context, *cluster.Cluster) {
	return func(ctx context.Context, c *cluster.Cluster) {
		GinkgoHelper()
		config := suite.Must(c.Configuration())
		file := suite.Must(os.OpenFile(filepath.Join(config, "proxyagent", "config.yaml"), os.O_APPEND|os.O_WRONLY, 0))
		suite.Must(file.WriteString(configuration + "\n"))
		Expect(file.Close()).To(Succeed())
		for _, args := range [][]string{
			{"apply", "--server-side", "-k", filepath.Join(config, "proxyagent")},
			{"--namespace=kube-system", "rollout", "status", "daemonset/clusterip-operator-proxyagent", "--timeout=90s"},
		} {
			suite.Must(framework.Kubectl(ctx, c.Kubeconfig(), args...))
		}
	}
}

func withKubeProxy(mode string) func(context.Context, *cluster.Cluster) {
	return func(ctx context.Context, c *cluster.Cluster) {
		GinkgoHelper()
		Expect(c.DeployKubeProxy(ctx, mode)).To(Succeed())
	}
}

var _ = DescribeTable("The specs of sig-network hold", func(ctx SpecContext, name string, deploy func(context.Context, *cluster.Cluster)) {
	c, err := cluster.Start(ctx, cluster.Options{Nodes: 6, Images: images}) // some specs ask for three zones with two nodes each
	Expect(err).NotTo(HaveOccurred())
	DeferCleanup(func() { Expect(c.Stop()).To(Succeed()) })
	nameImages(ctx, c)
	deploy(ctx, c)
	Expect(c.DeployDNS(ctx)).To(Succeed())
	report := run(ctx, c, name)
	Expect(failed(report)).To(BeEmpty())
	Expect(report.SpecReports.CountWithState(types.SpecStatePassed)).To(BeNumerically(">", 100))
},
	Entry("with the agent and iptables-nft", timeout, "agent-nft", withAgent("iptables: {mode: nft}")),
	Entry("with the agent and iptables-legacy", timeout, "agent-legacy", withAgent("iptables: {mode: legacy}")),
	Entry("with the agent and nftables", timeout, "agent-nftables", withAgent("mode: nftables")),
	Entry("with kube-proxy in its mode iptables", timeout, "kube-proxy-iptables", withKubeProxy("iptables")),
	Entry("with kube-proxy in its mode nftables", timeout, "kube-proxy-nftables", withKubeProxy("nftables")),
)
