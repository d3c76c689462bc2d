package steering_test

import (
	"context"
	"fmt"
	"strings"
	"time"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"sigs.k8s.io/yaml"

	"github.com/clusterip-operator/clusterip-operator/test/framework"
	"github.com/clusterip-operator/clusterip-operator/test/framework/suite"
	"github.com/clusterip-operator/clusterip-operator/test/integration/internal/cluster"
	"github.com/clusterip-operator/clusterip-operator/test/integration/inventory"
)

// everything is what the API server has, versions included, but for Leases, which replicas renew,
// and for the counts in policies' statuses and ServiceCIDRs' annotations, which follow up to half a
// minute late, and what their writing changes.
func everything(ctx context.Context) inventory.Objects {
	GinkgoHelper()
	objects := c.Everything(ctx, "leases.coordination.k8s.io")
	for name, object := range objects {
		if strings.HasPrefix(name, "servicecidrpolicies.") || strings.HasPrefix(name, "servicecidrs.") {
			object.SetResourceVersion("")
			object.SetManagedFields(nil)
			unstructured.RemoveNestedField(object.Object, "status", "summary")
			unstructured.RemoveNestedField(object.Object, "status", "ranges")
			unstructured.RemoveNestedField(object.Object, "metadata", "annotations", cluster.UsageAnnotation)
		}
	}
	return objects
}

// expectUnchanged waits until nothing changes, calls do, gives the operator time to write what it
// should not, and wants the API server's objects and the replicas' memory to be as before.
func expectUnchanged(ctx context.Context, do func()) {
	GinkgoHelper()
	c.ExpectNothingLeaked(ctx)
	var before inventory.Objects
	Eventually(func() []string {
		before = everything(ctx)
		time.Sleep(2 * time.Second)
		return before.Changes(everything(ctx))
	}).Should(BeEmpty())
	do()
	time.Sleep(2 * time.Second)
	Expect(before.Changes(everything(ctx))).To(BeEmpty())
	Expect(c.EachMetric(ctx, "admission_in_flight_addresses")).To(HaveEach(BeZero()))
}

func apply(ctx context.Context, manifest string, flags ...string) {
	GinkgoHelper()
	suite.Must(framework.KubectlWithInput(ctx, c.Kubeconfig(), manifest, append([]string{"apply", "-f", "-"}, flags...)...))
}

// manifest is a Service as people write it.
func manifest(service *corev1.Service) string {
	GinkgoHelper()
	service.TypeMeta = metav1.TypeMeta{APIVersion: "v1", Kind: "Service"}
	text := suite.Must(yaml.Marshal(service))
	return strings.Replace(string(text), "status:\n  loadBalancer: {}\n", "", 1)
}

// A tenant with a small exclusive range, a Service, a cooling address and a kept one.
var _ = inOrder("What changes nothing", func() {
	const range4, range6 = "10.109.0.0/28", "fd00:109::/124"
	const kept4, kept6 = "10.109.0.9", "fd00:109::9"
	const small = `{serviceCIDRs: [small], namespaceSelector: {matchLabels: {tenant: blue}}, exclusive: true, onFull: Fail, coolDown: 1h,
		reservations: [{name: kept4, address: ` + kept4 + `, for: blue/front}, {name: kept6, address: "` + kept6 + `", for: blue/front}]}`
	dryRun := []string{metav1.DryRunAll}

	BeforeAll(func(ctx SpecContext) {
		c.OfferRange(ctx, "small", nil, range4, range6)
		c.Program(ctx, "small", small)
		gone := c.Create(ctx, cluster.Dual("blue", "gone"))
		c.Create(ctx, cluster.Dual("blue", "there"))
		c.DeleteServices(ctx, gone)
	})

	// More of them than there are addresses: if one were taken, the last would find none.
	It("is a dry run of the creation of a Service, granted or refused", func(ctx SpecContext) {
		create := func(service *corev1.Service) error {
			_, err := c.Client().CoreV1().Services(service.Namespace).Create(ctx, service, metav1.CreateOptions{DryRun: dryRun})
			return err
		}
		expectUnchanged(ctx, func() {
			for i := range 3 * size(range4) {
				Expect(create(cluster.Dual("blue", fmt.Sprintf("dry-%d", i)))).To(Succeed())
			}
			Expect(create(cluster.Dual("blue", "front"))).To(Succeed())
			apply(ctx, manifest(cluster.Dual("blue", "dry")), "--dry-run=server")
			apply(ctx, manifest(cluster.Dual("blue", "dry")), "--dry-run=server", "--server-side")
			// In dry runs the API server picks a range at random, which may lack a chosen address.
			for _, service := range []*corev1.Service{
				cluster.Asking("blue", "dry", "10.109.0.12", "fd00:109::c"), cluster.Asking("red", "thief", kept4),
				cluster.Asking("red", "thief", "10.109.0.12"), cluster.Asking("blue", "front", kept4, kept6),
			} {
				_ = create(service)
			}
		})
	})

	It("is a dry run of a change that adds an address, or takes one away, or of a deletion", func(ctx SpecContext) {
		c.Create(ctx, cluster.Single("blue", "half", corev1.IPv6Protocol))
		c.Create(ctx, framework.NewService("blue", "alias", framework.ExternalName("example.com")))
		services := c.Client().CoreV1().Services("blue")
		update := func(name string, how func(*corev1.Service)) {
			GinkgoHelper()
			service := suite.Must(services.Get(ctx, name, metav1.GetOptions{}))
			how(service)
			Expect(services.Update(ctx, service, metav1.UpdateOptions{DryRun: dryRun})).Error().NotTo(HaveOccurred())
		}
		expectUnchanged(ctx, func() {
			for range size(range4) {
				update("half", func(s *corev1.Service) { s.Spec.IPFamilyPolicy = new(corev1.IPFamilyPolicyRequireDualStack) })
				update("alias", func(s *corev1.Service) { s.Spec.Type, s.Spec.ExternalName = corev1.ServiceTypeClusterIP, "" })
			}
			update("there", func(s *corev1.Service) { s.Spec.IPFamilyPolicy = new(corev1.IPFamilyPolicySingleStack) })
			c.Kubectl(ctx, "delete", "service", "-n", "blue", "there", "--dry-run=server")
			c.Kubectl(ctx, "delete", "servicecidrpolicy", "small", "--dry-run=server")
		})
	})

	It("is the same manifest applied again, by the client or by the server, or a policy", func(ctx SpecContext) {
		manifests, flags := map[string]string{}, map[string][]string{"client": nil, "server": {"--server-side"}}
		for by := range flags {
			var texts []string
			for _, service := range []*corev1.Service{
				cluster.Dual("blue", by+"-dual"), cluster.Single("blue", by+"-ipv6", corev1.IPv6Protocol), framework.NewService("blue", by+"-default"),
				cluster.Dual("blue", by+"-port", framework.WithType(corev1.ServiceTypeNodePort)), framework.NewService("red", by+"-headless", framework.Headless()),
			} {
				texts = append(texts, manifest(service))
				DeferCleanup(func(ctx SpecContext) { c.DeleteServices(ctx, service) })
			}
			manifests[by] = strings.Join(texts, "---\n")
			apply(ctx, manifests[by], flags[by]...)
		}
		expectUnchanged(ctx, func() {
			for by, all := range manifests {
				for range 3 {
					apply(ctx, all, flags[by]...)
				}
			}
			c.ApplyPolicy(ctx, "small", small)
		})
	})
}, "all")
