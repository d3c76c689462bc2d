package rules

import (
	"fmt"
	"math"
	"net/netip"

	"github.com/clusterip-operator/clusterip-operator/proxyagent/model"
)

const (
	// mostRules may choose between the endpoints of one port; beyond, it is served as with Random. Most of them are written when one endpoint comes or
	// goes, and weights could make many of few endpoints.
	mostRules = 1000
	// sideBySide is how many rules one chain has; more are spread over two levels.
	sideBySide = 32
)

// scheduler is how endpoints of a port are chosen: as it asks for, or at random where iptables cannot do that, for a reason.
func (g portGlobals) scheduler(p model.ServicePort) (s model.Scheduler, without model.DegradationReason) {
	switch {
	case p.Scheduler == "" || p.Scheduler == model.Random:
		return model.Random, ""
	case !model.IPTables.Has(p.Scheduler) || p.Scheduler == model.SourceHashing && !g.hashes:
		return model.Random, model.SchedulerUnavailable
	case max(rulesFor(p, p.Cluster), rulesFor(p, p.Local)) > mostRules:
		return model.Random, model.SchedulerTooDear
	default:
		return p.Scheduler, ""
	}
}

// rulesFor is how many rules choose between endpoints.
func rulesFor(p model.ServicePort, endpoints []netip.AddrPort) int {
	usable := able(endpoints, p.Weights)
	if p.Scheduler == model.WeightedRoundRobin {
		return sum(weightsOf(usable, p.Weights))
	}
	return len(usable)
}

// counts reports whether a scheduler keeps a count of connections, in the rules themselves.
func counts(s model.Scheduler) bool { return s == model.RoundRobin || s == model.WeightedRoundRobin }

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

// weightsOf are those of endpoints that are able: so many turns each has in a round. What all can be divided by, compile has taken out.
func weightsOf(able []netip.AddrPort, w model.Weights) []int {
	_, weights := w.Usable(able)
	return weights
}

func sum(all []int) (total int) {
	for _, n := range all {
		total += n
	}
	return total
}

// inTurn returns rules that give each way one of as many connections as there are ways in all, in their order, beginning at start. The first of n takes
// every n-th, the next every (n-1)-th of the rest, and so on: whatever the counts are, each gets exactly one of n that follow on each other.
func inTurn(ways []way, all, start int) []string {
	var rules []string
	for i, way := range ways {
		left := all - i
		rules = append(rules, way(nth(left, (left-max(0, start-i))%left)))
	}
	return rules
}

// nth returns the match that holds for every n-th packet, and first after some; nothing when it always holds.
func nth(every, packet int) string {
	if every == 1 {
		return ""
	}
	return fmt.Sprintf("-m statistic --mode nth --every %d --packet %d ", every, packet)
}

// rotate writes the chain name, and those below it, that give connections to the turns of a round in their order.
//
// The kernel counts in each rule, and from the beginning whenever it is written. A round then begins at a place that depends on everything that is written: were it
// always the same, an endpoint would get the most connections of a port that changes often. Many turns are spread over chains of as many
// each, every n-th to the n-th, and what is left over stands above them: so the order stays the same, and the n-th of a round is found in two
// steps. Most of these chains change with one endpoint more.
func (c choice) rotate(name string, turns []netip.AddrPort) {
	all, start := len(turns), c.start(name, turns)
	if all <= sideBySide {
		c.chains[name] = inTurn(c.ways(turns), all, start)
		return
	}
	groups := int(math.Sqrt(float64(all)))
	above := all % groups
	rest := max(0, start-above) // of the turns below, this one is first
	var below []way
	for g := range groups {
		var own []netip.AddrPort
		for i := above + g; i < all; i += groups {
			own = append(own, turns[i])
		}
		group := c.free(name, fmt.Sprint("group ", g))
		first := (max(0, rest-g) + groups - 1) / groups % len(own)
		c.chains[group] = inTurn(c.ways(own), len(own), first)
		below = append(below, toChain(group))
	}
	c.chains[name] = append(inTurn(c.ways(turns[:above]), all, start), inTurn(below, groups, rest%groups)...)
}

// start is where a round begins.
func (c choice) start(name string, turns []netip.AddrPort) int {
	return int(digest32(name, turns, c.turn) % uint32(len(turns)))
}
