// Package load calls a function from some workers and says how fast that went. Start with Load.
package load

import (
	"context"
	"sync"
	"time"

	"golang.org/x/sync/errgroup"

	"github.com/clusterip-operator/clusterip-operator/test/bench/stats"
)

// Load is how many calls to make, with how many workers, and after what time to start no more.
type Load struct {
	Workers, Count int
	Limit          time.Duration
}

// Outcome is what a Load came to.
type Outcome struct {
	// Calls is how many calls succeeded, Elapsed the time until the last of them was done.
	Calls   int
	Elapsed time.Duration
	// Latencies are in milliseconds, one for each call, as the worker saw them.
	Latencies stats.Sample
}

// PerSecond is the rate of successful calls.
func (o Outcome) PerSecond() float64 { return float64(o.Calls) / o.Elapsed.Seconds() }

// Run calls one(ctx, 0), one(ctx, 1)... It starts none after an error, and returns what was done.
func (l Load) Run(ctx context.Context, one func(ctx context.Context, i int) error) (o Outcome, err error) {
	var mu sync.Mutex
	group, failed := errgroup.WithContext(ctx)
	group.SetLimit(max(1, l.Workers))
	start := time.Now()
	for i := range l.Count {
		group.Go(func() error {
			begin := time.Now()
			if failed.Err() != nil || l.Limit > 0 && begin.Sub(start) > l.Limit {
				return nil
			}
			if err := one(ctx, i); err != nil {
				return err
			}
			mu.Lock()
			defer mu.Unlock()
			o.Calls++
			o.Latencies = append(o.Latencies, time.Since(begin).Seconds()*1e3)
			return nil
		})
	}
	err = group.Wait()
	o.Elapsed = time.Since(start)
	return o, err
}

// Outcomes are those of several turns.
type Outcomes []Outcome

// Rates are the calls per second of each turn.
func (all Outcomes) Rates() (s stats.Sample) {
	for _, o := range all {
		s = append(s, o.PerSecond())
	}
	return s
}

// Latencies are those of all turns together.
func (all Outcomes) Latencies() (s stats.Sample) {
	for _, o := range all {
		s = append(s, o.Latencies...)
	}
	return s
}

// Calls is how many there were in all turns.
func (all Outcomes) Calls() (n int) {
	for _, o := range all {
		n += o.Calls
	}
	return n
}
