package robustness_test

import (
	"context"
	"fmt"
	"strings"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"

	"github.com/clusterip-operator/clusterip-operator/test/e2e/internal/environment"
)

// oldNAT and oldFilter are what an agent of another version may have left: %[1]s is a set.
const (
	oldNAT = `*mangle
:CIPA-OLD-MANGLE - [0:0]
-A PREROUTING -j CIPA-OLD-MANGLE
-A CIPA-OLD-MANGLE -p tcp -m tcp --dport 7 -j MARK --set-xmark 0x2/0xffffffff
COMMIT
*nat
:CIPA-OLD - [0:0]
:CIPA-OLD-LEAF - [0:0]
-A PREROUTING -m comment --comment "from an older version" -j CIPA-OLD
-A OUTPUT -p tcp -m tcp --dport 80 -j CIPA-OLD
-A CIPA-OLD -m set --match-set %[1]s dst,dst -g CIPA-OLD-LEAF
-A CIPA-OLD -p tcp -m tcp --dport 80 -j RETURN
-A CIPA-OLD-LEAF -p tcp -m tcp --dport 80 -j REDIRECT --to-ports 1
COMMIT
*filter
:CIPA-OLD - [0:0]
-A INPUT -j CIPA-OLD
-A CIPA-OLD -p tcp -m tcp --dport 7 -j DROP
COMMIT
`
	// sameNames has chains that the agent uses, with other rules, and jumps where it wants none.
	sameNames = `*nat
:CIPA-SERVICES - [0:0]
:CIPA-VIPS - [0:0]
:CIPA-POSTROUTING - [0:0]
-A PREROUTING -p tcp -j CIPA-SERVICES
-A POSTROUTING -j CIPA-SERVICES
-A CIPA-SERVICES -p tcp -m tcp --dport 80 -j RETURN
-A CIPA-SERVICES -j CIPA-VIPS
-A CIPA-POSTROUTING -p tcp -m tcp --dport 7 -j MASQUERADE
COMMIT
*filter
:CIPA-FORWARD - [0:0]
:CIPA-NEW - [0:0]
-A FORWARD -j CIPA-FORWARD
-A FORWARD -j CIPA-FORWARD
-A INPUT -j CIPA-FORWARD
-A CIPA-FORWARD -j CIPA-NEW
-A CIPA-NEW -p tcp -m tcp --dport 80 -j DROP
COMMIT
`
)

// clean takes the agent's rules away.
func (env *fixture) clean(ctx context.Context) {
	GinkgoHelper()
	env.Cleanup(ctx)
	Expect(env.Ours(ctx)).To(BeEmpty())
}

// restart stops the agent, adds leftovers, starts it again, and expects the rules of a clean start.
func (env *fixture) restart(ctx context.Context, leave func()) {
	GinkgoHelper()
	clean := env.stableRules(ctx)
	Expect(env.Agent.Stop()).To(Succeed())
	env.clean(ctx)
	leave()
	Expect(env.Ours(ctx)).NotTo(BeEmpty())
	Expect(env.Agent.Start(ctx)).To(Succeed())
	env.Served(env.busy, env.calls)
	Eventually(func() string { return clean.Diff(env.Ours(ctx)) }).WithTimeout(environment.Soon).Should(BeEmpty())
}

var _ = both("An agent that finds what an older one left", func(env *fixture) {
	feed := func(ctx context.Context, text string) {
		for _, family := range environment.Families {
			env.Restore(ctx, family, env.Mode, text)
		}
	}

	It("takes other chains, jumps and sets away", func(ctx SpecContext) {
		env.restart(ctx, func() {
			for family, kind := range map[string]string{"": "inet", "6": "inet6"} {
				set := map[string]string{"": "CIPA-4-OLD", "6": "CIPA-6-OLD"}[family]
				env.Run(ctx, "ipset", "create", set, "hash:ip,port", "family", kind)
				env.Run(ctx, "ipset", "create", set+"2", "hash:net,iface", "family", kind)
				env.Restore(ctx, family, env.Mode, fmt.Sprintf(oldNAT, set))
			}
		})
	})

	It("replaces chains of the same names", func(ctx SpecContext) {
		env.restart(ctx, func() { feed(ctx, sameNames) })
	})

	It("replaces sets of the same names and of another kind", Label("long"), func(ctx SpecContext) {
		sets := env.sets(ctx)
		Expect(sets).NotTo(BeEmpty())
		env.restart(ctx, func() {
			for _, set := range sets {
				family := "inet"
				if strings.Contains(set, "-6-") {
					family = "inet6"
				}
				env.Run(ctx, "ipset", "create", set, "hash:net,iface", "family", family)
			}
			feed(ctx, "*nat\n:CIPA-OLD - [0:0]\n-A CIPA-OLD -p tcp -m tcp --dport 7 -j RETURN\nCOMMIT\n")
		})
	})

	It("takes the rules of the other variant away", func(ctx SpecContext) {
		other := map[string]string{"nft": "legacy", "legacy": "nft"}[env.Mode]
		env.restart(ctx, func() {
			options := env.Options
			options.Mode = other
			agent, err := env.Cluster.StartProxyAgent(ctx, options)
			Expect(err).NotTo(HaveOccurred())
			Expect(env.Ours(ctx)).To(HaveKey("iptables-" + other + "-save"))
			Expect(agent.Kill()).To(Succeed())
		})
	})

	// A chain that a foreign rule jumps to cannot be removed; the agent serves all the same.
	It("serves although a rule of others leads to an old chain", func(ctx SpecContext) {
		Expect(env.Agent.Stop()).To(Succeed())
		env.clean(ctx)
		feed(ctx, "*nat\n:CIPA-OLD - [0:0]\n:THIRD - [0:0]\n-A THIRD -j CIPA-OLD\n-A CIPA-OLD -p tcp -m tcp --dport 7 -j RETURN\nCOMMIT\n")
		Expect(env.Agent.Start(ctx)).To(Succeed())
		env.Served(env.busy)
		feed(ctx, "*nat\n-F THIRD\n-X THIRD\nCOMMIT\n")
		Eventually(func() string { return env.Ours(ctx).String() }).WithTimeout(environment.Soon).ShouldNot(ContainSubstring("CIPA-OLD"))
	})
}, "all")
