package bitmap_test

import (
	"context"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/clusterip-operator/clusterip-operator/test/framework"
	"github.com/clusterip-operator/clusterip-operator/test/framework/suite"
	"github.com/clusterip-operator/clusterip-operator/test/integration/internal/cluster"
	"github.com/clusterip-operator/clusterip-operator/test/integration/internal/migrate"
)

// Kubernetes 1.33 serves v1 of ServiceCIDR and IPAddress and still has the feature gate that
// chooses the allocator. A prepared cluster switches it on, which the operator notices by itself,
// and off again after a `migrate rollback`.
var _ = Describe("An API server 1.33 without MultiCIDRServiceAllocator", Ordered, Label("soak"), func() {
	var c *cluster.Cluster
	options := func(gate bool) framework.Options {
		return framework.Options{
			Version: framework.V133, ServiceClusterIPRange: twoFamilies, FeatureGates: map[string]bool{"MultiCIDRServiceAllocator": gate},
		}
	}
	restart := func(ctx context.Context, gate bool) {
		GinkgoHelper()
		Expect(c.API.Kill()).To(Succeed()) // asked politely, it would wait for the watches of the operator
		Expect(c.Restart(ctx, options(gate))).To(Succeed())
	}
	addresses := 0
	create := func(ctx context.Context, name string) {
		GinkgoHelper()
		for _, s := range c.CreateServices(ctx, 20, framework.Numbered(cluster.Namespace, name, framework.PreferDualStack())) {
			addresses += len(s.Spec.ClusterIPs)
		}
		Eventually(c.Breaches).WithArguments(ctx).Should(BeEmpty())
		Expect(c.IPAddresses(ctx)).To(HaveLen(1 + addresses))
	}
	expectAllocator := func(ctx context.Context, want string) {
		GinkgoHelper()
		result := suite.Must(c.RunPlugin(ctx, framework.PluginOptions{Args: append([]string{"migrate", "check", "-o", "json"}, c.EtcdArgs()...)}))
		Expect(migrate.Decode(result.Stdout).Allocator).To(Equal(want), result.String())
	}
	expectEnd := func(why string) {
		GinkgoHelper()
		Eventually(c.Operator.Done()).WithTimeout(2 * cluster.Timeout).Should(BeClosed())
		Expect(c.Operator.LogTail(1)).To(And(ContainSubstring(why), ContainSubstring("restarting")))
	}

	BeforeAll(func(ctx SpecContext) {
		c = cluster.Start(ctx, cluster.Options{Options: options(false), OperatorArgs: []string{"--service-cluster-ip-range=" + twoFamilies}})
	})

	It("has every IPAddress from the operator, which has to be told the range", func(ctx SpecContext) {
		said, code, err := c.RunManager(ctx, framework.ManagerOptions{Race: true, Args: []string{"--leader-elect=false", "--metrics-bind-address=0", "--health-probe-bind-address=0"}})
		Expect(err).NotTo(HaveOccurred())
		Expect(code).To(Equal(1))
		Expect(said).To(And(ContainSubstring("MultiCIDRServiceAllocator"), ContainSubstring("--service-cluster-ip-range")))
		create(ctx, "early")
		Expect(c.IPAddresses(ctx)[0].ManagedFields).To(ContainElement(HaveField("Manager", Not(Equal("kube-apiserver")))))
		Eventually(c.Condition).WithArguments(ctx, "kubernetes", cluster.Migrated).Should(HaveField("Reason", "ReadyToFlip"))
		expectAllocator(ctx, "Bitmap")
	})

	It("allocates from IPAddresses when it is switched on, and the operator knows", func(ctx SpecContext) {
		restart(ctx, true)
		expectEnd("allocates from the bitmap has changed to false")
		Expect(c.Operator.Start(ctx)).To(Succeed())
		Eventually(c.Condition).WithArguments(ctx, "kubernetes", cluster.Migrated).Should(And(HaveField("Status", metav1.ConditionTrue), HaveField("Reason", "Flipped")))
		Expect(c.Events(ctx).Warnings()).To(BeEmpty())
		create(ctx, "late")
		expectAllocator(ctx, "Both")
	})

	// A 1.32 API server that changes the ServiceCIDR beside this one drops the field managers of v1.
	It("is recognised also when nobody knows any more who has written the condition Ready", func(ctx SpecContext) {
		suite.Must(c.Networking().ServiceCIDRs().Patch(ctx, "kubernetes", types.MergePatchType, []byte(`{"metadata":{"managedFields":[{}]}}`), metav1.PatchOptions{}))
		Expect(c.Operator.Kill()).To(Succeed())
		Expect(c.Operator.Start(ctx)).To(Succeed())
		expectEnd("allocates from the bitmap has changed to false")
		Expect(c.Operator.Start(ctx)).To(Succeed())
		expectAllocator(ctx, "Both")
	})

	It("allocates from the bitmap after the way back, and forth again", func(ctx SpecContext) {
		Expect(c.API.Kill()).To(Succeed())
		back := suite.Must(c.RunPlugin(ctx, framework.PluginOptions{
			Kubeconfig: framework.NoKubeconfig, Args: append([]string{"migrate", "rollback", "--offline", "--yes"}, c.EtcdArgs()...),
		}))
		Expect(back.ExitCode).To(BeZero(), back.String())
		restart(ctx, false)
		expectEnd("allocates from the bitmap has changed to true")
		Expect(c.Operator.Start(ctx)).To(Succeed())
		create(ctx, "back")
		expectAllocator(ctx, "Bitmap")

		restart(ctx, true)
		expectEnd("allocates from the bitmap has changed to false")
		Expect(c.Operator.Start(ctx)).To(Succeed())
		create(ctx, "forth")
		expectAllocator(ctx, "Both")
		Expect(c.Events(ctx).Ours().Warnings()).To(BeEmpty())
	})
})
