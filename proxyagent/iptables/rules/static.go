package rules

import (
	"fmt"
	"net/netip"
	"slices"

	"github.com/clusterip-operator/clusterip-operator/proxyagent/model"
)

// facts are what the chains that exist always depend on beside the Globals.
type facts struct {
	nodePorts  bool // there are any
	firewalled bool // any load balancer IP has source ranges
	health     bool // there are health check node ports
}

// staticChains returns the chains that exist always, but for those where lookups begin.
//
// In the table filter they do not change with endpoints. They look only at packets that were not
// translated: what has a usable endpoint never gets to the sets.
func staticChains(g model.Globals, f facts) map[chain][]string {
	return map[chain][]string{
		{nat, chainServices}:    services(g, f),
		{nat, chainPostrouting}: postrouting(g),
		{nat, chainMasquerade}:  {fmt.Sprintf("-j MARK --xor-mark %#x", 1<<g.MasqueradeBit), "-j MASQUERADE --random-fully"},

		{filter, chainInput}:       input(g, f),
		{filter, chainForward}:     forward(g),
		{filter, chainOutput}:      {toNew},
		{filter, chainNew}:         newConnections(g),
		{filter, chainVIPFilter}:   vipFilter(g),
		{filter, chainPortsFilter}: nodePortFilter(g),
	}
}

// services are the rules that new connections meet first. A chain that ends without a target
// returns here after any number of gotos, behind the jump: node ports are tried after virtual IPs.
func services(g model.Globals, f facts) []string {
	var rules []string
	if f.firewalled {
		// Not translated, such a packet meets the same set in the table filter, which drops it.
		rules = append(rules, fmt.Sprintf("-m set --match-set %s dst,dst -m set ! --match-set %s dst,dst,src -j RETURN",
			setFirewalled.of(g.Family), setAllowed.of(g.Family)))
	}
	rules = append(append(rules, masqueradeClusterIPs(g)...), "-j "+chainVIPs)
	if f.nodePorts {
		rules = append(rules, toNodePorts(g, "", chainNodePorts)...)
	}
	return rules
}

// toNodePorts jumps to a chain with what matches more and is sent to an address with node ports.
func toNodePorts(g model.Globals, more, chain string) []string {
	if g.NodePortAny {
		return []string{notLoopback(g) + more + "-m addrtype --dst-type LOCAL -j " + chain}
	}
	var rules []string
	for _, a := range g.NodePortAddrs {
		rules = append(rules, fmt.Sprintf("-d %s %s-j %s", model.Single(a), more, chain))
	}
	return rules
}

// notLoopback is the match that leaves out loopback addresses without node ports. ::1 never has
// any: IPv6 has no route_localnet, so no packet to it can leave the interface translated.
func notLoopback(g model.Globals) string {
	switch {
	case g.Family == model.IPv6:
		return "! -d ::1/128 "
	case g.LocalhostNodePorts:
		return ""
	default:
		return "! -d 127.0.0.0/8 "
	}
}

// masqueradeClusterIPs marks what clients that are no local pods send to ClusterIPs: endpoints see
// the node's address instead of the client's, so that answers come back this way.
func masqueradeClusterIPs(g model.Globals) []string {
	set := fmt.Sprintf("-m set --match-set %s dst,dst %s", setClusterIPs.of(g.Family), setMark(g.MasqueradeBit))
	if g.MasqueradeAll {
		return []string{set}
	}
	if others := localSource(g.LocalSource, true); others != "" {
		return []string{others + " " + set}
	}
	return nil
}

func postrouting(g model.Globals) []string {
	return []string{
		marked(g) + "-j " + chainMasquerade,
		fmt.Sprintf("-m set --match-set %s dst,dst,src -m conntrack --ctstate DNAT -j MASQUERADE --random-fully", setHairpin.of(g.Family)),
	}
}

// marked matches packets that are marked for masquerading.
func marked(g model.Globals) string {
	return fmt.Sprintf("-m mark --mark %#x/%#[1]x ", 1<<g.MasqueradeBit)
}

// untranslated matches the first packets of connections that nat has left alone.
const untranslated = "-m conntrack --ctstate NEW -m conntrack ! --ctstate DNAT "

const toNew = untranslated + "-j " + chainNew

func input(g model.Globals, f facts) []string {
	var rules []string
	if atLoopback(g) {
		// Node ports at 127.0.0.1 need route_localnet: neighbours could reach all there (CVE-2020-8558).
		rules = append(rules, "! -s 127.0.0.0/8 -d 127.0.0.0/8 -m conntrack ! --ctstate RELATED,ESTABLISHED,DNAT -j DROP")
	}
	if f.health {
		rules = append(rules, fmt.Sprintf("-p tcp -m set --match-set %s dst -j ACCEPT", setHealth.of(g.Family)))
	}
	rules = append(rules, toNew)
	if f.nodePorts {
		rules = append(rules, toNodePorts(g, untranslated, chainPortsFilter)...)
	}
	return rules
}

// atLoopback reports whether node ports are served at any of 127.0.0.0/8.
func atLoopback(g model.Globals) bool {
	return g.Family == model.IPv4 && (g.LocalhostNodePorts || slices.ContainsFunc(g.NodePortAddrs, netip.Addr.IsLoopback))
}

// forward lets through what is marked and what belongs to a connection, whatever the policy of
// FORWARD. The first packet of a connection that keeps its source address is left to that policy,
// as in kube-proxy. Nearly all packets match the rule for established ones, so it comes first.
//
// Only the first packet of a connection passes nat and has the mark. As long as no endpoint
// answers, as to syslog or statsd over UDP, the next ones are new as well: they are known by the
// address that the first one got, which it gets behind this chain. So they were let through before.
// The road not taken, to let through all that is translated to an endpoint, would let packets pass
// network policies that come later in FORWARD, and those that other programs translate.
func forward(g model.Globals) []string {
	rules := []string{
		"-m conntrack --ctstate RELATED,ESTABLISHED -j ACCEPT",
		toNew,
	}
	if !g.KeepInvalid {
		// An untranslated packet outside the window resets the connection (kubernetes/kubernetes#74839).
		rules = append(rules, "-m conntrack --ctstate INVALID -j DROP")
	}
	return append(rules, marked(g)+"-j ACCEPT", "-m conntrack --ctstate DNAT -m conntrack --ctstate SNAT -j ACCEPT")
}

func newConnections(g model.Globals) []string {
	rules := []string{fmt.Sprintf("-m set --match-set %s dst -j %s", setVIPs.of(g.Family), chainVIPFilter)}
	for _, r := range g.Ranges { // what the node itself has there, such as its DNS cache, is no Service's
		rules = append(rules, fmt.Sprintf("-d %s -m set ! --match-set %s dst -m addrtype ! --dst-type LOCAL -j DROP", r, setAllocated.of(g.Family)))
	}
	return rules
}

func vipFilter(g model.Globals) []string {
	refused := fmt.Sprintf("-m set --match-set %s dst,dst ", setRefused.of(g.Family))
	// An address of the node itself has other ports than those of Services.
	active := fmt.Sprintf("-m set --match-set %s dst -m addrtype ! --dst-type LOCAL ", setActive.of(g.Family))
	return []string{
		fmt.Sprintf("-m set --match-set %s dst,dst -j DROP", setFirewalled.of(g.Family)),
		"-p tcp " + refused + reset,
		refused + unreachable,
		fmt.Sprintf("-m set --match-set %s dst,dst -j DROP", setDropped.of(g.Family)),
		"-p tcp " + active + reset,
		active + unreachable,
	}
}

// How connections are refused. TCP gets a reset and not, like the rest, an ICMP message: those are
// limited to one in a second for each client (icmp_ratelimit), are filtered by some networks, and
// with IPv6 connect() ignores one that arrives at once, until its second SYN a second later.
const (
	reset       = "-j REJECT --reject-with tcp-reset"
	unreachable = "-j REJECT"
)

func nodePortFilter(g model.Globals) []string {
	var rules []string
	for _, p := range model.Protocols {
		refuse := unreachable
		if p == model.TCP {
			refuse = reset
		}
		rules = append(rules,
			fmt.Sprintf("-p %s -m set --match-set %s dst %s", lower(p), setRefused.ofNodePorts(p).of(g.Family), refuse),
			fmt.Sprintf("-p %s -m set --match-set %s dst -j DROP", lower(p), setDropped.ofNodePorts(p).of(g.Family)))
	}
	return rules
}
