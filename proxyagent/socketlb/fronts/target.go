package fronts

import (
	"fmt"
	"net/netip"
	"slices"

	"github.com/clusterip-operator/clusterip-operator/proxyagent/model"
)

// maxTurns is how many places a front may take: as many as nftables has for a Service.
const maxTurns = 1 << 15

// target is what the fronts of a port lead to.
type target struct {
	port model.PortName
	// round has the endpoint of each place, some more than once if they weigh more.
	round []netip.AddrPort
	// inTurn takes places one after the other; otherwise by chance.
	inTurn bool
}

// equal reports whether a front that leads to either behaves the same.
func (t *target) equal(o *target) bool {
	return t == o || t.port == o.port && t.inTurn == o.inTurn && slices.Equal(t.round, o.round)
}

// targetOf returns what the fronts of a port lead to, or why they are left to rules. turns is false
// on a kernel whose programs cannot count.
//
// At connect() a client has no address yet, so whatever goes by it is left to rules: affinity,
// hashes, source ranges. So is UDP, whose sockets would stay with an endpoint that has gone.
func targetOf(g model.Globals, p *model.ServicePort, turns bool) (*target, string) {
	inTurn := p.Scheduler == model.RoundRobin || p.Scheduler == model.WeightedRoundRobin
	f := p.Fronts()[:len(p.ClusterIPs)] // these come first
	switch {
	case p.Name.Protocol != model.TCP:
		return nil, p.Name.Protocol.String() + " is not TCP"
	case g.MasqueradeAll:
		return nil, "masqueradeAll gives clients the node's address"
	case p.AffinitySeconds > 0:
		return nil, "session affinity goes by the client's address"
	case len(f) == 0:
		return nil, "it has no ClusterIP"
	case !inTurn && p.Scheduler != "" && p.Scheduler != model.Random:
		return nil, fmt.Sprintf("the scheduler %s is none of random, rr and wrr", p.Scheduler)
	case inTurn && !turns:
		return nil, fmt.Sprintf("the scheduler %s takes Linux 5.12", p.Scheduler)
	case f[0].Fate != model.Serve:
		return nil, "it has no endpoint that its clients here may use"
	}
	round, fits := roundOf(p.Scheduler, f[0].Usable, p.Weights)
	if !fits {
		return nil, fmt.Sprintf("its endpoints, as often as they weigh, are more than %d", maxTurns)
	}
	return &target{port: p.Name, round: round, inTurn: inTurn}, ""
}

// roundOf has each endpoint as often as it weighs. It reports false where that is too often.
func roundOf(by model.Scheduler, all []netip.AddrPort, w model.Weights) ([]netip.AddrPort, bool) {
	usable, weights := all, []int(nil)
	if len(w) > 0 {
		usable, weights = w.Usable(all)
	}
	if len(weights) < 2 || by == model.RoundRobin {
		return usable, len(usable) <= maxTurns
	}
	if model.Sum(weights) > maxTurns {
		return nil, false
	}
	if by == model.WeightedRoundRobin {
		return model.Interleave(usable, weights), true
	}
	var round []netip.AddrPort
	for i, e := range usable {
		round = append(round, slices.Repeat([]netip.AddrPort{e}, weights[i])...)
	}
	return round, true
}
