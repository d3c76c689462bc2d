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

	"github.com/clusterip-operator/clusterip-operator/test/e2e/internal/environment"
)

// slowly is within what time the agent finds what only a comparison of everything shows. It makes one each half minute, but spends no more
// than a three-hundredth of the time on it, whatever one takes.
const slowly = 3 * time.Minute

// mended expects that harm is done, and undone by the agent in time: its rules are as before, to the letter.
func (env *fixture) mended(ctx context.Context, within time.Duration, harm func()) {
	GinkgoHelper()
	before := env.stableRules(ctx)
	Expect(env.Agent.Pause()).To(Succeed())
	harm()
	Expect(before.Diff(env.ours(ctx))).NotTo(BeEmpty(), "no harm was done")
	Expect(env.Agent.Resume()).To(Succeed())
	Eventually(func() string { return before.Diff(env.ours(ctx)) }).
		WithTimeout(within).WithPolling(200 * time.Millisecond).Should(BeEmpty())
	env.Served(env.busy)
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

// The single kinds of damage are in TestDriftIsRepaired of package iptables.
var _ = both("An agent whose rules others change", func(env *fixture) {
	repairs := func(ctx context.Context) float64 { return env.Metric(ctx, "drift_repairs_total") }

	It("recreates all of its chains after a firewall flushed everything", func(ctx SpecContext) {
		before := repairs(ctx)
		env.mended(ctx, environment.Repair, func() {
			for _, family := range families {
				for _, table := range []string{"nat", "filter"} {
					env.edit(ctx, family, table, env.removal(ctx, family, table)...)
				}
			}
		})
		Expect(repairs(ctx)).To(BeNumerically(">", before))
	})

	It("mends what is broken while the API server is down", func(ctx SpecContext) {
		Expect(env.Cluster.API.Kill()).To(Succeed())
		defer func() { Expect(env.Cluster.API.Start(ctx)).To(Succeed()) }()
		env.mended(ctx, environment.Repair, func() {
			for _, family := range families {
				for _, chain := range env.chains(ctx, family, "nat") {
					env.edit(ctx, family, "nat", "-F "+chain)
				}
			}
			for _, set := range env.sets(ctx) {
				env.Run(ctx, "ipset", "flush", set)
			}
		})
	})

	It("is not led into endless repairs by others who change their own rules", func(ctx SpecContext) {
		before := repairs(ctx)
		for range 20 {
			for _, family := range families {
				env.edit(ctx, family, "nat", "-A PARTY -p tcp -m tcp --dport 10 -j RETURN")
				env.edit(ctx, family, "nat", "-D PARTY -p tcp -m tcp --dport 10 -j RETURN")
			}
		}
		Consistently(func() float64 { return repairs(ctx) }).WithTimeout(2 * time.Second).Should(Equal(before))
	})

	// The number and the size of rules stay the same, which is all that the cheap probe of legacy iptables sees.
	It("mends a rule that was replaced by another one of the same size", Label("soak"), func(ctx SpecContext) {
		env.mended(ctx, slowly, func() {
			for _, family := range families {
				rule := env.rule(ctx, family, "-j DNAT")
				number := env.number(ctx, family, rule)
				body := strings.Fields(strings.Replace(rule, ":8080", ":8081", 1))
				env.edit(ctx, family, "nat", fmt.Sprintf("-R %s %d %s", body[1], number, strings.Join(body[2:], " ")))
			}
		})
	})
})

// removal returns the lines that take the agent's chains of a table away.
func (env *fixture) removal(ctx context.Context, family, table string) []string {
	GinkgoHelper()
	var unhook, flush, remove []string
	for _, jump := range jumps {
		if jump.table == table {
			unhook = append(unhook, "-D "+jump.rule)
		}
	}
	for _, chain := range env.chains(ctx, family, table) {
		flush, remove = append(flush, "-F "+chain), append(remove, "-X "+chain)
	}
	return slices.Concat(unhook, flush, remove)
}

// rule returns a rule of the agent in the table nat that contains something, as iptables-save prints it.
func (env *fixture) rule(ctx context.Context, family, something string) string {
	GinkgoHelper()
	for _, line := range env.lines(ctx, family, "nat") {
		if strings.HasPrefix(line, "-A CIPA-") && strings.Contains(line, something) {
			return line
		}
	}
	Fail("there is no rule of the agent with " + something)
	return ""
}

// number returns which rule of its chain it is, from 1.
func (env *fixture) number(ctx context.Context, family, rule string) (n int) {
	GinkgoHelper()
	chain := strings.Join(strings.Fields(rule)[:2], " ") + " "
	for _, line := range env.lines(ctx, family, "nat") {
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
