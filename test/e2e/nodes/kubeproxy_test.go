package nodes_test

import (
	"context"
	"time"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"

	"github.com/clusterip-operator/clusterip-operator/test/cluster"
	"github.com/clusterip-operator/clusterip-operator/test/framework"
)

var _ = DescribeTableSubtree("A cluster with kube-proxy", func(mode string) {
	Describe("that goes over to the agent and comes back, by the commands of the guide", Ordered, func() {
		const guide, ofAgent = "docs/guides/kube-proxy.md", "app.kubernetes.io/component=proxyagent"
		// The agent serves in the mode of kube-proxy's configuration, which it reads.
		ours, theirs := "nft -A CIPA-", "nft -A KUBE-SVC-"
		if mode == "nftables" {
			ours, theirs = ofNFTables, "table ip kube-proxy"
		}
		var (
			c testCluster
			w *watched
		)
		inSystem := func(ctx context.Context, kinds, label string) string {
			GinkgoHelper()
			return c.kubectl(ctx, "--namespace=kube-system", "get", kinds, "-l", label, "-o", "name")
		}

		BeforeAll(func(ctx SpecContext) {
			c = start(ctx, cluster.Options{Images: []string{"proxyagent", "kube-proxy", "demo"}})
			Expect(c.DeployKubeProxy(ctx, mode)).To(Succeed())
			w = watch(ctx, c)
		}, NodeTimeout(12*time.Minute))

		It("loses nothing on the way there", func(ctx SpecContext) {
			for _, block := range commandsOf(guide, "## In the place of kube-proxy, on a cluster of kubeadm") {
				c.paste(ctx, block)
			}
			Expect(c.rules(ctx, ours)).NotTo(BeEmpty())
			Expect(c.rules(ctx, theirs)).To(BeEmpty())
			Expect(inSystem(ctx, "pods", "k8s-app=kube-proxy")).To(BeEmpty())
			Expect(inSystem(ctx, "daemonsets,configmaps", ofAgent)).NotTo(BeEmpty())
			w.goesOn(ctx)
		}, SpecTimeout(12*time.Minute))

		It("loses nothing on the way back", func(ctx SpecContext) {
			for _, block := range commandsOf(guide, "## The way back") {
				c.paste(ctx, block)
			}
			Expect(c.rules(ctx, "CIPA-")).To(BeEmpty())
			Expect(c.rules(ctx, ofNFTables)).To(BeEmpty())
			Expect(c.rules(ctx, theirs)).NotTo(BeEmpty())
			Expect(inSystem(ctx, "daemonsets,configmaps", ofAgent)).To(BeEmpty())
			w.goesOn(ctx)
		}, SpecTimeout(12*time.Minute))

		// Between the two proxies' sight of the label a connection may be refused, but not from then on.
		It("hands a Service to an agent beside kube-proxy, and takes it back", func(ctx SpecContext) {
			served := func() {
				GinkgoHelper()
				for _, url := range w.urls {
					Eventually(func() error {
						_, err := framework.Kubectl(ctx, c.Kubeconfig(), "exec", "daemonset/client", "--", "/demo", url)
						return err
					}, soon).Should(Succeed())
				}
			}
			for _, block := range commandsOf(guide, "## Beside kube-proxy") {
				c.paste(ctx, block)
			}
			Eventually(c.rules, soon).WithArguments(ctx, "nft -A CIPA-VIPS ").ShouldNot(BeEmpty())
			served()
			c.kubectl(ctx, "label", "service", "web", "service.kubernetes.io/service-proxy-name-")
			Eventually(c.rules, soon).WithArguments(ctx, "nft -A CIPA-VIPS ").Should(BeEmpty())
			served()
		}, SpecTimeout(6*time.Minute))
	})
},
	Entry("in its mode iptables", "iptables"),
	Entry("in its mode nftables", "nftables"),
)
