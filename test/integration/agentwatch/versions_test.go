package agentwatch_test

import (
	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/clusterip-operator/clusterip-operator/proxyagent/model"
	"github.com/clusterip-operator/clusterip-operator/proxyagent/watch"
	"github.com/clusterip-operator/clusterip-operator/test/framework"
	"github.com/clusterip-operator/clusterip-operator/test/integration/internal/cluster"
)

// A cluster is born as 1.32 without IPAddresses, gets them as v1beta1, and is upgraded to 1.36, which serves v1.
var _ = Describe("An agent and Kubernetes 1.32", Label("all"), Ordered, func() {
	var c *cluster.Cluster

	BeforeAll(func(ctx SpecContext) {
		c = cluster.Start(ctx, cluster.Options{WithoutOperator: true, Options: framework.Options{
			Version: framework.V132, Args: []string{"--runtime-config=networking.k8s.io/v1beta1=false"},
		}})
		c.CreateService(ctx, "web")
	})

	It("goes on without IPAddresses where there are none, and refuses to enforce them", func() {
		without := startAgent(c.AdminConfig(), watch.Options{Allocations: model.Prefer})
		Eventually(without.Ready()).Should(BeClosed())
		Eventually(without.service("web")).ShouldNot(BeNil())
		Expect(without.ranges()).To(BeEmpty())

		enforcing := startAgent(c.AdminConfig(), watch.Options{Allocations: model.Enforce})
		Eventually(enforcing.ended).Should(Receive(MatchError(watch.ErrNotServed)))
		Expect(enforcing.Ready()).NotTo(BeClosed())
	})

	It("follows them as v1beta1, and as v1 after the upgrade", func(ctx SpecContext) {
		Expect(c.Restart(ctx, framework.Options{Version: framework.V132})).To(Succeed())
		web, err := c.Client().CoreV1().Services(namespace).Get(ctx, "web", metav1.GetOptions{})
		Expect(err).NotTo(HaveOccurred())
		c.CreateIPAddress(ctx, framework.NewIPAddress(web.Spec.ClusterIP, namespace, "web"))
		agent := startAgent(c.AdminConfig(), watch.Options{Allocations: model.Enforce})
		Eventually(agent.Ready()).Should(BeClosed())
		Eventually(agent.allocation(web.Spec.ClusterIP)).Should(HaveField("Service.Name", "web"))

		c.CreateServiceCIDR(ctx, "kubernetes", "10.96.0.0/16", "fd00:10:96::/112")
		Eventually(agent.ranges).Should(ConsistOf("10.96.0.0/16", "fd00:10:96::/112"))
		c.CreateIPAddress(ctx, framework.NewIPAddress("10.96.7.7", namespace, "web"))
		Eventually(agent.allocation("10.96.7.7")).Should(HaveField("Service.Name", "web"))
		c.DeleteIPAddress(ctx, "10.96.7.7")
		Eventually(agent.allocation("10.96.7.7")).Should(BeZero())
		Expect(agent.told()).To(ConsistOf("10.96.7.7"))

		By("upgrading: nothing may be told gone meanwhile")
		Expect(c.API.Kill()).To(Succeed()) // a polite end waits for watches
		Expect(c.Restart(ctx, framework.Options{})).To(Succeed())
		added := c.CreateService(ctx, "added")
		Eventually(agent.service("added")).WithTimeout(recovery).ShouldNot(BeNil())
		Eventually(agent.allocation(added.Spec.ClusterIP)).WithTimeout(recovery).Should(HaveField("Service.Name", "added"))
		Expect(agent.service("web")()).NotTo(BeNil())
		Expect(agent.told()).To(BeEmpty())
	})
})
