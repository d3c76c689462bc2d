package allocation

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/clusterip-operator/clusterip-operator/test/bench/cluster"
	"github.com/clusterip-operator/clusterip-operator/test/bench/load"
	"github.com/clusterip-operator/clusterip-operator/test/bench/progress"
)

// Options say what to measure.
type Options struct {
	// Levels are the numbers of existing Services, ascending.
	Levels []int
	// Rounds is how often each contender has its turn at each level.
	Rounds int
	// Load is one turn. It has to be over long before the API server takes addresses without a Service away.
	Load load.Load
}

// Result is what was measured, by level, and on which versions.
type Result struct {
	Versions string
	Levels   []Level
}

// Level is what was measured at one number of existing Services: one measurement for each round.
type Level struct {
	Existing                       int
	Ours, Upstream, Services, Bare Turns
}

// Turns are the turns of one contender.
type Turns []measurement

// Run starts a control plane, measures all levels on it, and stops it.
func Run(ctx context.Context, o Options, log *progress.Log) (result Result, err error) {
	if o.Load.Limit > grace/2 {
		return Result{}, fmt.Errorf("a turn of %s is too long: the API server takes addresses without a Service away after %s", o.Load.Limit, grace)
	}
	c, err := cluster.Start(ctx, log)
	if err != nil {
		return Result{}, err
	}
	defer func() { err = errors.Join(err, c.Stop()) }()
	if result.Versions, err = c.Versions(ctx); err != nil {
		return result, err
	}
	for _, existing := range o.Levels {
		if err := c.Grow(ctx, existing); err != nil {
			return result, err
		}
		level, err := measureLevel(ctx, c, o, log)
		if err != nil {
			return result, fmt.Errorf("measuring with %d existing Services: %w", existing, err)
		}
		result.Levels = append(result.Levels, level)
	}
	return result, nil
}

// measureLevel lets the contenders take turns. Each round begins with another one, so that none always finds the
// API server as the same other one has left it.
func measureLevel(ctx context.Context, c *cluster.Cluster, o Options, log *progress.Log) (Level, error) {
	level := Level{Existing: c.Copies}
	contenders := []struct {
		contender
		turns *Turns
	}{
		{&ours{cluster: c}, &level.Ours},
		{&upstream{cluster: c}, &level.Upstream},
		{&services{cluster: c}, &level.Services},
		{&bare{cluster: c}, &level.Bare},
	}
	for round := range o.Rounds {
		for i := range contenders {
			next := contenders[(round+i)%len(contenders)]
			if err := takeTurn(ctx, c, next, next.turns, o.Load); err != nil {
				return level, err
			}
		}
		log.Step("%d existing, round %d of %d: per second ours %.0f, upstream's %.0f, Services %.0f, bare %.0f", level.Existing, round+1, o.Rounds,
			level.Ours[round].PerSecond, level.Upstream[round].PerSecond, level.Services[round].PerSecond, level.Bare[round].PerSecond)
	}
	return level, nil
}

// takeTurn waits for a quiet API server, measures one contender, and cleans up behind it.
func takeTurn(ctx context.Context, c *cluster.Cluster, next contender, turns *Turns, l load.Load) error {
	if err := c.Settle(ctx, 10*time.Second); err != nil {
		return err
	}
	m, err := next.allocate(ctx, l)
	if err == nil && m.Count == 0 {
		err = errors.New("not a single allocation was done in time")
	}
	if err := errors.Join(err, next.release(ctx)); err != nil {
		return err
	}
	*turns = append(*turns, m)
	return nil
}
