package admission_test

import (
	"context"
	"fmt"
	"sync"
	"sync/atomic"
	"time"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"
	apierrors "k8s.io/apimachinery/pkg/api/errors"

	"github.com/clusterip-operator/clusterip-operator/test/framework"
	"github.com/clusterip-operator/clusterip-operator/test/framework/suite"
	"github.com/clusterip-operator/clusterip-operator/test/integration/internal/cluster"
)

// The API server checks quotas after our webhook: each creation takes addresses for no Service.
var _ = Describe("A namespace whose quota allows no Service, and that goes on creating some", func() {
	const (
		attack   = 20 * time.Second
		interval = time.Second / 20
		cooled   = 20
	)

	It("keeps no address from others, steers nobody elsewhere, and uses up no cool-down", Label("long"), func(ctx SpecContext) {
		c := cluster.Start(ctx, cluster.Options{
			Options: framework.Options{ServiceClusterIPRange: "10.96.0.0/24,fd00:10:96::/120"}, Installed: true, Replicas: 2, Plain: true,
		})
		suite.ControllerManager(ctx, c.ControlPlane, "resourcequota-controller")
		c.CreateNamespace(ctx, "tenant", map[string]string{"tenant": "a"})
		c.CreateNamespace(ctx, "attacker", nil)
		c.OfferRange(ctx, "tenant", nil, "10.97.0.0/24", "fd00:10:97::/120")
		c.Program(ctx, "tenant", "{serviceCIDRs: [tenant], namespaceSelector: {matchLabels: {tenant: a}}, exclusive: true, onFull: Fail}")
		c.Program(ctx, "open", "{serviceCIDRs: [kubernetes], coolDown: 1h, priority: -1}")
		cooling := coolDown(ctx, c, cooled)
		forbidServices(ctx, c, "attacker")

		// The attack lasts for a time and has a size: a busy machine takes longer for the latter.
		lasting := time.Now().Add(attack)
		var attempts atomic.Int64
		var attackers sync.WaitGroup
		defer attackers.Wait()
		for tick := time.NewTicker(interval); time.Now().Before(lasting) || attempts.Load() < int64(attack/interval/2); <-tick.C {
			n := attempts.Add(1)
			attackers.Go(func() {
				defer GinkgoRecover()
				_, err := c.Try(ctx, cluster.Dual("attacker", fmt.Sprintf("web-%d", n)))
				Expect(apierrors.IsForbidden(err)).To(BeTrue(), "%v", err)
				Expect(err.Error()).To(ContainSubstring("quota"))
			})
			if n%10 == 0 {
				expectServed(ctx, c, int(n))
			}
		}
		attackers.Wait()
		AddReportEntry("attempts", attempts.Load())
		Expect(c.Decisions(ctx, cluster.Failed)).To(BeZero(), "steering was off")
		Expect(c.Kept(ctx, cluster.Cooling)).To(ConsistOf(cooling), "addresses that cooled down were given out early")
		c.ExpectConsistent(ctx)
	})
})

// forbidServices gives a namespace a quota without Services, and waits until it is in force.
func forbidServices(ctx context.Context, c *cluster.Cluster, namespace string) {
	GinkgoHelper()
	c.Kubectl(ctx, "create", "quota", "none", "-n", namespace, "--hard=services=0")
	c.Kubectl(ctx, "wait", "resourcequota", "none", "-n", namespace, "--for=jsonpath={.status.hard.services}=0", "--timeout=45s")
}

// coolDown creates n Services, deletes them, and returns their addresses once they are kept.
func coolDown(ctx context.Context, c *cluster.Cluster, n int) (addresses []string) {
	GinkgoHelper()
	services := c.CreateSettledServices(ctx, n, framework.Numbered(cluster.Namespace, "before", framework.RequireDualStack()))
	c.DeleteServices(ctx, services...)
	for _, service := range services {
		addresses = append(addresses, service.Spec.ClusterIPs...)
	}
	Eventually(c.Kept).WithArguments(ctx, cluster.Cooling).Should(ConsistOf(addresses))
	return addresses
}

// expectServed wants the tenant and another namespace to get Services where their policies say.
func expectServed(ctx context.Context, c *cluster.Cluster, n int) {
	GinkgoHelper()
	why := func() string {
		return fmt.Sprintf("%.0f calls failed open, the webhook let %.0f pass", cluster.FailedOpen(ctx, c.Access), c.Decisions(ctx, cluster.Failed))
	}
	theirs := c.Create(ctx, cluster.Dual("tenant", fmt.Sprintf("web-%d", n)))
	Expect(theirs.Spec.ClusterIPs).To(ConsistOf(HavePrefix("10.97.0."), HavePrefix("fd00:10:97::")), why)
	others := c.Create(ctx, cluster.Dual(cluster.Namespace, fmt.Sprintf("web-%d", n)))
	Expect(others.Spec.ClusterIPs).To(ConsistOf(HavePrefix("10.96.0."), HavePrefix("fd00:10:96::")), why)
}
