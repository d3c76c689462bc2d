package trace

import (
	"net/netip"
	"slices"
	"strings"

	"github.com/clusterip-operator/clusterip-operator/proxyagent/model"
)

// Packet is the first packet of a connection.
type Packet struct {
	Protocol model.Protocol
	Src      netip.Addr
	Dst      netip.AddrPort
	// In is the interface that it comes in by, empty when the node itself sends it.
	In string
}

// state is a packet between two rules. It is comparable: what happens to equal states is the same.
type state struct {
	Packet
	// client and original are its source and destination as it was sent. Src is invalid if it is an unknown address of the node.
	client   netip.Addr
	original netip.AddrPort
	// out is the interface that it leaves by, once it is routed. here: it is for this node.
	out  string
	here bool
	mark uint32
	// source is the new source address after the last chain, in words; empty if it is not translated.
	source string
	// touched is true once a rule changed or accepted it.
	touched bool
}

func (s state) translated() bool { return s.Dst != s.original }

// looped is a packet of the node to itself as it comes in through the loopback interface, with its translated source.
func (s state) looped() state {
	s.In, s.out = "lo", ""
	if s.source != "" {
		s.Src, _ = netip.ParseAddr(strings.TrimPrefix(s.source, newSource))
	}
	return s
}

// sourceTranslated answers whether its source was translated.
func (s state) sourceTranslated() answer {
	if !s.Src.IsValid() {
		return cannotTell(whichAddress)
	}
	return when(s.Src != s.client)
}

const whichAddress = "which of its addresses the node gave it"

// flow is one possibility: the share of such packets for which it happens, if its conditions hold.
type flow struct {
	state
	share float64
	ifs   conditions
}

// conditions are the matches that could not be evaluated, by their numbers in the walk, each with the assumed result. Sorted by number.
type conditions []condition

type condition struct {
	number int
	holds  bool
}

// with returns the conditions and one more, whose number is larger than all of theirs.
func (c conditions) with(number int, holds bool) conditions {
	return append(slices.Clip(c), condition{number, holds})
}

// key is a comparable form, with the i-th condition left out.
func (c conditions) key(without int) string {
	b := make([]byte, 0, 5*len(c))
	for i, cond := range c {
		if i == without {
			continue
		}
		sign := byte('-')
		if cond.holds {
			sign = '+'
		}
		b = append(b, sign, byte(cond.number>>16), byte(cond.number>>8), byte(cond.number))
	}
	return string(b)
}

// all makes key leave nothing out.
const all = -1

// merge joins possibilities that have become equal again, so that their number does not grow with the number of rules.
func merge(flows []flow) []flow {
	for {
		flows = sum(flows)
		shorter := cancel(flows)
		if len(shorter) == len(flows) {
			return flows
		}
		flows = shorter
	}
}

// identity is what must be equal for two flows to be joined.
type identity struct {
	state
	ifs string
}

// sum adds up the shares of flows with equal states and conditions.
func sum(flows []flow) []flow {
	at := make(map[identity]int, len(flows))
	var sums []flow
	for _, f := range flows {
		p := identity{f.state, f.ifs.key(all)}
		i, known := at[p]
		if !known {
			at[p] = len(sums)
			sums = append(sums, f)
			continue
		}
		sums[i].share += f.share
	}
	return sums
}

// partial is the identity of a flow without one of its conditions, and that condition.
type partial struct {
	identity
	condition
}

// cancel joins pairs of flows that differ in one condition alone, which holds in one of them and not in the other.
func cancel(flows []flow) (joined []flow) {
	seen, gone := map[partial]int{}, map[int]bool{}
	for i, f := range flows {
		for n, c := range f.ifs {
			h := partial{identity{f.state, f.ifs.key(n)}, c}
			seen[h] = i
			h.holds = !h.holds
			j, other := seen[h]
			if other && !gone[j] && sameShare(flows[j].share, f.share) {
				f.ifs = slices.Delete(slices.Clone(f.ifs), n, n+1)
				gone[i], gone[j] = true, true
				joined = append(joined, f)
				break
			}
		}
	}
	return append(joined, without(flows, gone)...)
}

func without(flows []flow, gone map[int]bool) (left []flow) {
	for i, f := range flows {
		if !gone[i] {
			left = append(left, f)
		}
	}
	return left
}

// sameShare ignores rounding, and the steps of 2^-31 of xt_statistic.
func sameShare(a, b float64) bool { return a-b < 1e-7 && b-a < 1e-7 }
