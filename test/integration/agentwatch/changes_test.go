package agentwatch_test

import (
	"net/netip"
	"time"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/clusterip-operator/clusterip-operator/proxyagent/model"
	"github.com/clusterip-operator/clusterip-operator/proxyagent/watch"
	"github.com/clusterip-operator/clusterip-operator/test/framework"
	"github.com/clusterip-operator/clusterip-operator/test/framework/suite"
	"github.com/clusterip-operator/clusterip-operator/test/integration/internal/cluster"
)

// For what selectors select see behaviours 126 to 128 and 140 of test/e2e/flows, for additional
// addresses test/e2e/allocations.
var _ = Describe("An agent and Kubernetes 1.37", Ordered, func() {
	var (
		c        *cluster.Cluster
		standard *agent
	)

	BeforeAll(func(ctx SpecContext) {
		c = cluster.Start(ctx, cluster.Options{WithoutOperator: true})
		c.CreateService(ctx, "early")
		createSlice(ctx, c.Access, "early-1", "early", "10.0.0.1")
		standard = startAgent(c.AdminConfig(), watch.Options{Allocations: model.Enforce})
		Eventually(standard.Ready()).Should(BeClosed())
	})

	It("knows everything at once", func() {
		// All of it comes with the first Take.
		Eventually(standard.endpoints("early")).Should(ConsistOf("10.0.0.1:8080"))
		Expect(standard.wakes()).To(Equal(1))
		Expect(standard.ranges()).To(ConsistOf("10.96.0.0/16", "fd00:10:96::/112"))
		early := standard.service("early")()
		Expect(early.ClusterIPs).To(HaveLen(1))
		Expect(standard.allocation(early.ClusterIPs[0].String())()).To(HaveField("Service", early.Name))
	})

	// What matters of a Node is decided in tables (proxyagent/watch); here the API server selects.
	It("follows its own Node and no other", func(ctx SpecContext) {
		asleep := standard.wakes()
		c.CreateNode(ctx, "elsewhere", nil, "192.0.2.2")
		Consistently(standard.wakes).WithTimeout(300 * time.Millisecond).Should(Equal(asleep))
		c.CreateNode(ctx, nodeName, nil, "192.0.2.1")
		Eventually(standard.node).Should(HaveField("IPs", ConsistOf(netip.MustParseAddr("192.0.2.1"))))
		c.DeleteNode(ctx, nodeName)
		Eventually(standard.node).Should(HaveField("Leaving", true))
	})

	// Another API server on the same etcd changes things meanwhile. The agent must find just these.
	It("outlives its API server and finds what changed meanwhile", Label("long"), func(ctx SpecContext) {
		other := suite.APIServer(ctx, c.ControlPlane, framework.Options{})
		leaver := c.CreateService(ctx, "leaves")
		c.CreateService(ctx, "stays")
		createSlice(ctx, c.Access, "stays-1", "stays", "10.0.0.1")
		Eventually(standard.service("leaves")).ShouldNot(BeNil())
		Eventually(standard.endpoints("stays")).Should(HaveLen(1))
		leaves := leaver.Spec.ClusterIP
		Eventually(standard.allocation(leaves)).ShouldNot(BeZero())
		standard.told()

		Expect(c.API.Kill()).To(Succeed())
		Expect(other.Client().CoreV1().Services(namespace).Delete(ctx, "leaves", metav1.DeleteOptions{})).To(Succeed())
		suite.Must(other.Client().CoreV1().Services(namespace).Create(ctx, framework.NewService(namespace, "comes"), metav1.CreateOptions{}))
		patchSlice(ctx, other.Access, "stays-1", `{"endpoints":[{"addresses":["10.0.0.2"]}]}`)
		compact(ctx, c)
		Expect(c.API.Start(ctx)).To(Succeed())

		Eventually(standard.service("comes")).WithTimeout(recovery).ShouldNot(BeNil())
		Eventually(standard.service("leaves")).WithTimeout(recovery).Should(BeNil())
		Eventually(standard.endpoints("stays")).WithTimeout(recovery).Should(ConsistOf("10.0.0.2:8080"))
		Eventually(standard.allocation(leaves)).WithTimeout(recovery).Should(BeZero())
		Expect(standard.told()).To(ConsistOf("leaves", leaves))
	})
})

// A cluster of 1.32 has no IPAddresses of version v1, and is upgraded to 1.37, which has them.
var _ = Describe("An agent and Kubernetes 1.32", Label("all", "1.32"), Ordered, func() {
	var c *cluster.Cluster

	BeforeAll(func(ctx SpecContext) {
		c = cluster.Start(ctx, cluster.Options{WithoutOperator: true, Options: framework.Options{Version: framework.V132}})
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

	It("follows them after the upgrade", func(ctx SpecContext) {
		agent := startAgent(c.AdminConfig(), watch.Options{})
		Eventually(agent.service("web")).ShouldNot(BeNil())
		Expect(c.API.Kill()).To(Succeed()) // a polite end waits for watches
		Expect(c.Restart(ctx, framework.Options{})).To(Succeed())
		added := c.CreateService(ctx, "added")
		Eventually(agent.service("added")).WithTimeout(recovery).ShouldNot(BeNil())
		Eventually(agent.allocation(added.Spec.ClusterIP)).WithTimeout(recovery).Should(HaveField("Service.Name", "added"))
		Eventually(agent.ranges).WithTimeout(recovery).Should(ContainElement("10.96.0.0/16"))
		Expect(agent.service("web")()).NotTo(BeNil())
		Expect(agent.told()).To(BeEmpty())
	})
})
