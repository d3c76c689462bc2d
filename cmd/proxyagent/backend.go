//go:build linux

package main

import (
	"context"
	"errors"
	"fmt"
	"strings"

	"github.com/go-logr/logr"

	v1alpha1 "github.com/clusterip-operator/clusterip-operator/api/config/v1alpha1"
	agentbackend "github.com/clusterip-operator/clusterip-operator/proxyagent/backend"
	"github.com/clusterip-operator/clusterip-operator/proxyagent/config"
	"github.com/clusterip-operator/clusterip-operator/proxyagent/ipset"
	"github.com/clusterip-operator/clusterip-operator/proxyagent/iptables"
	"github.com/clusterip-operator/clusterip-operator/proxyagent/ipvs"
	"github.com/clusterip-operator/clusterip-operator/proxyagent/model"
	"github.com/clusterip-operator/clusterip-operator/proxyagent/nftables"
)

// backend is how Services are served: a variant of iptables, native, or balanced, which has IPVS
// choose endpoints and is native in all else.
type backend string

const (
	native   backend = "nftables"
	balanced backend = "ipvs"
	none     backend = "" // serves nothing: that of a family that the configuration leaves out
)

// mode is what kube-proxy would call it.
func (b backend) mode() string {
	if b.tables() {
		return string(b)
	}
	return "iptables"
}

// tables reports whether it writes tables of nftables.
func (b backend) tables() bool { return b == native || b == balanced }

// choice is a backend, and why: a word for the metric, and a clause for messages after "because".
type choice struct {
	backend
	reason, why string
}

// choose follows the configuration.
func choose(ctx context.Context, c v1alpha1.ProxyAgentConfiguration) (choice, error) {
	picked := choice{backend(c.Mode), "Configured", "mode " + c.Mode + " is configured"}
	switch c.Mode {
	case string(native):
		return picked, nil
	case string(balanced):
		return picked, errors.Join(nftables.Usable(model.IPv4), ipvs.Usable(model.Scheduler(c.IPVS.Scheduler), c.SysctlRoot), prepareIPVS(c))
	case "auto":
		n := node{unusable: nftables.Usable(model.IPv4), iptables: iptables.Find(ctx)}
		if n.unusable == nil {
			n.table, n.unusable = hasTable()
		}
		if picked = auto(n); picked.backend == native {
			return picked, nil
		}
	}
	var want iptables.Mode
	if c.IPTables.Mode != "auto" {
		want = iptables.Mode(c.IPTables.Mode)
	}
	variant, why, err := iptables.Detect(ctx, want)
	return choice{backend(variant), picked.reason, fmt.Sprintf("%s; iptables-%s because %s", picked.why, variant, why)}, err
}

// hasTable reports whether an agent serves, or served, with nftables here.
func hasTable() (bool, error) {
	var all []string
	for _, f := range []model.Family{model.IPv4, model.IPv6} {
		found, err := nftables.Cleanup(f, false, true)
		if err != nil && hasFamily(f) {
			return false, err
		}
		all = append(all, found...)
	}
	return len(all) > 0, nil
}

// node is what decides mode auto.
type node struct {
	unusable error // why nftables cannot be used; nil when it can
	table    bool  // of an agent
	iptables iptables.Found
}

// auto chooses nftables unless other programs use iptables: the kernel evaluates the rules of both,
// and an admin looks for all of them in one place. An agent that served before has decided that
// already, unless its rules can no longer do all: nodes must not differ by whether a pod with a
// hostPort, say, came before the agent's last restart or after.
func auto(n node) choice {
	switch f := n.iptables; {
	case n.unusable != nil:
		return choice{"", "NFTablesUnusable", "nftables cannot be used: " + n.unusable.Error()}
	case len(f.Drops) > 0:
		return choice{"", "ForwardDrops", "the chain FORWARD drops in " + strings.Join(f.Drops, ", ") + ", where only a rule of iptables can let Services pass"}
	case n.table && !f.Ours:
		return choice{native, "ServedBefore", "an agent has served with nftables here before"}
	case f.Ours && !n.table:
		return choice{"", "ServedBefore", "an agent has served with iptables here before"}
	case len(f.Hidden) > 0:
		return choice{"", "RulesHidden", "what iptables has cannot be read, and FORWARD may drop there what no rule of iptables lets pass: " + strings.Join(f.Hidden, ", ")}
	case len(f.Others) > 0:
		return choice{"", "RulesOfOthers", "other programs have rules of iptables: " + strings.Join(f.Others, ", ")}
	default:
		return choice{native, "NoRulesOfOthers", "no other program has rules of iptables: none of filter, none of network plugins or proxies elsewhere, and FORWARD accepts"}
	}
}

func (b backend) open(o iptables.Options, c v1alpha1.ProxyAgentConfiguration) (agentbackend.Backend, error) {
	if !b.tables() {
		o.Mode = iptables.Mode(b)
		return iptables.New(o)
	}
	rules, err := nftables.New(o.Family, o.Generations, o.FullCheck)
	if b == native || err != nil {
		return rules, err
	}
	former, err := nftables.Cleanup(o.Family, false, true)
	if err != nil {
		return nil, err
	}
	return ipvs.New(ipvs.Options{
		Family: o.Family, Rules: rules, Scheduler: model.Scheduler(c.IPVS.Scheduler), Exclude: config.ExcludeCIDRs(c), Drain: c.IPVS.DrainTimeout.Duration, FullCheck: o.FullCheck,
		Timeouts:    ipvs.Timeouts{TCP: c.IPVS.TCPTimeout.Duration, TCPFin: c.IPVS.TCPFinTimeout.Duration, UDP: c.IPVS.UDPTimeout.Duration},
		Translating: len(former) > 0,
	})
}

// cleanOthers removes what an earlier agent left of another backend, or of a family since left out.
func cleanOthers(ctx context.Context, f model.Family, b backend) {
	var did []string
	var err error
	if !b.tables() {
		did, err = nftables.Cleanup(f, false, false)
	}
	if b != balanced {
		more, problem := ipvs.Cleanup(ctx, ipvs.CleanupOptions{Family: f})
		did, err = append(did, more...), errors.Join(err, problem)
	}
	for _, m := range []iptables.Mode{iptables.NFT, iptables.Legacy} {
		if backend(m) == b {
			continue
		}
		more, problem := iptables.Cleanup(ctx, iptables.CleanupOptions{Family: f, Modes: []iptables.Mode{m}})
		did, err = append(did, more...), errors.Join(err, problem)
	}
	if (b.tables() || b == none) && err == nil {
		more, problem := cleanSets(ctx, f)
		did, err = append(did, more...), problem
	}
	log := logr.FromContextOrDiscard(ctx).WithValues("family", f)
	if err != nil && ctx.Err() == nil {
		log.Error(err, "Taking away what is left of an agent that served otherwise")
	}
	if len(did) > 0 {
		log.Info("Took away what an earlier agent left that served otherwise", "what", did)
	}
}

func cleanSets(ctx context.Context, f model.Family) ([]string, error) {
	sets, err := ipset.Open()
	if err != nil {
		return nil, err
	}
	defer sets.Close()
	return iptables.Cleanup(ctx, iptables.CleanupOptions{Family: f, Sets: sets})
}
