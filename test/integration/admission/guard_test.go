package admission_test

import (
	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/kubernetes"

	"github.com/clusterip-operator/clusterip-operator/test/framework"
	"github.com/clusterip-operator/clusterip-operator/test/integration/internal/cluster"
)

// Deleting its IPAddress must not free a live Service's address: another Service would get it, and
// the first could only be created anew (D2). Tables decide who may do what (controllers/admission);
// here the API server asks, about users who may do all.
var _ = Describe("The guards", Ordered, ContinueOnFailure, func() {
	var (
		alice    kubernetes.Interface
		warnings *framework.Warnings
	)
	BeforeAll(func(ctx SpecContext) { alice, warnings = c.Admin(ctx, "alice") })

	forbidden := func(err error, words ...string) {
		GinkgoHelper()
		Expect(err).To(MatchError(apierrors.IsForbidden, "IsForbidden"))
		Expect(err.Error()).To(cluster.ContainAll(words...))
	}
	relabel := func(ctx SpecContext, address, labels string) error {
		_, err := alice.NetworkingV1().IPAddresses().
			Patch(ctx, address, types.MergePatchType, []byte(`{"metadata":{"labels":{`+labels+`}}}`), metav1.PatchOptions{})
		return err
	}
	// When no policy wants a cooling IPAddress any more, it is deleted and its address handed out.
	const asOurs = `"ipaddress.kubernetes.io/managed-by":"clusterip-operator.io","clusterip-operator.io/purpose":"cooling"`

	It("keep users from deleting the IPAddress of a Service that lives, and tell them what to do", func(ctx SpecContext) {
		service := c.CreateService(ctx, "guarded", framework.RequireDualStack())
		for _, user := range []kubernetes.Interface{alice, cluster.ClientAs(c.Access, "root")} { // the latter may do anything
			ips := user.NetworkingV1().IPAddresses()
			for _, address := range service.Spec.ClusterIPs {
				forbidden(ips.Delete(ctx, address, metav1.DeleteOptions{}), address, "default/guarded", "elete the Service")
				forbidden(ips.Delete(ctx, address, metav1.DeleteOptions{DryRun: []string{metav1.DryRunAll}}))
			}
			forbidden(ips.DeleteCollection(ctx, metav1.DeleteOptions{}, metav1.ListOptions{}))
		}
		Expect(c.Breaches(ctx)).To(BeEmpty())
	})

	It("keep users from making it one of ours, and not from other labels", func(ctx SpecContext) {
		service := c.CreateService(ctx, "relabelled", framework.RequireDualStack())
		for _, address := range service.Spec.ClusterIPs {
			forbidden(relabel(ctx, address, asOurs), address, "default/relabelled", "stay as they are")
			Expect(relabel(ctx, address, `"team":"web"`)).To(Succeed())
			Eventually(c.Labels).WithArguments(ctx, address).Should(And(HaveKeyWithValue("team", "web"), HaveKey(cluster.BandLabel),
				HaveKeyWithValue("ipaddress.kubernetes.io/managed-by", framework.ManagedByUpstream)), "the operator may write there")
		}
	})

	It("keep the additional addresses too, which are restored when a controller deletes them", func(ctx SpecContext) {
		c.OfferRange(ctx, "guarded-extra", nil, "10.145.0.0/24", "fd00:10:145::/120")
		c.AllowAdditional(ctx, "guarded-additional", "guarded-extra")
		c.CreateService(ctx, "guarded-more", framework.RequireDualStack(), withAdditional("guarded-extra"))
		controller := cluster.ClientAs(c.Access, "system:serviceaccount:kube-system:generic-garbage-collector")
		for _, address := range getsAdditional(ctx, "guarded-more", "10.145.0.0/24", "fd00:10:145::/120") {
			forbidden(alice.NetworkingV1().IPAddresses().Delete(ctx, address, metav1.DeleteOptions{}), "default/guarded-more", cluster.AdditionalFrom)
			forbidden(relabel(ctx, address, `"clusterip-operator.io/purpose":null`))
			Expect(controller.NetworkingV1().IPAddresses().Delete(ctx, address, metav1.DeleteOptions{})).To(Succeed())
		}
		getsAdditional(ctx, "guarded-more", "10.145.0.0/24", "fd00:10:145::/120")
		annotate(ctx, "guarded-more", "")
		hasNone(ctx, "guarded-more")
	})

	It("let the API server release what a Service gives up, and users delete what nobody holds", func(ctx SpecContext) {
		// Of a Service that is deleted at once, the API server's repair may write the IPAddress anew.
		service := c.CreateSettledService(ctx, "released", framework.RequireDualStack())
		c.DeleteServices(ctx, service)
		for _, address := range service.Spec.ClusterIPs {
			Expect(c.IPAddress(ctx, address)).To(BeNil())
		}
		c.CreateService(ctx, "shrinking", framework.RequireDualStack())
		Expect(c.PatchService(ctx, "shrinking", `{"spec":{"ipFamilyPolicy":"SingleStack"}}`)).Error().NotTo(HaveOccurred())
		Eventually(c.Breaches).WithArguments(ctx).Should(BeEmpty())

		for _, address := range []string{"10.96.0.77", "fd00:10:96::77"} { // static, so that no Service is given them
			c.CreateIPAddress(ctx, framework.NewIPAddress(address, cluster.Namespace, "never-was"))
			Expect(relabel(ctx, address, asOurs)).To(Succeed())
			Expect(alice.NetworkingV1().IPAddresses().Delete(ctx, address, metav1.DeleteOptions{})).
				To(Or(Succeed(), MatchError(apierrors.IsNotFound, "IsNotFound"))) // the operator may be faster
		}
		c.CreateIPAddress(ctx, framework.NewIPAddress("10.96.0.80", cluster.Namespace, "gateway", framework.ManagedBy("example.com")))
		Expect(alice.NetworkingV1().IPAddresses().Delete(ctx, "10.96.0.80", metav1.DeleteOptions{})).To(Succeed())
	})

	// A ServiceCIDR over machines' or pods' addresses cuts these off once Services get them.
	DescribeTable("warn of a ServiceCIDR over a network that is in use", Label("all"), func(ctx SpecContext, cidr string, words ...string) {
		c.CreateNode(ctx, "machine", []string{"10.150.1.0/24", "fd00:10:150:1::/64"}, "10.151.0.7", "fd00:10:151::7")
		DeferCleanup(func(ctx SpecContext) { c.DeleteNode(ctx, "machine") })
		before := len(warnings.Texts())
		warned := func() []string {
			_, err := alice.NetworkingV1().ServiceCIDRs().Create(ctx, framework.NewServiceCIDR("tried", cidr), metav1.CreateOptions{})
			Expect(err).NotTo(HaveOccurred())
			c.WithdrawRanges(ctx, "tried")
			return warnings.Texts()[before:]
		}
		if len(words) == 0 {
			Expect(warned()).To(BeEmpty(), "it is nobody's")
			return
		}
		Eventually(warned).Should(ContainElement(cluster.ContainAll(append(words, cidr)...))) // the operator hears of the node in a moment
	},
		Entry("the pods of a node, IPv4", "10.150.1.0/25", "10.150.1.0/24", "machine"),
		Entry("the pods of a node, IPv6", "fd00:10:150:1::/112", "fd00:10:150:1::/64", "machine"),
		Entry("a node, IPv4", "10.151.0.0/28", "10.151.0.7", "machine"),
		Entry("a node, IPv6", "fd00:10:151::/120", "fd00:10:151::7", "machine"),
		Entry("a declared network around it", "10.152.3.0/24", "10.152.0.0/16", "corporate"),
		Entry("a declared network inside of it", "fd00:10:152::/104", "fd00:10:152::/112", "lab"),
		Entry("none", "10.153.0.0/24"),
	)

	It("refuse such a ServiceCIDR if the admin says so, and let one that is there be changed, and go", Label("all"), func(ctx SpecContext) {
		const cidr = "10.152.8.0/24"
		c.CreateServiceCIDR(ctx, "older", cidr)
		c.StopReplicas()
		denying := c.AddReplicas(ctx, 1, "--webhook-network-overlap=Deny")[0]
		_, err := alice.NetworkingV1().ServiceCIDRs().Create(ctx, framework.NewServiceCIDR("denied", cidr), metav1.CreateOptions{})
		forbidden(err, cidr, "10.152.0.0/16", "corporate")
		c.Kubectl(ctx, "label", "servicecidr", "older", "a=b")
		c.WaitLookedAfter(ctx, "older") // the operator's own writes
		c.WithdrawRanges(ctx, "older")
		c.RemoveReplica(denying)
		c.StartReplicas(ctx)
	})
})
