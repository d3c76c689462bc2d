package rules

import (
	"fmt"
	"maps"
	"net/netip"
	"slices"

	"github.com/clusterip-operator/clusterip-operator/proxyagent/ipset"
	"github.com/clusterip-operator/clusterip-operator/proxyagent/model"
)

// inlineEndpoints is up to how many endpoints the rules of a ClusterIP go straight to DNAT, without a chain of their own. Chains cost more
// than rules: iptables-nft needs four times as long for 30,000 of them.
const inlineEndpoints = 3

// portRules is what one ServicePort adds to the rules: chains of its own, rules in the leaves of both trees, and members of sets. It is a
// pure function of the port and of portGlobals.
type portRules struct {
	chains map[string][]string
	// vips are the rules for its virtual IPs, nodePort those for its node port. They begin with the match on destination and port.
	vips     map[netip.Addr][]string
	nodePort []string
	members  []member
	affinity []string // sets that clients are remembered in
}

// portGlobals are the Globals that the rules of ports depend on: a change of others writes none of them.
type portGlobals struct {
	family        model.Family
	masqueradeBit int
	localSource   model.LocalSource
}

func portGlobalsOf(g model.Globals) portGlobals {
	return portGlobals{family: g.Family, masqueradeBit: g.MasqueradeBit, localSource: g.LocalSource}
}

// member is one entry of one of the sets that exist always.
type member struct {
	set   setName
	entry ipset.Entry
}

// renderPort turns a port into its rules.
func renderPort(g portGlobals, p model.ServicePort) portRules {
	r := portRules{chains: map[string][]string{}, vips: map[netip.Addr][]string{}}
	r.choices(g, p)
	r.clusterIPs(p)
	r.external(g, p)
	r.sets(p)
	return r
}

// choices writes the chains that pick endpoints, if a rule leads to them.
func (r *portRules) choices(g portGlobals, p model.ServicePort) {
	c := choice{port: p.Name, weights: p.Weights, affinity: p.AffinitySeconds, family: g.family, chains: r.chains}
	cluster, local := usesCluster(p), usesLocal(p)
	if cluster {
		c.write(portChain(roleCluster, p.Name), p.Cluster)
	}
	if local {
		c.write(portChain(roleLocal, p.Name), p.Local)
	}
	if p.AffinitySeconds == 0 {
		return
	}
	var all []netip.AddrPort
	if cluster {
		all = p.Cluster
	}
	if local {
		all = union(all, p.Local)
	}
	c.remember(all)
	for _, e := range all {
		r.affinity = append(r.affinity, affinitySet(g.family, p.Name, e))
	}
}

// usesCluster reports whether any rule leads to the chain of all endpoints.
func usesCluster(p model.ServicePort) bool {
	return len(p.Cluster) > 0 && (p.HasExternal() || !p.InternalLocal && len(p.ClusterIPs) > 0 && !inline(p))
}

// usesLocal reports whether any rule leads to the chain of the endpoints on this node.
func usesLocal(p model.ServicePort) bool {
	return len(p.Local) > 0 && (p.ExternalLocal && p.HasExternal() || p.InternalLocal && len(p.ClusterIPs) > 0 && !inline(p))
}

// inline reports whether the rules of the ClusterIPs go straight to DNAT.
func inline(p model.ServicePort) bool {
	return !p.HasExternal() && p.AffinitySeconds == 0 && len(p.Internal()) <= inlineEndpoints
}

// clusterIPs writes the rules of the virtual IPs for traffic from inside.
func (r *portRules) clusterIPs(p model.ServicePort) {
	endpoints := able(p.Internal(), p.Weights)
	if len(endpoints) == 0 {
		return
	}
	role := roleCluster
	if p.InternalLocal {
		role = roleLocal
	}
	for _, vip := range p.ClusterIPs {
		to := destination(vip, p.Name.Protocol, p.Port)
		if !inline(p) {
			r.vips[vip] = []string{to + " -g " + portChain(role, p.Name)}
			continue
		}
		var ways []way
		var weights []int
		for _, e := range endpoints {
			ways = append(ways, func(match string) string { return to + " " + match + "-j DNAT --to-destination " + e.String() })
			weights = append(weights, weight(e, p.Weights))
		}
		r.vips[vip] = atRandom(ways, weights)
	}
}

// external writes the chain for traffic from outside and the rules that lead there.
//
// With externalTrafficPolicy Cluster every client gets the node's address, so that answers come back this way. With Local clients from
// outside keep theirs and are served by endpoints of this node alone; pods of this node and the node itself
// may use all endpoints, the latter with the node's address.
func (r *portRules) external(g portGlobals, p model.ServicePort) {
	if !p.HasExternal() || len(p.Cluster) == 0 && (!p.ExternalLocal || len(p.Local) == 0) {
		return
	}
	chain := portChain(roleExternal, p.Name)
	r.chains[chain] = externalRules(g, p)
	for _, vip := range slices.Concat(p.ExternalIPs, p.LoadBalancerIPs) {
		r.vips[vip] = []string{destination(vip, p.Name.Protocol, p.Port) + " -g " + chain}
	}
	if p.NodePort != 0 {
		r.nodePort = []string{fmt.Sprintf("-p %s --dport %d -g %s", lower(p.Name.Protocol), p.NodePort, chain)}
	}
}

func externalRules(g portGlobals, p model.ServicePort) []string {
	masquerade := setMark(g.masqueradeBit)
	if !p.ExternalLocal {
		return []string{masquerade, "-g " + portChain(roleCluster, p.Name)}
	}
	var rules []string
	if len(p.Cluster) > 0 {
		toCluster := "-g " + portChain(roleCluster, p.Name)
		if from := localSource(g.localSource, false); from != "" {
			rules = append(rules, from+" "+toCluster)
		}
		const fromNode = "-m addrtype --src-type LOCAL "
		rules = append(rules, fromNode+masquerade, fromNode+toCluster)
	}
	if len(p.Local) > 0 {
		rules = append(rules, "-g "+portChain(roleLocal, p.Name))
	}
	return rules
}

// setMark is the target that marks a packet for masquerading.
func setMark(bit int) string {
	return fmt.Sprintf("-j MARK --or-mark %#x", 1<<bit)
}

// localSource is the match for traffic of pods on this node or, with others, of all else; empty where local pods are not known.
func localSource(l model.LocalSource, others bool) string {
	not := ""
	if others {
		not = "! "
	}
	switch {
	case l.CIDR.IsValid():
		return not + "-s " + l.CIDR.String()
	case l.Interface != "":
		return not + "-i " + l.Interface
	case l.InterfacePrefix != "":
		return not + "-i " + l.InterfacePrefix + "+"
	default:
		return ""
	}
}

// destination matches packets to a port of a virtual IP.
func destination(vip netip.Addr, p model.Protocol, port uint16) string {
	return fmt.Sprintf("-d %s -p %s --dport %d", single(vip), lower(p), port)
}

// single is the prefix that holds one address.
func single(a netip.Addr) netip.Prefix { return netip.PrefixFrom(a, a.BitLen()) }

// Describe lists the rules and the members of sets that belong to a port, for people, below a title; none of a port that it does not know.
func (r *Ruleset) Describe(n model.PortName, title string) []string {
	port, ok := r.ports[n]
	if !ok {
		return nil
	}
	lines := []string{title}
	p := renderPort(portGlobalsOf(r.globals), *port)
	for _, reason := range r.without[n] {
		lines = append(lines, "  "+reason.String())
	}
	for _, vip := range slices.SortedFunc(maps.Keys(p.vips), netip.Addr.Compare) {
		for _, rule := range p.vips[vip] {
			lines = append(lines, "  below "+chainVIPs+": "+rule)
		}
	}
	for _, rule := range p.nodePort {
		lines = append(lines, "  below "+chainNodePorts+": "+rule)
	}
	for _, c := range slices.Sorted(maps.Keys(p.chains)) {
		for _, rule := range p.chains[c] {
			lines = append(lines, "  "+c+": "+rule)
		}
	}
	for _, m := range p.members {
		lines = append(lines, fmt.Sprintf("  set %s: %s", m.set.of(r.family), m.entry))
	}
	return lines
}
