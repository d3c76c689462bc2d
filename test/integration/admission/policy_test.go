package admission_test

import (
	"fmt"
	"strings"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"
	apierrors "k8s.io/apimachinery/pkg/api/errors"

	"github.com/clusterip-operator/clusterip-operator/test/framework"
	"github.com/clusterip-operator/clusterip-operator/test/integration/internal/cluster"
)

// mistakes are policy specs that make no sense in any cluster but that the schema takes (for the
// rest see test/integration/policyapi), with words that the refusal must have: the field, and why.
var mistakes = []struct {
	what, spec, words string
}{
	{"an operator that does not exist", `{namespaceSelector: {matchExpressions: [{key: tenant, operator: Is, values: [a]}]}}`, "namespaceSelector Is"},
	{"an operator in a Service selector", `{serviceSelector: {matchExpressions: [{key: app, operator: "==", values: [a]}]}}`, "serviceSelector =="},
	{"In without values", `{namespaceSelector: {matchExpressions: [{key: tenant, operator: In}]}}`, "namespaceSelector values"},
	{"a key that no label can have", `{namespaceSelector: {matchLabels: {"a b": c}}}`, "namespaceSelector a b"},
	{"a value that no label can have", `{serviceSelector: {matchLabels: {app: "läuft, oder?"}}}`, "serviceSelector läuft"},
	{"a selector of ServiceCIDRs", `{serviceCIDRSelector: {matchExpressions: [{key: "", operator: Exists}]}}`, "serviceCIDRSelector"},
	{"an address and a range that has it", `{reservations: [{name: a, address: 10.96.0.0/28}, {name: b, address: 10.96.0.10}]}`, "reservations overlap a b"},
	{"ranges that overlap, IPv6", `{reservations: [{name: a, address: "fd00::10-fd00::20"}, {name: b, address: "fd00::20-fd00::30"}]}`, "reservations overlap fd00::20"},
	{"1,025 addresses in both families", `{reservations: [{name: a, address: 10.96.0.0/23}, {name: b, address: "fd00::/119"}, {name: c, address: 10.97.0.1}]}`,
		"reservations 024"},
	{"everything at once", `{namespaceSelector: {matchExpressions: [{key: tenant, operator: Is}]}, serviceSelector: {matchLabels: {"a b": c}},
		reservations: [{name: a, address: 10.96.0.0/30}, {name: b, address: 10.96.0.2}]}`, "namespaceSelector serviceSelector overlap"},
	{"a claim on everybody's range", `{priority: -1000, serviceCIDRs: [sane], exclusive: true, serviceSelector: {matchExpressions: [{key: a, operator: Is}]}}`,
		"serviceSelector Is"},
}

// If a webhook guards, what no cluster could follow is not stored. Otherwise the operator reports
// each such policy, and follows those that make sense, also when it starts in the middle of that.
var _ = Describe("A policy that makes no sense", Ordered, ContinueOnFailure, func() {
	const sane = `{serviceCIDRs: [sane], serviceSelector: {matchLabels: {tenant: sane}}, exclusive: true, onFull: Fail,
		reservations: [{name: four, address: 10.155.0.5}, {name: six, address: "fd00:10:155::5"}]}`
	n := 0

	BeforeAll(func(ctx SpecContext) {
		c.OfferRange(ctx, "sane", nil, "10.155.0.0/24", "fd00:10:155::/120")
		c.AddPolicy(ctx, "sane", sane)
		c.WaitProgrammed(ctx, "sane")
	})

	It("is refused, every mistake at once, also as a change of a good one", func(ctx SpecContext) {
		c.AddPolicy(ctx, "good", `{priority: 1}`)
		for _, m := range mistakes {
			refused := And(MatchError(apierrors.IsForbidden, "IsForbidden"), MatchError(cluster.ContainAll(strings.Fields(m.words)...)))
			Expect(c.TryPolicy(ctx, "mistake", m.spec)).To(refused, m.what)
			Expect(c.TryPolicyChange(ctx, "good", m.spec)).To(refused, m.what)
		}
		Expect(c.Policy(ctx, "mistake")).To(BeNil())
		c.WaitCondition(ctx, "good", cluster.Accepted, "True")
	})

	expectSane := func(ctx SpecContext) {
		GinkgoHelper()
		n++
		c.WaitCondition(ctx, "sane", cluster.Accepted, "True")
		c.WaitCondition(ctx, "sane", cluster.Programmed, "True")
		c.WaitCondition(ctx, "sane", cluster.Conflicting, "False")
		Expect(c.KeptBy(ctx, "sane")).To(ConsistOf("10.155.0.5", "fd00:10:155::5"))
		service := c.CreateService(ctx, fmt.Sprintf("sane-%d", n), framework.RequireDualStack(), framework.WithLabel("tenant", "sane"))
		Expect(service.Spec.ClusterIPs).To(ConsistOf(HavePrefix("10.155.0."), HavePrefix("fd00:10:155::")))
		for _, address := range []string{"10.155.0.5", "fd00:10:155::5"} {
			c.ExpectTaken(ctx, address, cluster.Asking(cluster.Namespace, "thief", address))
		}
	}

	It("says itself what is wrong if nobody has looked at it, disturbs no other, and can be put right", Label("long"), func(ctx SpecContext) {
		name := func(i int) string { return fmt.Sprintf("junk-%02d", i) }
		c.WithoutWebhooks(ctx, func() {
			for i, m := range mistakes {
				c.AddPolicy(ctx, name(i), m.spec)
			}
		})
		for i, m := range mistakes {
			c.WaitCondition(ctx, name(i), cluster.Accepted, "False", strings.Fields(m.words)...)
			Expect(c.PolicyCondition(ctx, name(i), cluster.Accepted).Reason).To(Equal("Invalid"))
		}
		expectSane(ctx)
		Expect(c.Replicas()[0].Kill()).To(Succeed())
		c.StartReplicas(ctx)
		expectSane(ctx)

		Expect(c.TryPolicyChange(ctx, name(0), `{namespaceSelector: null, serviceSelector: {matchLabels: {nobody: has}}}`)).To(Succeed())
		c.WaitCondition(ctx, name(0), cluster.Accepted, "True")
		for i := range mistakes {
			c.DropPolicy(ctx, name(i))
		}
		expectSane(ctx)
	})
})

// A selector that cannot be read opens nothing. Without a webhook, a misspelt one can be stored.
var _ = Describe("An exclusive policy whose selector cannot be read any more", Label("all"), func() {
	It("keeps its ranges for the Services that it selected last, and from all when no replica remembers; and says so", func(ctx SpecContext) {
		c.OfferRange(ctx, "slip", nil, "10.156.0.0/24", "fd00:10:156::/120")
		c.AddPolicy(ctx, "slip", `{serviceCIDRs: [slip], serviceSelector: {matchLabels: {tenant: slip}}, exclusive: true}`)
		c.WaitProgrammed(ctx, "slip")
		c.WithoutWebhooks(ctx, func() {
			Expect(c.TryPolicyChange(ctx, "slip", `{serviceSelector: {matchLabels: null, matchExpressions: [{key: tenant, operator: In}]}}`)).To(Succeed())
		})
		n := 0
		expect := func(stranger, tenant OmegaMatcher) {
			GinkgoHelper()
			for _, address := range []string{"10.156.0.%d", "fd00:10:156::%d"} {
				n++
				try := func(options ...framework.ServiceOption) error {
					s := cluster.Asking(cluster.Namespace, fmt.Sprint("slip-", n), fmt.Sprintf(address, n))
					for _, o := range options {
						o(s)
					}
					_, err := c.Try(ctx, s)
					if err == nil {
						c.DeleteServices(ctx, s)
					}
					return err
				}
				Expect(try()).To(stranger, address)
				Expect(try(framework.WithLabel("tenant", "slip"))).To(tenant, address)
			}
		}
		refused := MatchError(ContainSubstring(`ServiceCIDRPolicy "slip"`))
		c.WaitCondition(ctx, "slip", cluster.Accepted, "False", "serviceSelector", "followed as it was in generation 1")
		expect(refused, Succeed())

		c.StopReplicas()
		c.StartReplicas(ctx)
		c.WaitCondition(ctx, "slip", cluster.Accepted, "False", "serviceSelector", "closed to all")
		expect(refused, refused)

		Expect(c.TryPolicyChange(ctx, "slip", `{serviceSelector: {matchLabels: {tenant: slip}, matchExpressions: null}}`)).To(Succeed())
		c.WaitCondition(ctx, "slip", cluster.Accepted, "True")
		expect(refused, Succeed())
	})
})

// What may become right without a change of the policy, or concerns two policies, is accepted, and
// a condition reports it. What conflicts is decided in tables (internal/steering).
var _ = Describe("A policy that cannot have what it wants", Label("all"), Ordered, ContinueOnFailure, func() {
	It("waits for a range that does not exist, says so, and has it when it comes", func(ctx SpecContext) {
		c.AddPolicy(ctx, "early", `{serviceCIDRs: [late-4, late-6], serviceSelector: {matchLabels: {tenant: early}}, onFull: Fail,
			reservations: [{name: a, address: 10.121.0.20, for: default/early-reserved}]}`)
		c.WaitCondition(ctx, "early", cluster.Programmed, "False", "late-4", "late-6")
		early := framework.WithLabel("tenant", "early")
		// The policy says Fail and has no range.
		c.ExpectRefused(ctx, "early", cluster.Dual(cluster.Namespace, "early-1", early))
		c.ExpectNoted(ctx, "early", "no ready range")

		c.CreateServiceCIDR(ctx, "late-4", "10.121.0.0/24")
		c.WaitCondition(ctx, "early", cluster.Programmed, "False", "late-6")
		c.CreateServiceCIDR(ctx, "late-6", "fd00:10:121::/120")
		c.WaitProgrammed(ctx, "early")
		service := c.Create(ctx, cluster.Dual(cluster.Namespace, "early-2", early))
		Expect(service.Spec.ClusterIPs).To(ConsistOf(HavePrefix("10.121.0."), HavePrefix("fd00:10:121::")))
		Expect(c.CreateService(ctx, "early-reserved").Spec.ClusterIP).To(Equal("10.121.0.20"), "a reservation is handed out whoever steers")
	})

	It("gives nothing from a range that is being deleted, says so, and does not hold it", func(ctx SpecContext) {
		c.OfferRange(ctx, "leaving", nil, "10.122.0.0/24", "fd00:10:122::/120")
		holder := c.HoldAddress(ctx, "leaving-holder", "10.122.0.200", "fd00:10:122::c8")
		c.DeleteServiceCIDRs(ctx, "leaving")
		c.AddPolicy(ctx, "leaver", `{serviceCIDRs: [leaving], serviceSelector: {matchLabels: {tenant: leaver}}, onFull: Fail, coolDown: 1h,
			reservations: [{name: a, address: 10.122.0.20}, {name: b, address: "fd00:10:122::20"}]}`)
		c.WaitCondition(ctx, "leaver", cluster.Programmed, "False", "leaving", "delet")
		c.ExpectRefused(ctx, "leaver", cluster.Dual(cluster.Namespace, "leaver-1", framework.WithLabel("tenant", "leaver")))
		c.ExpectNoted(ctx, "leaver", "no ready range")
		c.DeleteServices(ctx, holder)
		Eventually(c.Remaining).WithArguments(ctx, "leaving").Should(BeEmpty(), "neither a reservation nor an address that cools down keeps a range")
		c.WaitCondition(ctx, "leaver", cluster.Programmed, "False", "leaving")
	})

	// The addresses are static: another Service of this cluster may hold one of the dynamic band.
	It("loses reserved addresses to a better policy, names it, and has the rest until the better one goes", func(ctx SpecContext) {
		c.AddPolicy(ctx, "first", `{priority: 10, reservations: [{name: a, address: 10.96.0.208/30, for: default/first-a}, {name: six, address: "fd00:10:96::d0"}]}`)
		c.WaitProgrammed(ctx, "first")
		const second = `{priority: 5, reservations: [
			{name: b, address: 10.96.0.210-10.96.0.213, for: default/second-b}, {name: six, address: "fd00:10:96::cf-fd00:10:96::d1"}]}`
		Expect(c.TryPolicy(ctx, "second", second)).To(MatchError(cluster.ContainAll(`"first"`, "10.96.0.210", "fd00:10:96::d0")), "it can be told at once")

		By("or with a condition, where nobody looks at new policies")
		c.WithoutWebhooks(ctx, func() { c.AddPolicy(ctx, "second", second) })
		c.WaitCondition(ctx, "second", cluster.Conflicting, "True", "first", "10.96.0.208-10.96.0.211", "fd00:10:96::d0")
		c.WaitCondition(ctx, "first", cluster.Conflicting, "False")
		for address, owner := range map[string]string{
			"10.96.0.210": "first", "10.96.0.211": "first", "10.96.0.212": "second", "10.96.0.213": "second",
			"fd00:10:96::cf": "second", "fd00:10:96::d0": "first", "fd00:10:96::d1": "second",
		} {
			Eventually(c.Owner).WithArguments(ctx, address).Should(Equal("servicecidrpolicies /"+owner), address)
		}
		c.ExpectTaken(ctx, "10.96.0.211", cluster.Asking(cluster.Namespace, "second-b", "10.96.0.211"))
		Expect(c.CreateService(ctx, "second-b").Spec.ClusterIP).To(BeElementOf("10.96.0.212", "10.96.0.213"))

		c.DropPolicy(ctx, "first")
		c.WaitCondition(ctx, "second", cluster.Conflicting, "False")
		for _, address := range []string{"10.96.0.210", "fd00:10:96::d0"} {
			Eventually(c.Owner).WithArguments(ctx, address).Should(Equal("servicecidrpolicies /second"))
		}
	})
})
