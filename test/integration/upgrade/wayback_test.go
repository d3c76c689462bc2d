package upgrade_test

import (
	"context"
	"path/filepath"
	"slices"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"

	"github.com/clusterip-operator/clusterip-operator/test/framework"
	"github.com/clusterip-operator/clusterip-operator/test/integration/internal/cluster"
	"github.com/clusterip-operator/clusterip-operator/test/integration/internal/migrate"
)

// fewOn33 is a cluster that was migrated to 1.33. fewOn34 has gone on to 1.34 and has lived there:
// its bitmaps know nothing of that.
var (
	fewOn33 = &stoppedCluster{
		name: "few-on-1.33", ranges: twoFamilies, from: fewServices, server: old,
		build: func(ctx context.Context, s *environment) {
			s.migrate(ctx, done, "run")
			s.restart(ctx, minor33)
		},
	}
	fewOn34 = &stoppedCluster{name: "few-on-1.34", ranges: twoFamilies, from: fewOn33, server: minor34, build: func(ctx context.Context, s *environment) { s.liveOn(ctx) }}
)

// The way back, while there are bitmaps. 1.33 allocates from them without comparing, so that one
// from 1.34 costs refusals for ever, though no address is given away twice:
//
//  1. As it is: `check` names the bits, and `run --repair-bitmap` mends them while 1.33 serves.
//  2. As a rolling downgrade under churn: what 1.33 refuses is counted, and mended the same way.
//  3. With `rollback` between 1.34 and 1.33, and between 1.33 and 1.32, nothing is refused.
var _ = Describe("A cluster that goes back one minor at a time", Label("soak"), func() {
	It("is refused addresses by 1.33 until its bitmaps are repaired", func(ctx SpecContext) {
		s := fewOn34.open(ctx, minor33)
		before := s.snapshot(ctx)
		missing, leaked := before.drift()
		Expect(missing).NotTo(BeEmpty(), "Services that were created under 1.34")
		Expect(leaked).NotTo(BeEmpty(), "Services that were deleted under 1.34")
		s.expectCalm(ctx, before)
		for _, address := range []string{missing[0], leaked[0]} {
			_, err := s.Try(ctx, cluster.Asking(cluster.Namespace, "wants", address))
			Expect(err).To(MatchError(ContainSubstring("provided IP is already allocated")), address)
		}

		found := s.check(ctx, findings)
		Expect(found.Allocator).To(Equal("Both"))
		Expect(found.Of("LeakedBit")[0].Plan).To(ContainSubstring("run --repair-bitmap"))
		Expect(migrate.Count(found.Words())).To(Equal(map[string]int{"MissingBit": len(missing) - 1, "LeakedBit": len(leaked)}),
			"the refusal has set a bit of the missing ones by chance")
		s.migrate(ctx, done, "run", "--repair-bitmap", "--leak-grace=5s")
		Expect(s.check(ctx, done).Findings).To(BeEmpty())
		s.expectBitmap(ctx, 0)
		_, err := s.Try(ctx, cluster.Asking(cluster.Namespace, "has", leaked[0]))
		Expect(err).NotTo(HaveOccurred())
		s.expectNew(ctx, "back", 50)
		s.expectBitmap(ctx, 0)
		s.expectCalm(ctx, s.snapshot(ctx))
		s.expectKeeps(ctx, before)
	})

	It("can do so beside the newer API server, and lose no address", func(ctx SpecContext) {
		r := fewOn34.open(ctx, minor34).startRolling(ctx)
		before := r.snapshot(ctx)
		r.roll(ctx, minor33, func(_, _ *framework.APIServer) {})
		r.expectHeld(ctx, before)
		others, _ := r.expectUntouched(ctx, before) // 1.33 leaves the IPAddress of one that it refuses for a minute: IPAddressNotAllocated
		Expect(others).To(BeEmpty())
		r.work.end()
		AddReportEntry("refused while both served, and afterwards by 1.33", ReportEntryVisibilityAlways, len(r.work.taken))
		r.migrate(ctx, done, "run", "--repair-bitmap", "--leak-grace=5s")
		r.expectBitmap(ctx, 0)
		r.expectNew(ctx, "back", 50)
		r.work.expectKept(r.snapshot(ctx))
	})

	It("goes from 1.34 to 1.33 and from 1.33 to 1.32 by rollback", func(ctx SpecContext) {
		s := fewOn34.open(ctx, minor34)
		before, archive := s.snapshot(ctx), filepath.Join(GinkgoT().TempDir(), "bitmaps")
		for _, server := range []framework.Options{minor33, old} {
			By("going back to " + server.Version.Name)
			s.migrate(ctx, refused, "rollback", "--yes")
			Expect(s.API.Stop()).To(Succeed())
			s.offline(ctx, done, "rollback", "--yes", "--archive="+archive+server.Version.Name)
			s.expectBitmap(ctx, 0)
			rolled := s.snapshot(ctx)
			s.restart(ctx, server)
			s.expectCalm(ctx, rolled)
			Expect(rolled.bitmaps.Changes(s.snapshot(ctx).bitmaps)).To(BeEmpty(), "the API server would have built other bitmaps")
			s.expectNew(ctx, "on-"+server.Version.NetworkingVersion, 50)
			s.expectBitmap(ctx, 0)
			s.expectKeeps(ctx, before)
		}
		s.migrate(ctx, done, "run") // what 1.32 has allocated has no IPAddress
		s.migrate(ctx, done, "verify")
		forth := s.snapshot(ctx)
		s.restart(ctx, minor33)
		s.expectCalm(ctx, forth)
		s.expectWhole(ctx)
		s.expectKeeps(ctx, before)
	})
})

// expectKeeps wants each Service to keep an earlier snapshot's ClusterIPs, and no address shared.
func (s *environment) expectKeeps(ctx context.Context, before snapshot) {
	GinkgoHelper()
	now := s.snapshot(ctx).clusterIPs()
	for name, clusterIPs := range before.clusterIPs() {
		Expect(slices.Equal(now[name], clusterIPs)).To(BeTrue(), "%s: %v, before %v", name, now[name], clusterIPs)
	}
	s.expectNoDuplicate(ctx)
}
