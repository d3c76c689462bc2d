package admission_test

import (
	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	networkingv1client "k8s.io/client-go/kubernetes/typed/networking/v1"
	"k8s.io/client-go/rest"

	"github.com/clusterip-operator/clusterip-operator/test/framework"
	"github.com/clusterip-operator/clusterip-operator/test/integration/internal/cluster"
)

// The address of a Service that lives is not to be had by deleting its IPAddress: a second Service would get it, and the first could only
// be created anew (D2).
var _ = Describe("The guard of IPAddresses", Ordered, ContinueOnFailure, func() {
	var alice networkingv1client.NetworkingV1Interface
	BeforeAll(func(ctx SpecContext) {
		config, _ := c.Admin(ctx, "alice")
		alice = networking(config)
	})

	It("keeps users from deleting that of a Service that lives, and tells them what to do", func(ctx SpecContext) {
		service := c.CreateService(ctx, "guarded", framework.RequireDualStack())
		for _, address := range service.Spec.ClusterIPs {
			before := c.IPAddress(ctx, address)
			err := alice.IPAddresses().Delete(ctx, address, metav1.DeleteOptions{})
			Expect(apierrors.IsForbidden(err)).To(BeTrue(), "%v", err)
			Expect(err.Error()).To(And(ContainSubstring(address), ContainSubstring("default/guarded"), ContainSubstring("elete the Service")))
			Expect(c.IPAddress(ctx, address).UID).To(Equal(before.UID))
		}

		By("nor together with others")
		err := alice.IPAddresses().DeleteCollection(ctx, metav1.DeleteOptions{}, metav1.ListOptions{})
		Expect(apierrors.IsForbidden(err)).To(BeTrue(), "%v", err)

		By("nor may those who may do anything")
		masters, err := c.ConfigForUser("root", "system:masters")
		Expect(err).NotTo(HaveOccurred())
		err = networking(masters).IPAddresses().Delete(ctx, service.Spec.ClusterIP, metav1.DeleteOptions{})
		Expect(apierrors.IsForbidden(err)).To(BeTrue(), "%v", err)
		Expect(c.Breaches(ctx)).To(BeEmpty())
	})

	// An IPAddress of ours that rests is deleted when nobody wants it to rest, and its address handed out.
	It("keeps users from making that of a Service that lives one of ours", func(ctx SpecContext) {
		const asOurs = `{"metadata":{"labels":{"ipaddress.kubernetes.io/managed-by":"clusterip-operator.io","clusterip-operator.io/purpose":"cooling"}}}`
		service := c.CreateService(ctx, "relabelled", framework.RequireDualStack())
		for _, address := range service.Spec.ClusterIPs {
			before := c.IPAddress(ctx, address)
			_, err := alice.IPAddresses().Patch(ctx, address, types.MergePatchType, []byte(asOurs), metav1.PatchOptions{})
			Expect(apierrors.IsForbidden(err)).To(BeTrue(), "%v", err)
			Expect(err.Error()).To(And(ContainSubstring(address), ContainSubstring("default/relabelled"), ContainSubstring("stay as they are")))

			By("which is no reason to refuse them other labels and annotations")
			const other = `{"metadata":{"labels":{"team":"web"},"annotations":{"example.com/ticket":"4711"}}}`
			after, err := alice.IPAddresses().Patch(ctx, address, types.MergePatchType, []byte(other), metav1.PatchOptions{})
			Expect(err).NotTo(HaveOccurred())
			Expect(after.UID).To(Equal(before.UID))
			Expect(after.Labels).To(And(HaveKeyWithValue("ipaddress.kubernetes.io/managed-by", "ipallocator.k8s.io"), HaveKeyWithValue("team", "web"),
				Not(HaveKey("clusterip-operator.io/purpose"))))
			Eventually(func() map[string]string { return c.Labels(ctx, address) }).WithTimeout(cluster.Patience).
				Should(HaveKey(cluster.BandLabel), "the operator may write there")
		}

		By("nor when the Service is gone")
		c.DeleteServices(ctx, service)
		for _, address := range service.Spec.ClusterIPs {
			Expect(c.IPAddress(ctx, address)).To(BeNil())
		}
		c.CreateIPAddress(ctx, framework.NewIPAddress("10.96.0.81", cluster.Namespace, "never-was"))
		_, err := alice.IPAddresses().Patch(ctx, "10.96.0.81", types.MergePatchType, []byte(asOurs), metav1.PatchOptions{})
		Expect(err).NotTo(HaveOccurred())
		Expect(alice.IPAddresses().Delete(ctx, "10.96.0.81", metav1.DeleteOptions{})).To(Or(Succeed(), MatchError(apierrors.IsNotFound, "IsNotFound")))
	})

	It("keeps the additional addresses too", func(ctx SpecContext) {
		c.OfferRange(ctx, "guarded-extra", nil, "10.145.0.0/24", "fd00:10:145::/120")
		c.CreateService(ctx, "guarded-more", framework.RequireDualStack(), withAdditional("guarded-extra"))
		for _, address := range getsAdditional(ctx, "guarded-more", "10.145.0.0/24", "fd00:10:145::/120") {
			err := alice.IPAddresses().Delete(ctx, address, metav1.DeleteOptions{})
			Expect(apierrors.IsForbidden(err)).To(BeTrue(), "%v", err)
			Expect(err.Error()).To(And(ContainSubstring("default/guarded-more"), ContainSubstring(additionalFrom)))

			const asNobodys = `{"metadata":{"labels":{"clusterip-operator.io/purpose":null}}}`
			_, err = alice.IPAddresses().Patch(ctx, address, types.MergePatchType, []byte(asNobodys), metav1.PatchOptions{})
			Expect(apierrors.IsForbidden(err)).To(BeTrue(), "%v", err)
		}
		annotate(ctx, "guarded-more", additionalFrom, "")
		hasNone(ctx, "guarded-more")
	})

	It("lets the API server release the address of a Service that goes", func(ctx SpecContext) {
		service := c.CreateSettledService(ctx, "released", framework.RequireDualStack())
		c.DeleteServices(ctx, service)
		for _, address := range service.Spec.ClusterIPs {
			Expect(c.IPAddress(ctx, address)).To(BeNil())
		}

		By("and that of a family which a Service gives up")
		c.CreateService(ctx, "shrinking", framework.RequireDualStack())
		patchService(ctx, "shrinking", `{"spec":{"ipFamilyPolicy":"SingleStack"}}`)
		Eventually(c.Breaches).WithArguments(ctx).WithTimeout(cluster.Patience).Should(BeEmpty())
	})

	It("lets users delete what nobody holds", func(ctx SpecContext) {
		for _, address := range []string{"10.96.0.77", "fd00:10:96::77"} { // static, so that nobody is given them
			c.CreateIPAddress(ctx, framework.NewIPAddress(address, cluster.Namespace, "never-was"))
			Expect(alice.IPAddresses().Delete(ctx, address, metav1.DeleteOptions{})).To(Succeed(), "its Service is not there")
		}

		By("nor names")
		service := c.HoldAddress(ctx, "elsewhere", "10.96.0.78", "fd00:10:96::78")
		c.CreateIPAddress(ctx, framework.NewIPAddress("10.96.0.79", cluster.Namespace, "elsewhere"))
		err := alice.IPAddresses().Delete(ctx, "10.96.0.79", metav1.DeleteOptions{})
		Expect(err == nil || apierrors.IsNotFound(err)).To(BeTrue(), "%s has %v: %v", service.Name, service.Spec.ClusterIPs, err) // repaired already

		By("and what somebody else manages")
		c.CreateIPAddress(ctx, framework.NewIPAddress("10.96.0.80", cluster.Namespace, "gateway", framework.ManagedBy("example.com")))
		Expect(alice.IPAddresses().Delete(ctx, "10.96.0.80", metav1.DeleteOptions{})).To(Succeed())
	})

	It("answers a dry run like the real thing", func(ctx SpecContext) {
		service := c.CreateService(ctx, "dry", framework.RequireDualStack())
		for _, address := range service.Spec.ClusterIPs {
			err := alice.IPAddresses().Delete(ctx, address, metav1.DeleteOptions{DryRun: []string{metav1.DryRunAll}})
			Expect(apierrors.IsForbidden(err)).To(BeTrue(), "%v", err)
		}
	})
})

func networking(config *rest.Config) networkingv1client.NetworkingV1Interface {
	GinkgoHelper()
	client, err := networkingv1client.NewForConfig(config)
	Expect(err).NotTo(HaveOccurred())
	return client
}
