package upgrade_test

import (
	"context"
	"path/filepath"
	"strings"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"
	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/clusterip-operator/clusterip-operator/test/framework"
	"github.com/clusterip-operator/clusterip-operator/test/framework/suite"
	"github.com/clusterip-operator/clusterip-operator/test/integration/internal/cluster"
)

// fewFlipped is a cluster that was migrated to the new API server and has lived there: the bitmaps
// do not know of its later changes.
var fewFlipped = &stoppedCluster{
	name: "few-flipped", ranges: twoFamilies, from: fewServices, server: old,
	build: func(ctx context.Context, s *environment) {
		s.migrate(ctx, done, "run")
		s.restart(ctx, newer)
		s.liveOn(ctx)
	},
}

// liveOn lets Services come and go.
func (s *environment) liveOn(ctx context.Context) {
	GinkgoHelper()
	services := s.CreateServices(ctx, 120, func(i int) *corev1.Service {
		service := s.service(i)
		service.Name += "-late"
		return service
	})
	s.DeleteServices(ctx, services[:30]...)
	for _, service := range s.Services(ctx)[100:140] {
		if service.Name != "kubernetes" {
			s.DeleteServices(ctx, &service)
		}
	}
	s.expectWhole(ctx)
}

// The way back:
//
//  1. A cluster that has lived under the new API server is stopped. With its bitmaps, the old
//     allocator would hand out taken addresses, until its repair tells of each.
//  2. `rollback` rebuilds the bitmaps, first as a preview, and not while an API server could write.
//  3. The old API server has nothing to add to the bitmaps. Every Service keeps its address.
//  4. Two hundred new Services get free addresses, and the repair agrees at the next start.
//  5. And forward again.
var _ = Describe("A cluster that goes back to the bitmap", func() {
	It("makes the old API server repair everything, without rollback", func(ctx SpecContext) {
		s := fewFlipped.open(ctx, oldest)
		Eventually(func(g Gomega) { // events and words are written beside the work
			g.Expect(len(s.snapshot(ctx).repairsSince(snapshot{}))).To(BeNumerically(">", 30))
			g.Expect(s.complaintsSince(0)).To(ContainElements(ContainSubstring("repairing"), ContainSubstring("may have leaked")))
		}).WithTimeout(cluster.Timeout).WithPolling(time.Second).Should(Succeed())
	})

	DescribeTable("keeps every address, and goes forward again",
		func(ctx SpecContext, server framework.Options, forward func(context.Context, *environment)) {
			s := fewFlipped.open(ctx, newer)
			before := s.snapshot(ctx)
			s.migrate(ctx, findings, "rollback")
			s.migrate(ctx, refused, "rollback", "--yes")
			Expect(s.API.Stop()).To(Succeed())
			s.offline(ctx, findings, "rollback")
			Expect(before.changes(s.snapshot(ctx))).To(BeEmpty(), "previews, and a refusal")

			archive := filepath.Join(GinkgoT().TempDir(), "bitmaps.yaml")
			s.offline(ctx, done, "rollback", "--yes", "--archive="+archive)
			Expect(archive).To(BeARegularFile())
			s.expectReadableByOld(ctx, before)
			rebuilt := s.snapshot(ctx)
			s.offline(ctx, done, "rollback", "--yes", "--archive="+archive+"-2")
			Expect(rebuilt.changes(s.snapshot(ctx))).To(BeEmpty(), "a second time")

			s.restart(ctx, server)
			s.expectCalm(ctx, rebuilt)
			Expect(rebuilt.bitmaps.Changes(s.snapshot(ctx).bitmaps)).To(BeEmpty(), "the old API server would have built other bitmaps")
			s.expectNew(ctx, "back", 200)

			again := s.snapshot(ctx)
			s.restart(ctx, server)
			s.expectCalm(ctx, again)
			Expect(again.bitmaps.Changes(s.snapshot(ctx).bitmaps)).To(BeEmpty())

			forward(ctx, s)
			s.migrate(ctx, done, "verify")
			before = s.snapshot(ctx)
			s.restart(ctx, newer)
			s.expectCalm(ctx, before)
			s.expectWhole(ctx)
			s.expectNew(ctx, "forth", 20)
		},
		Entry("which serves IPAddresses", old, func(ctx context.Context, s *environment) {
			listed := suite.Must(framework.Kubectl(ctx, s.Kubeconfig(), "get", "ipaddresses", "--no-headers"))
			Expect(strings.Count(listed, "\n")).To(Equal(len(s.snapshot(ctx).addresses)))
			listed = suite.Must(framework.Kubectl(ctx, s.Kubeconfig(), "get", "servicecidrs", "--no-headers"))
			Expect(listed).To(ContainSubstring("kubernetes"))
			for _, service := range s.Services(ctx)[100:140] { // their IPAddresses stay, for the old allocator knows none
				if service.Name != "kubernetes" {
					s.DeleteServices(ctx, &service)
				}
			}
			s.migrate(ctx, done, "run")
		}),
		Entry("which does not serve IPAddresses", oldest, seed),
	)

	It("is refused while a Service has an address of which no bitmap can tell", func(ctx SpecContext) {
		s := fewFlipped.open(ctx, newer)
		s.CreateServiceCIDR(ctx, "more", "10.200.0.0/24")
		s.HoldAddress(ctx, "far-away", "10.200.0.77")
		Expect(s.API.Stop()).To(Succeed())
		before := s.snapshot(ctx)
		told := s.offline(ctx, refused, "rollback", "--yes", "--archive="+filepath.Join(GinkgoT().TempDir(), "never"))
		Expect(told.Stdout + told.Stderr).To(And(ContainSubstring("10.200.0.77"), ContainSubstring(cluster.Namespace+"/far-away")))
		Expect(before.changes(s.snapshot(ctx))).To(BeEmpty())
	})
})

// expectReadableByOld wants all IPAddresses in the version that the old API server knows. Only
// those that were not are written anew, with the same content.
func (s *environment) expectReadableByOld(ctx context.Context, before snapshot) {
	GinkgoHelper()
	now, renewed := s.snapshot(ctx), 0
	Expect(cmp.Diff(alike(before.addresses), alike(now.addresses))).To(BeEmpty())
	for key, stored := range now.addresses {
		was, is := addressOf(before.addresses[key]), addressOf(stored)
		Expect(is.storedIn).To(Equal("networking.k8s.io/v1beta1"), key)
		Expect(cmp.Diff(was.ObjectMeta, is.ObjectMeta, cmpopts.IgnoreFields(metav1.ObjectMeta{}, "ManagedFields"))).To(BeEmpty(), key)
		Expect(is.managers()).To(ConsistOf(ourManager), "nobody shall believe that an API server still allocates IPAddresses")
		if was.storedIn == is.storedIn {
			Expect(stored.Revision).To(Equal(before.addresses[key].Revision), key)
		} else {
			renewed++
		}
	}
	Expect(renewed).To(BeNumerically(">", 50), "the new API server stores them otherwise")
}
