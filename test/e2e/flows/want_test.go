package flows_test

import (
	"cmp"
	"fmt"
	"net/netip"
	"slices"
	"strings"
	"time"

	"github.com/clusterip-operator/clusterip-operator/proxyagent/model"
	"github.com/clusterip-operator/clusterip-operator/test/framework"
	"github.com/clusterip-operator/clusterip-operator/test/framework/network"
)

// source is what a server shall see as its peer.
type source uint8

const (
	anySource source = iota
	ofClient         // the client's own address
	ofNode           // the node's: masqueraded
)

// want is what a flow shall find.
type want struct {
	outcome   network.Outcome
	endpoints []target // none: where the flow goes anyway
	some      bool     // one of the endpoints is enough
	source    source
}

// target is where an endpoint listens.
type target struct {
	endpoint
	port uint16
}

func at(e endpoint, port uint16) target { return target{e, port} }

var (
	refused = want{outcome: network.Refused}
	dropped = want{outcome: network.Dropped}
	// itself is reached where no rule changes the destination.
	itself = want{outcome: network.Connected}
)

// reachesAt wants each of the targets to be reached now and then, and no other one.
func reachesAt(targets ...target) want { return want{outcome: network.Connected, endpoints: targets} }

// reaches is reachesAt port 8080.
func reaches(endpoints ...endpoint) want {
	w := want{outcome: network.Connected}
	for _, e := range endpoints {
		w.endpoints = append(w.endpoints, at(e, 8080))
	}
	return w
}

// reachesSome wants any of the endpoints to be reached, always the same or not, and no other one.
func reachesSome(endpoints ...endpoint) want {
	w := reaches(endpoints...)
	w.some = true
	return w
}

// masqueraded also wants servers to see the node's address; preserved the client's.
func (w want) masqueraded() want { w.source = ofNode; return w }

func (w want) preserved() want { w.source = ofClient; return w }

// Flow is a way that packets shall take.
type Flow struct {
	from *network.Namespace
	network.Probe
	// vary, if set, changes the n-th attempt.
	vary func(n int, p *network.Probe)
}

// dial asks once. Who does not repeat it wants a Timeout, say patient.
func (f Flow) dial() network.Result {
	f.Timeout = cmp.Or(f.Timeout, network.RetryTimeout)
	return f.from.Dial(f.Probe)
}

// flow is TCP from a namespace.
func flow(n *network.Namespace, to netip.Addr, port uint16) Flow {
	return Flow{from: n, Probe: network.Probe{To: netip.AddrPortFrom(to, port)}}
}

// over is a flow with another protocol.
func over(p model.Protocol, f Flow) Flow { f.Protocol = p; return f }

// bound is a flow with a source address or port.
func bound(source netip.Addr, port uint16, f Flow) Flow {
	f.Source = netip.AddrPortFrom(source, port)
	return f
}

// check asks the network whether a flow finds what is wanted. An error tells what it found instead.
func (f Flow) check(w want) error {
	if w.outcome != network.Connected {
		f.Timeout = cmp.Or(f.Timeout, network.TimeoutFor(f.Probe, w.outcome))
		if got := f.dial(); got.Outcome != w.outcome {
			return fmt.Errorf("got %s, want %s", got, w.outcome)
		}
		return nil
	}
	f.Timeout = time.Second * framework.Slowness
	wanted := []netip.AddrPort{f.To}
	for i, e := range w.endpoints {
		wanted = append(wanted[:i], netip.AddrPortFrom(e.Addr(model.FamilyOf(f.To.Addr())), e.port))
	}
	missing := slices.Clone(wanted)
	// 25 attempts see an extra endpoint, even if each of hundreds of tries could pass by luck. IPVS
	// takes turns, and an emulated machine has no time.
	enough := 2 * len(wanted)
	if framework.Slowness == 1 {
		enough = max(enough, 24)
	}
	// An attempt misses the last endpoint with probability 1-1/n: 25 n all do once in 10^10 runs.
	for attempt := range 25 * len(wanted) {
		if f.vary != nil {
			f.vary(attempt, &f.Probe)
		}
		got := f.dial()
		if err := w.judge(got, wanted); err != nil {
			return fmt.Errorf("attempt %d: %w", attempt+1, err)
		}
		// What served once is served: a later answer may be late on a busy machine, and a run of
		// attempts begins anew after each that fails.
		f.Timeout = 5 * time.Second * framework.Slowness
		missing = slices.DeleteFunc(missing, func(a netip.AddrPort) bool { return a == got.Endpoint })
		if attempt >= enough && (len(missing) == 0 || w.some) {
			return nil
		}
	}
	return fmt.Errorf("never reached %v of %v", missing, wanted)
}

func (w want) judge(got network.Result, wanted []netip.AddrPort) error {
	wrong := ""
	switch {
	case got.Outcome != network.Connected:
		wrong = "outcome"
	case !slices.Contains(wanted, got.Endpoint):
		wrong = "endpoint"
	case w.source == ofNode && !got.Masqueraded() && !network.IsNodeAddr(got.Client.Addr()),
		w.source == ofClient && got.Source.Addr() != got.Client.Addr():
		wrong = "source"
	default:
		return nil
	}
	return fmt.Errorf("got the wrong %s: %s, want %s", wrong, got,
		strings.Trim(fmt.Sprint(wanted), "[]")+[]string{"", " with the client's address", " with the node's address"}[w.source])
}
