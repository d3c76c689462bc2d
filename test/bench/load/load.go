package load

import (
	"context"
	"sync"
	"time"

	"github.com/clusterip-operator/clusterip-operator/test/bench/stats"
)

// Load is how many calls to make, by how many workers at the same time, and after what time to start no more.
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

// run is a Load under way.
type run struct {
	Load
	start time.Time

	mu      sync.Mutex
	next    int
	outcome Outcome
	err     error
}

// Run calls one(ctx, 0), one(ctx, 1)... and gives up at the first error, which it returns with what was done until then.
func (l Load) Run(ctx context.Context, one func(ctx context.Context, i int) error) (Outcome, error) {
	r := &run{Load: l, start: time.Now()}
	var workers sync.WaitGroup
	for range l.Workers {
		workers.Go(func() {
			for i, ok := r.claim(); ok; i, ok = r.claim() {
				begin := time.Now()
				err := one(ctx, i)
				r.book(time.Since(begin), err)
			}
		})
	}
	workers.Wait()
	r.outcome.Elapsed = time.Since(r.start)
	return r.outcome, r.err
}

// claim returns the number of the next call, and false when there is none.
func (r *run) claim() (i int, ok bool) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.next == r.Count || r.err != nil || r.Limit > 0 && time.Since(r.start) > r.Limit {
		return 0, false
	}
	r.next++
	return r.next - 1, true
}

func (r *run) book(latency time.Duration, err error) {
	r.mu.Lock()
	defer r.mu.Unlock()
	switch {
	case err == nil:
		r.outcome.Calls++
		r.outcome.Latencies = append(r.outcome.Latencies, float64(latency)/float64(time.Millisecond))
	case r.err == nil:
		r.err = err
	}
}
