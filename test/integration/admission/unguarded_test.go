package admission_test

import (
	"fmt"
	"slices"
	"time"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"

	"github.com/clusterip-operator/clusterip-operator/test/framework"
)

// While no webhook guards, what the schema does not see gets in. The operator says on each such policy what is wrong with it, and goes on
// with those that make sense, also after a start in the middle of all that.
var _ = Describe("Policies that nobody has looked at", Label("all"), Ordered, func() {
	var (
		stored []string // that got in
		words  = map[string][]string{}
	)

	BeforeAll(func(ctx SpecContext) {
		c.OfferRange(ctx, "sane", nil, "10.155.0.0/24", "fd00:10:155::/120")
		c.RemoveWebhooks(ctx)
		for i, mistake := range mistakes {
			name := fmt.Sprintf("junk-%02d", i)
			if err := user.TryPolicy(ctx, name, mistake.spec); err == nil {
				stored = append(stored, name)
				words[name] = mistake.words
			}
		}
		const greedy = `{priority: 1000, serviceCIDRs: [sane], exclusive: true, onFull: Fail, serviceSelector: {matchExpressions: [{key: a, operator: Is}]}}`
		Expect(user.TryPolicy(ctx, "junk-greedy", greedy)).To(Succeed())
		stored, words["junk-greedy"] = append(stored, "junk-greedy"), []string{"serviceSelector", "Is"}
		user.Policy(ctx, "sane", `{serviceCIDRs: [sane], serviceSelector: {matchLabels: {tenant: sane}}, exclusive: true, onFull: Fail,
			reservations: [{name: four, address: 10.155.0.5}, {name: six, address: "fd00:10:155::5"}]}`)
		DeferCleanup(func(ctx SpecContext) {
			for _, name := range stored {
				user.DeletePolicy(ctx, name)
			}
			if !c.HasWebhooks(ctx) {
				c.AddWebhooks(ctx)
			}
		})
		AddReportEntry("stored", stored)
	})

	It("say themselves what is wrong", func(ctx SpecContext) {
		Expect(stored).NotTo(BeEmpty(), "selectors are beyond a schema")
		for _, name := range stored {
			user.EventuallySays(ctx, name, accepted, "False", words[name]...)
			Expect(user.Condition(ctx, name, accepted).Reason).To(Equal("Invalid"))
		}
	})

	sane := func(ctx SpecContext, name string) {
		GinkgoHelper()
		user.EventuallySays(ctx, "sane", accepted, "True")
		user.EventuallySays(ctx, "sane", programmed, "True")
		Expect(user.Condition(ctx, "sane", conflicting).Status).To(BeEquivalentTo("False"))
		Expect(c.KeptBy(ctx, "sane")).To(ConsistOf("10.155.0.5", "fd00:10:155::5"))
		service := c.CreateService(ctx, name, framework.RequireDualStack(), framework.WithLabel("tenant", "sane"))
		Expect(service.Spec.ClusterIPs).To(ConsistOf(HavePrefix("10.155.0."), HavePrefix("fd00:10:155::")))
		refusedFor(ctx, name+"-thief", "10.155.0.5", "sane")
		refusedFor(ctx, name+"-thief", "fd00:10:155::5", "sane")
	}

	It("do not disturb the others, nor a manager that starts among them", func(ctx SpecContext) {
		c.AddWebhooks(ctx)
		sane(ctx, "sane-1")
		Expect(c.Replicas()[0].Kill()).To(Succeed())
		c.StartReplicas(ctx)
		sane(ctx, "sane-2")
	})

	It("can be put right, and deleted", func(ctx SpecContext) {
		Expect(user.TryChange(ctx, stored[0], `{namespaceSelector: null, serviceSelector: {matchLabels: {nobody: has}}, serviceCIDRSelector: null}`)).To(Succeed())
		user.EventuallySays(ctx, stored[0], accepted, "True")
		for _, name := range stored {
			user.DeletePolicy(ctx, name)
		}
		Eventually(func() bool {
			return slices.ContainsFunc(user.Policies(ctx), func(name string) bool { return slices.Contains(stored, name) })
		}).WithTimeout(5 * time.Second).Should(BeFalse())
		sane(ctx, "sane-3")
	})
})
