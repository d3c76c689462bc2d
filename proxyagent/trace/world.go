package trace

import (
	"errors"
	"net/netip"
)

// World answers what the rules alone do not say. A question that it answers with an error is one that Walk cannot tell.
type World interface {
	// Kind returns the type of a set as ipset names it: "hash:ip,port".
	Kind(set string) (string, error)
	// Has reports whether a set has an entry, written as for ipset: "10.0.0.1,tcp:80".
	Has(set, entry string) (bool, error)
	// Local reports whether an address is one of this node.
	Local(netip.Addr) (bool, error)
	// Route returns the interface that a packet leaves by. ErrNoRoute says that routing refuses it.
	Route(p Packet, mark uint32) (out string, err error)
}

// ErrNoRoute is World's answer for a packet that routing does not let through.
var ErrNoRoute = errors.New("there is no route")
