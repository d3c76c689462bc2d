package behaviour_test

import (
	"context"
	"slices"
	"time"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/clusterip-operator/clusterip-operator/test/framework"
	"github.com/clusterip-operator/clusterip-operator/test/framework/suite"
	"github.com/clusterip-operator/clusterip-operator/test/integration/internal/cluster"
)

// The API server takes fd00:10:96::00AC with a warning, and names the IPAddress fd00:10:96::ac. Its
// repair loop compares texts, so it deletes that IPAddress a minute after its creation, or five
// seconds if the Service was there before it, and creates it anew three minutes later. Addresses of
// IPv4 it takes in one spelling alone.
var _ = Describe("Services that misspell their addresses", Label("long"), Ordered, func() {
	const single, dual = "fd00:10:96::ac", "fd00:10:96::ad"
	var c *cluster.Cluster
	var four string // the other address of the second Service, which is spelt right

	BeforeAll(func(ctx SpecContext) {
		c = cluster.Start(ctx, cluster.Options{Options: framework.Options{FeatureGates: framework.WithoutDualWrite}}) // one address, two Services
		c.CreateSettledService(ctx, "single", framework.WithFamilies(corev1.IPv6Protocol), framework.WithClusterIPs("fd00:10:96::00AC"))
		four = c.CreateSettledService(ctx, "dual", framework.RequireDualStack(), framework.WithClusterIPs("10.96.0.173", "fd00:10:96:0::00ad")).Spec.ClusterIP
	})

	// What the API server itself creates anew, three minutes after its start or after it found none,
	// is not counted: on a slow machine that falls into this spec.
	It("are left to the API server: the operator writes no IPAddress of theirs", func(ctx SpecContext) {
		watch := suite.Must(c.Networking().IPAddresses().Watch(ctx, metav1.ListOptions{}))
		defer watch.Stop()
		// The API server deletes two of these IPAddresses in the end.
		for _, address := range []string{single, dual, four} {
			Expect(client.IgnoreNotFound(c.Networking().IPAddresses().Delete(ctx, address, metav1.DeleteOptions{}))).To(Succeed())
		}
		Eventually(c.Owner).WithArguments(ctx, four).Should(Equal(cluster.Namespace+"/dual"), "the address that is spelt right is repaired")
		var seen []string
		Consistently(func() []string {
			for {
				select {
				case event := <-watch.ResultChan():
					object := event.Object.(metav1.Object)
					ours := slices.ContainsFunc(object.GetManagedFields(), func(f metav1.ManagedFieldsEntry) bool { return f.Manager == ourWriter })
					if ours && slices.Contains([]string{single, dual}, object.GetName()) {
						seen = append(seen, object.GetName())
					}
					continue
				default:
					return seen
				}
			}
		}).WithTimeout(6 * time.Second).Should(BeEmpty())
	})

	It("are told once, and found by check", func(ctx SpecContext) {
		for name, text := range map[string]string{"single": "fd00:10:96::00AC", "dual": "fd00:10:96:0::00ad"} {
			Eventually(func() []string { return c.Events(ctx).Ours().OnService(name).For("ClusterIPMisspelt").Notes() }).
				Should(ConsistOf(And(ContainSubstring(text), ContainSubstring("create it anew with fd00:10:96::a"))))
			Expect(c.Events(ctx).Ours().OnService(name).For("ClusterIPMisspelt").Count()).To(Equal(1))
		}
		Expect(c.Metric(ctx, "drift", "type", "misspelt")).To(BeEquivalentTo(2), "two Services")
		Expect(check(ctx, c)).To(And(ContainSubstring("ClusterIPMisspelt   service/default/single"), ContainSubstring("ClusterIPMisspelt   service/default/dual")))
	})

	It("lose the address to a Service that spells it right", func(ctx SpecContext) {
		right := c.CreateSettledService(ctx, "right", framework.WithFamilies(corev1.IPv6Protocol), framework.WithClusterIPs(single))
		c.DeleteIPAddress(ctx, single)
		Eventually(c.Owner).WithArguments(ctx, single).Should(Equal(cluster.Namespace + "/right"))
		Eventually(func() []string {
			return c.Events(ctx).Ours().OnService("single").For("ClusterIPAlreadyAllocated").Notes()
		}).
			Should(ConsistOf(ContainSubstring("belongs to another Service, which has the better right to it")))
		c.DeleteServices(ctx, right)
	})
})

// check is what `kubectl clusterip check` prints.
func check(ctx context.Context, c *cluster.Cluster) string {
	GinkgoHelper()
	result := suite.Must(c.RunPlugin(ctx, framework.PluginOptions{Args: []string{"check"}}))
	return result.Stdout
}
