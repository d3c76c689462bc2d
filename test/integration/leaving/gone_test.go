package leaving_test

import (
	"strings"
	"time"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"

	"github.com/clusterip-operator/clusterip-operator/test/framework"
	"github.com/clusterip-operator/clusterip-operator/test/integration/internal/cluster"
)

// Somebody deletes the Deployment, or the manager dies with its node, and nobody cleans up:
//
//  1. The manager is killed while it leads, so that its Lease stays behind.
//  2. Services get addresses and lost IPAddresses come back: that was never ours alone.
//  3. A range that nothing needs is deleted. kube-controller-manager lets go of it, but our finalizer holds it.
//  4. `manager cleanup` lets go. It takes the killed manager for a running one until the Lease has run out.
//  5. The operator is installed anew: nothing of the clean-up stands in its way.
var _ = It("A manager that is simply gone is not missed, can be cleaned up after, and may come back", func(ctx SpecContext) {
	c := cluster.Start(ctx, cluster.Options{BesideUpstream: true, OperatorArgs: []string{"--leader-elect=true", leaseNamespace}})
	c.CreateServiceCIDR(ctx, "stuck", "10.104.0.0/24")
	c.WaitLookedAfter(ctx, "stuck")
	Expect(c.Operator.Kill()).To(Succeed())
	output, status := cleanUp(ctx, c, leaseNamespace)
	Expect(status).To(Equal(couldNot), strings.Join(output, "\n"))
	worksByItself(ctx, c)

	c.DeleteServiceCIDRs(ctx, "stuck")
	Eventually(c.ServiceCIDR).WithArguments(ctx, "stuck").Should(HaveField("Finalizers", ConsistOf(cluster.OurFinalizer)), "kube-controller-manager lets go")
	Consistently(c.Remaining).WithArguments(ctx, "stuck").WithTimeout(5 * time.Second).Should(HaveLen(1))

	Eventually(func() int {
		_, status := cleanUp(ctx, c, leaseNamespace)
		return status
	}).WithPolling(time.Second).Should(Equal(done), "the Lease runs out")
	Eventually(c.Remaining).WithArguments(ctx, "stuck").Should(BeEmpty())
	after := everything(ctx, c)
	Expect(bare(after).Changes(after.Content())).To(BeEmpty())

	c.StartOperator(ctx, "--leader-elect=true", leaseNamespace)
	c.WaitLookedAfter(ctx, "kubernetes")
	service := c.CreateService(ctx, "returned", framework.RequireDualStack())
	Eventually(c.Labels).WithArguments(ctx, service.Spec.ClusterIP).Should(HaveKey(cluster.BandLabel))
})
