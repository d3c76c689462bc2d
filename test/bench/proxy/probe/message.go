// Package probe measures what the first packet of a connection costs: a small program in a network
// namespace of the benchmark's own, which the benchmark starts from its own binary.
//
// It measures TCP's connect() alone. The client is one thread on one processor, and makes the
// system call without telling Go's scheduler. The server listens on the same processor with the
// lowest priority: the kernel answers for it, and need not wake another processor. Connections are
// reset, so that none lingers. Start with [Client] and [Server]; [Main] is the program.
//
// Requests are counted that another server answers, on that processor too, with the client's
// priority: the two take turns, and nothing is idle. They are a byte, as are answers. Where a
// number of connections or requests is measured, other processes of the machine wait.
package probe

import (
	"net/netip"
	"time"

	"github.com/clusterip-operator/clusterip-operator/test/bench/stats"
)

// Name is the first argument that makes the benchmark's binary be this program.
const Name = "probe"

// Outcome is how a connect() ended.
type Outcome string

// Outcomes of a connect().
const (
	Connected Outcome = "connected"
	Refused   Outcome = "refused"
	Silence   Outcome = "silence"
)

// request is a question to the client process, a line of JSON. One of Count, For, Until and
// Exchange is set.
type request struct {
	// Targets replace those of the requests before, unless there are none here.
	Targets []netip.AddrPort `json:",omitempty"`
	// Count connections, or as many as fit into For, to the targets in turn, with a pause after each.
	Count int           `json:",omitempty"`
	For   time.Duration `json:",omitempty"`
	Pause time.Duration `json:",omitempty"`
	// Until a connect() to the first target ends so Streak times in a row, at most for Timeout.
	Until   Outcome       `json:",omitempty"`
	Streak  int           `json:",omitempty"`
	Timeout time.Duration `json:",omitempty"`
	// Exchange is how many requests to have answered, on one connection to the first target, or if
	// Each is set each on a connection of its own to the targets in turn.
	Exchange int  `json:",omitempty"`
	Each     bool `json:",omitempty"`
}

// Times are the µs that connections took, how many failed, and what happened to the last of these.
type Times struct {
	Took    stats.Sample `json:",omitempty"`
	Failed  int          `json:",omitempty"`
	Failure string       `json:",omitempty"`
}

// response is a line of JSON, too.
type response struct {
	Times
	// At is the moment of the first outcome of a streak, 0 if it never came.
	At Moment `json:",omitempty"`
	// Rate is how many requests were answered in a second.
	Rate float64 `json:",omitempty"`
	// Error is about the program and not about the network.
	Error string `json:",omitempty"`
}

// Moment is a time on CLOCK_MONOTONIC, which all processes of a machine share.
type Moment time.Duration

// Since is the time from an earlier moment to this one.
func (m Moment) Since(earlier Moment) time.Duration { return time.Duration(m - earlier) }
