package iptables

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"maps"
	"os"
	"os/exec"
	"regexp"
	"slices"
	"strings"

	"github.com/clusterip-operator/clusterip-operator/proxyagent/iptables/rules"
	"github.com/clusterip-operator/clusterip-operator/proxyagent/model"
)

// evidence is what indicates the variant of iptables that a node uses.
type evidence struct {
	drops    map[Mode]bool // a chain FORWARD that drops
	hint     map[Mode]bool // a chain that the kubelet leaves for this purpose (KEP-3178)
	rules    map[Mode]int  // rules of Kubernetes, of network plugins, of firewalls
	found    Found
	standard Mode          // the variant of the program "iptables"; empty when there is none
	there    map[Mode]bool // whose programs are installed
}

// choose picks the variant, and says why. All programs that write rules on a node should use the
// same one: where both are in use, the kernel evaluates both, in an undefined order.
func choose(e evidence) (Mode, string, error) {
	for _, sign := range []struct {
		of  func(m, other Mode) bool
		why string
	}{
		{func(m, other Mode) bool { return e.drops[m] && !e.drops[other] }, "its FORWARD drops, and no rule elsewhere could let Services pass"},
		{func(m, other Mode) bool { return e.hint[m] && !e.hint[other] }, "the kubelet left its hint there"},
		{func(m, other Mode) bool { return e.rules[m] > e.rules[other] }, fmt.Sprintf("%d rules are there already", max(e.rules[NFT], e.rules[Legacy]))},
		{func(m, _ Mode) bool { return m == e.standard }, "the program iptables is of this variant"},
		{func(Mode, Mode) bool { return true }, "it is installed"},
	} {
		for _, m := range []Mode{NFT, Legacy} {
			if e.there[m] && sign.of(m, m.other()) {
				return m, sign.why, nil
			}
		}
	}
	return "", "", errors.New("neither iptables-nft nor iptables-legacy is in PATH: install the package iptables (1.8 or later)")
}

// Detect chooses the variant that this node uses. A mode that is given only has to be installed.
func Detect(ctx context.Context, want Mode) (mode Mode, why string, err error) {
	if want != "" {
		if _, err := newRunner(want, model.IPv4); err != nil {
			return "", "", err
		}
		return want, "it is configured", nil
	}
	return choose(gatherEvidence(ctx))
}

// Found is what the node has in tables of iptables, of both variants and families.
type Found struct {
	// Ours is true where chains of the agent are there.
	Ours bool
	// Drops names the tables filter whose chain FORWARD drops or rejects what it does not know.
	// Only rules of iptables let Services pass there: what a table of nftables accepts, another one
	// may still drop.
	Drops []string
	// Others names the tables with rules of other programs, and how many: all of filter, and those of
	// network plugins and proxies in the rest. The kubelet's KUBE-FIREWALL, which has nothing to do
	// with Services, is not among them: every node has it.
	Others []string
	// Hidden names what cannot be read: a table with a rule that only nft can show, or all tables
	// where iptables-save fails. All of the above may be there.
	Hidden []string
}

// Find looks at the node.
func Find(ctx context.Context) Found { return gatherEvidence(ctx).found }

// gatherEvidence looks at the node.
func gatherEvidence(ctx context.Context) evidence {
	e := evidence{drops: map[Mode]bool{}, hint: map[Mode]bool{}, rules: map[Mode]int{}, there: map[Mode]bool{}}
	for _, m := range []Mode{NFT, Legacy} {
		for _, f := range []model.Family{model.IPv4, model.IPv6} {
			if _, err := newRunner(m, f); err != nil {
				continue
			}
			e.there[m] = true
			if m == NFT || LegacyInUse(f) {
				text, err := Save(ctx, m, f)
				if err != nil {
					e.found.Hidden = append(e.found.Hidden, fmt.Sprintf("all of iptables-%s of %s (%v)", m, f, err))
				}
				e.weigh(m, f, text)
			}
		}
	}
	if version, err := exec.CommandContext(ctx, "iptables", "--version").Output(); err == nil {
		e.standard = Legacy
		if bytes.Contains(version, []byte("nf_tables")) {
			e.standard = NFT
		}
	}
	return e
}

// LegacyInUse reports whether the kernel has legacy tables in this network namespace. It does not
// run iptables-legacy-save, which would create them and make every packet pass them.
func LegacyInUse(f model.Family) bool {
	path := "/proc/thread-self/net/ip_tables_names" // the first thread, of /proc/net, may be in another namespace
	if f == model.IPv6 {
		path = "/proc/thread-self/net/ip6_tables_names"
	}
	names, err := os.ReadFile(path)
	return err == nil && len(bytes.TrimSpace(names)) > 0
}

// weigh counts the rules of the programs that configure a node's network.
func (e *evidence) weigh(m Mode, f model.Family, text []byte) {
	table, others := "", map[string]int{}
	for line := range strings.Lines(string(text)) {
		switch {
		case strings.HasPrefix(line, "*"):
			table = strings.TrimSpace(line[1:])
		case strings.HasPrefix(line, ":KUBE-IPTABLES-HINT "), strings.HasPrefix(line, ":KUBE-KUBELET-CANARY "):
			e.hint[m] = true
		case strings.HasPrefix(line, ":"+rules.Prefix):
			e.found.Ours = true
		case table == "filter" && forwardDrops.MatchString(line):
			e.drops[m] = true
			e.found.Drops = append(e.found.Drops, fmt.Sprintf("iptables-%s of %s", m, f))
		}
		counts := ofNetwork.MatchString(line) || table == "filter" && isOthers(line)
		if counts {
			e.rules[m]++
		}
		if counts && isOthers(line) {
			others[table]++
		}
	}
	for _, table := range rules.Unreadable(text) {
		if slices.Contains(rules.Tables, table) { // no other one decides
			e.found.Hidden = append(e.found.Hidden, fmt.Sprintf("%s of iptables-%s of %s", table, m, f))
		}
	}
	for _, table := range slices.Sorted(maps.Keys(others)) {
		e.found.Others = append(e.found.Others, fmt.Sprintf("%d in %s of iptables-%s of %s", others[table], table, m, f))
	}
}

var (
	// forwardDrops is the policy of FORWARD, or a rule of it that knows no exception.
	forwardDrops = regexp.MustCompile(`^(:FORWARD DROP|-A FORWARD -j (DROP|REJECT))\b`)
	// ofNetwork are the rules in the chains of Kubernetes and of network plugins.
	ofNetwork = regexp.MustCompile(`^-A (KUBE-|CNI-|cali-|FLANNEL-|CILIUM_)`)
	// uncounted are the rules of the kubelet and ours, and those that lead to them.
	uncounted = regexp.MustCompile(`^-A (KUBE-FIREWALL|` + rules.Prefix + `\S+) | -j (KUBE-FIREWALL|` + rules.Prefix + `\S+)$`)
)

func isOthers(line string) bool {
	return strings.HasPrefix(line, "-A ") && !uncounted.MatchString(strings.TrimSpace(line))
}
