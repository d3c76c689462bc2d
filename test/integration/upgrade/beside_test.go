package upgrade_test

import (
	"context"
	"fmt"
	"time"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/clusterip-operator/clusterip-operator/test/framework"
	"github.com/clusterip-operator/clusterip-operator/test/integration/internal/cluster"
)

// How API servers of neighbouring minors treat each other's writes, without other programs. This is
// upstream's, and the reason for what the whole way tolerates.
var _ = Describe("API servers of two minors side by side", Label("soak"), func() {
	const first, second = "10.96.0.210", "10.96.0.211" // of the static band, where no Service is by chance

	// 1.32 writes no IPAddresses and allocates from the bitmap, where 1.33 notes its allocations.
	It("1.32 and 1.33 give nothing away twice, and 1.33 repairs what 1.32 allocates", func(ctx SpecContext) {
		s := fewServices.open(ctx, old)
		s.migrate(ctx, done, "run")
		before := s.snapshot(ctx)
		next, err := s.AddAPIServer(ctx, minor33)
		Expect(err).NotTo(HaveOccurred())

		By("allocating through 1.33")
		held(ctx, next, "by-1-33", first)
		_, err = hold(ctx, s.API, "thief", first)
		Expect(err).To(MatchError(ContainSubstring("already allocated")))
		s.expectBitmap(ctx, 0)
		Expect(s.snapshot(ctx).repairsSince(before)).To(BeEmpty())

		By("allocating through 1.32")
		held(ctx, s.API, "by-1-32", second)
		_, err = hold(ctx, next, "thief", second)
		Expect(err).To(MatchError(ContainSubstring("already allocated")))
		Eventually(s.Owner).WithArguments(ctx, second).Should(Equal(cluster.Namespace + "/by-1-32"))
		Eventually(func() []string { return s.snapshot(ctx).repairsSince(before) }).Should(ConsistOf(
			ContainSubstring("ClusterIPNotAllocated Service/by-1-32")))

		By("freeing through 1.32 and asking for it through 1.33")
		s.DeleteServices(ctx, &corev1.Service{ObjectMeta: metav1.ObjectMeta{Namespace: cluster.Namespace, Name: "by-1-32"}})
		_, err = hold(ctx, next, "heir", second)
		Expect(err).To(MatchError(ContainSubstring("already allocated")), "its IPAddress is still there")
		missing, leaked := s.snapshot(ctx).drift()
		Expect(missing).To(BeEmpty())
		Expect(leaked).To(ConsistOf(second), "the refusal leaves a bit behind")
		Eventually(s.Owner).WithArguments(ctx, second).WithTimeout(settling).WithPolling(time.Second).Should(BeEmpty())
		_, err = hold(ctx, next, "heir", second)
		Expect(err).To(MatchError(ContainSubstring("already allocated")), "nobody clears the bit")
		s.migrate(ctx, done, "run", "--repair-bitmap", "--leak-grace=5s")
		held(ctx, next, "heir", second)
		s.expectBitmap(ctx, 0)
	})

	// 1.34 does not keep the bitmap, unless it is told to.
	DescribeTable("1.33 and 1.34 agree on what is free if both keep the bitmap",
		func(ctx SpecContext, to framework.Options, agree bool) {
			s := fewOn33.open(ctx, minor33)
			next, err := s.AddAPIServer(ctx, to)
			Expect(err).NotTo(HaveOccurred())
			held(ctx, s.API, "passing", first)
			Expect(next.Client().CoreV1().Services(cluster.Namespace).Delete(ctx, "passing", metav1.DeleteOptions{})).To(Succeed())
			held(ctx, next, "by-1-34", second)
			missing, leaked := s.snapshot(ctx).drift()
			_, err = hold(ctx, s.API, "heir", first)
			if agree {
				Expect(append(missing, leaked...)).To(BeEmpty())
				Expect(err).NotTo(HaveOccurred())
				return
			}
			Expect(missing).To(ConsistOf(second))
			Expect(leaked).To(ConsistOf(first))
			Expect(err).To(MatchError(ContainSubstring("already allocated")))
			held(ctx, next, "heir", first)
		},
		Entry("as 1.34 comes", minor34, false),
		Entry("with DisableAllocatorDualWrite=false", dualWriting, true),
	)
})

// Neither 1.36 nor 1.37 has a bitmap: each serves what the other one wrote, and repairs none of it.
var _ = Describe("A cluster on IPAddresses alone", Label("soak"), func() {
	on36 := &fixture{name: "few-on-1.36", ranges: twoFamilies, server: minor36, build: func(ctx context.Context, s *environment) { s.populate(ctx, 400) }}

	It("becomes 1.37 and then 1.36 again, while both serve and Services come and go", func(ctx SpecContext) {
		r := on36.open(ctx, minor36).startRolling(ctx)
		r.installOperator(ctx)
		for _, to := range []framework.Options{newer, minor36} {
			By("becoming " + to.Version.Name)
			before := r.snapshot(ctx)
			r.roll(ctx, to, func(_, _ *framework.APIServer) {})
			r.expectHeld(ctx, before)
			others, hasty := r.expectUntouched(ctx, before)
			Expect(others).To(BeEmpty())
			r.work.still(func() {
				Expect(r.work.taken).To(BeEmpty())
				Expect(r.snapshot(ctx).bitmaps).To(HaveLen(1), "that of node ports")
			})
			AddReportEntry("step to "+to.Version.Name, fmt.Sprintf("reported by hasty API servers: %d; starts that API servers gave up: %d", hasty, r.givenUp))
		}
		r.work.end()
		r.expectNew(ctx, "back", 50)
		r.expectWhole(ctx)
		r.work.expectKept(r.snapshot(ctx))
	})
})

// hold asks an API server for a Service with an address.
func hold(ctx context.Context, api *framework.APIServer, name, address string) (*corev1.Service, error) {
	service := framework.NewService(cluster.Namespace, name, framework.WithClusterIPs(address), framework.WithFamilies(familyOf(address)))
	return api.Client().CoreV1().Services(cluster.Namespace).Create(ctx, service, metav1.CreateOptions{})
}

func held(ctx context.Context, api *framework.APIServer, name, address string) {
	GinkgoHelper()
	_, err := hold(ctx, api, name, address)
	Expect(err).NotTo(HaveOccurred(), fmt.Sprint(name, " through ", api.URL()))
}
