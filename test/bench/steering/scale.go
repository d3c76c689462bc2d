package steering

import (
	"context"
	"time"
)

// Scale is the resident memory of a manager a few seconds after its start.
type Scale struct {
	// Policies, each with a range of its own.
	Policies int
	Alone    int64 // without any, in bytes
	Crowded  int64
	// Programmed is how long the manager took from the first policy on until all were in force.
	Programmed time.Duration
	// Creation is by 16 clients, with all of them there.
	Creation contest
}

// measureScale measures the memory of the only replica.
func (b *bed) measureScale(ctx context.Context, o Options) (s Scale, err error) {
	s.Policies = o.Crowd
	if s.Alone, err = b.memory(ctx); err != nil {
		return s, err
	}
	start := time.Now()
	b.log.Step("creating %d policies, each with a range of its own", o.Crowd)
	if err := b.crowdOfRanges(ctx, o.Crowd); err != nil {
		return s, err
	}
	if err := b.waitCrowd(ctx, o.Crowd); err != nil {
		return s, err
	}
	s.Programmed = time.Since(start)
	b.log.Step("they are in force after %.1f s", s.Programmed.Seconds())
	if s.Crowded, err = b.memory(ctx); err != nil {
		return s, err
	}
	b.log.Step("resident memory %d MiB, and %d MiB without them", s.Crowded>>20, s.Alone>>20)
	w := work{Load: o.loadOf(helpers), one: b.create(nil)}
	w.after = b.removeAll(w.Count)
	s.Creation, err = b.compare(ctx, 1, w)
	return s, err
}

// memory starts the replica anew and reads its memory when it has had its first look at everything.
func (b *bed) memory(ctx context.Context) (int64, error) {
	if err := b.restart(ctx); err != nil {
		return 0, err
	}
	if err := b.Settle(ctx, 15*time.Second); err != nil {
		return 0, err
	}
	return b.replicas[0].RSS()
}
