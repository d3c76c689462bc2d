package trace

import (
	"errors"
	"net/netip"
)

// Node has what rules refer to on a node. Where it returns an error, Walk reports the match as unknown.
type Node interface {
	// Kind returns the type of a set as ipset names it: "hash:ip,port".
	Kind(set string) (string, error)
	// Has reports whether a set has an entry, written as for ipset: "10.0.0.1,tcp:80".
	Has(set, entry string) (bool, error)
	// Local reports whether an address is one of this node.
	Local(netip.Addr) (bool, error)
	// Route returns the interface that a packet leaves by. ErrNoRoute says that routing refuses it.
	Route(p Packet, mark uint32) (out string, err error)
}

// ErrNoRoute is Node's answer for a packet that routing does not let through.
var ErrNoRoute = errors.New("there is no route")

// remembered passes each question to a Node once, so that the answers within one Walk are consistent, and cheap for many endpoints.
type remembered struct {
	Node
	kinds  map[string]reply[string]
	has    map[[2]string]reply[bool]
	local  map[netip.Addr]reply[bool]
	routes map[routed]reply[string]
}

type reply[T any] struct {
	value T
	err   error
}

type routed struct {
	Packet
	mark uint32
}

func remember(w Node) *remembered {
	return &remembered{
		Node: w, kinds: map[string]reply[string]{}, has: map[[2]string]reply[bool]{},
		local: map[netip.Addr]reply[bool]{}, routes: map[routed]reply[string]{},
	}
}

// Kind implements Node.
func (r *remembered) Kind(set string) (string, error) {
	return recall(r.kinds, set, func() (string, error) { return r.Node.Kind(set) })
}

// Has implements Node.
func (r *remembered) Has(set, entry string) (bool, error) {
	return recall(r.has, [2]string{set, entry}, func() (bool, error) { return r.Node.Has(set, entry) })
}

// Local implements Node.
func (r *remembered) Local(a netip.Addr) (bool, error) {
	return recall(r.local, a, func() (bool, error) { return r.Node.Local(a) })
}

// Route implements Node.
func (r *remembered) Route(p Packet, mark uint32) (string, error) {
	return recall(r.routes, routed{p, mark}, func() (string, error) { return r.Node.Route(p, mark) })
}

func recall[K comparable, T any](known map[K]reply[T], key K, ask func() (T, error)) (T, error) {
	answer, ok := known[key]
	if !ok {
		answer.value, answer.err = ask()
		known[key] = answer
	}
	return answer.value, answer.err
}
