package steering_test

import (
	"context"
	"fmt"
	"time"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"

	"github.com/clusterip-operator/clusterip-operator/api/v1alpha1"
	"github.com/clusterip-operator/clusterip-operator/test/framework"
	"github.com/clusterip-operator/clusterip-operator/test/integration/internal/cluster"
	"github.com/clusterip-operator/clusterip-operator/test/integration/internal/steering"
)

// A small range of which two addresses are kept for a Service, eight (a range of addresses) for another and four (a CIDR) for nobody.
// Freed addresses rest, those that are kept do not.
var _ = inOrder("A reserved address", func() {
	const range4, range6 = "10.107.0.0/27", "fd00:107::/123"
	const front4, front6 = "10.107.0.20", "fd00:107::14"
	const nobody4, nobody6 = "10.107.0.24", "fd00:107::18"
	reserved := []string{front4, front6, nobody4, nobody6, "10.107.0.25", "fd00:107::1b", "10.107.0.8", "fd00:107::f"}
	policy := []steering.PolicyOption{
		steering.From("kept"), steering.ForNamespaces("tenant", "blue"), steering.OrFail(), steering.CoolsDown(time.Hour),
		steering.Reserves("front-ipv4", front4, "blue/front"), steering.Reserves("front-ipv6", front6, "blue/front"),
		steering.Reserves("pool-ipv4", "10.107.0.8-10.107.0.15", "red/pool"), steering.Reserves("pool-ipv6", "fd00:107::8-fd00:107::f", "red/pool"),
		steering.Reserves("never-ipv4", nobody4+"/30", ""), steering.Reserves("never-ipv6", nobody6+"/126", ""),
	}
	const all = 26

	// expectKept waits until the operator keeps all that is reserved but for what Services have.
	expectKept := func(ctx context.Context, taken ...string) {
		GinkgoHelper()
		Eventually(func(g Gomega) {
			g.Expect(bed.Kept(ctx, steering.Reservation)).To(HaveLen(all - len(taken)))
			for _, address := range taken {
				g.Expect(bed.Purpose(ctx, address)).To(BeEmpty())
			}
		}).WithTimeout(soon).Should(Succeed())
	}
	// owner creates the Service that has a reservation, checks its addresses, and deletes it again.
	owner := func(ctx context.Context, service *corev1.Service, want ...string) {
		GinkgoHelper()
		created := bed.Create(ctx, service)
		Expect(created.Spec.ClusterIPs).To(Equal(want))
		for _, address := range want {
			Eventually(func() string { return bed.Owner(ctx, address) }).WithTimeout(soon).Should(Equal(service.Namespace + "/" + service.Name))
		}
		expectKept(ctx, want...)
		bed.DeleteServices(ctx, created)
		expectKept(ctx)
	}

	BeforeAll(func(ctx SpecContext) {
		bed.OfferRange(ctx, "kept", nil, range4, range6)
		bed.Program(ctx, "keeper", policy...)
	})
	AfterEach(func(ctx SpecContext) { bed.DeleteAllServices(ctx) })

	It("is an IPAddress of the policy", func(ctx SpecContext) {
		expectKept(ctx)
		for _, address := range reserved {
			Expect(bed.Owner(ctx, address)).To(Equal("servicecidrpolicies /keeper"))
			ip := bed.IPAddress(ctx, address)
			Expect(ip.Labels).To(HaveKeyWithValue("ipaddress.kubernetes.io/managed-by", "clusterip-operator.io"))
			Expect(ip.Labels).To(HaveKeyWithValue("ipaddress.kubernetes.io/ip-family", string(familyOf(address))))
			Expect(ip.Finalizers).To(BeEmpty())
			Expect(ip.OwnerReferences).To(ConsistOf(And(HaveField("Kind", "ServiceCIDRPolicy"), HaveField("UID", bed.Policy(ctx, "keeper").UID))))
		}
		Eventually(func() v1alpha1.PolicySummary { return bed.Policy(ctx, "keeper").Status.Summary }).WithTimeout(cluster.Patience).
			Should(And(HaveField("Reserved", BeEquivalentTo(all)), HaveField("Free", BeEquivalentTo(size(range4)+size(range6)-all))))
	})

	It("is refused to others with a message that says whose it is", func(ctx SpecContext) {
		for _, namespace := range []string{"blue", "red", "plain"} {
			for _, address := range []string{front4, front6} {
				Expect(bed.ExpectRefused(ctx, "keeper", asking(namespace, "thief", address))).
					To(And(ContainSubstring(address), ContainSubstring("blue/front"), ContainSubstring("front-ipv")))
			}
			Expect(bed.ExpectRefused(ctx, "keeper", asking(namespace, "thief", "10.107.0.15"))).To(And(ContainSubstring("red/pool"), ContainSubstring("pool-ipv4")))
			Expect(bed.ExpectRefused(ctx, "keeper", asking(namespace, "thief", nobody6))).To(ContainSubstring("never-ipv6"))
			bed.ExpectRefused(ctx, "keeper", asking(namespace, "thief", "10.107.0.30", front6))
		}
		bed.ExpectRefused(ctx, "keeper", asking("red", "front", front4))
	})

	// Every address of the range is given out, several times over, from many clients.
	It("stays free however full the range is", func(ctx SpecContext) {
		bed.Program(ctx, "keeper", append(policy, steering.CoolsDown(0))...)
		free := size(range4) - all/2
		for round := range 3 {
			services := fill(ctx, free, func(i int) *corev1.Service { return dual("blue", fmt.Sprintf("churn-%d-%d", round, i)) })
			for _, address := range reserved {
				Expect(services).To(HaveEach(HaveField("Spec.ClusterIPs", Not(ContainElement(address)))))
			}
			bed.ExpectRefused(ctx, "keeper", dual("blue", "too-much"))
			expectKept(ctx)
			bed.ExpectConsistent(ctx)
			bed.DeleteServices(ctx, services...)
			bed.WaitFreed(ctx, services...)
		}
		bed.Program(ctx, "keeper", policy...)
	})

	It("goes to its Service that does not ask", func(ctx SpecContext) {
		owner(ctx, dual("blue", "front"), front4, front6)
		owner(ctx, dual("blue", "front", framework.WithFamilies(corev1.IPv6Protocol, corev1.IPv4Protocol)), front6, front4)
		owner(ctx, single("blue", "front", corev1.IPv6Protocol), front6)
	})

	It("goes to its Service that asks", func(ctx SpecContext) {
		owner(ctx, asking("blue", "front", front4, front6), front4, front6)
		owner(ctx, asking("blue", "front", front6), front6)
		owner(ctx, dual("blue", "front", framework.WithClusterIPs(front4)), front4, front6)
	})

	It("goes to its Service that gets a second family", func(ctx SpecContext) {
		service := bed.Create(ctx, single("blue", "front", corev1.IPv4Protocol))
		Expect(service.Spec.ClusterIPs).To(Equal([]string{front4}))
		expectKept(ctx, front4)
		service = change(ctx, service, func(s *corev1.Service) { s.Spec.IPFamilyPolicy = new(corev1.IPFamilyPolicyPreferDualStack) })
		Expect(service.Spec.ClusterIPs).To(Equal([]string{front4, front6}))
		expectKept(ctx, front4, front6)
		service = change(ctx, service, func(s *corev1.Service) { s.Spec.IPFamilyPolicy = new(corev1.IPFamilyPolicySingleStack) })
		Expect(service.Spec.ClusterIPs).To(Equal([]string{front4}))
		expectKept(ctx, front4)
		bed.DeleteServices(ctx, service)
		expectKept(ctx)
	})

	It("of several goes to the Service of another namespace, which asks for one of them or does not", func(ctx SpecContext) {
		service := bed.Create(ctx, dual("red", "pool"))
		for i, address := range service.Spec.ClusterIPs {
			Expect(address).To(inRange([]string{"10.107.0.8/29", "fd00:107::8/125"}[i]))
		}
		expectKept(ctx, service.Spec.ClusterIPs...)
		bed.DeleteServices(ctx, service)
		expectKept(ctx)
		owner(ctx, asking("red", "pool", "10.107.0.11", "fd00:107::d"), "10.107.0.11", "fd00:107::d")
	})

	// For some seconds it may be that another replica took it away for its Service.
	It("is back when somebody has deleted it, and nobody's meanwhile", func(ctx SpecContext) {
		for _, address := range []string{front4, nobody6} {
			bed.DeleteIPAddress(ctx, address)
			bed.ExpectRefused(ctx, "keeper", asking("blue", "thief", address))
		}
		for _, address := range []string{front4, nobody6} {
			Eventually(func() string { return bed.Purpose(ctx, address) }).WithTimeout(20*time.Second).Should(Equal(steering.Reservation), address)
		}
	})

	It("is kept as soon as whoever has it is gone", func(ctx SpecContext) {
		squatter := bed.Create(ctx, asking("red", "squatter", "10.96.0.77", "fd00:10:96::4d"))
		bed.CreatePolicy(ctx, "late", steering.Reserves("a", "10.96.0.77", "blue/late"), steering.Reserves("b", "fd00:10:96::4d", "blue/late"))
		Consistently(func() string { return bed.Owner(ctx, "10.96.0.77") }).WithTimeout(2 * time.Second).Should(Equal("red/squatter"))
		bed.DeleteServices(ctx, squatter)
		for _, address := range squatter.Spec.ClusterIPs {
			Eventually(func() string { return bed.Purpose(ctx, address) }).WithTimeout(soon).Should(Equal(steering.Reservation), address)
		}
		service := bed.Create(ctx, dual("blue", "late"))
		Expect(service.Spec.ClusterIPs).To(Equal(squatter.Spec.ClusterIPs), "a policy without ranges, of no namespace in particular")
		bed.DeletePolicies(ctx, "late")
		bed.DeleteServices(ctx, service)
		bed.WaitFreed(ctx, service)
	})

	It("is free again when nobody wants it kept", func(ctx SpecContext) {
		bed.ChangePolicy(ctx, "keeper", func(p *v1alpha1.ServiceCIDRPolicy) { p.Spec.Reservations = p.Spec.Reservations[:4] })
		Eventually(func() []string { return bed.Kept(ctx, steering.Reservation) }).WithTimeout(soon).Should(HaveLen(18))
		bed.WaitProgrammed(ctx, "keeper")
		bed.DeleteServices(ctx, bed.Create(ctx, asking("red", "once-kept", nobody4, nobody6)))
		bed.Program(ctx, "keeper", policy...)
		Eventually(func() []string { return bed.Kept(ctx, steering.Reservation) }).WithTimeout(soon).Should(HaveLen(all))
	})

	// Nobody of ours is there. The API server finds the IPAddress and allocates elsewhere.
	It("is refused by the API server while the operator is down", func(ctx SpecContext) {
		whileDown(ctx, func() {
			for _, address := range reserved {
				_, err := bed.Try(ctx, asking("plain", "thief", address))
				Expect(apierrors.IsInvalid(err)).To(BeTrue(), "%v", err)
				Expect(err).To(MatchError(ContainSubstring("already allocated")))
			}
			services := bed.CreateServices(ctx, 2*(size(default4)-20), func(i int) *corev1.Service {
				return single("plain", fmt.Sprintf("unsteered-%d", i), []corev1.IPFamily{corev1.IPv4Protocol, corev1.IPv6Protocol}[i%2])
			})
			Expect(append(held(services, range4), held(services, range6)...)).NotTo(BeEmpty(), "so that this shows something")
			for _, address := range reserved {
				Expect(services).To(HaveEach(HaveField("Spec.ClusterIPs", Not(ContainElement(address)))))
			}
		})
		expectKept(ctx)
		bed.ExpectConsistent(ctx)
		owner(ctx, dual("blue", "front"), front4, front6)
	})
})
