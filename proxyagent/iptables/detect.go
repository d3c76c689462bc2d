package iptables

import (
	"bytes"
	"context"
	"fmt"
	"os"
	"os/exec"
	"strings"

	"github.com/clusterip-operator/clusterip-operator/proxyagent/model"
)

// evidence is what indicates the variant of iptables that a node uses.
type evidence struct {
	hint     map[Mode]bool // a chain that the kubelet leaves for this purpose (KEP-3178)
	rules    map[Mode]int  // rules of Kubernetes, of network plugins and so on
	others   int           // those of network plugins and other proxies alone
	standard Mode          // the variant of the program "iptables"; empty when there is none
	there    map[Mode]bool // whose programs are installed
}

// choose picks the variant, and says why. Whoever else writes rules on a node should use the same one: where both are in use, the kernel evaluates
// both, in an order that is not defined.
func choose(e evidence) (Mode, string, error) {
	for _, m := range []Mode{NFT, Legacy} {
		if e.hint[m] && !e.hint[m.other()] && e.there[m] {
			return m, "the kubelet left its hint there", nil
		}
	}
	for _, m := range []Mode{NFT, Legacy} {
		if e.rules[m] > e.rules[m.other()] && e.there[m] {
			return m, fmt.Sprintf("%d rules are there already", e.rules[m]), nil
		}
	}
	switch {
	case e.standard != "" && e.there[e.standard]:
		return e.standard, "the program iptables is of this variant", nil
	case e.there[NFT]:
		return NFT, "it is installed", nil
	case e.there[Legacy]:
		return Legacy, "it is installed", nil
	default:
		return "", "", fmt.Errorf("neither iptables-nft nor iptables-legacy is in PATH: install the package iptables (1.8 or later)")
	}
}

// Detect chooses the variant that this node uses. A mode that is not empty is taken as it is, if its programs are installed.
func Detect(ctx context.Context, want Mode) (mode Mode, why string, err error) {
	if want != "" {
		if _, err := newRunner(want, model.IPv4); err != nil {
			return "", "", err
		}
		return want, "it was asked for", nil
	}
	return choose(gatherEvidence(ctx))
}

// Usable returns why the tables of a family cannot be used; nil when they can.
func Usable(ctx context.Context, m Mode, f model.Family) error {
	r, err := newRunner(m, f)
	if err != nil {
		return err
	}
	_, err = r.Save(ctx, "nat")
	return err
}

// RulesOfOthers counts the rules of network plugins and other proxies, of both variants and families. The kubelet's KUBE-FIREWALL, which has nothing to do with Services, is not
// among them: every node has it.
func RulesOfOthers(ctx context.Context) int {
	return gatherEvidence(ctx).others
}

// gatherEvidence looks at the node. What cannot be read does not count.
func gatherEvidence(ctx context.Context) evidence {
	e := evidence{hint: map[Mode]bool{}, rules: map[Mode]int{}, there: map[Mode]bool{}}
	for _, m := range []Mode{NFT, Legacy} {
		for _, f := range []model.Family{model.IPv4, model.IPv6} {
			if _, err := newRunner(m, f); err != nil {
				continue
			}
			e.there[m] = true
			if m == NFT || LegacyInUse(f) {
				text, _ := Save(ctx, m, f)
				e.weigh(m, text)
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

// LegacyInUse reports whether the kernel has legacy tables in this network namespace. iptables-legacy-save would create them, with a cost for
// every packet.
func LegacyInUse(f model.Family) bool {
	path := "/proc/thread-self/net/ip_tables_names" // the first thread, of /proc/net, may be in another namespace
	if f == model.IPv6 {
		path = "/proc/thread-self/net/ip6_tables_names"
	}
	names, err := os.ReadFile(path)
	return err == nil && len(bytes.TrimSpace(names)) > 0
}

// weigh counts the rules of those that configure a node's network.
func (e *evidence) weigh(m Mode, text []byte) {
	for line := range strings.Lines(string(text)) {
		switch {
		case strings.HasPrefix(line, ":KUBE-IPTABLES-HINT "), strings.HasPrefix(line, ":KUBE-KUBELET-CANARY "):
			e.hint[m] = true
		case strings.HasPrefix(line, "-A KUBE-"), strings.HasPrefix(line, "-A CNI-"), strings.HasPrefix(line, "-A cali-"),
			strings.HasPrefix(line, "-A FLANNEL-"), strings.HasPrefix(line, "-A CILIUM_"):
			e.rules[m]++
			if !strings.HasPrefix(line, "-A KUBE-FIREWALL ") {
				e.others++
			}
		}
	}
}
