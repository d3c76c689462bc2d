package watch

import (
	"crypto/sha256"
	"encoding/binary"

	"github.com/clusterip-operator/clusterip-operator/proxyagent/model"
)

// tellers is how many nodes tell of a Service what is the same on each: enough that it is told if
// one of them is down, or without an agent.
const tellers = 3

// Tells reports whether the agent of this node is to tell of a Service what is the same on every
// node: that it does not get an address, or that an annotation cannot be read. A cluster of 5,000
// nodes would have 5,000 events of it otherwise, each time that a tenant asks for one.
//
// Nodes are ranked by a hash of their names and the Service's (rendezvous hashing), and the first
// few tell. Those that count are the nodes with ready endpoints, of whatever Service: every agent
// knows them without following Nodes, they are the same for all, and one that is down is not among
// them for longer than it takes the cluster to see that. Where too few are known more nodes tell;
// none is chosen by any other, and nothing is asked of the API server.
//
// A tenant that may write EndpointSlices can name nodes that do not exist, and so keep events from
// being written. Kubernetes gives no tenant that right, and each node's metrics and logs tell all.
func (s *Source) Tells(n model.ServiceName) bool {
	return s.slicesOf.ahead(s.options.NodeName, n) < tellers
}

// ahead counts the other nodes with ready endpoints that rank before one. It takes a millisecond
// for thousands of nodes, once for each fact.
func (s *slicesOf) ahead(node string, n model.ServiceName) (nodes int) {
	s.mu.Lock()
	defer s.mu.Unlock()
	own := rank(node, n)
	for other := range s.ready {
		if other.Value() != node && rank(other.Value(), n) > own {
			nodes++
		}
	}
	return nodes
}

// rank is by a hash that mixes well: with FNV a few nodes would tell of all similar names.
func rank(node string, n model.ServiceName) uint64 {
	sum := sha256.Sum256([]byte(node + " " + n.String()))
	return binary.BigEndian.Uint64(sum[:])
}

// countReady adds a slice's ready addresses to each node's count, with the lock; nil has none.
func (s *slicesOf) countReady(of *slice, by int) {
	if of == nil {
		return
	}
	for _, a := range of.addresses {
		if !a.ready || a.node.Value() == "" {
			continue
		}
		model.Count(s.ready, a.node, by)
	}
}
