package rules

import (
	"encoding/binary"
	"fmt"
	"net/netip"
	"slices"

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
// that is remembered, or any.
func (c choice) write(name string, endpoints []netip.AddrPort) {
	c.spread(name, able(endpoints, c.weights))
	var remembered []string
	if c.affinity > 0 {
		for _, e := range endpoints {
			remembered = append(remembered, fmt.Sprintf("-m set --match-set %s src -g %s",
				affinitySet(c.family, c.port, e), endpointChain(c.port, e)))
		}
	}
	c.chains[name] = append(remembered, c.chains[name]...)
}

// spread writes the chain name, and those below it, that pick one of the endpoints at random, with probabilities by their weights.
//
// Few endpoints stand side by side in one chain: the i-th is taken with the probability of its weight among those from the i-th on. More are spread over
// the chains of a tree, each taken with a probability by the weights of its endpoints. A change touches the chains on the way to it.
func (c choice) spread(name string, able []netip.AddrPort) {
	var t tree // whose keys have the endpoint itself for a rule
	for _, e := range able {
		t.Set(string(binary.BigEndian.AppendUint16(e.Addr().AsSlice(), e.Port())), []string{e.String()})
	}
	below := map[*node]subtree{}
	t.Emit(func(n *node) {
		s := subtree{chain: name}
		if n.bits > 0 {
			s.chain = c.free(name, fmt.Sprintf("%X %d", n.key, n.bits))
		}
		c.chains[s.chain], s.weight = c.entries(n, below)
		below[n] = s
	}, nil)
}

// subtree is a chain of the tree, and the weight of all endpoints below it.
type subtree struct {
	chain  string
	weight int
}

// free returns a name for a chain below another that no other chain has: there is room for 35 bits of a digest behind that of the port, and
// whoever makes endpoints can find two with the same.
func (c choice) free(name, key string) string {
	for i := 0; ; i++ {
		free := name + "-" + model.Digest(fmt.Sprintf("%s %d", key, i))[:7]
		if _, taken := c.chains[free]; !taken {
			return free
		}
	}
}

// entries returns the rules that go to one of the entries of a node, and their weight.
func (c choice) entries(n *node, below map[*node]subtree) ([]string, int) {
	var ways []way
	var weights []int
	for _, e := range n.entries {
		if s, chain := below[e]; chain {
			ways, weights = append(ways, toChain(s.chain)), append(weights, s.weight)
			continue
		}
		to := netip.MustParseAddrPort(e.rules[0])
		ways, weights = append(ways, c.way(to)), append(weights, weight(to, c.weights))
	}
	return atRandom(ways, weights), sum(weights)
}

// way is a rule that goes somewhere with packets that match.
type way func(match string) string

// toChain goes to a chain.
func toChain(name string) way { return func(match string) string { return match + "-g " + name } }

// way goes to an endpoint.
func (c choice) way(e netip.AddrPort) way {
	return func(match string) string { return c.target(e, match) }
}

// atRandom returns rules that take one of the ways, with probabilities by their weights.
func atRandom(ways []way, weights []int) []string {
	var rules []string
	left := sum(weights)
	for i, way := range ways {
		rules = append(rules, way(random(weights[i], left)))
		left -= weights[i]
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

// able are the endpoints that get new connections.
func able(endpoints []netip.AddrPort, w model.Weights) []netip.AddrPort {
	if len(w) == 0 {
		return endpoints
	}
	usable, _ := w.Usable(endpoints)
	return usable
}

// weight is that of an able endpoint: if one of them has none, none has.
func weight(e netip.AddrPort, w model.Weights) int { return max(1, w.Of(e)) }

func sum(all []int) (total int) {
	for _, n := range all {
		total += n
	}
	return total
}

// union returns the sorted endpoints of both slices.
func union(a, b []netip.AddrPort) []netip.AddrPort {
	all := slices.Concat(a, b)
	slices.SortFunc(all, netip.AddrPort.Compare)
	return slices.Compact(all)
}
