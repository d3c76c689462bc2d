package main

import (
	"fmt"
	"slices"
	"sync"
	"time"
)

// load is a number of calls by a number of workers, given up when time runs out.
type load struct {
	workers, count int
	limit          time.Duration
}

// outcome is what a load came to. Latencies are those that a worker sees, waiting for locks included.
type outcome struct {
	Allocations int       `json:"allocations"`
	Seconds     float64   `json:"seconds"`
	PerSecond   float64   `json:"perSecond"`
	Latency     quantiles `json:"latencyMillis"`
	Addresses   []string  `json:"addresses"`
	latencies   []float64
	mu          sync.Mutex
}

type quantiles struct {
	P50 float64 `json:"p50"`
	P90 float64 `json:"p90"`
	P99 float64 `json:"p99"`
	Max float64 `json:"max"`
}

// run calls one(0), one(1)... and ends with the first error.
func (l load) run(one func(i int) (string, error)) (*outcome, error) {
	var (
		o       outcome
		next    int
		failure error
		group   sync.WaitGroup
		start   = time.Now()
	)
	claim := func() (i int, ok bool) {
		o.mu.Lock()
		defer o.mu.Unlock()
		if next == l.count || failure != nil || time.Since(start) > l.limit {
			return 0, false
		}
		next++
		return next - 1, true
	}
	for range l.workers {
		group.Go(func() {
			for i, ok := claim(); ok; i, ok = claim() {
				begin := time.Now()
				address, err := one(i)
				o.mu.Lock()
				if err != nil && failure == nil {
					failure = fmt.Errorf("allocation %d: %w", i, err)
				} else if err == nil {
					o.add(address, time.Since(begin))
				}
				o.mu.Unlock()
			}
		})
	}
	group.Wait()
	return o.finish(time.Since(start)), failure
}

func (o *outcome) add(address string, latency time.Duration) {
	o.Addresses = append(o.Addresses, address)
	o.latencies = append(o.latencies, float64(latency)/float64(time.Millisecond))
}

// finish computes what the calls came to.
func (o *outcome) finish(elapsed time.Duration) *outcome {
	o.Allocations = len(o.Addresses)
	o.Seconds = elapsed.Seconds()
	o.PerSecond = float64(o.Allocations) / o.Seconds
	slices.Sort(o.latencies)
	o.Latency = quantiles{o.quantile(0.5), o.quantile(0.9), o.quantile(0.99), o.quantile(1)}
	return o
}

// quantile needs sorted latencies.
func (o *outcome) quantile(q float64) float64 {
	if len(o.latencies) == 0 {
		return 0
	}
	return o.latencies[int(q*float64(len(o.latencies)-1))]
}
