package lifecycle_test

import (
	"time"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/clusterip-operator/clusterip-operator/test/integration/internal/cluster"
)

// The API server dies under the manager and comes back, then etcd does under the API server. The manager waits and goes on: the
// same process, and with the same diligence.
var _ = Describe("A manager whose control plane fails", Label("all"), Ordered, func() {
	var (
		c       *cluster.Cluster
		service *corev1.Service
	)

	BeforeAll(func(ctx SpecContext) {
		c = cluster.Start(ctx, cluster.Options{})
		service = c.CreateSettledService(ctx, "web")
	})

	goesOn := func(ctx SpecContext, outage func()) {
		GinkgoHelper()
		restored(ctx, c, service, cluster.Timeout)
		before := c.Operator.Pid()
		outage()
		Expect(c.Operator.Running()).To(BeTrue(), c.Operator.LogTail(20))
		Expect(c.Operator.Pid()).To(Equal(before))
		// The watch may pause for half a minute after many failures.
		restored(ctx, c, service, cluster.Timeout)
		restored(ctx, c, service, 10*time.Second)
		// What failed during the outage is tried again ever more rarely.
		Eventually(c.Breaches).WithArguments(ctx).Should(BeEmpty())
	}

	It("survives the API server", func(ctx SpecContext) {
		goesOn(ctx, func() {
			Expect(c.API.Kill()).To(Succeed())
			Consistently(c.Operator.Running).WithTimeout(4 * time.Second).Should(BeTrue())
			Expect(c.API.Start(ctx)).To(Succeed())
		})
	})

	// What happens while the manager cannot see is found when it sees again.
	It("survives etcd, and finds what was deleted meanwhile", func(ctx SpecContext) {
		other := c.CreateSettledService(ctx, "other")
		goesOn(ctx, func() {
			Expect(c.Operator.Pause()).To(Succeed())
			c.DeleteIPAddress(ctx, other.Spec.ClusterIP)
			Expect(c.Etcd.Kill()).To(Succeed())
			Expect(c.Operator.Resume()).To(Succeed())
			Consistently(c.Operator.Running).WithTimeout(4 * time.Second).Should(BeTrue())
			Expect(c.Etcd.Start(ctx)).To(Succeed())
			// The API server dials etcd ever more rarely, for each resource by itself, and refuses requests meanwhile.
			Eventually(func() error {
				_, err := c.Networking().IPAddresses().Get(ctx, service.Spec.ClusterIP, metav1.GetOptions{})
				return err
			}).Should(Succeed())
		})
		Expect(c.Owner(ctx, other.Spec.ClusterIP)).To(Equal("default/other"))
	})
})
