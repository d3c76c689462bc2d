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

// state is a packet on its way. It is comparable: two possibilities with equal states have the same future.
type state struct {
	Packet
	// client and original are from where and whereto it was sent. Src is invalid when it is an address of the node, not known which.
	client   netip.Addr
	original netip.AddrPort
	// out is the interface that it leaves by, as far as routing was asked. here: it is for this node.
	out  string
	here bool
	mark uint32
	// source says what takes the place of its source behind the last chain, in words; empty when it keeps it.
	source string
	// touched is true once a rule did something to it or let it through.
	touched bool
}

func (s state) translated() bool { return s.Dst != s.original }

// looped is the packet of the node to itself as it comes in again, with the source that it left with.
func (s state) looped() state {
	s.In, s.out = "lo", ""
	if s.source != "" {
		s.Src, _ = netip.ParseAddr(strings.TrimPrefix(s.source, newSource))
	}
	return s
}

// sourceTranslated tells whether its source is another one by now.
func (s state) sourceTranslated() answer {
	if !s.Src.IsValid() {
		return cannotTell(whichAddress)
	}
	return when(s.Src != s.client)
}

const whichAddress = "which of its addresses the node gave it"

// flow is one possibility: what share of such packets takes this way, if its conditions hold.
type flow struct {
	state
	share float64
	ifs   conditions
}

// conditions are what could not be told, by their numbers in the walk, and how they are taken to be. Sorted by number.
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

// all is no index: key leaves nothing out.
const all = -1

// merge joins possibilities that have become equal again, so that their number grows with what rules do, not with how many there are.
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

// place is what must be equal for two flows to be one.
type place struct {
	state
	ifs string
}

// sum adds up the shares of flows with equal states and conditions.
func sum(flows []flow) []flow {
	at := make(map[place]int, len(flows))
	var sums []flow
	for _, f := range flows {
		p := place{f.state, f.ifs.key(all)}
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

// half is a flow without one of its conditions, and how it takes that one to be.
type half struct {
	place
	condition
}

// cancel joins pairs of flows that differ in nothing but one condition, which holds in one and not in the other: it does not matter.
func cancel(flows []flow) (joined []flow) {
	seen, gone := map[half]int{}, map[int]bool{}
	for i, f := range flows {
		for n, c := range f.ifs {
			h := half{place{f.state, f.ifs.key(n)}, c}
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

// sameShare forgives what arithmetic loses, and the steps of 2^-31 of xt_statistic.
func sameShare(a, b float64) bool { return a-b < 1e-7 && b-a < 1e-7 }
