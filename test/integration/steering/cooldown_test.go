package steering_test

import (
	"context"
	"fmt"
	"slices"
	"time"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/clusterip-operator/clusterip-operator/api/v1alpha1"
	"github.com/clusterip-operator/clusterip-operator/test/framework"
	"github.com/clusterip-operator/clusterip-operator/test/integration/internal/cluster"
)

// comeAndGo creates and deletes a Service. It tells when the API server had created it.
func comeAndGo(ctx context.Context, service *corev1.Service) (created time.Time, addresses []string) {
	GinkgoHelper()
	s := c.Create(ctx, service)
	created = time.Now()
	c.DeleteServices(ctx, s)
	return created, s.Spec.ClusterIPs
}

// expectCools waits until the operator keeps an address for a Service that has just lost it.
func expectCools(ctx context.Context, address string) {
	GinkgoHelper()
	Eventually(func() string {
		c.FreeLeaked(ctx)
		return c.Purpose(ctx, address)
	}).Should(Equal(cluster.Cooling), address)
}

// preview asks what would become of a Service.
func preview(ctx context.Context, service *corev1.Service) error {
	_, err := c.Client().CoreV1().Services(service.Namespace).Create(ctx, service, metav1.CreateOptions{DryRun: []string{metav1.DryRunAll}})
	return err
}

var _ = inOrder("An address that cools down", func() {
	const range4, range6 = "10.108.0.0/26", "fd00:108::/122"
	const total = 62 + 63
	program := func(ctx context.Context, d time.Duration) {
		GinkgoHelper()
		c.Program(ctx, "cool", "{serviceCIDRs: [cool], namespaceSelector: {matchLabels: {tenant: blue}}, exclusive: true, onFull: Fail, coolDown: "+d.String()+"}")
	}
	summary := func(ctx context.Context) v1alpha1.BandStatus {
		c.FreeLeaked(ctx)
		return c.Policy(ctx, "cool").Status.Summary.BandStatus
	}

	BeforeAll(func(ctx SpecContext) {
		c.OfferRange(ctx, "cool", nil, range4, range6)
		program(ctx, time.Hour)
	})

	// No address is used twice while unused ones are left. Then each Service gets the one that has
	// cooled down longest, though not for its hour.
	It("does not return until the range is full, and then the oldest does", func(ctx SpecContext) {
		cooling := map[corev1.IPFamily][]string{} // the oldest first
		sizes := map[corev1.IPFamily]int{corev1.IPv4Protocol: 62, corev1.IPv6Protocol: 63}
		for i := range 63 + 20 { // more than there are in a family
			for _, address := range c.FreeLeaked(ctx) { // it cools anew
				family := framework.FamilyOf(address)
				if at := slices.Index(cooling[family], address); at >= 0 {
					cooling[family] = append(slices.Delete(cooling[family], at, at+1), address)
				}
			}
			for family, all := range cooling { // no Service is given an address at which its IPAddress is just being written
				if len(all) == sizes[family] {
					expectCools(ctx, all[0])
					c.ExpectNothingLeaked(ctx)
				}
			}
			before := c.Unheard()
			_, addresses := comeAndGo(ctx, cluster.Dual("blue", fmt.Sprintf("round-%d", i)))
			for _, address := range addresses {
				family := framework.FamilyOf(address)
				if all := cooling[family]; len(all) < sizes[family] {
					Expect(all).NotTo(ContainElement(address), "round %d", i)
				} else {
					if address != all[0] { // a leader that is silent has taken the oldest, and the replica that did not wait for it the next
						Expect(c.Unheard()).To(BeNumerically(">", before), "round %d: %s instead of %s, which is kept as %q", i, address, all[0], c.Purpose(ctx, all[0]))
					}
					cooling[family] = slices.DeleteFunc(all, func(other string) bool { return other == address })
				}
				cooling[family] = append(cooling[family], address)
			}
		}
		c.ExpectNothingLeaked(ctx)
	})

	// Counts that moved are written half a minute after the last write, for which a spec of
	// tenants_test.go waits. A policy that was changed is written at once.
	It("counts apart from what is free", func(ctx SpecContext) {
		program(ctx, 2*time.Hour)
		Eventually(summary).WithArguments(ctx).Should(Equal(v1alpha1.BandStatus{Size: total, Cooling: total}))
		services := c.CreateServices(ctx, 5, framework.Numbered("blue", "among-cooling", framework.RequireDualStack()))
		program(ctx, 3*time.Hour)
		Eventually(summary).WithArguments(ctx).Should(Equal(v1alpha1.BandStatus{Size: total, Used: 10, Cooling: total - 10}))
		c.ExpectConsistent(ctx)
		c.DeleteServices(ctx, services...)
	})

	// The API server knows of it by IPAddresses of the policy.
	It("is kept for others to see", func(ctx SpecContext) {
		Eventually(c.Kept).WithArguments(ctx, cluster.Cooling).Should(HaveLen(total))
		for _, ip := range c.Ours(ctx) {
			Expect(ip.Spec.ParentRef).To(HaveField("Name", "cool"))
			Expect(ip.OwnerReferences).To(HaveLen(1))
			Expect(ip.Finalizers).To(BeEmpty())
			Expect(ip.Annotations["clusterip-operator.io/last-service"]).To(HavePrefix("blue/"))
			released, err := time.Parse(time.RFC3339Nano, ip.Annotations["clusterip-operator.io/released-at"])
			Expect(err).NotTo(HaveOccurred())
			Expect(released).To(BeTemporally("~", time.Now(), 5*time.Minute))
		}
	})

	It("is free when nobody wants it to cool down any more", func(ctx SpecContext) {
		program(ctx, 0)
		Eventually(c.Kept).WithArguments(ctx, cluster.Cooling).Should(BeEmpty())
		Eventually(summary).WithArguments(ctx).Should(Equal(v1alpha1.BandStatus{Size: total, Free: total}))
	})

	// Time is the subject: three seconds of cool-down, and more addresses than a client can use up in
	// them, which is why it waits between its Services.
	It("does return, after its time and not before", Label("long"), func(ctx SpecContext) {
		const coolDown = 3 * time.Second
		c.OfferRange(ctx, "brief", nil, "10.108.1.0/26", "fd00:108:1::/122")
		c.Program(ctx, "brief", "{serviceCIDRs: [brief], namespaceSelector: {matchLabels: {tenant: red}}, exclusive: true, onFull: Fail, coolDown: 3s}")
		deleted := map[string]time.Time{}
		returned := 0
		for i := range 120 {
			next := time.Now().Add(80 * time.Millisecond) // 38 of 62 in three seconds, some of which the clean-up takes
			created, addresses := comeAndGo(ctx, cluster.Dual("red", fmt.Sprintf("brief-%d", i)))
			for _, address := range addresses {
				if before, had := deleted[address]; had {
					returned++
					Expect(created.Sub(before)).To(BeNumerically(">=", coolDown), "%s in round %d", address, i)
				}
				deleted[address] = created
			}
			time.Sleep(time.Until(next))
		}
		Expect(returned).To(BeNumerically(">", 0), "so that this shows something")
		Eventually(c.KeptBy).WithArguments(ctx, "brief").Should(BeEmpty())
		c.DeletePolicies(ctx, "brief")
	})

	It("is given back to its Service alone, if that asks", func(ctx SpecContext) {
		program(ctx, time.Hour)
		_, addresses := comeAndGo(ctx, cluster.Dual("blue", "regular"))
		for range 2 { // before and after the leader has written it down
			// Its index knows of each deletion a moment later. Until then the API server decides.
			for _, address := range addresses {
				Eventually(func() error {
					c.FreeLeaked(ctx)
					return preview(ctx, cluster.Asking("blue", "other", address))
				}).Should(MatchError(apierrors.IsForbidden, "IsForbidden"))
			}
			c.ExpectCools(ctx, addresses[0], "blue/regular", cluster.Asking("blue", "other", addresses...))
			c.ExpectCools(ctx, addresses[1], "blue/regular", cluster.Asking("blue", "other", addresses[1]))
			c.ExpectNoted(ctx, "cool", addresses[1]+" cools down until ", "after Service blue/regular had it")
			again := c.Create(ctx, cluster.Asking("blue", "regular", addresses...))
			Expect(again.Spec.ClusterIPs).To(Equal(addresses))
			c.ExpectConsistent(ctx)
			c.DeleteServices(ctx, again)
			expectCools(ctx, addresses[0])
		}
		Expect(c.Create(ctx, cluster.Dual("blue", "regular")).Spec.ClusterIPs).NotTo(ContainElement(BeElementOf(addresses)), "without asking")
	})

	// The API server allocates before it finds that the name is taken, and gives the address back.
	It("has been a Service's", func(ctx SpecContext) {
		c.Create(ctx, cluster.Dual("blue", "there"))
		before := c.KeptBy(ctx, "cool")
		for range 20 {
			_, err := c.Try(ctx, cluster.Dual("blue", "there"))
			Expect(err).To(MatchError(apierrors.IsAlreadyExists, "IsAlreadyExists"))
		}
		c.ExpectNothingLeaked(ctx)
		_, later := comeAndGo(ctx, cluster.Dual("blue", "later")) // what was given back before would be written before
		for _, address := range later {
			expectCools(ctx, address)
		}
		Expect(c.KeptBy(ctx, "cool")).To(ConsistOf(append(before, later...)))
	})

	It("cools on while the operator is started again", Label("all"), func(ctx SpecContext) {
		_, addresses := comeAndGo(ctx, cluster.Dual("blue", "before-the-break"))
		for _, address := range addresses {
			expectCools(ctx, address)
		}
		whileDown(ctx, func() {
			_, err := c.Try(ctx, cluster.Asking("plain", "meanwhile", addresses[0]))
			Expect(err).To(MatchError(apierrors.IsInvalid, "IsInvalid"))
		})
		c.ExpectCools(ctx, addresses[0], "blue/before-the-break", cluster.Asking("blue", "other", addresses[0]))
		services := c.CreateServices(ctx, 40, framework.Numbered("blue", "after-the-break", framework.RequireDualStack()))
		Expect(services).To(HaveEach(HaveField("Spec.ClusterIPs", Not(ContainElement(BeElementOf(addresses))))))
		c.DeletePolicies(ctx, "cool")
		Expect(c.Kept(ctx, cluster.Cooling)).To(BeEmpty())
	})
})
