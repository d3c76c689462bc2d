package rules

import (
	"cmp"
	"encoding/binary"
	"fmt"
	"net/netip"

	"github.com/clusterip-operator/clusterip-operator/proxyagent/model"
)

// A choice picks one of a set of endpoints for a connection.
type choice struct {
	port     model.PortName
	weights  model.Weights
	affinity int                 // seconds; zero without
	family   model.Family        // for the names of affinity sets
	chains   map[string][]string // out
}

// write writes the chain name, and those below it, that pick one of the endpoints: that of a client
// that is remembered, or any. With affinity it writes the chains that tie a client to an endpoint
// and go there, and returns the sets of those that were not written yet.
func (c choice) write(name string, endpoints []netip.AddrPort) (sets []string) {
	c.spread(name, endpoints)
	if c.affinity == 0 {
		return nil
	}
	var remembered []string
	for _, e := range endpoints {
		chain, set := endpointChain(c.port, e), affinitySet(c.family, c.port, e)
		remembered = append(remembered, fmt.Sprintf("-m set --match-set %s src -g %s", set, chain))
		if _, written := c.chains[chain]; !written {
			sets = append(sets, set)
			c.chains[chain] = []string{
				fmt.Sprintf("-j SET --add-set %s src --exist --timeout %d", set, c.affinity),
				c.protocol() + dnat(e),
			}
		}
	}
	c.chains[name] = append(remembered, c.chains[name]...)
	return sets
}

// spread writes the chain name, and those below it, that pick one of the endpoints at random, with
// probabilities by their weights.
//
// Few endpoints stand side by side in one chain: the i-th is taken with the probability of its
// weight among those from the i-th on. More are spread over the chains of a tree, each taken with a
// probability by the weights of its endpoints. A change touches the chains on the way to it.
func (c choice) spread(name string, endpoints []netip.AddrPort) {
	var t tree
	leaves, below := map[string]way{}, map[*node]way{}
	usable, weights := c.weights.Usable(endpoints)
	for i, e := range usable {
		key := string(binary.BigEndian.AppendUint16(e.Addr().AsSlice(), e.Port()))
		leaves[key] = c.way(e, weights[i])
		t.Set(key, []string{leaves[key].to})
	}
	t.Emit(func(n *node) {
		chain := name
		if n.bits > 0 {
			chain = c.free(name, fmt.Sprintf("%X %d", n.key, n.bits))
		}
		var ways []way
		for _, e := range n.entries {
			ways = append(ways, cmp.Or(below[e], leaves[e.key]))
		}
		c.chains[chain], below[n] = atRandom(ways), way{to: "-g " + chain, weight: total(ways)}
	}, nil)
}

// free returns a name for a chain below another that no other chain has: behind the port's digest
// is room for 35 bits of another, and a tenant that makes endpoints can find two with the same.
func (c choice) free(name, key string) string {
	for i := 0; ; i++ {
		free := name + "-" + model.Digest(fmt.Sprintf("%s %d", key, i))[:7]
		if _, taken := c.chains[free]; !taken {
			return free
		}
	}
}

// way is a rule that goes somewhere: a match may stand between what it begins with and where to.
type way struct {
	from, to string
	weight   int
}

// way goes to an endpoint: to DNAT, or first to the chain that remembers the client.
func (c choice) way(e netip.AddrPort, weight int) way {
	if c.affinity > 0 {
		return way{to: "-g " + endpointChain(c.port, e), weight: weight}
	}
	return way{c.protocol(), dnat(e), weight}
}

func total(ways []way) (weight int) {
	for _, w := range ways {
		weight += w.weight
	}
	return weight
}

// atRandom returns rules that take one of the ways, with probabilities by their weights.
func atRandom(ways []way) (rules []string) {
	left := total(ways)
	for _, w := range ways {
		rules = append(rules, w.from+random(w.weight, left)+w.to)
		left -= w.weight
	}
	return rules
}

// random returns the match for k of n packets, empty if all. xt_statistic knows steps of 2^-31.
func random(k, n int) string {
	if k >= n {
		return ""
	}
	return fmt.Sprintf("-m statistic --mode random --probability %.11f ", float64(k)/float64(n))
}

// dnat is the target that translates. iptables wants to know the protocol in the same rule.
func dnat(e netip.AddrPort) string { return "-j DNAT --to-destination " + e.String() }

func (c choice) protocol() string { return "-p " + lower(c.port.Protocol) + " " }
