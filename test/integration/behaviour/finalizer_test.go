package behaviour_test

import (
	"fmt"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/clusterip-operator/clusterip-operator/test/integration/internal/cluster"
)

// kube-controller-manager puts its finalizer on ServiceCIDRs and takes it off. Here it does not
// run, as in a cluster whose provider has switched the controller off: the operator holds ranges by
// a finalizer of its own alone, and lets go of them. What kube-controller-manager has left it
// leaves.
var _ = It("A ServiceCIDR has the operator's finalizer alone where kube-controller-manager does not run", Label("long"), func(ctx SpecContext) {
	c := cluster.Start(ctx, cluster.Options{})
	for name, cidrs := range map[string][]string{
		"ours": {"10.130.0.0/24", "fd00:130::/120"}, "theirs": {"10.131.0.0/24", "fd00:131::/120"},
	} {
		c.CreateServiceCIDR(ctx, name, cidrs...)
		c.WaitLookedAfter(ctx, name)
		Expect(c.ServiceCIDR(ctx, name).Finalizers).To(ConsistOf(cluster.OurFinalizer))
	}
	_, err := c.Networking().ServiceCIDRs().Patch(ctx, "theirs", types.StrategicMergePatchType,
		fmt.Appendf(nil, `{"metadata":{"finalizers":[%q]}}`, cluster.UpstreamFinalizer), metav1.PatchOptions{FieldManager: "kube-controller-manager"})
	Expect(err).NotTo(HaveOccurred())
	c.HoldAddress(ctx, "holds", "10.130.0.9", "fd00:130::9")
	c.DeleteServiceCIDRs(ctx, "ours", "theirs")

	Eventually(c.ServiceCIDR).WithArguments(ctx, "theirs").Should(HaveField("Finalizers", ConsistOf(cluster.UpstreamFinalizer)))
	Expect(c.Remaining(ctx, "ours", "theirs")).To(ConsistOf("ours", "theirs"), "one is needed, and one is kube-controller-manager's to let go of")
	c.DeleteAllServices(ctx)
	Eventually(c.Remaining).WithArguments(ctx, "ours").Should(BeEmpty())
	Expect(c.Remaining(ctx, "theirs")).To(HaveLen(1))
})
