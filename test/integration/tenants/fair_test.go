package tenants_test

import (
	"context"
	"fmt"
	"net/netip"
	"sync/atomic"
	"time"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"

	"github.com/clusterip-operator/clusterip-operator/test/integration/internal/cluster"
	"github.com/clusterip-operator/clusterip-operator/test/integration/internal/hostile"
)

// A request has two addresses in flight at most. Several may be under way at once, and those of
// before are forgotten after 15 seconds.
const mostOfARequest = 2

// Promise 2.
var _ = Describe("Fair: nobody else pays for what a tenant sends", Ordered, ContinueOnFailure, func() {
	var mallory *hostile.Tenant

	BeforeAll(func(ctx SpecContext) {
		mallory = hostile.New(ctx, c, "mallory-fair", map[string]string{"pool": "small"})
		c.CreateNamespace(ctx, "alice", map[string]string{"pool": "small"})
		hostile.StartAnotherWebhook(ctx, c, mallory)
	})

	It("a request that names 65,533 addresses takes none of them", func(ctx SpecContext) {
		c.ExpectNothingLeaked(ctx)
		var refusals []string
		for i, r := range []string{default4, default6} {
			answer := mallory.Create(ctx, hostile.AllOf(fmt.Sprintf("all-%d", i), netip.MustParsePrefix(r), 65_533))
			Expect(answer.Stored()).To(BeFalse())
			Expect(inFlight(ctx)).To(BeNumerically("<=", mostOfARequest), "%d %s", answer.Code, r)
			more, _ := neighbour(ctx, "alice", 3)
			refusals = append(refusals, more...)
		}
		Expect(refusals).To(BeEmpty())
	})

	It("a request that names 8,000 families is given no address", func(ctx SpecContext) {
		c.ExpectNothingLeaked(ctx)
		before := cluster.FailedOpen(ctx, c.Access)
		for i := range 4 {
			answer := mallory.Create(ctx, hostile.ManyFamilies(fmt.Sprintf("families-%d", i), 8000))
			Expect(answer.Stored()).To(BeFalse())
			Expect(inFlight(ctx)).To(BeNumerically("<=", mostOfARequest*(i+1)), "%d", answer.Code)
		}
		refusals, _ := neighbour(ctx, "alice", 3)
		Expect(refusals).To(BeEmpty())
		Expect(cluster.FailedOpen(ctx, c.Access)).To(Equal(before), "calls to the webhooks that were given up")
	})

	// The neighbour has one Service at a time, so it has room however many of the creations fail.
	DescribeTable("creations that fail, 14 a second, leave a neighbour its addresses in a range of 14", func(ctx SpecContext, fails func(string) hostile.Service) {
		small := newPlace(ctx, "small", 4)
		program(ctx, "small", "{serviceCIDRs: [small], namespaceSelector: {matchLabels: {pool: small}}, onFull: Fail}")
		var failed atomic.Int64
		stop := every(ctx, time.Second/14, func(ctx context.Context, i int) {
			if !mallory.Create(ctx, fails(fmt.Sprintf("failing-%d", i))).Stored() {
				failed.Add(1)
			}
		})
		defer stop()
		Eventually(failed.Load).Should(BeNumerically(">", 20), "so that they fill the range")
		refusals, longest := neighbour(ctx, "alice", 20, small)
		AddReportEntry("the longest creation of the neighbour", fmt.Sprintf("%s, beside %d failed ones of the tenant", longest, failed.Load()))
		Expect(refusals).To(BeEmpty())
	},
		Entry("because of their names", hostile.Misnamed),
		Entry("because another webhook refuses them", Label("all"), hostile.Denied),
		Entry("because they are invalid", Label("all"), hostile.Invalid),
	)

	DescribeTable("a policy does not grow for Services that are not there", func(ctx SpecContext, name, more string, send func(context.Context, int)) {
		p := newPlace(ctx, name, 4)
		program(ctx, name, fmt.Sprintf(`{serviceCIDRSelector: {matchLabels: {place: %s}}, namespaceSelector: {matchLabels: {pool: small}}, onFull: Fallback, %s
			growth: {maxRanges: 8, from: [{cidr: "%s", prefixLength: 28}, {cidr: "%s", prefixLength: 124}]}}`, name, more, wide(p.four), wide(p.six)))
		grown := func(ctx context.Context) (names []string) {
			for _, o := range c.ServiceCIDRs(ctx) {
				if o.Labels["place"] == name && o.Name != name {
					names = append(names, o.Name)
				}
			}
			return names
		}
		DeferCleanup(func(ctx SpecContext) { c.WithdrawRanges(ctx, grown(ctx)...) })
		stop := while(ctx, 4, send)
		defer stop()
		Consistently(grown).WithArguments(ctx).WithTimeout(5 * time.Second).WithPolling(200 * time.Millisecond).Should(BeEmpty())
	},
		Entry("because another webhook refuses them", Label("all"), "refused", "", func(ctx context.Context, i int) {
			mallory.Create(ctx, hostile.Denied(fmt.Sprintf("growing-%d", i)))
		}),
		Entry("because they are gone, and their addresses cool down", "cooling", "coolDown: 1h,", func(ctx context.Context, i int) {
			name := fmt.Sprintf("churning-%d", i)
			if mallory.Create(ctx, hostile.Plain(name)).Stored() {
				mallory.Delete(ctx, name)
			}
		}),
	)
})

// wide is the network of 2^8 ranges of a place, of which the first is the place's own.
func wide(p netip.Prefix) string {
	return netip.PrefixFrom(p.Addr(), p.Bits()-8).Masked().String()
}
