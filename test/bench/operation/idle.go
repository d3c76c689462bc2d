package operation

import (
	"context"
	"time"

	"github.com/clusterip-operator/clusterip-operator/test/bench/cluster"
	"github.com/clusterip-operator/clusterip-operator/test/bench/progress"
)

// Idle is a program while nothing happens in the cluster.
type Idle struct {
	// RSS is its resident memory at the end, in bytes.
	RSS int64
	// CPU is the processor time that it used in Of.
	CPU, Of time.Duration
}

// watchIdle waits until the cluster is quiet and watches one program for a while.
func watchIdle(ctx context.Context, c *cluster.Cluster, p process, period time.Duration, log *progress.Log) (Idle, error) {
	if err := c.Settle(ctx, time.Minute); err != nil {
		return Idle{}, err
	}
	log.Step("watching it do nothing for %s", period)
	idle := Idle{Of: period}
	usage, err := readCPU(p)
	if err != nil {
		return idle, err
	}
	select {
	case <-ctx.Done():
		return idle, context.Cause(ctx)
	case <-time.After(period):
	}
	if err := usage.sinceThen(&idle.CPU); err != nil {
		return idle, err
	}
	idle.RSS, err = p.RSS()
	return idle, err
}

// process is what is measured of a program: a framework.Process.
type process interface {
	RSS() (int64, error)
	CPUTime() (time.Duration, error)
}

// reading is the processor time of some programs at one moment.
type reading struct {
	of    []process
	times []time.Duration
}

func readCPU(of ...process) (r reading, err error) {
	r.of, r.times = of, make([]time.Duration, len(of))
	for i, p := range of {
		if r.times[i], err = p.CPUTime(); err != nil {
			return r, err
		}
	}
	return r, nil
}

// sinceThen puts what each program has used since the reading into one target each, in the same order.
func (r reading) sinceThen(targets ...*time.Duration) error {
	now, err := readCPU(r.of...)
	if err != nil {
		return err
	}
	for i, target := range targets {
		*target = now.times[i] - r.times[i]
	}
	return nil
}
