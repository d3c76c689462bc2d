package rules

import (
	"encoding/binary"
	"fmt"
	"net/netip"
	"slices"

	"github.com/clusterip-operator/clusterip-operator/proxyagent/model"
)

// A choice picks one of a set of endpoints at random, all with the same probability.
//
// Few endpoints stand side by side in one chain: the i-th of n is taken with probability 1/(n-i). More are spread over the chains of a tree,
// each taken with a probability by the number of its endpoints. A change touches the chains on the way to it.
type choice struct {
	port     model.PortName
	affinity int                 // seconds; zero without
	family   model.Family        // for the names of affinity sets
	chains   map[string][]string // out
}

// write writes the chain name, and those below it, that pick one of the endpoints.
func (c choice) write(name string, endpoints []netip.AddrPort) {
	var t tree // whose keys have the endpoint itself for a rule
	for _, e := range endpoints {
		t.Set(string(binary.BigEndian.AppendUint16(e.Addr().AsSlice(), e.Port())), []string{e.String()})
	}
	names := map[*node]string{}
	t.Emit(func(n *node) {
		if names[n] = name; n.bits > 0 {
			names[n] = c.free(name, n)
		}
		c.chains[names[n]] = c.entries(n, names)
	}, nil)
	var remembered []string
	if c.affinity > 0 {
		for _, e := range endpoints {
			remembered = append(remembered, fmt.Sprintf("-m set --match-set %s src -g %s",
				affinitySet(c.family, c.port, e), endpointChain(c.port, e)))
		}
	}
	c.chains[name] = append(remembered, c.chains[name]...)
}

// free returns a name for the chain of a node that no other chain has: there is room for 35 bits of a digest behind that of the port, and
// whoever makes endpoints can find two with the same.
func (c choice) free(name string, n *node) string {
	for i := 0; ; i++ {
		free := name + "-" + model.Digest(fmt.Sprintf("%X %d %d", n.key, n.bits, i))[:7]
		if _, taken := c.chains[free]; !taken {
			return free
		}
	}
}

// entries returns the rules that go to one of the entries of a node.
func (c choice) entries(n *node, names map[*node]string) []string {
	left := 0
	for _, e := range n.entries {
		left += e.keys
	}
	var rules []string
	for _, e := range n.entries {
		match := random(e.keys, left)
		if left -= e.keys; e.level > 0 {
			rules = append(rules, match+"-g "+names[e])
		} else {
			rules = append(rules, c.target(netip.MustParseAddrPort(e.rules[0]), match))
		}
	}
	return rules
}

// target is the rule that sends packets which match to an endpoint: to DNAT, or first to the chain that remembers the client.
func (c choice) target(e netip.AddrPort, match string) string {
	if c.affinity > 0 {
		return match + "-g " + endpointChain(c.port, e)
	}
	return dnat(c.port.Protocol, match, e)
}

// remember writes the chains that tie a client to an endpoint and go there.
func (c choice) remember(endpoints []netip.AddrPort) {
	for _, e := range endpoints {
		c.chains[endpointChain(c.port, e)] = []string{
			fmt.Sprintf("-j SET --add-set %s src --exist --timeout %d", affinitySet(c.family, c.port, e), c.affinity),
			dnat(c.port.Protocol, "", e),
		}
	}
}

// random returns the match that holds for k of n packets; nothing when it always holds. xt_statistic knows steps of 2^-31.
func random(k, n int) string {
	if k >= n {
		return ""
	}
	return fmt.Sprintf("-m statistic --mode random --probability %.11f ", float64(k)/float64(n))
}

// dnat is the rule that translates packets which match. iptables wants to know the protocol in the same rule.
func dnat(p model.Protocol, match string, e netip.AddrPort) string {
	return "-p " + lower(p) + " " + match + "-j DNAT --to-destination " + e.String()
}

// union returns the sorted endpoints of both slices.
func union(a, b []netip.AddrPort) []netip.AddrPort {
	all := slices.Concat(a, b)
	slices.SortFunc(all, netip.AddrPort.Compare)
	return slices.Compact(all)
}
