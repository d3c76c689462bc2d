package cleanup_test

import (
	"slices"
	"strings"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"
	corev1 "k8s.io/api/core/v1"
	eventsv1 "k8s.io/api/events/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/clusterip-operator/clusterip-operator/test/e2e/internal/environment"
)

// What iptables-save prints of such a table is nothing. iptables-legacy cannot have one: all its
// rules are its own.
var _ = It("A table with a rule that only nft can show is told of, and kept by the agent; the clean-up takes away what is known by name", func(ctx SpecContext) {
	env := open(ctx, "nft")
	env.StartAgent(ctx)
	env.Served(env.web)
	for _, family := range environment.Families {
		env.Run(ctx, "nft", "add", "rule", "ip"+family, "filter", "INPUT", "ct state vmap { established : accept, related : accept }")
	}
	Eventually(func() float64 { return env.Metric(ctx, "degraded_tables") }).WithTimeout(environment.Soon).Should(Equal(2.0))
	Eventually(func(g Gomega) {
		events, err := env.Cluster.Client().EventsV1().Events(metav1.NamespaceDefault).List(ctx, metav1.ListOptions{})
		g.Expect(err).NotTo(HaveOccurred())
		for _, family := range []string{"IPv4", "IPv6"} {
			g.Expect(slices.ContainsFunc(events.Items, func(e eventsv1.Event) bool {
				return e.Regarding.Kind == "Node" && e.Regarding.Name == env.Name && e.Reason == "TableUnreadable" && e.Type == corev1.EventTypeWarning &&
					strings.HasPrefix(e.Note, "table filter of "+family+": ")
			})).To(BeTrue(), family)
		}
	}).WithTimeout(environment.Soon).Should(Succeed())

	By("serving what changes, while others write")
	env.Endpoints(ctx, env.web, environment.Endpoint{Of: env.Pod2})
	for range 5 {
		env.Run(ctx, "nft", "add table inet other; delete table inet other")
		for _, family := range environment.Families {
			Expect(strings.Count(env.Run(ctx, "nft", "list", "chain", "ip"+family, "filter", "INPUT"), "jump CIPA-INPUT\n")).To(Equal(1))
		}
	}
	env.Served(env.web)
	Expect(env.Metric(ctx, "sync_proxy_rules_iptables_restore_failures_total")).To(BeZero())

	By("cleaning up")
	Expect(env.Agent.Kill()).To(Succeed())
	Expect(env.Cleanup(ctx)).To(ContainSubstring("in the table filter, which iptables cannot show"))
	for _, family := range environment.Families {
		env.Run(ctx, "nft", "delete", "rule", "ip"+family, "filter", "INPUT", "handle", handle(env.Run(ctx, "nft", "-a", "list", "chain", "ip"+family, "filter", "INPUT")))
	}
	env.clean(ctx)
})

// handle is that of the rule with a map in what nft lists of a chain.
func handle(chain string) string {
	_, rest, _ := strings.Cut(chain, "vmap {")
	_, rest, _ = strings.Cut(rest, "# handle ")
	number, _, _ := strings.Cut(rest, "\n")
	return number
}
