package nodes_test

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"time"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"
	"github.com/onsi/gomega/types"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/clusterip-operator/clusterip-operator/test/cluster"
)

var _ = Describe("A cluster whose agents change their mode", Ordered, func() {
	var (
		c    testCluster
		file string // the agents' configuration
		text []byte
		w    *watched
	)
	// serves gives the agents a configuration, which rolls them out one node after the other.
	serves := func(ctx context.Context, configuration string) {
		GinkgoHelper()
		Expect(os.WriteFile(file, append(text, configuration...), 0o600)).To(Succeed())
		c.kubectl(ctx, "apply", "--server-side", "-k", filepath.Join(c.config, "proxyagent"))
		c.kubectl(ctx, "--namespace=kube-system", "rollout", "status", "daemonset/clusterip-operator-proxyagent", fmt.Sprint("--timeout=", 3*time.Minute*deadlineFactor))
	}
	BeforeAll(func(ctx SpecContext) {
		c = start(ctx, cluster.Options{Images: []string{"proxyagent", "demo"}})
		file = filepath.Join(c.config, "proxyagent", "config.yaml")
		var err error
		text, err = os.ReadFile(file)
		Expect(err).NotTo(HaveOccurred())
		serves(ctx, "")
		w = watch(ctx, c)
	}, NodeTimeout(15*time.Minute*deadlineFactor))

	DescribeTable("loses nothing, and leaves nothing of the other one", func(ctx SpecContext, configuration, ours string, others ...string) {
		serves(ctx, configuration)
		w.goesOn(ctx)
		Expect(c.rules(ctx, ours)).NotTo(BeEmpty())
		for _, other := range others {
			Eventually(c.rules, soon).WithArguments(ctx, other).Should(BeEmpty())
		}
		w.goesOn(ctx)
	},
		Entry("to iptables-legacy", SpecTimeout(12*time.Minute), "iptables: {mode: legacy}\n", "legacy -A CIPA-VIPS", "nft -A CIPA-"),
		Entry("back to iptables-nft", SpecTimeout(12*time.Minute), "iptables: {mode: nft}\n", "nft -A CIPA-VIPS", "legacy -A CIPA-"),
		Entry("to nftables", SpecTimeout(12*time.Minute), "mode: nftables\n", ofNFTables, "CIPA-"),
		Entry("to what they choose, which is what serves already", SpecTimeout(12*time.Minute), "mode: auto\n", ofNFTables, "CIPA-"),
	)

	DescribeTable("says what it serves with", func(ctx SpecContext, what types.GomegaMatcher, args ...string) {
		Expect(c.kubectl(ctx, append([]string{"--namespace=kube-system", "exec", "daemonset/clusterip-operator-proxyagent", "--"}, args...)...)).To(what)
	},
		Entry("in its overview", SpecTimeout(3*time.Minute), HavePrefix("Served with nftables, because an agent has served with nftables here before."), "/proxyagent", "dump"),
		Entry("of a Service", SpecTimeout(3*time.Minute), ContainSubstring("endpoints: 10.96.0.1 . tcp . 443 . 0 : "), "/proxyagent", "dump", metav1.NamespaceDefault+"/kubernetes"),
		Entry("as the way of a packet", SpecTimeout(3*time.Minute), And(ContainSubstring(" ip clusterip-proxyagent services: "), ContainSubstring("Verdict: goes to ")), "/proxyagent-trace", "node", "10.96.0.1:443"),
	)
})
