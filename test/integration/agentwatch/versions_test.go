package agentwatch_test

import (
	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"

	"github.com/clusterip-operator/clusterip-operator/proxyagent/model"
	"github.com/clusterip-operator/clusterip-operator/proxyagent/watch"
	"github.com/clusterip-operator/clusterip-operator/test/framework"
	"github.com/clusterip-operator/clusterip-operator/test/framework/suite"
)

// A cluster of 1.32 has no IPAddresses of version v1, and is upgraded to 1.36, which has them.
var _ = Describe("An agent and Kubernetes 1.32", Label("all"), Ordered, func() {
	var cp *framework.ControlPlane

	BeforeAll(func(ctx SpecContext) {
		cp = suite.ControlPlane(ctx, framework.Options{Version: framework.V132})
		createService(ctx, cp.Access, "web")
	})

	It("goes on without IPAddresses where there are none, and refuses to enforce them", func() {
		without := startAgent(cp.AdminConfig(), watch.Options{Allocations: model.Prefer})
		Eventually(without.Ready()).WithTimeout(soon).Should(BeClosed())
		Eventually(without.service("web")).ShouldNot(BeNil())
		Expect(without.ranges()).To(BeEmpty())

		enforcing := startAgent(cp.AdminConfig(), watch.Options{Allocations: model.Enforce})
		Eventually(enforcing.ended).WithTimeout(soon).Should(Receive(MatchError(watch.ErrNotServed)))
		Expect(enforcing.Ready()).NotTo(BeClosed())
	})

	It("follows them after the upgrade", func(ctx SpecContext) {
		agent := startAgent(cp.AdminConfig(), watch.Options{})
		Eventually(agent.service("web")).WithTimeout(soon).ShouldNot(BeNil())
		Expect(cp.API.Kill()).To(Succeed()) // a polite end waits for watches
		Expect(cp.Restart(ctx, framework.Options{})).To(Succeed())
		added := createService(ctx, cp.Access, "added")
		Eventually(agent.service("added")).WithTimeout(recovery).ShouldNot(BeNil())
		Eventually(agent.allocation(added.Spec.ClusterIP)).WithTimeout(recovery).Should(HaveField("Service.Name", "added"))
		Eventually(agent.ranges).WithTimeout(recovery).Should(ContainElement("10.96.0.0/16"))
		Expect(agent.service("web")()).NotTo(BeNil())
		Expect(agent.told()).To(BeEmpty())
	})
})
