package signetwork_test

import (
	"context"
	"os"
	"path/filepath"
	"strings"
	"time"

	. "github.com/onsi/ginkgo/v2"
	"github.com/onsi/ginkgo/v2/types"
	. "github.com/onsi/gomega"

	"github.com/clusterip-operator/clusterip-operator/test/cluster"
	"github.com/clusterip-operator/clusterip-operator/test/framework"
	"github.com/clusterip-operator/clusterip-operator/test/framework/suite"
)

// timeout is for one proxy: a quarter of an hour on two cores, 36 minutes beside other work.
const timeout = SpecTimeout(75 * time.Minute)

// withAgent makes the agent the only Service proxy of a cluster, with some configuration.
func withAgent(configuration string) func(context.Context, *cluster.Cluster) {
	return func(ctx context.Context, c *cluster.Cluster) {
		GinkgoHelper()
		deployAgent(ctx, c, filepath.Join(configured(c, configuration), "proxyagent"))
	}
}

// configured is a copy of config/ for a cluster, with more in the agent's configuration.
func configured(c *cluster.Cluster, configuration string) (folder string) {
	GinkgoHelper()
	folder = suite.Must(c.Configuration())
	file := suite.Must(os.OpenFile(filepath.Join(folder, "proxyagent", "config.yaml"), os.O_APPEND|os.O_WRONLY, 0))
	suite.Must(file.WriteString(configuration + "\n"))
	Expect(file.Close()).To(Succeed())
	return folder
}

func deployAgent(ctx context.Context, c *cluster.Cluster, kustomization string) {
	GinkgoHelper()
	for _, args := range [][]string{
		{"apply", "--server-side", "-k", kustomization},
		{"--namespace=kube-system", "rollout", "status", "daemonset/clusterip-operator-proxyagent", "--timeout=90s"},
	} {
		suite.Must(framework.Kubectl(ctx, c.Kubeconfig(), args...))
	}
}

// translating is the component for socketLB with the scope all, which has connections of pods and
// of the nodes' own processes.
const translating = `apiVersion: kustomize.config.k8s.io/v1beta1
kind: Kustomization
resources: [../proxyagent]
components: [../components/proxyagent-socketlb]
patches:
- target: {kind: DaemonSet}
  patch: |
    - {op: add, path: /spec/template/spec/containers/0/args/-, value: --socket-lb-scope=all}
`

// withSocketLB adds to withAgent that connections are translated at connect().
func withSocketLB(configuration string) func(context.Context, *cluster.Cluster) {
	return func(ctx context.Context, c *cluster.Cluster) {
		GinkgoHelper()
		folder := filepath.Join(configured(c, configuration), "socketlb")
		Expect(os.Mkdir(folder, 0o755)).To(Succeed())
		Expect(os.WriteFile(filepath.Join(folder, "kustomization.yaml"), []byte(translating), 0o600)).To(Succeed())
		deployAgent(ctx, c, folder)
		Expect(translates(ctx, c)).To(Equal(len(c.Nodes)), "nodes that translate connections")
		DeferCleanup(func(ctx SpecContext) {
			Expect(translates(ctx, c)).To(Equal(len(c.Nodes)), "nodes that translate connections, after all specs")
		})
	}
}

// translates counts the nodes whose agents translate connections at connect().
func translates(ctx context.Context, c *cluster.Cluster) (n int) {
	GinkgoHelper()
	pods := suite.Must(framework.Kubectl(ctx, c.Kubeconfig(), "--namespace=kube-system", "get", "pods", "-l=app.kubernetes.io/component=proxyagent", "-o=name"))
	for pod := range strings.FieldsSeq(pods) {
		overview := suite.Must(framework.Kubectl(ctx, c.Kubeconfig(), "--namespace=kube-system", "exec", pod, "--", "/proxyagent", "dump"))
		if strings.Contains(overview, "\nTCP connections to ClusterIPs are translated at connect(), scope all: ") {
			n++
		}
	}
	return n
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
	Entry("with the agent, nftables and socketLB", timeout, "agent-nftables-socketlb", withSocketLB("mode: nftables")),
	Entry("with kube-proxy in its mode iptables", timeout, "kube-proxy-iptables", withKubeProxy("iptables")),
	Entry("with kube-proxy in its mode nftables", timeout, "kube-proxy-nftables", withKubeProxy("nftables")),
)
