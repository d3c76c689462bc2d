package proxy

import (
	"context"
	"time"

	"github.com/clusterip-operator/clusterip-operator/proxyagent/model"
	"github.com/clusterip-operator/clusterip-operator/test/bench/progress"
	"github.com/clusterip-operator/clusterip-operator/test/bench/proxy/population"
)

// Comparison is one of all that ours wants with all that the kernel has.
type Comparison struct {
	// Took is from when it began to work until it rested, CPU what it used meanwhile.
	Took, CPU time.Duration
	// Change is one that was made as it had begun.
	Change Steps
}

// compareAll has ours compare all twice, as another program writes its own table, then our element.
func (b *bench) compareAll(ctx context.Context, s *testNode) error {
	if !b.Compare || !s.who.Ours || s.who.Mode != "nftables" {
		return nil
	}
	family := "ip"
	if b.family == model.IPv6 {
		family = "ip6"
	}
	for _, foreign := range []struct {
		what []string
		into *Comparison
	}{
		{[]string{"add", "table", family, "another-program"}, &s.Same},
		{[]string{"add", "element", family, "clusterip-proxyagent", "active", "{ " + b.unused() + " }"}, &s.Drifted},
	} {
		if _, err := s.net.Node.Run(ctx, "nft", foreign.what...); err != nil {
			return err
		}
		// It looks every five seconds, and compares for a tenth of the time at most.
		if err := b.watch(ctx, s, looks+12*s.Same.Took, foreign.into); err != nil {
			return err
		}
	}
	return nil
}

// unused is an address of no Service.
func (b *bench) unused() string { return population.Endpoint(b.family, 0).String() }

const (
	looks = 7 * time.Second
	// lull is without work for so long that a comparison has ended.
	lull = time.Second
	// little is what an agent uses that does nothing.
	little = 2 * tick
)

// watch waits until the agent has worked and rests, or for most, if it does not begin. As it
// begins, an endpoint comes.
func (b *bench) watch(ctx context.Context, s *testNode, most time.Duration, c *Comparison) error {
	var begun, worked time.Time
	var first, before time.Duration
	for start := time.Now(); begun.IsZero() && time.Since(start) < most || time.Since(worked) < lull; {
		stat, err := readStat(s.proxy.Pid())
		if err != nil {
			return err
		}
		now := stat.used()
		switch busy := before > 0 && now-before >= little; {
		case busy && begun.IsZero():
			begun, worked, first = time.Now(), time.Now(), before
			if err := b.setTo(ctx, s, &c.Change, 0, population.More); err != nil {
				return err
			}
		case busy:
			worked = time.Now()
		}
		before = now
		if err := progress.Pause(ctx, 5*tick); err != nil {
			return err
		}
	}
	if begun.IsZero() {
		return nil
	}
	c.Took, c.CPU = worked.Sub(begun), before-first
	return b.setTo(ctx, s, &Steps{}, 0, population.Open)
}
