//go:build linux

package flowtest

import (
	"fmt"
	"maps"
	"net/netip"
	"slices"
	"strings"
	"time"

	"github.com/clusterip-operator/clusterip-operator/test/framework/network"
)

// source is what a server shall see as its peer.
type source uint8

const (
	anySource source = iota
	ofClient         // the client's own address
	ofNode           // the node's: masqueraded
)

// Want is what a flow shall find. Its zero value is satisfied by nothing: see [Reaches], [Refused], [Dropped].
type Want struct {
	outcome   network.Outcome
	endpoints []netip.AddrPort
	some      bool
	source    source
}

// Reaches wants each of the endpoints to be reached now and then, and no other one.
func Reaches(endpoints ...netip.AddrPort) Want {
	return Want{outcome: network.Connected, endpoints: endpoints}
}

// ReachesSome wants one of the endpoints to be reached, always the same or not, and no other one.
func ReachesSome(endpoints ...netip.AddrPort) Want {
	return Want{outcome: network.Connected, endpoints: endpoints, some: true}
}

// Refused wants an immediate refusal.
func Refused() Want { return Want{outcome: network.Refused} }

// Dropped wants no answer.
func Dropped() Want { return Want{outcome: network.Dropped} }

// Masqueraded also wants servers to see the node's address; Preserved wants them to see the client's.
func (w Want) Masqueraded() Want { w.source = ofNode; return w }

// Preserved wants servers to see the client's address.
func (w Want) Preserved() Want { w.source = ofClient; return w }

// String tells what is wanted.
func (w Want) String() string {
	if w.outcome != network.Connected {
		return string(w.outcome)
	}
	var words []string
	for _, e := range w.endpoints {
		words = append(words, e.String())
	}
	return strings.Join(words, ", ") + []string{"", " with the client's address", " with the node's address"}[w.source]
}

// Flow is a way that packets shall take.
type Flow struct {
	From *network.Namespace
	network.Probe
	// Vary, if set, changes the n-th attempt.
	Vary func(n int, p *network.Probe)
}

// dial asks for the n-th time.
func (f Flow) dial(n int) network.Result {
	if f.Vary != nil {
		f.Vary(n, &f.Probe)
	}
	return f.From.Dial(f.Probe)
}

// Check asks the network whether a flow finds what is wanted, now. An error tells what it found instead.
func Check(f Flow, want Want) error {
	if want.outcome != network.Connected {
		f.Timeout = network.TimeoutFor(f.Probe, want.outcome)
		if got := f.From.Dial(f.Probe); got.Outcome != want.outcome {
			return fmt.Errorf("got %s, want %s", got, want)
		}
		return nil
	}
	f.Timeout = time.Second
	missing := map[netip.AddrPort]bool{}
	for _, e := range want.endpoints {
		missing[e] = true
	}
	// Each attempt misses the last endpoint with probability 1-1/n: 25 n of them miss it once in 10^10 runs.
	for attempt := range 25 * len(want.endpoints) {
		got := f.dial(attempt)
		if err := want.judge(got); err != nil {
			return fmt.Errorf("attempt %d: %w", attempt+1, err)
		}
		if delete(missing, got.Endpoint); attempt > 2*len(want.endpoints) && (len(missing) == 0 || want.some) {
			return nil
		}
	}
	return fmt.Errorf("never reached %v, want %s", slices.Collect(maps.Keys(missing)), want)
}

func (w Want) judge(got network.Result) error {
	switch {
	case got.Outcome != network.Connected:
		return fmt.Errorf("got %s, want %s", got, w)
	case !slices.Contains(w.endpoints, got.Endpoint):
		return fmt.Errorf("got the wrong endpoint: %s, want %s", got, w)
	case w.source == ofNode && !got.Masqueraded() && !network.IsNodeAddr(got.Client.Addr()),
		w.source == ofClient && got.Source.Addr() != got.Client.Addr():
		return fmt.Errorf("got the wrong source: %s, want %s", got, w)
	}
	return nil
}
