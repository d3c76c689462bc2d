package model

import (
	"net/netip"
	"slices"
)

// Scheduler is how an endpoint is chosen for a new connection, by its name in IPVS. Random is that
// of iptables and nftables; the zero value is the default of the mode in which the node serves.
type Scheduler string

// The schedulers (ip_vs in Linux). What a mode does not have ([Mode.Has]) is a [Degradation].
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

// Hashes reports whether it goes by a hash of the client's address.
func (s Scheduler) Hashes() bool { return s == SourceHashing || s == MaglevHashing }

// Mode is what a node serves with.
type Mode string

// The modes.
const (
	IPTables Mode = "iptables"
	NFTables Mode = "nftables"
	IPVS     Mode = "ipvs"
)

// modeSchedulers are those of each mode. Random is the default of the first two; IPVS has the rest.
var modeSchedulers = map[Mode][]Scheduler{
	IPTables: {Random},
	NFTables: {Random, RoundRobin, WeightedRoundRobin, SourceHashing, MaglevHashing},
	IPVS:     slices.DeleteFunc(slices.Clone(Schedulers), func(s Scheduler) bool { return s == Random }),
}

// Has reports whether a mode has a scheduler. All have their default, the zero value.
func (m Mode) Has(s Scheduler) bool { return s == "" || slices.Contains(modeSchedulers[m], s) }

// Balancing is how a Service asks for new connections to be spread over its endpoints.
type Balancing struct {
	// Scheduler is what the annotation named by SchedulerFrom asks for; both are empty without one.
	Scheduler     Scheduler
	SchedulerFrom string
	// WeightsFrom is the annotation of Endpoint.Weight, empty if all weigh 1; ByCores: by node cores.
	WeightsFrom string
	ByCores     bool
	// Ignored says which of its annotations have no effect, and why: SchedulerInvalid, WeightsInvalid,
	// WeightsNotAllowed.
	Ignored []DegradationReason
}

// Weighs reports whether Endpoint.Weight counts.
func (b *Balancing) Weighs() bool { return b != nil && b.WeightsFrom != "" }

// HasIgnored reports whether any of its annotations has no effect.
func (b *Balancing) HasIgnored() bool { return b != nil && len(b.Ignored) > 0 }

// MaxWeight is the largest weight of an endpoint. Rules have one element for each unit of weight.
const MaxWeight = 100

// Weights are those of endpoints, from 0 to MaxWeight. One with 0 gets no new connections as long
// as another has more. One without an entry has 1, so the zero value treats all alike.
type Weights map[netip.AddrPort]uint8

// Of returns the weight of an endpoint.
func (w Weights) Of(e netip.AddrPort) int {
	if weight, known := w[e]; known {
		return int(weight)
	}
	return 1
}

// Among returns what each of some endpoints weighs. Where none weighs anything, each weighs 1.
func (w Weights) Among(some []netip.AddrPort) []int {
	all := make([]int, len(some))
	for i, e := range some {
		all[i] = w.Of(e)
	}
	if Sum(all) == 0 {
		return slices.Repeat([]int{1}, len(some))
	}
	return all
}

// Usable returns the endpoints that get new connections, and their weights, more than zero each.
func (w Weights) Usable(some []netip.AddrPort) (usable []netip.AddrPort, weights []int) {
	all := w.Among(some)
	if !slices.Contains(all, 0) {
		return some, all
	}
	for i, weight := range all {
		if weight > 0 {
			usable, weights = append(usable, some[i]), append(weights, weight)
		}
	}
	return usable, weights
}

// Sum adds weights up.
func Sum(weights []int) (total int) {
	for _, weight := range weights {
		total += weight
	}
	return total
}

// Interleave returns a round in which each endpoint has as many turns as it weighs, as far apart as
// can be: the one that has waited for most of its share is next.
func Interleave(all []netip.AddrPort, weights []int) (round []netip.AddrPort) {
	total, waiting := Sum(weights), make([]int, len(all))
	for range total {
		next := 0
		for i, weight := range weights {
			if waiting[i] += weight; waiting[i] > waiting[next] {
				next = i
			}
		}
		waiting[next] -= total
		round = append(round, all[next])
	}
	return round
}
