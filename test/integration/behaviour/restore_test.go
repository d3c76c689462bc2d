package behaviour_test

import (
	"context"
	"os"
	"path/filepath"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/clusterip-operator/clusterip-operator/test/framework"
	"github.com/clusterip-operator/clusterip-operator/test/integration/internal/cluster"
)

// down stops etcd and the API server, calls do, and starts them, in the order that an admin uses.
func down(ctx context.Context, c *cluster.Cluster, do func()) {
	GinkgoHelper()
	Expect(c.API.Kill()).To(Succeed())
	Expect(c.Etcd.Stop()).To(Succeed())
	do()
	Expect(c.Etcd.Start(ctx)).To(Succeed())
	Expect(c.API.Start(ctx)).To(Succeed())
}

// 1. etcd is saved. 2. A Service is deleted, and more are created. 3. etcd is restored without
// --bump-revision: the Service and its addresses are back, with the versions that they had, and
// nothing of what has come since ever was. A manager that goes on believes the opposite: it has
// read the deletion, and its watches begin at revisions to come.
var _ = Describe("A cluster whose etcd is restored from a snapshot", Ordered, Label("all"), func() {
	var c *cluster.Cluster
	var saved string

	BeforeAll(func(ctx SpecContext) {
		c = cluster.Start(ctx, cluster.Options{WithoutOperator: true})
		saved = filepath.Join(c.Dir(), "saved")
	})

	// sees waits until a manager knows how many addresses are in use. A leader may have ended for
	// want of its lease while etcd was saved: it is started again, as by the kubelet, so that all
	// see etcd restored.
	sees := func(ctx context.Context, manager *framework.Manager, want int) {
		GinkgoHelper()
		Eventually(func(g Gomega) {
			if !manager.Running() {
				g.Expect(manager.LogTail(1)).To(ContainSubstring("leader election lost"))
				g.Expect(manager.Start(ctx)).To(Succeed())
			}
			metrics, err := manager.Metrics(ctx)
			g.Expect(err).NotTo(HaveOccurred())
			g.Expect(used(metrics)).To(BeEquivalentTo(want), "and that of Service kubernetes")
		}).Should(Succeed())
	}

	// lose saves etcd with Service restored, deletes that, creates those lost, and restores etcd.
	lose := func(ctx context.Context, managers []*framework.Manager, restored string, lost ...string) []string {
		GinkgoHelper()
		addresses := c.CreateSettledService(ctx, restored, framework.RequireDualStack()).Spec.ClusterIPs
		down(ctx, c, func() { Expect(c.Etcd.Save(saved)).To(Succeed()) })
		Eventually(c.Client().CoreV1().Services(cluster.Namespace).Delete).WithArguments(ctx, restored, metav1.DeleteOptions{}).Should(Succeed())
		for _, name := range lost {
			c.CreateSettledService(ctx, name, framework.RequireDualStack())
		}
		for _, manager := range managers {
			sees(ctx, manager, len(lost)+1)
		}
		down(ctx, c, func() { Expect(c.Etcd.Restore(saved)).To(Succeed()) })
		return addresses
	}

	// beginAnew waits until every manager has ended, restarts them like the kubelet, and returns why
	// each said that it ends.
	beginAnew := func(ctx context.Context, managers []*framework.Manager) (reasons []string) {
		GinkgoHelper()
		for _, manager := range managers {
			Eventually(manager.Running).Should(BeFalse())
			Expect(manager.ExitCode()).To(Equal(1))
			reasons = append(reasons, manager.LogTail(1))
			Expect(manager.Start(ctx)).To(Succeed())
		}
		return reasons
	}
	goneBack := ContainSubstring("the API server's storage has gone back in time")

	// expectTruth wants the addresses of a Service that is back to be its own: their IPAddresses are
	// kept, and no other Service is given them.
	expectTruth := func(ctx context.Context, name string, addresses []string) {
		GinkgoHelper()
		for _, address := range addresses {
			c.DeleteIPAddress(ctx, address)
			Eventually(c.Owner).WithArguments(ctx, address).Should(Equal(cluster.Namespace + "/" + name))
		}
		Eventually(c.Breaches).WithArguments(ctx).Should(BeEmpty())
	}

	It("is looked after by a manager that begins anew, with no election", Label("long"), func(ctx SpecContext) {
		c.StartOperator(ctx)
		managers := c.Replicas()
		addresses := lose(ctx, managers, "back-alone", "never-alone-0", "never-alone-1", "never-alone-2")
		Expect(beginAnew(ctx, managers)).To(HaveEach(goneBack))
		expectTruth(ctx, "back-alone", addresses)
		Expect(c.Operator.Stop()).To(Succeed())
		c.DeleteAllServices(ctx)
	})

	It("is looked after by replicas that all begin anew", Label("long"), func(ctx SpecContext) {
		for range 2 {
			c.StartOperator(ctx, "--leader-elect=true", "--leader-election-namespace=default")
		}
		managers := c.Replicas()
		Eventually(c.Leaders).WithArguments(ctx).Should(HaveLen(1))
		addresses := lose(ctx, managers, "back", "never-0", "never-1", "never-2")
		// A leader ends for want of its lease where the API server was away for ten seconds. The
		// replica that waits for the lease does not, and there is always one.
		Expect(beginAnew(ctx, managers)).To(And(ContainElement(goneBack), HaveEach(Or(goneBack, ContainSubstring("leader election lost")))))
		Eventually(c.Leaders).WithArguments(ctx).Should(HaveLen(1))
		expectTruth(ctx, "back", addresses)
		Expect(os.RemoveAll(saved)).To(Succeed())
	})
})

// used is how many IPv4 addresses of the default range a manager knows to be in use.
func used(metrics framework.Metrics) float64 {
	n, _ := metrics.Value("clusterip_operator_allocated_ips", "cidr", "10.96.0.0/16")
	return n
}
