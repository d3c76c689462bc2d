package defects_test

import (
	"context"
	"fmt"
	"time"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/clusterip-operator/clusterip-operator/test/framework"
	"github.com/clusterip-operator/clusterip-operator/test/integration/internal/cluster"
)

// take creates n Services that ask for no particular address.
func take(ctx context.Context, c *cluster.Cluster, stage string, n int) []*corev1.Service {
	GinkgoHelper()
	return c.CreateServices(ctx, n, func(i int) *corev1.Service {
		return framework.NewService(cluster.Namespace, fmt.Sprintf("%s-%02d", stage, i))
	})
}

// expectFull asks for one more Service.
func expectFull(ctx context.Context, c *cluster.Cluster) {
	GinkgoHelper()
	_, err := c.TryService(ctx, "one-too-many")
	Expect(err).To(And(MatchError(apierrors.IsInternalError, "IsInternalError"), MatchError(ContainSubstring("range is full"))))
}

var _ = Describe("Exhaustion of the default range", func() {
	//	static 16             dynamic 14 or 15
	//	|kubernetes|..........|.............|
	//
	// 1. Without the operator the range is filled: an HTTP 500 for whoever comes last, and not a word before or after.
	// 2. The operator starts on the empty range, which is filled again, from the dynamic band downwards.
	// 3. With two dynamic addresses left it warns. There is still room.
	// 4. The dynamic band is full, then the static one: each is said at once.
	// 5. The Services go, and all is well again.
	DescribeTable("is announced before it happens", func(ctx SpecContext, cidr string, dynamic int) {
		const kubernetes, static = "kubernetes", 16
		c := cluster.Start(ctx, cluster.Options{WithoutOperator: true, Options: framework.Options{ServiceClusterIPRange: cidr}})
		silent := take(ctx, c, "silent", static+dynamic-1)
		expectFull(ctx, c)
		Expect(c.Events(ctx).OnServiceCIDR(kubernetes)).To(BeEmpty(), "upstream says nothing")
		Expect(c.Events(ctx).Notes()).NotTo(ContainElement(ContainSubstring("full")), "about no other object either")
		Expect(c.ServiceCIDR(ctx, kubernetes).Status.Conditions).To(HaveExactElements(HaveField("Type", cluster.Ready)))
		c.DeleteServices(ctx, silent...)

		c.StartOperator(ctx)
		status := func(kind string) func() metav1.ConditionStatus {
			return func() metav1.ConditionStatus { return c.Condition(ctx, kubernetes, kind).Status }
		}
		announced := func(kind, reason, text string) {
			GinkgoHelper()
			Eventually(c.Warning(ctx, kubernetes, kind)).Should(cluster.ContainAll(text, cidr))
			Eventually(func() []string { return c.Events(ctx).Ours().Warnings().OnServiceCIDR(kubernetes).For(reason).Notes() }).
				Should(HaveExactElements(cluster.ContainAll(text, cidr)))
		}

		all := take(ctx, c, "enough", dynamic-3)
		Eventually(status(cluster.NearlyFull)).Should(Equal(metav1.ConditionFalse))
		Consistently(status(cluster.NearlyFull)).WithTimeout(2 * time.Second).Should(Equal(metav1.ConditionFalse))
		all = append(all, take(ctx, c, "few", 1)...)
		announced(cluster.NearlyFull, "ServiceCIDRNearlyFull", "dynamic band")
		Expect(status(cluster.DynamicBandFull)()).To(Equal(metav1.ConditionFalse))

		all = append(all, take(ctx, c, "last-dynamic", 2)...)
		announced(cluster.DynamicBandFull, "ServiceCIDRDynamicBandFull", "dynamic band")
		Expect(status(cluster.StaticBandFull)()).To(Equal(metav1.ConditionFalse))

		all = append(all, take(ctx, c, "static", static-1)...)
		announced(cluster.StaticBandFull, "ServiceCIDRStaticBandFull", "static band")
		expectFull(ctx, c)

		c.DeleteServices(ctx, all...)
		for _, kind := range []string{cluster.NearlyFull, cluster.DynamicBandFull, cluster.StaticBandFull} {
			Eventually(status(kind)).Should(Equal(metav1.ConditionFalse), kind)
		}
	},
		Entry("in IPv4", "10.97.0.0/27", 14),
		Entry("in IPv6", "fd00:97::/123", 15),
	)
})
