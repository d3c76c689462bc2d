//go:build linux

package iptables

import (
	"context"
	"fmt"
	"os/exec"
	"strings"
	"testing"
	"time"

	rule "github.com/coreos/go-iptables/iptables"

	"github.com/clusterip-operator/clusterip-operator/proxyagent/ipset"
	"github.com/clusterip-operator/clusterip-operator/proxyagent/iptables/rules"
	"github.com/clusterip-operator/clusterip-operator/proxyagent/model"
	"github.com/clusterip-operator/clusterip-operator/test/framework/network"
	"github.com/clusterip-operator/clusterip-operator/test/framework/plans"
)

func TestMain(m *testing.M) { network.Isolate(m) }

// each runs a test for both variants and both families, with a Proxier that finds the kernel empty.
func each(t *testing.T, run func(t *testing.T, p *Proxier)) {
	network.NeedIsolation(t)
	for _, mode := range []Mode{NFT, Legacy} {
		for _, family := range []model.Family{model.IPv4, model.IPv6} {
			t.Run(fmt.Sprintf("%s/%s", mode, family), func(t *testing.T) {
				p := newProxier(t, mode, family)
				t.Cleanup(func() {
					clean(t, p)
				})
				run(t, p)
			})
		}
	}
}

func newProxier(t *testing.T, mode Mode, family model.Family) *Proxier {
	t.Helper()
	sets, err := ipset.Open()
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(sets.Close)
	p, err := New(Options{Mode: mode, Family: family, Sets: sets})
	if err != nil {
		t.Fatal(err)
	}
	return p
}

// clean takes everything away and looks that nothing stays.
func clean(t *testing.T, p *Proxier) {
	t.Helper()
	o := CleanupOptions{Family: p.options.Family, Modes: []Mode{NFT, Legacy}, Sets: p.options.Sets}
	if _, err := Cleanup(context.Background(), o); err != nil {
		t.Errorf("cleaning up: %v", err)
	}
	text, err := p.run.Save(context.Background(), "")
	if err != nil {
		t.Fatal(err)
	}
	if strings.Contains(string(text), rules.Prefix) {
		t.Errorf("after the clean-up there is still:\n%s", text)
	}
	if again, err := Cleanup(context.Background(), o); err != nil || len(again) > 0 {
		t.Errorf("a second clean-up did %q, %v", again, err)
	}
}

func syncOne(t *testing.T, p *Proxier, d model.Delta) bool {
	t.Helper()
	full, err := p.Sync(context.Background(), d)
	if err != nil {
		t.Fatalf("syncing: %v", err)
	}
	return full
}

// agree compares the kernel with what is wanted, without the help of what Sync remembers.
func agree(t *testing.T, p *Proxier) {
	t.Helper()
	s, err := p.read(context.Background(), rules.Tables...)
	if err != nil {
		t.Fatal(err)
	}
	if found := p.rules.Compare(s, &rules.Spellings{}); len(found) > 0 {
		t.Fatalf("the kernel differs in %q; what would be written is\n%s", found, p.rules.Transaction().Text())
	}
	for _, s := range rules.StaticSets(p.options.Family) {
		entries, err := p.options.Sets.Entries(context.Background(), s.Name)
		if err != nil {
			t.Fatal(err)
		}
		if p.rules.CompareMembers(s.Name, entries) {
			t.Fatalf("%s lacks %v, and has %v too many", s.Name, p.rules.Members(false), p.rules.Members(true))
		}
	}
}

// TestKernelFollowsThePlan has the real iptables carry out random histories.
func TestKernelFollowsThePlan(t *testing.T) {
	each(t, func(t *testing.T, p *Proxier) {
		random := plans.New(uint64(p.options.Family), p.options.Family)
		if !syncOne(t, p, plans.Whole(random.Plan)) {
			t.Error("the first sync did not look at the kernel")
		}
		for range 15 {
			if syncOne(t, p, random.Step(1+random.IntN(15))) {
				t.Error("a later sync looked at everything")
			}
			agree(t, p)
		}
		again := newProxier(t, p.options.Mode, p.options.Family)
		syncOne(t, again, plans.Whole(random.Plan))
		if len(again.written) != 0 {
			t.Errorf("a restart wrote rules that were there already: %v", again.written)
		}
		agree(t, again)
	})
}

// TestDriftIsRepaired breaks what is there in many ways.
func TestDriftIsRepaired(t *testing.T) {
	each(t, func(t *testing.T, p *Proxier) {
		random := plans.New(7, p.options.Family)
		syncOne(t, p, plans.Whole(random.Plan))
		syncOne(t, p, random.Step(200))
		now := time.Now()
		check := func() []string {
			t.Helper()
			now = now.Add(time.Minute)
			found, err := p.Check(context.Background(), now)
			if err != nil {
				t.Fatal(err)
			}
			return found
		}
		if found := check(); found != nil {
			t.Fatalf("without drift it repaired %q", found)
		}
		node := oneRule(t, p)
		for name, damage := range map[string]func(){
			"a chain flushed": func() { must(t, node.ClearChain("nat", "CIPA-SERVICES")) },
			"a rule deleted":  func() { must(t, node.DeleteById("nat", "CIPA-POSTROUTING", 1)) },
			"all jumps deleted": func() {
				for from, to := range map[string]string{
					"nat PREROUTING": "CIPA-SERVICES", "nat OUTPUT": "CIPA-SERVICES", "nat POSTROUTING": "CIPA-POSTROUTING",
					"filter INPUT": "CIPA-INPUT", "filter FORWARD": "CIPA-FORWARD", "filter OUTPUT": "CIPA-OUTPUT",
				} {
					table, chain, _ := strings.Cut(from, " ")
					must(t, node.Delete(table, chain, "-j", to))
				}
			},
			"a jump doubled":          func() { must(t, node.Insert("filter", "FORWARD", 1, "-j", "CIPA-FORWARD")) },
			"a rule added":            func() { must(t, node.Insert("nat", "CIPA-VIPS", 1, "-j", "RETURN")) },
			"a chain added":           func() { must(t, node.NewChain("nat", "CIPA-S-FOREIGN")) },
			"the whole table flushed": func() { iptables(t, p, "-t", "nat", "-F") },
			"the other table flushed": func() { iptables(t, p, "-F") },
			"a set flushed":           func() { run(t, "ipset", "flush", rules.SetPrefix(p.options.Family)+"CIP") },
			"a member added": func() {
				run(t, "ipset", "add", rules.SetPrefix(p.options.Family)+"VIP", plans.Address(p.options.Family, 8, 8).String())
			},
			"everything gone": func() {
				iptables(t, p, "-F")
				iptables(t, p, "-t", "nat", "-F")
				iptables(t, p, "-t", "nat", "-X")
				iptables(t, p, "-X")
			},
		} {
			damage()
			if found := check(); len(found) == 0 {
				t.Errorf("%s: nothing was found", name)
			}
			agree(t, p)
			if found := check(); found != nil {
				t.Errorf("%s: still found %q after the repair", name, found)
			}
		}
	})
}

// iptables runs the program that belongs to the Proxier.
func iptables(t *testing.T, p *Proxier, args ...string) {
	t.Helper()
	run(t, strings.TrimSuffix(p.run.save, "-save"), args...)
}

// oneRule changes single rules and chains with the program of the Proxier.
func oneRule(t *testing.T, p *Proxier) *rule.IPTables {
	t.Helper()
	family := map[model.Family]rule.Protocol{model.IPv4: rule.ProtocolIPv4, model.IPv6: rule.ProtocolIPv6}[p.options.Family]
	node, err := rule.New(rule.IPFamily(family), rule.Path(strings.TrimSuffix(p.run.save, "-save")))
	must(t, err)
	return node
}

func must(t *testing.T, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

func run(t *testing.T, program string, args ...string) {
	t.Helper()
	output(t, program, args...)
}

// output returns what a program prints.
func output(t *testing.T, program string, args ...string) string {
	t.Helper()
	out, err := exec.Command(program, args...).CombinedOutput()
	if err != nil {
		t.Fatalf("%s %v: %v: %s", program, args, err, out)
	}
	return string(out)
}
