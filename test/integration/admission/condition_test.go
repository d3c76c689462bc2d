package admission_test

import (
	"fmt"
	"net/netip"
	"slices"
	"time"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"
	corev1 "k8s.io/api/core/v1"

	"github.com/clusterip-operator/clusterip-operator/test/framework"
	"github.com/clusterip-operator/clusterip-operator/test/integration/internal/cluster"
)

// What may become right without a change of the policy, or is the matter of two policies, is taken, and a condition says what is
// wrong and why. Each spec has a tenant beside it whom nothing of this may touch.
var _ = Describe("A policy that cannot have what it wants", Label("all"), Ordered, ContinueOnFailure, func() {
	const bystander = "bystander"
	everybodyElse := 0

	BeforeAll(func(ctx SpecContext) {
		c.OfferRange(ctx, bystander, nil, "10.120.0.0/24", "fd00:10:120::/120")
		user.Policy(ctx, bystander, `{serviceCIDRs: [bystander], serviceSelector: {matchLabels: {tenant: bystander}}, exclusive: true, onFull: Fail,
			reservations: [{name: four, address: 10.120.0.5}, {name: six, address: "fd00:10:120::5"}]}`)
		user.EventuallySays(ctx, bystander, programmed, "True")
	})

	AfterEach(func(ctx SpecContext) {
		everybodyElse++
		service := c.CreateService(ctx, fmt.Sprintf("bystander-%d", everybodyElse), framework.RequireDualStack(), framework.WithLabel("tenant", bystander))
		Expect(service.Spec.ClusterIPs).To(ConsistOf(HavePrefix("10.120.0."), HavePrefix("fd00:10:120::")), "the bystander is steered elsewhere")
		Expect(user.Condition(ctx, bystander, accepted).Status).To(BeEquivalentTo("True"))
		Expect(user.Condition(ctx, bystander, programmed).Status).To(BeEquivalentTo("True"))
		Expect(user.Condition(ctx, bystander, conflicting).Status).To(BeEquivalentTo("False"))
		for _, kept := range []string{"10.120.0.5", "fd00:10:120::5"} {
			Expect(c.IPAddress(ctx, kept)).NotTo(BeNil(), "the bystander's reservation of %s is gone", kept)
		}
	})

	It("waits for a range that does not exist, says so, and has it when it comes", func(ctx SpecContext) {
		user.Policy(ctx, "early", `{serviceCIDRs: [late-4, late-6], serviceSelector: {matchLabels: {tenant: early}}, onFull: Fail,
			reservations: [{name: a, address: 10.121.0.20, for: default/early-reserved}]}`)
		user.EventuallySays(ctx, "early", programmed, "False", "late-4", "late-6")
		_, err := c.TryService(ctx, "early-1", framework.RequireDualStack(), framework.WithLabel("tenant", "early"))
		Expect(err).To(MatchError(And(ContainSubstring(`ServiceCIDRPolicy "early": `), ContainSubstring("no ready range"))), "Fail without a range")

		c.CreateServiceCIDR(ctx, "late-4", "10.121.0.0/24")
		user.EventuallySays(ctx, "early", programmed, "False", "late-6")
		c.CreateServiceCIDR(ctx, "late-6", "fd00:10:121::/120")
		user.EventuallySays(ctx, "early", programmed, "True")
		service := c.CreateService(ctx, "early-2", framework.RequireDualStack(), framework.WithLabel("tenant", "early"))
		Expect(service.Spec.ClusterIPs).To(ConsistOf(HavePrefix("10.121.0."), HavePrefix("fd00:10:121::")))
		reserved := c.CreateService(ctx, "early-reserved")
		Expect(reserved.Spec.ClusterIP).To(Equal("10.121.0.20"), "a reservation is handed out whoever steers")
	})

	It("gives nothing from a range that is being deleted, and says so", func(ctx SpecContext) {
		c.OfferRange(ctx, "leaving", nil, "10.122.0.0/24", "fd00:10:122::/120")
		holder := c.HoldAddress(ctx, "leaving-holder", "10.122.0.200", "fd00:10:122::c8")
		c.DeleteServiceCIDRs(ctx, "leaving")
		user.Policy(ctx, "leaver", `{serviceCIDRs: [leaving], serviceSelector: {matchLabels: {tenant: leaver}}, onFull: Fail, coolDown: 1h,
			reservations: [{name: a, address: 10.122.0.20}, {name: b, address: "fd00:10:122::20"}]}`)
		user.EventuallySays(ctx, "leaver", programmed, "False", "leaving", "delet")
		_, err := c.TryService(ctx, "leaver-1", framework.RequireDualStack(), framework.WithLabel("tenant", "leaver"))
		Expect(err).To(MatchError(And(ContainSubstring(`ServiceCIDRPolicy "leaver": `), ContainSubstring("no ready range"))))

		By("and does not hold it: neither a reservation nor a resting address keeps a range alive")
		c.DeleteServices(ctx, holder)
		Eventually(c.Remaining).WithArguments(ctx, "leaving").WithTimeout(cluster.Patience).Should(BeEmpty())
		user.EventuallySays(ctx, "leaver", programmed, "False", "leaving")
	})

	// The addresses are static: those of the dynamic band may be anybody's in this bed.
	It("loses reserved addresses to a better policy, and names it", func(ctx SpecContext) {
		user.Policy(ctx, "first", `{priority: 10, reservations: [{name: a, address: 10.96.0.208/30, for: default/first-a}, {name: six, address: "fd00:10:96::d0"}]}`)
		user.EventuallySays(ctx, "first", programmed, "True")
		const second = `{priority: 5, reservations: [
			{name: b, address: 10.96.0.210-10.96.0.213, for: default/second-b}, {name: six, address: "fd00:10:96::cf-fd00:10:96::d1"}]}`
		Expect(user.TryPolicy(ctx, "second", second)).To(MatchError(And(ContainSubstring(`"first"`),
			ContainSubstring("10.96.0.210"), ContainSubstring("fd00:10:96::d0"))), "it can be told at once")

		By("or with a condition, where nobody looks at new policies")
		c.WithoutWebhooks(ctx, func() { user.Policy(ctx, "second", second) })
		user.EventuallySays(ctx, "second", conflicting, "True", "first", "10.96.0.208-10.96.0.211", "fd00:10:96::d0")
		Expect(user.Condition(ctx, "first", conflicting).Status).To(BeEquivalentTo("False"), "the winner has nothing to say")

		By("and keeps the rest")
		for address, owner := range map[string]string{
			"10.96.0.210": "first", "10.96.0.211": "first", "10.96.0.212": "second", "10.96.0.213": "second",
			"fd00:10:96::cf": "second", "fd00:10:96::d0": "first", "fd00:10:96::d1": "second",
		} {
			Eventually(c.Owner).WithArguments(ctx, address).WithTimeout(soon).Should(Equal("servicecidrpolicies /"+owner), address)
		}
		refusedFor(ctx, "second-b", "10.96.0.211", "first")
		Expect(c.CreateService(ctx, "second-b").Spec.ClusterIP).To(BeElementOf("10.96.0.212", "10.96.0.213"))

		By("until the better one goes")
		user.DeletePolicy(ctx, "first")
		user.EventuallySays(ctx, "second", conflicting, "False")
		Eventually(c.Owner).WithArguments(ctx, "10.96.0.210").WithTimeout(soon).Should(Equal("servicecidrpolicies /second"))
		Eventually(c.Owner).WithArguments(ctx, "fd00:10:96::d0").WithTimeout(soon).Should(Equal("servicecidrpolicies /second"))
	})

	It("loses a range that a better policy has for itself, even under another name", func(ctx SpecContext) {
		c.OfferRange(ctx, "outer", nil, "10.123.0.0/24", "fd00:10:123::/120")
		c.OfferRange(ctx, "inner", nil, "10.123.0.0/26", "fd00:10:123::/122")
		user.Policy(ctx, "owner", `{priority: 10, serviceCIDRs: [outer], serviceSelector: {matchLabels: {tenant: owner}}, exclusive: true}`)
		user.Policy(ctx, "squatter", `{priority: 5, serviceCIDRs: [inner], serviceSelector: {matchLabels: {tenant: squatter}}, exclusive: true, onFull: Fail}`)
		user.EventuallySays(ctx, "squatter", conflicting, "True", "owner", "inner")
		Expect(user.Condition(ctx, "owner", conflicting).Status).To(BeEquivalentTo("False"))
		_, err := c.TryService(ctx, "squatter-1", framework.RequireDualStack(), framework.WithLabel("tenant", "squatter"))
		Expect(err).To(MatchError(ContainSubstring(`ServiceCIDRPolicy "squatter": `)))
		owned := c.CreateService(ctx, "owner-1", framework.RequireDualStack(), framework.WithLabel("tenant", "owner"))
		Expect(owned.Spec.ClusterIPs).To(ConsistOf(HavePrefix("10.123.0."), HavePrefix("fd00:10:123::")))
	})

	// The second choice of a better policy that falls back would be another matter.
	It("never steers when a better one has the same selectors and refuses what it cannot place, and says so", func(ctx SpecContext) {
		c.OfferRange(ctx, "twins-a", nil, "10.124.0.0/25", "fd00:10:124::/121")
		c.OfferRange(ctx, "twins-b", nil, "10.124.0.128/25", "fd00:10:124::80/121")
		user.Policy(ctx, "twin-a", `{priority: 1, serviceCIDRs: [twins-a], serviceSelector: {matchLabels: {tenant: twin}}, onFull: Fail}`)
		user.Policy(ctx, "twin-b", `{serviceCIDRs: [twins-b], serviceSelector: {matchLabels: {tenant: twin}}}`)
		user.EventuallySays(ctx, "twin-b", conflicting, "True", "twin-a")
		user.EventuallySays(ctx, "twin-a", programmed, "True")
		for i := range 5 {
			service := c.CreateService(ctx, fmt.Sprintf("twin-%d", i), framework.RequireDualStack(), framework.WithLabel("tenant", "twin"))
			Expect(inside("10.124.0.0/25", service)).To(BeTrue(), "%v", service.Spec.ClusterIPs)
			Expect(inside("fd00:10:124::/121", service)).To(BeTrue(), "%v", service.Spec.ClusterIPs)
		}
	})

	It("has no reservation where a Service is already, and says whose", func(ctx SpecContext) {
		holder := c.HoldAddress(ctx, "early-bird", "10.96.0.220", "fd00:10:96::dc") // static ones
		user.Policy(ctx, "late-reserver", `{reservations: [{name: four, address: 10.96.0.220}, {name: six, address: "fd00:10:96::dc"}]}`)
		user.EventuallySays(ctx, "late-reserver", accepted, "True")
		Consistently(c.Breaches).WithArguments(ctx).WithTimeout(time.Second).Should(BeEmpty(), "the Service keeps its addresses")
		c.DeleteServices(ctx, holder)
		for _, address := range holder.Spec.ClusterIPs {
			Eventually(c.Owner).WithArguments(ctx, address).WithTimeout(soon).Should(Equal("servicecidrpolicies /late-reserver"), "it is free now")
		}
	})
})

// refusedFor wants a Service to be refused an address, by a message that begins with the policy whose address it is.
func refusedFor(ctx SpecContext, name, address, policy string) {
	GinkgoHelper()
	_, err := c.TryService(ctx, name, framework.WithClusterIPs(address), framework.WithFamilies(familyOf(address)))
	Expect(err).To(MatchError(And(ContainSubstring(fmt.Sprintf("ServiceCIDRPolicy %q: ", policy)), ContainSubstring(address))))
}

// inside reports whether one of the addresses of a Service is in a range.
func inside(cidr string, service *corev1.Service) bool {
	prefix := netip.MustParsePrefix(cidr)
	return slices.ContainsFunc(service.Spec.ClusterIPs, func(ip string) bool { return prefix.Contains(netip.MustParseAddr(ip)) })
}

func familyOf(address string) corev1.IPFamily {
	if netip.MustParseAddr(address).Is4() {
		return corev1.IPv4Protocol
	}
	return corev1.IPv6Protocol
}
