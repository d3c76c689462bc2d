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
	"github.com/clusterip-operator/clusterip-operator/test/integration/internal/steering"
	"github.com/clusterip-operator/clusterip-operator/test/integration/inventory"
)

// rests are resources that are written all the time: by the replicas, to say that they live.
var rests = []string{"leases.coordination.k8s.io"}

// everything is what the API server has, versions included, and what the replicas remember.
type everything struct {
	objects  inventory.Objects
	memories []float64
}

func takeDown(ctx context.Context) everything {
	GinkgoHelper()
	objects, err := inventory.Everything(ctx, bed.AdminConfig())
	Expect(err).NotTo(HaveOccurred())
	return everything{uncounted(objects.Without(rests...)), bed.EachMetric(ctx, "admission_in_flight_addresses")}
}

// uncounted leaves the counts out of the status of policies, which follow what happened before by up to half a minute, and what their being
// written changes.
func uncounted(objects inventory.Objects) inventory.Objects {
	for name, object := range objects {
		if !strings.HasPrefix(name, "servicecidrpolicies.") {
			continue
		}
		object = object.DeepCopy()
		object.SetResourceVersion("")
		object.SetManagedFields(nil)
		unstructured.RemoveNestedField(object.Object, "status", "summary")
		unstructured.RemoveNestedField(object.Object, "status", "ranges")
		objects[name] = object
	}
	return objects
}

// settle waits until nothing changes any more: neither what replicas remember of the container before, nor what the API server has.
func settle(ctx context.Context) (now everything) {
	GinkgoHelper()
	bed.ExpectNothingLeaked(ctx)
	Eventually(func() []string {
		now = takeDown(ctx)
		time.Sleep(2 * time.Second)
		return now.objects.Changes(takeDown(ctx).objects)
	}).WithTimeout(time.Minute).Should(BeEmpty())
	return now
}

// expectNothingNew gives the operator time to write what it should not.
func expectNothingNew(ctx context.Context, before everything) {
	GinkgoHelper()
	time.Sleep(2 * time.Second)
	after := takeDown(ctx)
	Expect(before.objects.Changes(after.objects)).To(BeEmpty())
	Expect(after.memories).To(Equal(before.memories))
}

func apply(ctx context.Context, manifest string, flags ...string) string {
	GinkgoHelper()
	output, err := framework.KubectlWithInput(ctx, bed.Kubeconfig(), manifest, append([]string{"apply", "-f", "-"}, flags...)...)
	Expect(err).NotTo(HaveOccurred())
	return output
}

// manifest is a Service as people write it.
func manifest(service *corev1.Service) string {
	GinkgoHelper()
	service.TypeMeta = metav1.TypeMeta{APIVersion: "v1", Kind: "Service"}
	text, err := yaml.Marshal(service)
	Expect(err).NotTo(HaveOccurred())
	return strings.Replace(string(text), "status:\n  loadBalancer: {}\n", "", 1)
}

// A tenant with a small range of its own, a Service, an address that cools down and one that is kept.
var _ = inOrder("What changes nothing", func() {
	const range4, range6 = "10.109.0.0/28", "fd00:109::/124"
	const kept4, kept6 = "10.109.0.9", "fd00:109::9"

	BeforeAll(func(ctx SpecContext) {
		bed.OfferRange(ctx, "small", nil, range4, range6)
		bed.Program(ctx, "small", steering.From("small"), steering.ForNamespaces("tenant", "blue"), steering.Exclusive(), steering.OrFail(),
			steering.CoolsDown(time.Hour), steering.Reserves("kept4", kept4, "blue/front"), steering.Reserves("kept6", kept6, "blue/front"))
		gone := bed.Create(ctx, dual("blue", "gone"))
		bed.Create(ctx, dual("blue", "there"))
		bed.DeleteServices(ctx, gone)
	})

	dryRun := metav1.CreateOptions{DryRun: []string{metav1.DryRunAll}}

	// More of them than there are addresses: if one were taken, the last would find none.
	It("is a dry run of the creation of a Service", func(ctx SpecContext) {
		before := settle(ctx)
		services := bed.Client().CoreV1().Services("blue")
		for i := range 3 * size(range4) {
			_, err := services.Create(ctx, dual("blue", fmt.Sprintf("dry-%d", i)), dryRun)
			Expect(err).NotTo(HaveOccurred())
		}
		_, err := services.Create(ctx, dual("blue", "front"), dryRun)
		Expect(err).NotTo(HaveOccurred())
		// For a dry run the API server picks one of its ranges at random, and may find that the address is not in there.
		_, _ = services.Create(ctx, asking("blue", "dry", "10.109.0.12", "fd00:109::c"), dryRun)
		apply(ctx, manifest(dual("blue", "dry")), "--dry-run=server")
		apply(ctx, manifest(dual("blue", "dry")), "--dry-run=server", "--server-side")
		expectNothingNew(ctx, before)
	})

	It("is a dry run of what is refused", func(ctx SpecContext) {
		before := settle(ctx)
		for _, service := range []*corev1.Service{asking("red", "thief", kept4), asking("red", "thief", "10.109.0.12"), asking("blue", "front", kept4, kept6)} {
			_, _ = bed.Client().CoreV1().Services(service.Namespace).Create(ctx, service, dryRun)
		}
		expectNothingNew(ctx, before)
	})

	It("is a dry run of a change that adds an address, or takes one away", func(ctx SpecContext) {
		bed.Create(ctx, single("blue", "half", corev1.IPv6Protocol))
		bed.Create(ctx, framework.NewService("blue", "alias", framework.ExternalName("example.com")))
		before := settle(ctx)
		update := func(name string, how func(*corev1.Service)) {
			GinkgoHelper()
			services := bed.Client().CoreV1().Services("blue")
			service, err := services.Get(ctx, name, metav1.GetOptions{})
			Expect(err).NotTo(HaveOccurred())
			how(service)
			_, err = services.Update(ctx, service, metav1.UpdateOptions{DryRun: dryRun.DryRun})
			Expect(err).NotTo(HaveOccurred())
		}
		for range size(range4) {
			update("half", func(s *corev1.Service) { s.Spec.IPFamilyPolicy = new(corev1.IPFamilyPolicyRequireDualStack) })
			update("alias", func(s *corev1.Service) { s.Spec.Type, s.Spec.ExternalName = corev1.ServiceTypeClusterIP, "" })
		}
		update("there", func(s *corev1.Service) { s.Spec.IPFamilyPolicy = new(corev1.IPFamilyPolicySingleStack) })
		expectNothingNew(ctx, before)
	})

	It("is a dry run of the deletion of a Service or of a policy", func(ctx SpecContext) {
		before := settle(ctx)
		_, err := framework.Kubectl(ctx, bed.Kubeconfig(), "delete", "service", "-n", "blue", "there", "--dry-run=server")
		Expect(err).NotTo(HaveOccurred())
		_, err = framework.Kubectl(ctx, bed.Kubeconfig(), "delete", "servicecidrpolicy", "small", "--dry-run=server")
		Expect(err).NotTo(HaveOccurred())
		expectNothingNew(ctx, before)
	})

	DescribeTable("is the same manifest applied again", func(ctx SpecContext, name string, flags ...string) {
		for _, service := range []*corev1.Service{
			dual("blue", name+"-dual"), single("blue", name+"-ipv6", corev1.IPv6Protocol), framework.NewService("blue", name+"-default"),
			dual("blue", name+"-port", framework.WithType(corev1.ServiceTypeNodePort)),
			framework.NewService("red", name+"-headless", framework.Headless()),
		} {
			text := manifest(service)
			apply(ctx, text, flags...)
			DeferCleanup(func(ctx SpecContext) { bed.DeleteServices(ctx, service) })
			defer func() {
				GinkgoHelper()
				apply(ctx, strings.Replace(text, "metadata:", "metadata:\n  labels:\n    changed: \"yes\"", 1), flags...)
			}()
		}
		before := settle(ctx)
		for range 3 {
			for _, service := range []*corev1.Service{
				dual("blue", name+"-dual"), single("blue", name+"-ipv6", corev1.IPv6Protocol), framework.NewService("blue", name+"-default"),
				dual("blue", name+"-port", framework.WithType(corev1.ServiceTypeNodePort)),
				framework.NewService("red", name+"-headless", framework.Headless()),
			} {
				apply(ctx, manifest(service), flags...)
			}
		}
		expectNothingNew(ctx, before)
	},
		Entry("by the client", "client"),
		Entry("by the server", "server", "--server-side"),
	)

	It("is a policy applied again", func(ctx SpecContext) {
		policy := bed.Policy(ctx, "small")
		policy.APIVersion, policy.Kind = "clusterip-operator.io/v1alpha1", "ServiceCIDRPolicy"
		text, err := yaml.Marshal(map[string]any{"apiVersion": policy.APIVersion, "kind": policy.Kind, "metadata": map[string]any{"name": policy.Name}, "spec": policy.Spec})
		Expect(err).NotTo(HaveOccurred())
		apply(ctx, string(text), "--server-side", "--force-conflicts")
		before := settle(ctx)
		apply(ctx, string(text), "--server-side", "--force-conflicts")
		expectNothingNew(ctx, before)
	})
}, "all")
