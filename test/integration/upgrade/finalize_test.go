package upgrade_test

import (
	"path/filepath"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/clusterip-operator/clusterip-operator/test/integration/internal/migrate"
)

// The bitmaps are deleted when no API server can need them any more:
//
//  1. With an archive. Node ports keep their bitmap: they have nothing else.
//  2. The archive brings back what was deleted.
//  3. Without bitmaps and without the archive, the way back is still open.
//
// When it is refused, the suite of the migration shows.
var _ = Describe("A cluster that has left the bitmap", Ordered, func() {
	var (
		s       *environment
		before  snapshot
		archive string
	)

	const primary, secondary = rangeKeys + "serviceips", rangeKeys + "secondaryserviceips"

	BeforeAll(func(ctx SpecContext) {
		s = fewFlipped.open(ctx, newer)
		archive = filepath.Join(GinkgoT().TempDir(), "archive.yaml")
	})

	It("loses them into the archive", func(ctx SpecContext) {
		migrate.Publish(ctx, s.Cluster, s.etcd, s.URL())
		before = s.snapshot(ctx)
		Expect(before.bitmaps).To(And(HaveKey(primary), HaveKey(secondary), HaveLen(3)))
		s.preview(ctx, "finalize")
		s.migrate(ctx, done, "finalize", "--yes", "--archive="+archive)
		Expect(before.bitmaps.Changes(s.snapshot(ctx).bitmaps)).To(ConsistOf(primary+" is gone", secondary+" is gone"))
		Expect(s.Condition(ctx, "kubernetes", migrated)).To(And(HaveField("Status", metav1.ConditionTrue), HaveField("Reason", "Finalized")))
		s.expectCalm(ctx, s.snapshot(ctx))
		s.expectNew(ctx, "free", 20)
	})

	It("gets them back from the archive", func(ctx SpecContext) {
		s.preview(ctx, "finalize", "--restore="+archive)
		s.migrate(ctx, done, "finalize", "--restore="+archive, "--yes")
		restored := s.snapshot(ctx)
		for _, key := range []string{primary, secondary} {
			Expect(restored.bitmaps[key].Raw).To(Equal(before.bitmaps[key].Raw), key)
		}
	})

	It("can go back without them", func(ctx SpecContext) {
		s.migrate(ctx, done, "finalize", "--yes", "--archive="+archive+"-3")
		Expect(s.snapshot(ctx).bitmaps).To(HaveLen(1))
		Expect(s.API.Stop()).To(Succeed())
		s.offline(ctx, findings, "rollback")
		s.offline(ctx, done, "rollback", "--yes", "--archive="+archive+"-4")
		before := s.snapshot(ctx)
		Expect(before.bitmaps).To(HaveLen(3))
		s.restart(ctx, oldest)
		s.expectCalm(ctx, before)
		Expect(before.bitmaps.Changes(s.snapshot(ctx).bitmaps)).To(BeEmpty(), "the old API server would have built other bitmaps")
		s.expectNew(ctx, "back", 50)
	})
})
