package defects_test

import (
	"time"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/clusterip-operator/clusterip-operator/test/framework"
	"github.com/clusterip-operator/clusterip-operator/test/integration/internal/cluster"
)

var _ = Describe("An API server that is started with another range than its cluster has", func() {
	const (
		kubernetes   = "kubernetes"
		inconsistent = "KubernetesDefaultServiceCIDRInconsistent"
		wrong        = "10.97.0.0/16,fd00:10:97::/112"
	)

	// 1. The API server comes back with another --service-cluster-ip-range, as after an upgrade with a lost setting.
	// 2. It says so in one event, which is gone an hour later, and in no condition.
	// 3. The operator, which is told the new range as well, puts it into a condition and an event of its own. It is one that writes no band labels,
	// for some do not want their IPAddresses to be written to.
	// 4. It is still said after the operator was started again.
	// 5. Both are started with the right range, and it is over.
	It("is reported for as long as it lasts", func(ctx SpecContext) {
		c := cluster.Start(ctx, cluster.Options{WithoutOperator: true})
		Expect(c.Restart(ctx, framework.Options{ServiceClusterIPRange: wrong})).To(Succeed())
		Eventually(func() cluster.Events { return c.Events(ctx).OnServiceCIDR(kubernetes).For(inconsistent) }).Should(HaveLen(1))
		Expect(c.ServiceCIDR(ctx, kubernetes).Status.Conditions).To(HaveExactElements(HaveField("Type", cluster.Ready)))

		c.StartOperator(ctx, "--service-cluster-ip-range="+wrong, "--band-labels=false")
		Eventually(c.Warning(ctx, kubernetes, cluster.DefaultRangeMismatch)).Should(And(ContainSubstring(framework.DefaultServiceClusterIPRange), ContainSubstring(wrong)))
		notes := func() []string { return c.Events(ctx).Ours().OnServiceCIDR(kubernetes).For(inconsistent).Notes() }
		Eventually(notes).Should(HaveExactElements(ContainSubstring(wrong)))

		said := c.Condition(ctx, kubernetes, cluster.DefaultRangeMismatch)
		Expect(c.Operator.Stop()).To(Succeed())
		Expect(c.Operator.Start(ctx)).To(Succeed())
		Consistently(c.Condition).WithArguments(ctx, kubernetes, cluster.DefaultRangeMismatch).
			WithTimeout(12 * time.Second).Should(Equal(said))
		Expect(c.Labels(ctx, "10.96.0.1")).NotTo(HaveKey(cluster.BandLabel))

		Expect(c.Operator.Stop()).To(Succeed())
		Expect(c.Restart(ctx, framework.Options{})).To(Succeed())
		c.StartOperator(ctx, "--service-cluster-ip-range="+framework.DefaultServiceClusterIPRange)
		Eventually(c.Condition).WithArguments(ctx, kubernetes, cluster.DefaultRangeMismatch).Should(HaveField("Status", metav1.ConditionFalse))
	})
})
