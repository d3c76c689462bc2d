package proxy

import (
	"context"
	"fmt"
	"time"

	"github.com/clusterip-operator/clusterip-operator/test/bench/proxy/population"
	"github.com/clusterip-operator/clusterip-operator/test/bench/proxy/probe"
)

const (
	// changePatience is how long a change may take.
	changePatience = time.Minute
	// fewChanges are enough of those that take long.
	fewChanges = 3
	// rest is the least pause after a change.
	rest = 500 * time.Millisecond
)

// changes times single changes of an EndpointSlice: to a port on which nobody listens and back.
func (b *bench) changes(ctx context.Context, s *stand) error {
	before, err := b.syncs(ctx, s)
	if err != nil {
		return err
	}
	begin := time.Now()
	for i := 0; i < b.Changes && (i < fewChanges || time.Since(begin) < b.ChangesLimit); i++ {
		took, err := b.change(ctx, s, i/2, population.State(1-i%2))
		if err != nil {
			return err
		}
		s.Changes = append(s.Changes, took.Seconds()*1e3)
		time.Sleep(max(rest, took))
	}
	if last := len(s.Changes) - 1; last%2 == 0 {
		if _, err := b.change(ctx, s, last/2, population.Open); err != nil {
			return err
		}
		time.Sleep(rest)
	}
	after, err := b.syncs(ctx, s)
	s.Syncs = 1e3 * (after.seconds - before.seconds) / (after.count - before.count)
	return err
}

// change makes the i-th of the Services that are scattered over all have a state, and returns how long that takes from the answer of the
// API server until connections tell.
func (b *bench) change(ctx context.Context, s *stand, i int, to population.State) (time.Duration, error) {
	services := b.people.Services()
	i = (i*1117 + 500) % len(services)
	if err := b.people.Set(ctx, i, to); err != nil {
		return 0, err
	}
	start, err := probe.Now()
	if err != nil {
		return 0, err
	}
	outcome, streak := probe.Refused, 1
	if to == population.Open {
		outcome, streak = probe.Connected, b.streak()
	}
	end, reached, err := s.client.Until(services[i], outcome, streak, changePatience)
	if err == nil && !reached {
		err = fmt.Errorf("%s: a change did not arrive within %s; the end of its log:\n%s", s.who.Name, changePatience, s.proxy.LogTail(20))
	}
	return max(0, end.Since(start)), err
}

// streak is how many connections in a row tell that no endpoint is shut, where only a part of them is.
func (b *bench) streak() int {
	if b.people.Share() == 1 {
		return 1
	}
	return int(10 / b.people.Share()) // all of them succeed by chance once in 20,000 times
}

// synced is what a proxy says about its syncs.
type synced struct{ seconds, count float64 }

func (b *bench) syncs(ctx context.Context, s *stand) (all synced, err error) {
	const name = "sync_proxy_rules_duration_seconds"
	if all.seconds, err = b.value(ctx, s, name+"_sum"); err != nil {
		return all, err
	}
	all.count, err = b.value(ctx, s, name+"_count")
	return all, err
}
