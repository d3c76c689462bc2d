package rules

import (
	"fmt"
	"maps"
	"net/netip"
	"slices"

	"github.com/clusterip-operator/clusterip-operator/proxyagent/ipset"
	"github.com/clusterip-operator/clusterip-operator/proxyagent/model"
)

// inlineEndpoints is up to how many endpoints the rules of a ClusterIP go straight to DNAT, without
// a chain. Chains cost more than rules: iptables-nft needs four times as long for 30,000 of them.
const inlineEndpoints = 3

// portRules is what one ServicePort adds to the rules: chains, rules in the leaves of both trees,
// and members of sets. It is a pure function of the port and of portGlobals.
type portRules struct {
	chains map[string][]string
	// vips are the rules for its virtual IPs, nodePort those for its node port, from their match on.
	vips     map[netip.Addr][]string
	nodePort []string
	members  []member
	affinity []string // sets that clients are remembered in
	choice   choice   // what writes into chains
}

// portGlobals are the Globals in the rules of ports: a change of other Globals writes none of them.
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
	r.choice = choice{port: p.Name, weights: p.Weights, affinity: p.AffinitySeconds, family: g.family, chains: r.chains}
	for _, f := range p.Fronts() {
		r.front(g, p, f)
		r.sets(p.Name.Protocol, f)
	}
	if p.HealthCheckNodePort != 0 {
		r.add(setHealth, ipset.Entry{Port: p.HealthCheckNodePort})
	}
	for _, e := range p.Hairpin {
		r.add(setHairpin, ipset.Entry{Addr: e.Addr(), Protocol: p.Name.Protocol, Port: e.Port(), Source: model.Single(e.Addr())})
	}
	return r
}

// front writes the rules that lead from a front to endpoints.
func (r *portRules) front(g portGlobals, p model.ServicePort, f model.Front) {
	if len(f.Usable) == 0 && !f.Exempt {
		return
	}
	at := fmt.Sprintf("-p %s --dport %d ", lower(p.Name.Protocol), f.At.Port())
	if !f.IsNodePort() {
		at = fmt.Sprintf("-d %s %s", model.Single(f.At.Addr()), at)
	}
	var rules []string
	switch {
	case f.Outside:
		chain := portChain(roleExternal, p.Name)
		r.chains[chain] = r.external(g, p, f)
		rules = []string{at + "-g " + chain}
	case !p.HasExternal() && p.AffinitySeconds == 0 && len(f.Usable) <= inlineEndpoints:
		var ways []way
		usable, weights := p.Weights.Usable(f.Usable)
		for i, e := range usable {
			ways = append(ways, way{at, dnat(e), weights[i]})
		}
		rules = atRandom(ways)
	default:
		rules = []string{at + r.pick(f.Usable, f.Local)}
	}
	if f.IsNodePort() {
		r.nodePort = rules
	} else {
		r.vips[f.At.Addr()] = rules
	}
}

// pick is the target that picks one of some endpoints: any, or one on this node. The first rule
// that needs it writes its chain.
func (r *portRules) pick(endpoints []netip.AddrPort, local bool) string {
	chain := portChain(roleCluster, r.choice.port)
	if local {
		chain = portChain(roleLocal, r.choice.port)
	}
	if _, written := r.chains[chain]; !written {
		r.affinity = append(r.affinity, r.choice.write(chain, endpoints)...)
	}
	return "-g " + chain
}

// external are the rules for traffic from outside.
//
// With externalTrafficPolicy Cluster every client gets the node's address, so that answers come
// back this way. With Local clients from outside keep theirs and get endpoints of this node alone;
// pods of this node and the node itself may use all, the latter with the node's address.
func (r *portRules) external(g portGlobals, p model.ServicePort, f model.Front) (rules []string) {
	masquerade := setMark(g.masqueradeBit)
	if !f.Local {
		return []string{masquerade, r.pick(f.Usable, false)}
	}
	if f.Exempt {
		const fromNode = "-m addrtype --src-type LOCAL "
		toAny := r.pick(p.Cluster, false)
		if from := localSource(g.localSource, false); from != "" {
			rules = append(rules, from+" "+toAny)
		}
		rules = append(rules, fromNode+masquerade, fromNode+toAny)
	}
	if len(f.Usable) > 0 {
		rules = append(rules, r.pick(f.Usable, true))
	}
	return rules
}

// setMark is the target that marks a packet for masquerading.
func setMark(bit int) string { return fmt.Sprintf("-j MARK --or-mark %#x", 1<<bit) }

// localSource matches traffic of local pods or, with remote, all other traffic; empty if local pods
// are unknown.
func localSource(l model.LocalSource, remote bool) string {
	not := ""
	if remote {
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

// Describe lists a port's rules and set members, below a title; none of an unknown port.
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
