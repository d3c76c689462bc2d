package admission_test

import (
	"context"
	"fmt"
	"sync"
	"sync/atomic"
	"time"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/clusterip-operator/clusterip-operator/test/framework"
	"github.com/clusterip-operator/clusterip-operator/test/framework/suite"
	"github.com/clusterip-operator/clusterip-operator/test/integration/internal/cluster"
	"github.com/clusterip-operator/clusterip-operator/test/integration/internal/steering"
)

// Quotas are asked after the mutating webhook: each of these creations sets addresses aside for a Service that never comes.
var _ = Describe("A namespace whose quota allows no Service, and that goes on creating some", func() {
	const (
		attack   = 20 * time.Second
		interval = time.Second / 20
		cooled   = 20
	)

	It("keeps no address from others, steers nobody elsewhere, and uses up no cool-down", func(ctx SpecContext) {
		b := steering.Start(ctx, steering.Options{
			Options: framework.Options{ServiceClusterIPRange: "10.96.0.0/24,fd00:10:96::/120"}, Replicas: 2, Plain: true,
		})
		suite.ControllerManager(ctx, b.ControlPlane, "resourcequota-controller")
		b.CreateNamespace(ctx, "tenant", map[string]string{"tenant": "a"})
		b.CreateNamespace(ctx, "attacker", nil)
		b.OfferRange(ctx, "tenant", nil, "10.97.0.0/24", "fd00:10:97::/120")
		b.Program(ctx, "tenant", steering.From("tenant"), steering.ForNamespaces("tenant", "a"), steering.Exclusive(), steering.OrFail())
		b.Program(ctx, "open", steering.From("kubernetes"), steering.CoolsDown(time.Hour), steering.WithPriority(-1))
		cooling := coolDown(ctx, b, cooled)
		forbidServices(ctx, b, "attacker")

		ctx2, cancel := context.WithTimeout(ctx, attack)
		defer cancel()
		var attempts atomic.Int64
		var attackers sync.WaitGroup
		defer attackers.Wait()
		for tick := time.NewTicker(interval); ctx2.Err() == nil; <-tick.C {
			n := attempts.Add(1)
			attackers.Go(func() {
				defer GinkgoRecover()
				_, err := b.Try(ctx, framework.NewService("attacker", fmt.Sprintf("web-%d", n), framework.RequireDualStack()))
				Expect(apierrors.IsForbidden(err)).To(BeTrue(), "%v", err)
				Expect(err.Error()).To(ContainSubstring("quota"))
			})
			if n%10 == 0 {
				expectServed(ctx, b, int(n))
			}
		}
		attackers.Wait()
		Expect(attempts.Load()).To(BeNumerically(">", attack/interval/2))
		AddReportEntry("attempts", attempts.Load())
		Expect(b.Decisions(ctx, steering.Failed)).To(BeZero(), "steering was off")
		Expect(b.Kept(ctx, steering.Cooling)).To(ConsistOf(cooling), "addresses that cooled down were given out early")
		b.ExpectConsistent(ctx)
	})
})

// forbidServices gives a namespace a quota without Services, and waits until it is in force.
func forbidServices(ctx context.Context, b *steering.Bed, namespace string) {
	GinkgoHelper()
	quota := &corev1.ResourceQuota{
		ObjectMeta: metav1.ObjectMeta{Name: "none"},
		Spec:       corev1.ResourceQuotaSpec{Hard: corev1.ResourceList{corev1.ResourceServices: resource.MustParse("0")}},
	}
	_, err := b.Client().CoreV1().ResourceQuotas(namespace).Create(ctx, quota, metav1.CreateOptions{})
	Expect(err).NotTo(HaveOccurred())
	Eventually(func(g Gomega) {
		quota, err := b.Client().CoreV1().ResourceQuotas(namespace).Get(ctx, "none", metav1.GetOptions{})
		g.Expect(err).NotTo(HaveOccurred())
		g.Expect(quota.Status.Hard).To(HaveKey(corev1.ResourceServices))
	}).WithTimeout(cluster.Patience).Should(Succeed())
}

// coolDown creates n Services, deletes them, and returns their addresses once they are kept.
func coolDown(ctx context.Context, b *steering.Bed, n int) (addresses []string) {
	GinkgoHelper()
	services := b.CreateSettledServices(ctx, n, func(i int) *corev1.Service {
		return framework.NewService(cluster.Namespace, fmt.Sprintf("before-%d", i), framework.RequireDualStack())
	})
	b.DeleteServices(ctx, services...)
	for _, service := range services {
		addresses = append(addresses, service.Spec.ClusterIPs...)
	}
	Eventually(b.Kept).WithArguments(ctx, steering.Cooling).WithTimeout(cluster.Patience).Should(ConsistOf(addresses))
	return addresses
}

// passed says why a Service may have gone past the webhook, for failures.
func passed(ctx context.Context, b *steering.Bed) func() string {
	return func() string {
		return fmt.Sprintf("%.0f calls failed open, the webhook let %.0f pass", b.FailedOpen(ctx, "service.clusterip-operator.io"), b.Decisions(ctx, steering.Failed))
	}
}

// expectServed wants the tenant and everybody else to get Services, each where its policy says.
func expectServed(ctx context.Context, b *steering.Bed, n int) {
	GinkgoHelper()
	theirs := b.Create(ctx, framework.NewService("tenant", fmt.Sprintf("web-%d", n), framework.RequireDualStack()))
	Expect(theirs.Spec.ClusterIPs).To(ConsistOf(HavePrefix("10.97.0."), HavePrefix("fd00:10:97::")), passed(ctx, b))
	others := b.Create(ctx, framework.NewService(cluster.Namespace, fmt.Sprintf("web-%d", n), framework.RequireDualStack()))
	Expect(others.Spec.ClusterIPs).To(ConsistOf(HavePrefix("10.96.0."), HavePrefix("fd00:10:96::")), passed(ctx, b))
}
