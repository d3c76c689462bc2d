package upgrade_test

import (
	"fmt"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"
)

var _ = It("tmpbase", func(ctx SpecContext) {
	s := fewServices.open(ctx, old)
	before := s.photo(ctx)
	s.restart(ctx, oldest)
	s.expectCalm(ctx, before)
	now := s.photo(ctx)
	Expect(before.bitmaps.writes(now.bitmaps)).To(BeEmpty())
	s.expectNew(ctx, "x", 20)
	w := s.startChurn(ctx)
	Eventually(w.acts.Load).WithTimeout(20e9).Should(BeNumerically(">", 100))
	Expect(s.API.Stop()).To(Succeed())
	w.end()
	AddReportEntry("churn", fmt.Sprint(w.acts.Load(), len(w.living), len(w.gone), w.failed))
	w.expectKept(s.photo(ctx))
	s.expectNoDuplicate(ctx)
	pattern := fewIPv6First.repaired(ctx)
	AddReportEntry("pattern", len(exact(pattern)))
})
