// Package scale measures the manager in a world of thousands: Services of two families,
// ServiceCIDRs, policies, reservations, nodes and namespaces, and the churn of a large cluster.
//
// The objects are written to etcd, as the API server would have stored them: it takes a second to
// create one Service where there are 100,000. Policies go through the API server, and what reserves
// addresses is the manager's own work. A world grows from level to level, each measured with a
// manager of its own: fewer ranges and Services, then all ranges, then all Services. So what an
// event costs is compared in one run.
//
// Start with Run; world.go says what there is, event.go what happens, turnover.go goes on beside.
package scale

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/clusterip-operator/clusterip-operator/test/bench/progress"
	"github.com/clusterip-operator/clusterip-operator/test/bench/stats"
)

// Level is how many Services and ranges there are. Each range has a policy with ten reservations.
type Level struct{ Services, Ranges int }

// String names a level.
func (l Level) String() string {
	return fmt.Sprintf("%s Services, %s ranges", stats.Count(l.Services), stats.Count(l.Ranges))
}

// Options say what to measure.
type Options struct {
	// Levels are measured in their order, and none has less than the one before.
	Levels            []Level
	Nodes, Namespaces int
	// Events is how many of a kind are counted; of rarer kinds it is a share. In the heap of 100,000
	// Services garbage is collected after thousands of them, and they have to pay for it. Where they
	// are too rare, it is collected every two minutes: so long they go on, and Quiet is.
	Events int
	// Quiet is how long the manager is watched while nothing happens, Asked how long the webhook is
	// asked with churn and as long without, Pause how long replicas are asked before and after the
	// leader goes. Still is how long the manager does nothing when it is through with something.
	Quiet, Asked, Pause, Still time.Duration
}

// Full is what the documentation shows.
func Full() Options {
	return Options{
		Levels: []Level{{10_000, 10}, {10_000, 1_000}, {100_000, 1_000}},
		Nodes:  5_000, Namespaces: 5_000, Events: 12_000, Quiet: 2 * time.Minute, Asked: 20 * time.Second, Pause: 8 * time.Second, Still: 2500 * time.Millisecond,
	}
}

// Sized are the options with so many Services and ranges in the last level. The first has a tenth
// of the Services and ten ranges, and what is less than Full is watched for a shorter time.
func Sized(services, ranges, events int) Options {
	o := Full()
	o.Levels, o.Events = []Level{{services / 10, 10}, {services / 10, ranges}, {services, ranges}}, events
	if services < Full().Levels[2].Services {
		o.Quiet, o.Asked, o.Pause, o.Still = 5*time.Second, 8*time.Second, 4*time.Second, 2*time.Second
	}
	return o
}

// Quick is for a look at whether the benchmark itself works.
func Quick() Options {
	return Options{
		Levels: []Level{{100, 10}, {100, 20}, {500, 20}},
		Nodes:  100, Namespaces: 100, Events: 100, Quiet: time.Second, Asked: 2 * time.Second, Pause: 2 * time.Second, Still: 500 * time.Millisecond,
	}
}

// Result is what was measured, and on which versions.
type Result struct {
	Options  Options
	Versions string
	Stages   []Stage
	// Asked and AskedInChurn are answers of the webhook, in milliseconds, in the last level.
	Asked, AskedInChurn stats.Sample
	Churned             Turnover
	Handovers           []Handover
}

// Stage is what was measured in one level.
type Stage struct {
	Level
	Start Start
	// Placed is the time from the start of the manager until all reservations are in place and it is
	// quiet, in the level in which it writes them.
	Placed time.Duration
	Idle   Idle
	// Peak is the most resident memory of the manager, Peer that of kube-controller-manager, in bytes.
	Peak, Peer int64
	// Costs are by the name of a kind of event.
	Costs map[string]Cost
	Sweep Sweep
}

// Run measures all levels, and what only the last one is asked.
func Run(ctx context.Context, o Options, log *progress.Log) (r Result, err error) {
	r.Options = o
	e, err := start(ctx, o, log)
	if err != nil {
		return r, err
	}
	defer func() { err = errors.Join(err, e.stop()) }()
	if r.Versions, err = e.Versions(ctx); err != nil {
		return r, err
	}
	for _, level := range o.Levels {
		stage, err := e.measureLevel(ctx, level)
		if err != nil {
			return r, fmt.Errorf("measuring %s: %w", level, err)
		}
		r.Stages = append(r.Stages, stage)
	}
	if err := r.measureAnswers(ctx, e); err != nil {
		return r, fmt.Errorf("measuring answers: %w", err)
	}
	if r.Handovers, err = e.measureHandovers(ctx); err != nil {
		return r, fmt.Errorf("measuring changes of the leader: %w", err)
	}
	return r, nil
}

// measureLevel makes the world of a level and measures two lives of the manager: one that writes
// what is missing, and one that starts where all is in place.
func (e *environment) measureLevel(ctx context.Context, level Level) (s Stage, err error) {
	s.Level = level
	if err := e.stopReplicas(); err != nil {
		return s, err
	}
	if err := e.grow(ctx, level); err != nil {
		return s, err
	}
	if s.Placed, err = e.settleIn(ctx); err != nil {
		return s, err
	}
	if s.Start, err = e.restart(ctx); err != nil {
		return s, err
	}
	e.log.Step("%s: ready after %.1f s, all checked after %.1f s, resident %d MiB", level, s.Start.Ready.Seconds(), s.Start.Checked.Seconds(), s.Start.RSS>>20)
	if s.Idle, err = e.watchIdle(ctx, e.replicas[0]); err != nil {
		return s, err
	}
	if s.Costs, err = e.measureCosts(ctx, s.Idle); err != nil {
		return s, err
	}
	if s.Sweep, err = e.measureSweep(ctx); err != nil {
		return s, err
	}
	if s.Peak, err = e.replicas[0].PeakRSS(); err != nil {
		return s, err
	}
	s.Peer, err = e.measurePeer(ctx)
	return s, err
}
