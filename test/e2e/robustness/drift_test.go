//go:build linux

package robustness_test

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"time"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"

	"github.com/clusterip-operator/clusterip-operator/test/e2e/internal/stage"
	"github.com/clusterip-operator/clusterip-operator/test/framework/network"
)

// slowly is within what time the agent finds what only a comparison of everything shows. It makes one each half minute, but spends no more
// than a three-hundredth of the time on it, whatever one takes.
const slowly = 3 * time.Minute

// mended expects that harm is done, and undone by the agent in time: its rules are as before, to the letter.
func (w *world) mended(ctx context.Context, within time.Duration, harm func()) {
	GinkgoHelper()
	before := w.settled(ctx)
	Expect(w.Agent.Pause()).To(Succeed())
	harm()
	Expect(before.Diff(w.ours(ctx))).NotTo(BeEmpty(), "no harm was done")
	Expect(w.Agent.Resume()).To(Succeed())
	Eventually(func() string { return before.Diff(w.ours(ctx)) }).
		WithTimeout(within).WithPolling(200 * time.Millisecond).Should(BeEmpty())
	w.Served(w.busy)
}

// jumps are where built-in chains lead to the agent's.
var jumps = []struct{ table, rule string }{
	{"nat", "PREROUTING -j CIPA-SERVICES"},
	{"filter", "FORWARD -j CIPA-FORWARD"},
	{"nat", "OUTPUT -j CIPA-SERVICES"},
	{"filter", "INPUT -j CIPA-INPUT"},
	{"nat", "POSTROUTING -j CIPA-POSTROUTING"},
	{"filter", "OUTPUT -j CIPA-OUTPUT"},
}

var _ = both("An agent whose rules others change", func(the func() *world) {
	var w *world
	BeforeEach(func(ctx SpecContext) {
		w = the()
		w.reset(ctx)
	})
	repairs := func(ctx context.Context) float64 { return w.Metric(ctx, "drift_repairs_total") }

	It("mends half of its chains, flushed", func(ctx SpecContext) {
		before := repairs(ctx)
		w.mended(ctx, stage.Repair, func() {
			for _, family := range families {
				for _, table := range []string{"nat", "filter"} {
					for i, chain := range w.chains(ctx, family, table) {
						if i%2 == 0 {
							w.edit(ctx, family, table, "-F "+chain)
						}
					}
				}
			}
		})
		Expect(repairs(ctx)).To(BeNumerically(">", before))
	})

	It("makes all of its chains anew after a firewall that flushes everything", func(ctx SpecContext) {
		w.mended(ctx, stage.Repair, func() {
			for _, family := range families {
				for _, table := range []string{"nat", "filter"} {
					w.edit(ctx, family, table, w.removal(ctx, family, table)...)
				}
			}
		})
	})

	It("puts each of its jumps back, once and where it was", func(ctx SpecContext) {
		for pair := range slices.Chunk(jumps, 2) {
			w.mended(ctx, stage.Repair, func() {
				for _, family := range families {
					for _, jump := range pair {
						w.edit(ctx, family, jump.table, "-D "+jump.rule)
					}
				}
			})
		}
	})

	It("takes away a jump that is there twice", func(ctx SpecContext) {
		w.mended(ctx, stage.Repair, func() {
			for _, family := range families {
				w.edit(ctx, family, "nat", "-A "+jumps[0].rule)
			}
		})
	})

	It("mends a chain that lost one rule", func(ctx SpecContext) {
		w.mended(ctx, stage.Repair, func() {
			for _, family := range families {
				w.edit(ctx, family, "nat", strings.Replace(w.rule(ctx, family, "-j DNAT"), "-A", "-D", 1))
			}
		})
	})

	It("takes a rule out of its chains that stops all others", func(ctx SpecContext) {
		w.mended(ctx, stage.Repair, func() {
			for _, family := range families {
				w.edit(ctx, family, "nat", "-I CIPA-SERVICES 1 -j RETURN")
			}
			for _, f := range network.Families {
				Expect(w.Pod1.Dial(network.Probe{To: stage.VIP(w.busy, f), Timeout: network.DropTimeout})).NotTo(stage.End(network.Connected))
			}
		})
	})

	It("fills its sets again when they were flushed", func(ctx SpecContext) {
		w.mended(ctx, stage.Repair, func() {
			for _, set := range w.sets(ctx) {
				w.Run(ctx, "ipset", "flush", set)
			}
		})
	})

	It("puts back one member of a set, and takes out a stranger", func(ctx SpecContext) {
		vip := stage.VIP(w.busy, network.Families[0]).Addr()
		set := w.setWith(ctx, "hash:ip ", vip.String())
		w.mended(ctx, stage.Repair, func() { w.Run(ctx, "ipset", "del", set, vip.String()) })
		w.mended(ctx, stage.Repair, func() { w.Run(ctx, "ipset", "add", set, "203.0.113.250") })
	})

	It("mends what is broken while the API server is down", func(ctx SpecContext) {
		Expect(w.Cluster.API.Kill()).To(Succeed())
		defer func() { Expect(w.Cluster.API.Start(ctx)).To(Succeed()) }()
		w.mended(ctx, stage.Repair, func() {
			for _, family := range families {
				for _, chain := range w.chains(ctx, family, "nat") {
					w.edit(ctx, family, "nat", "-F "+chain)
				}
			}
			for _, set := range w.sets(ctx) {
				w.Run(ctx, "ipset", "flush", set)
			}
		})
	})

	It("is not led into endless repairs by others who change their own rules", func(ctx SpecContext) {
		before := repairs(ctx)
		for range 20 {
			for _, family := range families {
				w.edit(ctx, family, "nat", "-A PARTY -p tcp -m tcp --dport 10 -j RETURN")
				w.edit(ctx, family, "nat", "-D PARTY -p tcp -m tcp --dport 10 -j RETURN")
			}
		}
		Consistently(func() float64 { return repairs(ctx) }).WithTimeout(2 * time.Second).Should(Equal(before))
	})

	// The number and the size of rules stay the same, which is all that legacy iptables tells at a glance.
	It("mends a rule that was replaced by another one of the same size", Label("soak"), func(ctx SpecContext) {
		w.mended(ctx, slowly, func() {
			for _, family := range families {
				rule := w.rule(ctx, family, "-j DNAT")
				number := w.number(ctx, family, rule)
				body := strings.Fields(strings.Replace(rule, ":8080", ":8081", 1))
				w.edit(ctx, family, "nat", fmt.Sprintf("-R %s %d %s", body[1], number, strings.Join(body[2:], " ")))
			}
		})
	})
})

// removal returns the lines that take the agent's chains of a table away.
func (w *world) removal(ctx context.Context, family, table string) []string {
	GinkgoHelper()
	var unhook, flush, remove []string
	for _, jump := range jumps {
		if jump.table == table {
			unhook = append(unhook, "-D "+jump.rule)
		}
	}
	for _, chain := range w.chains(ctx, family, table) {
		flush, remove = append(flush, "-F "+chain), append(remove, "-X "+chain)
	}
	return slices.Concat(unhook, flush, remove)
}

// rule returns a rule of the agent in the table nat that contains something, as iptables-save prints it.
func (w *world) rule(ctx context.Context, family, something string) string {
	GinkgoHelper()
	for _, line := range w.lines(ctx, family, "nat") {
		if strings.HasPrefix(line, "-A CIPA-") && strings.Contains(line, something) {
			return line
		}
	}
	Fail("there is no rule of the agent with " + something)
	return ""
}

// number returns which rule of its chain it is, from 1.
func (w *world) number(ctx context.Context, family, rule string) (n int) {
	GinkgoHelper()
	chain := strings.Join(strings.Fields(rule)[:2], " ") + " "
	for _, line := range w.lines(ctx, family, "nat") {
		if strings.HasPrefix(line, chain) {
			n++
		}
		if line == rule {
			return n
		}
	}
	Fail("it is gone: " + rule)
	return 0
}

// setWith returns the name of a set of the agent, of a type, with a member.
func (w *world) setWith(ctx context.Context, kind, member string) string {
	GinkgoHelper()
	save := w.Run(ctx, "ipset", "save")
	for _, set := range w.sets(ctx) {
		if strings.Contains(save, "create "+set+" "+kind) && strings.Contains(save, "add "+set+" "+member+"\n") {
			return set
		}
	}
	Fail("no set of type " + kind + "has " + member)
	return ""
}
