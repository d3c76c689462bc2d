//go:build linux

package main

import (
	"context"
	"errors"
	"fmt"

	"github.com/go-logr/logr"

	v1alpha1 "github.com/clusterip-operator/clusterip-operator/api/config/v1alpha1"
	"github.com/clusterip-operator/clusterip-operator/proxyagent"
	"github.com/clusterip-operator/clusterip-operator/proxyagent/config"
	"github.com/clusterip-operator/clusterip-operator/proxyagent/ipset"
	"github.com/clusterip-operator/clusterip-operator/proxyagent/iptables"
	"github.com/clusterip-operator/clusterip-operator/proxyagent/ipvs"
	"github.com/clusterip-operator/clusterip-operator/proxyagent/model"
	"github.com/clusterip-operator/clusterip-operator/proxyagent/nftables"
)

// backend is how Services are served: a variant of iptables, native, or balanced, which has IPVS choose endpoints and is native in all else.
type backend string

const (
	native   backend = "nftables"
	balanced backend = "ipvs"
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

// choice is a backend and why it is taken: a word for the metric, and a sentence for people.
type choice struct {
	backend
	reason, why string
}

// choose follows the configuration. Where others serve with iptables, auto does too: the kernel evaluates the rules of both, and people look for all of them in one place.
func choose(ctx context.Context, c v1alpha1.ProxyAgentConfiguration) (choice, error) {
	picked := choice{native, "Configured", "it was asked for"}
	if c.Mode == "auto" {
		others := iptables.RulesOfOthers(ctx)
		if err := nftables.Usable(model.IPv4); err != nil {
			picked = choice{"", "NFTablesUnusable", "nftables cannot be used: " + err.Error()}
		} else if others > 0 {
			picked = choice{"", "RulesOfOthers", fmt.Sprintf("others have %d rules of iptables", others)}
		} else {
			picked = choice{native, "NoRulesOfOthers", "nobody else has rules of iptables"}
		}
	}
	if c.Mode == string(balanced) {
		return choice{balanced, picked.reason, picked.why}, errors.Join(nftables.Usable(model.IPv4), ipvs.Usable(model.Scheduler(c.IPVS.Scheduler), c.SysctlRoot), prepareIPVS(c))
	}
	if c.Mode == string(native) || c.Mode == "auto" && picked.backend == native {
		return picked, nil
	}
	variant, detected, err := iptables.Detect(ctx, map[bool]iptables.Mode{false: iptables.Mode(c.IPTables.Mode)}[c.IPTables.Mode == "auto"])
	return choice{backend(variant), picked.reason, picked.why + "; " + detected}, err
}

// usable returns why a family cannot be served; nil when it can.
func (b backend) usable(ctx context.Context, f model.Family) error {
	if b.tables() {
		return nftables.Usable(f)
	}
	return iptables.Usable(ctx, iptables.Mode(b), f)
}

func (b backend) open(o iptables.Options, c v1alpha1.ProxyAgentConfiguration) (proxyagent.Backend, error) {
	if !b.tables() {
		o.Mode = iptables.Mode(b)
		return iptables.New(o)
	}
	rules, err := nftables.New(o.Family, o.Generations, o.FullCheck)
	if b == native || err != nil {
		return rules, err
	}
	former, err := nftables.Cleanup(o.Family, true)
	if err != nil {
		return nil, err
	}
	return ipvs.New(ipvs.Options{
		Family: o.Family, Spoke: rules, Scheduler: model.Scheduler(c.IPVS.Scheduler), Exclude: config.ExcludeCIDRs(c), Drain: c.IPVS.DrainTimeout.Duration, FullCheck: o.FullCheck,
		Timeouts:    ipvs.Timeouts{TCP: c.IPVS.TCPTimeout.Duration, TCPFin: c.IPVS.TCPFinTimeout.Duration, UDP: c.IPVS.UDPTimeout.Duration},
		Translating: len(former) > 0,
	})
}

// cleanOthers removes what an earlier agent has left that served otherwise.
func cleanOthers(ctx context.Context, f model.Family, b backend) {
	var did []string
	var err error
	if !b.tables() {
		did, err = nftables.Cleanup(f, false)
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
	if b.tables() && err == nil {
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
