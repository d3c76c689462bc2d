package compile

import (
	"slices"

	"github.com/clusterip-operator/clusterip-operator/proxyagent/model"
)

// place is where the agent runs, as far as endpoints care. Both are empty when not known.
type place struct{ node, zone string }

// has reports whether the endpoint is on this node. An endpoint that does not say where it is, is not.
func (p place) has(e *model.Endpoint) bool { return p.node != "" && e.Node == p.node }

// mayHave reports whether the endpoint is on this node or could be: hand-made slices often do not say.
func (p place) mayHave(e *model.Endpoint) bool { return e.Node == "" || p.has(e) }

// hints say which ready endpoints traffic keeps to.
type hints uint8

const (
	// noHints: all of them.
	noHints hints = iota
	// sameNode: those with a hint for this node.
	sameNode
	// sameZone: those with a hint for this node's zone.
	sameZone
)

// hintsOf says what the hints of a port's endpoints ask for at this place. Hints count only when every ready endpoint has them, as
// otherwise whoever writes them is in the middle of it, and only when one of them is for this place, so that they never leave nothing.
func hintsOf(all endpoints, p place) hints {
	everyNode, everyZone, ready, thisNode, thisZone := true, true, false, false, false
	for _, e := range all {
		if !e.Ready {
			continue
		}
		ready = true
		everyNode = everyNode && len(e.Nodes) > 0
		everyZone = everyZone && len(e.Zones) > 0
		thisNode = thisNode || sameNode.keep(e, p)
		thisZone = thisZone || sameZone.keep(e, p)
	}
	switch {
	case ready && everyNode && thisNode:
		return sameNode
	case ready && everyZone && thisZone:
		return sameZone
	default:
		return noHints
	}
}

// keep reports whether the hints leave traffic from this place to the endpoint.
func (h hints) keep(e *model.Endpoint, p place) bool {
	switch h {
	case sameNode:
		return p.node != "" && slices.Contains(e.Nodes, p.node)
	case sameZone:
		return p.zone != "" && slices.Contains(e.Zones, p.zone)
	default:
		return true
	}
}
