//go:build linux

package robustness_test

import (
	"context"
	"fmt"
	"strings"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"

	"github.com/clusterip-operator/clusterip-operator/test/e2e/internal/ruleset"
)

// foreignRules are those of a network plugin, an admin, and somebody whose names look like ours.
const foreignRules = `*raw
-A PREROUTING -p tcp -m tcp --dport 9 -j ACCEPT
COMMIT
*mangle
:FOREIGN-MARK - [0:0]
-A PREROUTING -j FOREIGN-MARK
-A FOREIGN-MARK -p tcp -m tcp --dport 9 -j MARK --set-xmark 0x1/0xffffffff
COMMIT
*nat
:PARTY - [0:0]
:XCIPA-SERVICES - [0:0]
:pa-services - [0:0]
-A PREROUTING -m comment --comment "not ours -j CIPA-SERVICES" -j PARTY
-A PREROUTING -p tcp -m tcp --dport 9 -m comment --comment "counts -j CIPA-SERVICES"
-A OUTPUT -p tcp -m tcp --dport 9 -j XCIPA-SERVICES
-A POSTROUTING -p tcp -m tcp --dport 9 -j MASQUERADE
-A PARTY -p tcp -m tcp --dport 9 -j pa-services
-A pa-services -m comment --comment "CIPA-SERVICES" -j RETURN
COMMIT
*filter
:FOREIGN - [0:0]
-A INPUT -p tcp -m tcp --dport 9 -m comment --comment "CIPA-INPUT" -j DROP
-A INPUT -m comment --comment "\"-A INPUT -j CIPA-INPUT\"" -j FOREIGN
-A FORWARD -m set --match-set %s src -j FOREIGN
-A FOREIGN -m comment --comment "goes nowhere -g CIPA-NEW" -j RETURN
COMMIT
`

// plantForeign writes rules of others, in both variants, and sets.
func (env *fixture) plantForeign(ctx context.Context) {
	GinkgoHelper()
	for family, kind := range map[string]string{"": "inet", "6": "inet6"} {
		set := "XCIPA-" + kind
		member := map[string]string{"": "198.51.100.66", "6": "2001:db8:51::66"}[family]
		env.Feed(ctx, fmt.Sprintf("create %s hash:ip family %s\nadd %[1]s %[3]s\n", set, kind, member), "ipset", "restore")
		for _, variant := range []string{"nft", "legacy"} {
			env.Feed(ctx, fmt.Sprintf(foreignRules, set), "ip"+family+"tables-"+variant+"-restore", "--noflush", "-w", "20")
		}
	}
	env.foreign = env.Rules(ctx)
	Expect(env.foreign).To(HaveLen(5), "all programs but nft show rules")
	Expect(env.foreign.Of(ruleset.Agent)).To(BeEmpty())
	Expect(strings.Count(env.foreign["iptables-nft-save"], "\n-A ")).To(Equal(strings.Count(foreignRules, "\n-A ")))
}
