package admission_test

import (
	"context"
	"fmt"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"
	corev1 "k8s.io/api/core/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	networkingv1client "k8s.io/client-go/kubernetes/typed/networking/v1"

	"github.com/clusterip-operator/clusterip-operator/test/framework"
	"github.com/clusterip-operator/clusterip-operator/test/integration/internal/cluster"
)

// addressesAs returns a client for IPAddresses of a user with all rights, who is nevertheless nobody special.
func addressesAs(ctx context.Context, name string, groups ...string) networkingv1client.NetworkingV1Interface {
	GinkgoHelper()
	_, err := c.Client().RbacV1().ClusterRoleBindings().Create(ctx, &rbacv1.ClusterRoleBinding{
		ObjectMeta: metav1.ObjectMeta{GenerateName: "all-"},
		RoleRef:    rbacv1.RoleRef{APIGroup: rbacv1.GroupName, Kind: "ClusterRole", Name: "cluster-admin"},
		Subjects:   []rbacv1.Subject{{APIGroup: rbacv1.GroupName, Kind: rbacv1.UserKind, Name: name}},
	}, metav1.CreateOptions{})
	Expect(err).NotTo(HaveOccurred())
	config, err := c.ConfigForUser(name, groups...)
	Expect(err).NotTo(HaveOccurred())
	client, err := framework.NetworkingFor(config, framework.V136.NetworkingVersion)
	Expect(err).NotTo(HaveOccurred())
	return client
}

// The address of a Service that lives is not to be had by deleting its IPAddress: a second Service would get it, and the first could only
// be created anew (D2).
var _ = Describe("The guard of IPAddresses", Ordered, func() {
	var alice networkingv1client.NetworkingV1Interface
	BeforeAll(func(ctx SpecContext) { alice = addressesAs(ctx, "alice") })

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
		root, err := framework.NetworkingFor(masters, framework.V136.NetworkingVersion)
		Expect(err).NotTo(HaveOccurred())
		err = root.IPAddresses().Delete(ctx, service.Spec.ClusterIP, metav1.DeleteOptions{})
		Expect(apierrors.IsForbidden(err)).To(BeTrue(), "%v", err)
		Expect(c.Breaches(ctx)).To(BeEmpty())
	})

	It("keeps the additional addresses too", func(ctx SpecContext) {
		c.CreateServiceCIDR(ctx, "guarded-extra", "10.145.0.0/24", "fd00:10:145::/120")
		c.WaitLookedAfter(ctx, "guarded-extra")
		c.CreateService(ctx, "guarded-more", framework.RequireDualStack(), withAdditional("guarded-extra"))
		for _, address := range getsAdditional(ctx, "guarded-more", "10.145.0.0/24", "fd00:10:145::/120") {
			err := alice.IPAddresses().Delete(ctx, address, metav1.DeleteOptions{})
			Expect(apierrors.IsForbidden(err)).To(BeTrue(), "%v", err)
			Expect(err.Error()).To(And(ContainSubstring("default/guarded-more"), ContainSubstring(additionalFrom)))
		}
		annotate(ctx, "guarded-more", additionalFrom, "")
		hasNone(ctx, "guarded-more")
	})

	It("lets the API server release the address of a Service that goes", func(ctx SpecContext) {
		service := c.CreateService(ctx, "released", framework.RequireDualStack())
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
		Expect(alice.IPAddresses().Delete(ctx, "10.96.0.79", metav1.DeleteOptions{})).To(Succeed(), "%s has %v", service.Name, service.Spec.ClusterIPs)

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

// createNode makes a machine with addresses and pod networks.
func createNode(ctx context.Context, name string, addresses, podCIDRs []string) {
	GinkgoHelper()
	node := &corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: name}, Spec: corev1.NodeSpec{PodCIDR: podCIDRs[0], PodCIDRs: podCIDRs}}
	node, err := c.Client().CoreV1().Nodes().Create(ctx, node, metav1.CreateOptions{})
	Expect(err).NotTo(HaveOccurred())
	for _, address := range addresses {
		node.Status.Addresses = append(node.Status.Addresses, corev1.NodeAddress{Type: corev1.NodeInternalIP, Address: address})
	}
	_, err = c.Client().CoreV1().Nodes().UpdateStatus(ctx, node, metav1.UpdateOptions{})
	Expect(err).NotTo(HaveOccurred())
}

// overlaps are ranges that are somebody else's, each with what the message has to name.
var overlaps = map[string]struct {
	cidrs []string
	words []string
}{
	"the pods of a node, IPv4":        {[]string{"10.150.1.0/25"}, []string{"10.150.1.0/25", "10.150.1.0/24", "machine"}},
	"the pods of a node, IPv6":        {[]string{"fd00:10:150:1::/112"}, []string{"fd00:10:150:1::/112", "machine"}},
	"a node, IPv4":                    {[]string{"10.151.0.0/28"}, []string{"10.151.0.7", "machine"}},
	"a node, IPv6":                    {[]string{"fd00:10:151::/120"}, []string{"fd00:10:151::7", "machine"}},
	"a declared network around it":    {[]string{"10.152.3.0/24"}, []string{"10.152.0.0/16", "corporate"}},
	"a declared network inside of it": {[]string{"fd00:10:152::/104"}, []string{"fd00:10:152::/112", "lab"}},
	"one with one of two CIDRs":       {[]string{"10.149.0.0/24", "fd00:10:152::/120"}, []string{"fd00:10:152::/120", "lab"}},
}

// declared are what an admin says is in use elsewhere.
const declared = "--reserved-networks=corporate=10.152.0.0/16,lab=fd00:10:152::/112"

// overlapping tries each of the overlaps.
func overlapping(ctx context.Context, try func(what string, a *author, name string, cidrs, words []string)) {
	GinkgoHelper()
	a := newAuthor(c.AdminConfig())
	n := 0
	for what, overlap := range overlaps {
		n++
		By(what)
		try(what, a, fmt.Sprintf("overlap-%d", n), overlap.cidrs, overlap.words)
	}
}
