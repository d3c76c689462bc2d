package upgrade_test

import (
	"context"
	"fmt"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"

	"github.com/clusterip-operator/clusterip-operator/test/framework"
)

// Neither 1.36 nor 1.37 has a bitmap: each serves what the other one wrote, and repairs none of it.
var _ = Describe("A cluster on IPAddresses alone", Label("soak"), func() {
	on36 := &stoppedCluster{name: "few-on-1.36", ranges: twoFamilies, server: minor36, build: func(ctx context.Context, s *environment) { s.populate(ctx, 400) }}

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
				r.work.expectRefused(hasty)
				Expect(r.snapshot(ctx).bitmaps).To(HaveLen(1), "that of node ports")
			})
			AddReportEntry("step to "+to.Version.Name, ReportEntryVisibilityAlways, fmt.Sprintf("reported by hasty API servers: %d; starts that API servers gave up: %d", hasty, r.givenUp))
		}
		r.work.end()
		r.expectNew(ctx, "back", 50)
		r.expectWhole(ctx)
		r.work.expectKept(r.snapshot(ctx))
	})
})
