package robustness_test

import (
	"context"
	"slices"
	"strings"
	"time"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"

	"github.com/clusterip-operator/clusterip-operator/test/e2e/internal/environment"
)

// mended expects harm, and its repair by the agent, to the letter. How soon is told, not judged: it
// takes seven programs to look, on a machine that may stall for seconds.
func (env *fixture) mended(ctx context.Context, harm func()) {
	GinkgoHelper()
	before := env.stableRules(ctx)
	Expect(env.Agent.Pause()).To(Succeed())
	harm()
	Expect(before.Diff(env.Ours(ctx))).NotTo(BeEmpty(), "no harm was done")
	Expect(env.Agent.Resume()).To(Succeed())
	start := time.Now()
	Eventually(func() string { return before.Diff(env.Ours(ctx)) }).
		WithTimeout(environment.Soon).WithPolling(200 * time.Millisecond).Should(BeEmpty())
	AddReportEntry("repaired after", time.Since(start), ReportEntryVisibilityFailureOrVerbose)
	env.Served(env.busy)
}

// undo returns what removes printed rules: jumps to the agent's chains, their content, then them.
func undo(save string) string {
	var out, unhook, flush, remove []string
	for line := range strings.SplitSeq(save, "\n") {
		switch chain, is := strings.CutPrefix(line, ":CIPA-"); {
		case is:
			name := "CIPA-" + strings.Fields(chain)[0]
			flush, remove = append(flush, "-F "+name), append(remove, "-X "+name)
		case strings.HasPrefix(line, "-A ") && !strings.HasPrefix(line, "-A CIPA-"):
			unhook = append(unhook, "-D"+strings.TrimPrefix(line, "-A"))
		case strings.HasPrefix(line, "*"):
			out, unhook, flush, remove = append(out, line), nil, nil, nil
		case line == "COMMIT":
			out = slices.Concat(out, unhook, flush, remove, []string{line})
		}
	}
	return strings.Join(out, "\n") + "\n"
}

// The single kinds of damage are in TestDriftIsRepaired of package iptables.
var _ = every("An agent whose rules others change", func(env *fixture) {
	repairs := func(ctx context.Context) float64 { return env.Metric(ctx, "drift_repairs_total") }
	flush := func(ctx context.Context) {
		if env.Mode == environment.Native {
			for _, family := range environment.Families {
				env.Run(ctx, "nft", "flush", "table", "ip"+family, "clusterip-proxyagent")
			}
			return
		}
		ours := env.Ours(ctx)
		for _, family := range environment.Families {
			env.Restore(ctx, family, env.Mode, undo(ours["ip"+family+"tables-"+env.Mode+"-save"]))
		}
		for _, set := range env.sets(ctx) {
			env.Run(ctx, "ipset", "flush", set)
		}
	}

	It("recreates all of its chains and members after a firewall flushed everything", func(ctx SpecContext) {
		before := repairs(ctx)
		env.mended(ctx, func() { flush(ctx) })
		Expect(repairs(ctx)).To(BeNumerically(">", before))
	})

	It("does so while the API server is down", Label("long"), func(ctx SpecContext) {
		Expect(env.Cluster.API.Kill()).To(Succeed())
		defer func() { Expect(env.Cluster.API.Start(ctx)).To(Succeed()) }()
		env.mended(ctx, func() { flush(ctx) })
	})

	It("is not led into endless repairs by others who change their own rules", func(ctx SpecContext) {
		before := repairs(ctx)
		for range 20 {
			for _, family := range environment.Families {
				for _, change := range []string{"-A", "-D"} {
					env.Restore(ctx, family, strings.TrimSuffix(env.Mode, "ables"), "*nat\n"+change+" PARTY -p tcp -m tcp --dport 10 -j RETURN\nCOMMIT\n")
				}
			}
		}
		Consistently(func() float64 { return repairs(ctx) }).WithTimeout(2 * time.Second).Should(Equal(before))
	})
})
