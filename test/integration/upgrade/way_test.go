package upgrade_test

import (
	"context"
	"fmt"
	"path/filepath"
	"strings"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"

	"github.com/clusterip-operator/clusterip-operator/test/framework"
	"github.com/clusterip-operator/clusterip-operator/test/integration/internal/cluster"
	"github.com/clusterip-operator/clusterip-operator/test/integration/internal/migrate"
)

// fiveThousand are the Services of a cluster that goes through every minor.
var fiveThousand = onBitmap("five-thousand", twoFamilies, 5600)

// The whole way, with our operator and with writes from the start. Each step is a rolling upgrade:
//
//  1. 1.32 with the bitmap. `migrate run` finds what the operator has written, and nothing to do.
//  2. 1.33, which takes addresses from the bitmap, then writes IPAddresses. Beside 1.32, the faster
//     of 1.33 and the operator writes an IPAddress for what 1.32 allocates; either deletes that of
//     what 1.32 frees; both report it as a repair. Nothing that was there before is reported.
//  3. 1.34, with dual write beside 1.33, then as it comes: 1.33 refuses what 1.34 has freed.
//  4. `finalize`, refused until then.
//  5. 1.35 to 1.37, which know nothing but IPAddresses.
var _ = Describe("A cluster on its way through the minors", Ordered, Label("soak"), func() {
	var (
		r       *rolling
		before  snapshot
		archive string
	)

	// finalizeRefused wants a refusal for API servers that may write bitmaps.
	finalizeRefused := func(ctx context.Context, because ...*framework.APIServer) {
		GinkgoHelper()
		told := r.migrate(ctx, refused, "finalize", "--yes", "--archive="+archive)
		for _, api := range because {
			Expect(told.Stderr).To(ContainSubstring("API server " + strings.TrimPrefix(api.URL(), "https://")))
		}
		Expect(strings.Count(told.Stderr, "API server 127.0.0.1:")).To(Equal(len(because)), told.Stderr)
		Expect(archive).NotTo(BeAnExistingFile())
	}
	// step rolls, and looks at the results. Of Services written meanwhile, what is permitted and what
	// hasty API servers say may be reported.
	step := func(ctx context.Context, to framework.Options, during func(old, next *framework.APIServer), permitted ...string) int {
		GinkgoHelper()
		before = r.snapshot(ctx)
		r.roll(ctx, to, during)
		r.expectHeld(ctx, before)
		others, n := r.expectUntouched(ctx, before)
		r.work.still(func() {
			AddReportEntry("step to "+to.Version.Name, ReportEntryVisibilityAlways, fmt.Sprintf("reported of Services that were written meanwhile: %v, and by hasty API servers %d; refused: %d; so far, starts that API servers gave up: %d, restarts of the operator: %d",
				others, n, len(r.work.taken), r.givenUp, r.restarts.Load()))
		})
		for reason := range others {
			Expect(permitted).To(ContainElement(reason), "%v", others)
		}
		return n
	}
	nothing := func(_, _ *framework.APIServer) {}

	BeforeAll(func(ctx SpecContext) {
		s := fiveThousand.open(ctx, old)
		r = s.startRolling(ctx)
		r.installOperator(ctx)
		archive = filepath.Join(GinkgoT().TempDir(), "bitmaps.yaml")
	})

	It("is migrated", func(ctx SpecContext) {
		Expect(len(r.Services(ctx))).To(BeNumerically(">=", 5000))
		r.work.still(func() {
			Eventually(r.Condition).WithArguments(ctx, "kubernetes", migrated).WithTimeout(settling).Should(HaveField("Reason", "ReadyToFlip"))
		})
		r.migrate(ctx, done, "run")
		r.migrate(ctx, done, "verify")
		migrate.Publish(ctx, r.Cluster, r.etcd, r.URL())
		finalizeRefused(ctx, r.API)
		r.expectHeld(ctx, r.snapshot(ctx))
		r.work.still(func() {
			Expect(r.work.taken).To(BeEmpty())
			r.expectBitmap(ctx, 0)
		})
	})

	It("becomes 1.33", func(ctx SpecContext) {
		step(ctx, minor33, func(old, next *framework.APIServer) { finalizeRefused(ctx, old, next) },
			byAPIServer+"IPAddressWrongReference", "ClusterIPNotAllocated", "IPAddressNotAllocated", "IPAddressWrongReference")
		finalizeRefused(ctx, r.API)
		Eventually(r.Condition).WithArguments(ctx, "kubernetes", migrated).WithTimeout(settling).Should(HaveField("Reason", "Flipped"))
		r.work.waitFor(100)
	})

	It("has bitmaps that are right, but for bits of refusals, which can be cleared", func(ctx SpecContext) {
		r.work.still(func() { r.expectBitmap(ctx, len(r.work.taken)) })
		r.migrate(ctx, done, "run", "--repair-bitmap", "--leak-grace=60s")
		r.work.still(func() { r.expectBitmap(ctx, 0) })
		r.work.still(func() { r.work.taken = nil })
	})

	It("becomes 1.34, which keeps the bitmaps as long as 1.33 draws from them", func(ctx SpecContext) {
		hasty := step(ctx, dualWriting, func(old, next *framework.APIServer) { finalizeRefused(ctx, old, next) })
		r.work.still(func() {
			r.work.expectRefused(hasty)
			r.expectBitmap(ctx, hasty)
			Expect(r.check(ctx, done).Findings).To(BeEmpty(), "the bitmaps are no leftovers")
		})
		finalizeRefused(ctx, r.API)
	})

	It("loses its bitmaps when nobody writes them any more", func(ctx SpecContext) {
		step(ctx, minor34, func(old, _ *framework.APIServer) { finalizeRefused(ctx, old) })
		r.work.still(func() { r.work.taken = nil }) // refused while one kept the bitmap and the other did not
		r.migrate(ctx, findings, "finalize")
		r.migrate(ctx, done, "finalize", "--yes", "--archive="+archive)
		Expect(archive).To(BeARegularFile())
		Expect(r.snapshot(ctx).bitmaps).To(HaveLen(1), "that of node ports stays")
		Expect(r.Condition(ctx, "kubernetes", migrated)).To(HaveField("Reason", "Finalized"))
	})

	for _, version := range []framework.Version{framework.V135, framework.V136, framework.V137} {
		It("becomes "+version.Name, func(ctx SpecContext) {
			hasty := step(ctx, framework.Options{Version: version}, nothing)
			r.work.still(func() { r.work.expectRefused(hasty) })
			Expect(r.snapshot(ctx).bitmaps).To(HaveLen(1), "somebody has written one again")
		})
	}

	It("has nothing to repair, in the end", func(ctx SpecContext) {
		r.work.end()
		r.expectWhole(ctx)
		frozen := r.Replicas() // they may still have labels to write
		for _, replica := range frozen {
			Expect(replica.Pause()).To(Succeed())
		}
		before = r.snapshot(ctx)
		Expect(r.API.Kill()).To(Succeed()) // it would wait for the watches of those who are frozen
		r.restart(ctx, newer)
		r.expectCalm(ctx, before)
		for _, replica := range frozen {
			Expect(replica.Resume()).To(Succeed())
		}
		r.expectNew(ctx, "fresh", 20)
		Expect(r.check(ctx, done).Findings).To(BeEmpty())
		Expect(r.restarts.Load()).To(BeNumerically(">", 0), "the operator has seen v1beta1 and v1")
		Expect(r.Condition(ctx, "kubernetes", cluster.DefaultRangeMismatch).Status).NotTo(BeEquivalentTo("True"))
	})
})
