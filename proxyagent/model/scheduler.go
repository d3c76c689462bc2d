package model

import (
	"maps"
	"net/netip"
	"slices"
)

// Scheduler is how an endpoint is chosen for a new connection, by the name that IPVS has for it; Random is that of iptables and nftables. The zero value is
// the default of the mode in which the node serves.
type Scheduler string

// The schedulers (ip_vs in Linux). Which of them a mode has, its package says; what it does not have is a [Degradation].
const (
	Random                          Scheduler = "random"
	RoundRobin                      Scheduler = "rr"
	WeightedRoundRobin              Scheduler = "wrr"
	LeastConnection                 Scheduler = "lc"
	WeightedLeastConnection         Scheduler = "wlc"
	LocalityLeastConnection         Scheduler = "lblc"
	LocalityLeastConnectionReplicas Scheduler = "lblcr"
	SourceHashing                   Scheduler = "sh"
	DestinationHashing              Scheduler = "dh"
	ShortestExpectedDelay           Scheduler = "sed"
	NeverQueue                      Scheduler = "nq"
	MaglevHashing                   Scheduler = "mh"
)

// Schedulers are all of them.
var Schedulers = []Scheduler{
	Random, RoundRobin, WeightedRoundRobin, LeastConnection, WeightedLeastConnection, LocalityLeastConnection, LocalityLeastConnectionReplicas,
	SourceHashing, DestinationHashing, ShortestExpectedDelay, NeverQueue, MaglevHashing,
}

// ParseScheduler reads a name, and reports false for one that is none.
func ParseScheduler(s string) (Scheduler, bool) {
	return Scheduler(s), slices.Contains(Schedulers, Scheduler(s))
}

// MaxWeight is the largest weight of an endpoint. Rules spell weights out, one element for each unit.
const MaxWeight = 100

// Weights are those of endpoints, from 0 to MaxWeight: an endpoint with 0 gets no new connections as long as another has more. An endpoint without an entry has 1, and so the zero value
// treats all alike.
type Weights map[netip.AddrPort]uint8

// Of returns the weight of an endpoint.
func (w Weights) Of(e netip.AddrPort) int {
	if weight, known := w[e]; known {
		return int(weight)
	}
	return 1
}

// Equal reports whether both are the same, entry by entry.
func (w Weights) Equal(o Weights) bool { return maps.Equal(w, o) }
