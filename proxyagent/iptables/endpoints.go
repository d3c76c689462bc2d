package iptables

import (
	"encoding/binary"
	"fmt"
	"hash/fnv"
	"net/netip"
	"slices"

	"github.com/clusterip-operator/clusterip-operator/proxyagent/model"
)

const (
	linearEndpoints = 8 // as many are tried one after the other; more go into a tree
	endpointLevels  = 2 // chains below the root of that tree
	endpointBits    = 4 // of a digest that choose among 16 chains
)

// A choice picks one of a set of endpoints at random, all with the same probability.
//
// Few endpoints stand side by side in one chain: the i-th of n is taken with probability 1/(n-i). More are spread over up to 16
// chains by a digest of their address, each chain taken with a probability by the number of its endpoints, and so on. The digest
// of an endpoint does not depend on the others: a change touches one chain on each level.
type choice struct {
	port     model.PortName
	affinity int                 // seconds; zero without
	family   model.Family        // for the names of affinity sets
	chains   map[string][]string // out
}

// write writes the chain name, and those below it, that pick one of the endpoints.
func (c choice) write(name string, endpoints []netip.AddrPort) {
	var remembered []string
	if c.affinity > 0 {
		for _, e := range endpoints {
			remembered = append(remembered, fmt.Sprintf("-m set --match-set %s src -g %s",
				affinitySet(c.family, c.port, e), endpointChain(c.port, e)))
		}
	}
	c.level(name, remembered, endpoints, 0)
}

func (c choice) level(name string, first []string, endpoints []netip.AddrPort, level int) {
	if len(endpoints) <= linearEndpoints || level == endpointLevels {
		c.chains[name] = append(first, c.linear(endpoints)...)
		return
	}
	rules, left := first, len(endpoints)
	for i, group := range spread(endpoints, level) {
		switch len(group) {
		case 0:
			continue
		case 1:
			rules = append(rules, c.target(group[0], random(1, left)))
		default:
			below := fmt.Sprintf("%s-%X", name, i)
			if level > 0 {
				below = fmt.Sprintf("%s%X", name, i)
			}
			rules = append(rules, random(len(group), left)+"-g "+below)
			c.level(below, nil, group, level+1)
		}
		left -= len(group)
	}
	c.chains[name] = rules
}

// linear returns the rules for few endpoints.
func (c choice) linear(endpoints []netip.AddrPort) []string {
	rules := make([]string, len(endpoints))
	for i, e := range endpoints {
		rules[i] = c.target(e, random(1, len(endpoints)-i))
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

// spread groups endpoints by four bits of their digests.
func spread(endpoints []netip.AddrPort, level int) [1 << endpointBits][]netip.AddrPort {
	var groups [1 << endpointBits][]netip.AddrPort
	for _, e := range endpoints {
		i := endpointHash(e) >> (level * endpointBits) & (1<<endpointBits - 1)
		groups[i] = append(groups[i], e)
	}
	return groups
}

// endpointHash is the digest that decides in which chains an endpoint is.
func endpointHash(e netip.AddrPort) uint64 {
	h := fnv.New64a()
	h.Write(e.Addr().AsSlice())
	h.Write(binary.BigEndian.AppendUint16(nil, e.Port()))
	// The lowest bits of FNV mix badly for neighbouring addresses; fold the high ones in.
	sum := h.Sum64()
	return sum ^ sum>>29 ^ sum>>47
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
