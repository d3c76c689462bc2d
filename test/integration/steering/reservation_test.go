package steering_test

import (
	"context"
	"fmt"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"

	"github.com/clusterip-operator/clusterip-operator/api/v1alpha1"
	"github.com/clusterip-operator/clusterip-operator/test/framework"
	"github.com/clusterip-operator/clusterip-operator/test/integration/internal/cluster"
)

// A small range of which two addresses are kept for a Service, eight (a range) for another and four
// (a CIDR) for none. Freed addresses cool down, those that are kept do not.
var _ = inOrder("A reserved address", func() {
	const range4, range6 = "10.107.0.0/27", "fd00:107::/123"
	const front4, front6 = "10.107.0.20", "fd00:107::14"
	const nobody4, nobody6 = "10.107.0.24", "fd00:107::18"
	reserved := []string{front4, front6, nobody4, nobody6, "10.107.0.25", "fd00:107::1b", "10.107.0.8", "fd00:107::f"}
	const rest = `serviceCIDRs: [kept], namespaceSelector: {matchLabels: {tenant: blue}}, onFull: Fail`
	const front = `{name: front-ipv4, address: ` + front4 + `, for: blue/front}, {name: front-ipv6, address: "` + front6 + `", for: blue/front},
		{name: pool-ipv4, address: 10.107.0.8-10.107.0.15, for: red/pool}, {name: pool-ipv6, address: "fd00:107::8-fd00:107::f", for: red/pool}`
	const kept = front + `, {name: never-ipv4, address: ` + nobody4 + `/30}, {name: never-ipv6, address: "` + nobody6 + `/126"}`
	const policy = `{` + rest + `, coolDown: 1h, reservations: [` + kept + `]}`
	const all = 26

	// expectKept waits until the operator keeps all that is reserved but for what Services have.
	expectKept := func(ctx context.Context, taken ...string) {
		GinkgoHelper()
		Eventually(func(g Gomega) {
			g.Expect(c.Kept(ctx, cluster.Reservation)).To(HaveLen(all - len(taken)))
			for _, address := range taken {
				g.Expect(c.Purpose(ctx, address)).To(BeEmpty())
			}
		}).Should(Succeed())
	}
	// owner creates the Service that has a reservation, checks its addresses, and deletes it again.
	owner := func(ctx context.Context, service *corev1.Service, want ...string) {
		GinkgoHelper()
		created := c.Create(ctx, service)
		Expect(created.Spec.ClusterIPs).To(Equal(want))
		for _, address := range want {
			Eventually(c.Owner).WithArguments(ctx, address).Should(Equal(service.Namespace + "/" + service.Name))
		}
		expectKept(ctx, want...)
		c.DeleteServices(ctx, created)
		expectKept(ctx)
	}

	BeforeAll(func(ctx SpecContext) {
		c.OfferRange(ctx, "kept", nil, range4, range6)
		c.Program(ctx, "keeper", policy)
	})
	AfterEach(func(ctx SpecContext) { c.DeleteAllServices(ctx) })

	It("is an IPAddress of the policy", func(ctx SpecContext) {
		expectKept(ctx)
		for _, address := range reserved {
			Expect(c.Owner(ctx, address)).To(Equal("servicecidrpolicies /keeper"))
			ip := c.IPAddress(ctx, address)
			Expect(ip.Labels).To(HaveKeyWithValue("ipaddress.kubernetes.io/managed-by", "clusterip-operator.io"))
			Expect(ip.Labels).To(HaveKeyWithValue("ipaddress.kubernetes.io/ip-family", string(framework.FamilyOf(address))))
			Expect(ip.Finalizers).To(BeEmpty())
			Expect(ip.OwnerReferences).To(ConsistOf(And(HaveField("Kind", "ServiceCIDRPolicy"), HaveField("UID", c.Policy(ctx, "keeper").UID))))
		}
		Eventually(func() v1alpha1.PolicySummary { return c.Policy(ctx, "keeper").Status.Summary }).
			Should(And(HaveField("Reserved", BeEquivalentTo(all)), HaveField("Free", BeEquivalentTo(size(range4)+size(range6)-all))))
	})

	It("is refused to others in the words of the API server; admins are told whose it is", func(ctx SpecContext) {
		for _, namespace := range []string{"blue", "red", "plain"} {
			for _, address := range []string{front4, front6, "10.107.0.15", nobody6} {
				c.ExpectTaken(ctx, address, cluster.Asking(namespace, "thief", address))
			}
			c.ExpectTaken(ctx, front6, cluster.Asking(namespace, "thief", "10.107.0.30", front6))
		}
		c.ExpectTaken(ctx, front4, cluster.Asking("red", "front", front4))
		c.ExpectNoted(ctx, "keeper", front6, "kept for Service blue/front", "front-ipv6")
		c.ExpectNoted(ctx, "keeper", "10.107.0.15", "kept for Service red/pool", "pool-ipv4")
		c.ExpectNoted(ctx, "keeper", nobody6, "kept from all", "never-ipv6")
	})

	// Every address of the range is given out, several times over, from many clients.
	It("stays free however full the range is", func(ctx SpecContext) {
		c.Program(ctx, "keeper", `{`+rest+`, reservations: [`+kept+`]}`)
		free := size(range4) - all/2
		for round := range 3 {
			services := fill(ctx, free, func(i int) *corev1.Service { return cluster.Dual("blue", fmt.Sprintf("churn-%d-%d", round, i)) })
			Expect(services).To(HaveEach(HaveField("Spec.ClusterIPs", Not(ContainElement(BeElementOf(reserved))))))
			c.ExpectRefused(ctx, "keeper", cluster.Dual("blue", "too-much"))
			expectKept(ctx)
			c.ExpectConsistent(ctx)
			c.DeleteServices(ctx, services...)
			c.WaitFreed(ctx, services...)
		}
		c.Program(ctx, "keeper", policy)
	})

	It("goes to its Service, whether that asks for it or not", func(ctx SpecContext) {
		owner(ctx, cluster.Dual("blue", "front"), front4, front6)
		owner(ctx, cluster.Dual("blue", "front", framework.WithFamilies(corev1.IPv6Protocol, corev1.IPv4Protocol)), front6, front4)
		owner(ctx, cluster.Single("blue", "front", corev1.IPv6Protocol), front6)
		owner(ctx, cluster.Asking("blue", "front", front4, front6), front4, front6)
		owner(ctx, cluster.Asking("blue", "front", front6), front6)
		owner(ctx, cluster.Dual("blue", "front", framework.WithClusterIPs(front4)), front4, front6)
	})

	It("goes to its Service that gets a second family", func(ctx SpecContext) {
		service := c.Create(ctx, cluster.Single("blue", "front", corev1.IPv4Protocol))
		Expect(service.Spec.ClusterIPs).To(Equal([]string{front4}))
		expectKept(ctx, front4)
		service = change(ctx, service, func(s *corev1.Service) { s.Spec.IPFamilyPolicy = new(corev1.IPFamilyPolicyPreferDualStack) })
		Expect(service.Spec.ClusterIPs).To(Equal([]string{front4, front6}))
		expectKept(ctx, front4, front6)
		service = change(ctx, service, func(s *corev1.Service) { s.Spec.IPFamilyPolicy = new(corev1.IPFamilyPolicySingleStack) })
		Expect(service.Spec.ClusterIPs).To(Equal([]string{front4}))
		expectKept(ctx, front4)
		c.DeleteServices(ctx, service)
		expectKept(ctx)
	})

	It("of several goes to the Service of another namespace, which asks for one of them or does not", func(ctx SpecContext) {
		service := c.Create(ctx, cluster.Dual("red", "pool"))
		for i, address := range service.Spec.ClusterIPs {
			Expect(address).To(inRange([]string{"10.107.0.8/29", "fd00:107::8/125"}[i]))
		}
		expectKept(ctx, service.Spec.ClusterIPs...)
		c.DeleteServices(ctx, service)
		expectKept(ctx)
		owner(ctx, cluster.Asking("red", "pool", "10.107.0.11", "fd00:107::d"), "10.107.0.11", "fd00:107::d")
	})

	// For some seconds it may be that another replica took it away for its Service.
	It("is back when somebody has deleted it, and nobody's meanwhile", func(ctx SpecContext) {
		for _, address := range []string{front4, nobody6} {
			c.DeleteIPAddress(ctx, address)
			c.ExpectTaken(ctx, address, cluster.Asking("blue", "thief", address))
		}
		for _, address := range []string{front4, nobody6} {
			Eventually(c.Purpose).WithArguments(ctx, address).Should(Equal(cluster.Reservation), address)
		}
	})

	It("is kept as soon as whoever has it is gone", func(ctx SpecContext) {
		squatter := c.Create(ctx, cluster.Asking("red", "squatter", "10.96.0.77", "fd00:10:96::4d"))
		c.ApplyPolicy(ctx, "late", `{reservations: [{name: a, address: 10.96.0.77, for: blue/late}, {name: b, address: "fd00:10:96::4d", for: blue/late}, {name: free, address: 10.96.0.78}]}`)
		Eventually(c.Purpose).WithArguments(ctx, "10.96.0.78").Should(Equal(cluster.Reservation), "so the policy is carried out")
		Expect(c.Owner(ctx, "10.96.0.77")).To(Equal("red/squatter"))
		c.DeleteServices(ctx, squatter)
		for _, address := range squatter.Spec.ClusterIPs {
			Eventually(c.Purpose).WithArguments(ctx, address).Should(Equal(cluster.Reservation), address)
		}
		service := c.Create(ctx, cluster.Dual("blue", "late"))
		Expect(service.Spec.ClusterIPs).To(Equal(squatter.Spec.ClusterIPs), "a policy without ranges, of no namespace in particular")
		c.DeletePolicies(ctx, "late")
		c.DeleteServices(ctx, service)
		c.WaitFreed(ctx, service)
	})

	It("is free again when nobody wants it kept", func(ctx SpecContext) {
		c.ApplyPolicy(ctx, "keeper", `{`+rest+`, coolDown: 1h, reservations: [`+front+`]}`)
		Eventually(c.Kept).WithArguments(ctx, cluster.Reservation).Should(HaveLen(18))
		c.WaitProgrammed(ctx, "keeper")
		c.DeleteServices(ctx, c.Create(ctx, cluster.Asking("red", "once-kept", nobody4, nobody6)))
		c.Program(ctx, "keeper", policy)
		Eventually(func() []string {
			c.FreeLeaked(ctx)
			return c.Kept(ctx, cluster.Reservation)
		}).Should(HaveLen(all))
	})

	// No operator runs. The API server finds the IPAddress and allocates elsewhere.
	It("is refused by the API server while the operator is down", Label("long"), func(ctx SpecContext) {
		whileDown(ctx, func() {
			for _, address := range reserved {
				_, err := c.Try(ctx, cluster.Asking("plain", "thief", address))
				Expect(err).To(And(MatchError(apierrors.IsInvalid, "IsInvalid"), MatchError(ContainSubstring("already allocated"))))
			}
			services := c.CreateServices(ctx, 2*(size(default4)-20), func(i int) *corev1.Service {
				return cluster.Single("plain", fmt.Sprintf("unsteered-%d", i), []corev1.IPFamily{corev1.IPv4Protocol, corev1.IPv6Protocol}[i%2])
			})
			drawn := append(cluster.In(range4, services...), cluster.In(range6, services...)...)
			if c.API.DualWrites() {
				Expect(drawn).To(BeEmpty(), "as long as the default range has a bit to give")
			} else {
				Expect(drawn).NotTo(BeEmpty(), "so that this shows something")
			}
			Expect(services).To(HaveEach(HaveField("Spec.ClusterIPs", Not(ContainElement(BeElementOf(reserved))))))
		})
		expectKept(ctx)
		c.ExpectConsistent(ctx)
		owner(ctx, cluster.Dual("blue", "front"), front4, front6)
	})
})
