//go:build linux

package iptables

import (
	"fmt"
	"maps"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/clusterip-operator/clusterip-operator/proxyagent/iptables/rules"
	"github.com/clusterip-operator/clusterip-operator/proxyagent/model"
	"github.com/clusterip-operator/clusterip-operator/test/framework/network"
	"github.com/clusterip-operator/clusterip-operator/test/framework/plans"
)

// hide adds a rule to a built-in chain that iptables cannot show, so that iptables-save shows
// nothing of the table. With iptables-legacy there is no such rule: what it has, it has written
// itself.
func hide(t *testing.T, f model.Family, table, chain string) (show func()) {
	t.Helper()
	family := map[model.Family]string{model.IPv4: "ip", model.IPv6: "ip6"}[f]
	run(t, "nft", "add", "rule", family, table, chain, "ct state vmap { established : accept, related : accept }")
	hidden := true
	show = func() {
		t.Helper()
		if hidden {
			deleteRule(t, family, table, chain, "vmap {")
		}
		hidden = false
	}
	t.Cleanup(show)
	return show
}

// deleteRule deletes the first rule of a chain that holds a text.
func deleteRule(t *testing.T, family, table, chain, text string) {
	t.Helper()
	for line := range strings.Lines(output(t, "nft", "-a", "list", "chain", family, table, chain)) {
		if rule, handle, _ := strings.Cut(strings.TrimSpace(line), " # handle "); strings.Contains(rule, text) && handle != "" {
			run(t, "nft", "delete", "rule", family, table, chain, "handle", handle)
			return
		}
	}
	t.Fatalf("%s %s %s has no rule with %q", family, table, chain, text)
}

// jumpsIn counts the jumps from a built-in chain to a chain of ours.
func jumpsIn(t *testing.T, f model.Family, table, from, to string) int {
	t.Helper()
	family := map[model.Family]string{model.IPv4: "ip", model.IPv6: "ip6"}[f]
	return strings.Count(output(t, "nft", "list", "chain", family, table, from), "jump "+to+"\n")
}

// TestATableThatCannotBeShown is not taken for an empty one: nothing is written into it because of
// what was read, its jumps are kept, changes of Services go on, also over a restart, and the agent
// tells it as long as it lasts.
func TestATableThatCannotBeShown(t *testing.T) {
	for table, jumps := range map[rules.Table]map[string]string{
		"filter": {"INPUT": "CIPA-INPUT", "FORWARD": "CIPA-FORWARD", "OUTPUT": "CIPA-OUTPUT"},
		"nat":    {"PREROUTING": "CIPA-SERVICES", "OUTPUT": "CIPA-SERVICES", "POSTROUTING": "CIPA-POSTROUTING"},
	} {
		t.Run(string(table), func(t *testing.T) {
			eachNFT(t, func(t *testing.T, p *Proxier) {
				f, random, now := p.options.Family, plans.New(11, p.options.Family), time.Now()
				syncOne(t, p, plans.Whole(random.Plan))
				check := func() []string {
					t.Helper()
					now = now.Add(time.Hour)
					found, err := p.Check(t.Context(), now)
					must(t, err)
					return found
				}
				once := func() {
					t.Helper()
					for from, to := range jumps {
						if n := jumpsIn(t, f, string(table), from, to); n != 1 {
							t.Errorf("%s has %d jumps to %s", from, n, to)
						}
					}
				}
				show := hide(t, f, string(table), slices.Sorted(maps.Keys(jumps))[0])
				told := []model.Degradation{{Table: string(table), Reason: model.TableUnreadable}}
				for range 3 {
					if found := check(); found != nil {
						t.Errorf("repaired %q", found)
					}
					if got := p.Degraded(); !slices.Equal(got, told) {
						t.Errorf("told %v, want %v", got, told)
					}
				}
				once()
				syncOne(t, p, random.Step(20))
				again := newProxier(t, NFT, f)
				syncOne(t, again, plans.Whole(random.Plan))
				syncOne(t, again, random.Step(20))
				p = again
				check()
				if !slices.Equal(p.Degraded(), told) {
					t.Errorf("after a restart it told %v", p.Degraded())
				}
				once()

				from := slices.Sorted(maps.Keys(jumps))[1]
				iptables(t, p, "-t", string(table), "-D", from, "-j", jumps[from])
				if found := check(); !slices.Equal(found, []string{"jump from " + from}) {
					t.Errorf("a jump that is gone: repaired %q", found)
				}
				once()

				show()
				agree(t, p)
				if found := check(); found != nil || p.Degraded() != nil {
					t.Errorf("what can be read again: repaired %q, told %v", found, p.Degraded())
				}
			})
		})
	}
}

// TestAStartBesideATableThatCannotBeShown has the rule there before the agent: all is served, and
// every jump is there once.
func TestAStartBesideATableThatCannotBeShown(t *testing.T) {
	eachNFT(t, func(t *testing.T, p *Proxier) {
		f := p.options.Family
		iptables(t, p, "-S") // makes the chains
		iptables(t, p, "-A", "FORWARD", "-j", "ACCEPT")
		t.Cleanup(func() { iptables(t, p, "-F", "FORWARD") })
		show := hide(t, f, "filter", "FORWARD")
		random := plans.New(12, f)
		syncOne(t, p, plans.Whole(random.Plan))
		for range 3 {
			syncOne(t, newProxier(t, NFT, f), plans.Whole(random.Plan))
		}
		show()
		agree(t, p)
	})
}

// TestCleanupOfATableThatCannotBeShown takes away what has a name that is always the same, also a
// jump that is there twice, which is all of the table filter; of the table nat it says what stays.
func TestCleanupOfATableThatCannotBeShown(t *testing.T) {
	for table, from := range map[string]string{"filter": "FORWARD", "nat": "OUTPUT"} {
		t.Run(table, func(t *testing.T) {
			eachNFT(t, func(t *testing.T, p *Proxier) {
				f := p.options.Family
				syncOne(t, p, plans.Whole(plans.New(11, f).Plan))
				hide(t, f, table, from)
				iptables(t, p, "-t", table, "-I", from, "-j", map[string]string{"filter": "CIPA-FORWARD", "nat": "CIPA-SERVICES"}[table])
				before := output(t, "nft", "list", "ruleset")
				o := CleanupOptions{Family: f, Modes: []Mode{Legacy, NFT}, Sets: p.options.Sets, DryRun: true}
				if did, err := Cleanup(t.Context(), o); err != nil || !strings.Contains(strings.Join(did, "\n"), "in the table "+table+", which iptables cannot show") {
					t.Errorf("would do %q, %v", did, err)
				}
				o.KubeProxy = true
				if did, err := Cleanup(t.Context(), o); err == nil || !strings.Contains(err.Error(), "chains in it and the sets that they name stay") {
					t.Errorf("of kube-proxy's: would do %q, %v", did, err)
				}
				if after := output(t, "nft", "list", "ruleset"); after != before {
					t.Errorf("only asked what it would do, it left\n%s", after)
				}
				o.DryRun, o.KubeProxy = false, false
				did, err := Cleanup(t.Context(), o)
				if (err != nil) != (table == "nat") || err != nil && !strings.Contains(err.Error(), "`nft list table ip nat`") {
					t.Errorf("did %q, and failed with %v", did, err)
				}
				after := output(t, "nft", "list", "ruleset")
				if table == "filter" && strings.Contains(after, rules.Prefix) || strings.Contains(after, "jump "+rules.Prefix) || !strings.Contains(after, "ct state vmap") {
					t.Errorf("afterwards there is\n%s", after)
				}
				if sets, err := p.options.Sets.Counts(t.Context(), rules.SetPrefix(f)); err != nil || (len(sets) > 0) != (table == "nat") {
					t.Errorf("afterwards there are the sets %v, %v", sets, err)
				}
			})
		})
	}
}

// eachNFT runs a test for both families with iptables-nft.
func eachNFT(t *testing.T, test func(t *testing.T, p *Proxier)) {
	network.NeedIsolation(t)
	for _, f := range network.Families {
		t.Run(fmt.Sprint(f), func(t *testing.T) {
			p := newProxier(t, NFT, f)
			t.Cleanup(func() { clean(t, p) })
			test(t, p)
		})
	}
}
