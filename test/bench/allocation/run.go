// Package allocation measures how many addresses per second one API server can give out: by our
// allocator (draw, create the IPAddress, observe), by upstream's allocator in a process of its own,
// and by creating Services, where upstream's allocator works inside the API server. As a measure
// for all of them, IPAddresses are also written without any allocator.
//
// All contenders use the same API server in turns, at several numbers of existing Services. What
// one has taken is given back before the next one starts.
//
// Start with Run; contender.go holds the contenders.
package allocation

import (
	"context"
	"errors"
	"fmt"
	"net/netip"
	"slices"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

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
	// Load is one turn. It must end long before the API server takes addresses without a Service away.
	Load load.Load
}

// Result is what was measured, by level, and on which versions.
type Result struct {
	Versions string
	Levels   []Level
}

// Level is what was measured at one number of existing Services: one outcome for each round.
type Level struct {
	Existing                       int
	Ours, Upstream, Services, Bare load.Outcomes
}

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

// measureLevel lets the contenders take turns. Each round begins with another one, so that none
// always follows the same other one.
func measureLevel(ctx context.Context, c *cluster.Cluster, o Options, log *progress.Log) (Level, error) {
	level := Level{Existing: c.Copies}
	contenders := []struct {
		take  contender
		turns *load.Outcomes
	}{{ours, &level.Ours}, {upstream, &level.Upstream}, {services, &level.Services}, {bare, &level.Bare}}
	for round := range o.Rounds {
		for i := range contenders {
			next := contenders[(round+i)%len(contenders)]
			outcome, err := takeTurn(ctx, c, next.take, o.Load)
			if err != nil {
				return level, err
			}
			*next.turns = append(*next.turns, outcome)
		}
		log.Step("%d existing, round %d of %d: per second ours %.0f, upstream's %.0f, Services %.0f, bare %.0f", level.Existing, round+1, o.Rounds,
			level.Ours[round].PerSecond(), level.Upstream[round].PerSecond(), level.Services[round].PerSecond(), level.Bare[round].PerSecond())
	}
	return level, nil
}

// takeTurn waits for a quiet API server, measures one contender, and cleans up behind it.
func takeTurn(ctx context.Context, c *cluster.Cluster, take contender, l load.Load) (load.Outcome, error) {
	if err := c.Settle(ctx, 10*time.Second); err != nil {
		return load.Outcome{}, err
	}
	outcome, left, err := take(ctx, c, l)
	if err == nil && outcome.Calls == 0 {
		err = errors.New("not a single allocation was done in time")
	}
	return outcome, errors.Join(err, remove(ctx, c, left))
}

// remove deletes Services, and IPAddresses without one, which the API server keeps for a minute.
func remove(ctx context.Context, c *cluster.Cluster, names []string) error {
	names = slices.DeleteFunc(names, func(name string) bool { return name == "" }) // for these nothing was created
	_, err := load.Load{Workers: 16, Count: len(names)}.Run(ctx, func(ctx context.Context, i int) error {
		if _, err := netip.ParseAddr(names[i]); err != nil {
			return c.DeleteService(ctx, names[i])
		}
		err := c.Client.NetworkingV1().IPAddresses().Delete(ctx, names[i], metav1.DeleteOptions{})
		if err != nil && !apierrors.IsNotFound(err) {
			return fmt.Errorf("deleting IPAddress %s: %w", names[i], err)
		}
		return nil
	})
	return err
}
