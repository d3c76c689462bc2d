package proxy

import (
	"context"
	"errors"
	"net/netip"
	"slices"
	"time"

	"github.com/clusterip-operator/clusterip-operator/proxyagent/model"
	"github.com/clusterip-operator/clusterip-operator/test/bench/progress"
	"github.com/clusterip-operator/clusterip-operator/test/bench/proxy/population"
	"github.com/clusterip-operator/clusterip-operator/test/bench/stats"
)

// connections measures them through each proxy's rules and through none, while the proxies are
// paused.
func (b *bench) connections(ctx context.Context, c *Case, nodes []*testNode) (err error) {
	if b.Rounds == 0 {
		return nil
	}
	b.log.Step("%s: timing new connections", c.Shape)
	var bare []*testNode
	defer func() { err = errors.Join(err, closeAll(bare)) }()
	for _, variant := range []string{"legacy", "nft", ""} {
		s, err := b.newBare(ctx, variant)
		if s != nil {
			bare = append(bare, s)
		}
		if err != nil {
			return err
		}
	}
	if err := b.takeTurns(ctx, b.Rounds, slices.Concat(bare, nodes), b.time); err != nil {
		return err
	}
	c.Bare = Bare{
		Service: bare[0].Service, Other: bare[0].Other, ServiceNFT: bare[1].Service, OtherNFT: bare[1].Other, None: bare[2].Other,
	}
	none := bare[2]
	for _, step := range []func(context.Context, *Case, []*testNode) error{b.exchanges, b.track} {
		if err := step(ctx, c, append([]*testNode{none}, nodes...)); err != nil {
			return err
		}
	}
	c.Bare.Rates, c.Bare.Tracked = none.ToOther, none.Tracked
	return nil
}

// takeTurns begins each round with another one. What a first round, 0, warms up is not counted.
func (b *bench) takeTurns(ctx context.Context, rounds int, all []*testNode, turn func(s *testNode, round int) error) error {
	for round := range rounds + 1 {
		for i := range all {
			s := all[(round+i)%len(all)]
			if err := errors.Join(turn(s, round), ctx.Err()); err != nil {
				return err
			}
		}
	}
	return nil
}

// served are random Services, none where neither a proxy nor a rule serves them.
func (b *bench) served(s *testNode, n int) []netip.AddrPort {
	switch {
	case s.proxy != nil:
		return b.people.Some(n)
	case s.who.Variant != "": // one rule serves them
		return b.people.SomeIn(serviceRange(b.family), n)
	default:
		return nil
	}
}

// warmUp are connections that are not counted, after those through another proxy.
const warmUp = 50

// inTurn returns two kinds of connections in this order, or in every other round in the other.
func inTurn[T any](round int, a, b T) []T {
	if round%2 == 1 {
		return []T{b, a}
	}
	return []T{a, b}
}

// time times connections to Services, where they are served, and to other addresses.
func (b *bench) time(s *testNode, round int) error {
	type kind struct {
		to   []netip.AddrPort
		into *stats.Sample
	}
	if _, err := s.client.Count(warmUp, b.people.SomeEndpoints(warmUp)...); err != nil {
		return err
	}
	for _, kind := range inTurn(round, kind{b.served(s, b.Count), &s.Service}, kind{b.people.SomeEndpoints(b.Count), &s.Other}) {
		if len(kind.to) == 0 {
			continue
		}
		times, err := s.client.Count(b.Count, kind.to...)
		if err != nil {
			return err
		}
		if times.Failed > 0 {
			b.log.Step("%s: %d of %d connections failed, the last to %s", s.who.Name, times.Failed, b.Count, times.Failure)
		}
		if round > 0 {
			*kind.into = append(*kind.into, times.Took...)
		}
	}
	return nil
}

// awake is how long the proxies get to find out what they have slept through.
const awake = 5 * time.Second

// quiet lets all proxies run while nothing happens. The other family would tell nothing new.
func (b *bench) quiet(ctx context.Context, c *Case, nodes []*testNode) error {
	if b.Quiet == 0 || c.Shape.Endpoints != endpoints || c.Shape.Family != model.IPv4 {
		return nil
	}
	b.log.Step("%s: watching the proxies do nothing for %s", c.Shape, b.Quiet)
	for _, s := range nodes {
		if err := s.proxy.Resume(); err != nil {
			return err
		}
	}
	if err := progress.Pause(ctx, awake); err != nil {
		return err
	}
	if err := addCPU(nodes, -1); err != nil {
		return err
	}
	if err := progress.Pause(ctx, b.Quiet); err != nil {
		return err
	}
	if err := addCPU(nodes, 1); err != nil {
		return err
	}
	for _, s := range nodes {
		s.Quiet, s.CPU = true, time.Duration(float64(s.CPU)*float64(time.Minute)/float64(b.Quiet))
		var err error
		if s.RSS, err = s.proxy.RSS(); err != nil {
			return err
		}
		if err := s.proxy.Pause(); err != nil {
			return err
		}
	}
	return nil
}

// addCPU adds what each proxy has used until now, or takes it away.
func addCPU(nodes []*testNode, sign time.Duration) error {
	for _, s := range nodes {
		stat, err := readStat(s.proxy.Pid())
		if err != nil {
			return err
		}
		s.CPU += sign * stat.used()
	}
	return nil
}

const (
	// churnPeriod is how often endpoints change: for each proxy there is always something to do.
	churnPeriod = 20 * time.Millisecond
	// scalingPeriod is as often as every proxy follows where there is one Service.
	scalingPeriod = 100 * time.Millisecond
	// busyPause is between two connections, so that the client does not need the processor for itself.
	busyPause = time.Millisecond
	// busyTargets is how many Services are connected to.
	busyTargets = 1000
)

// busy times new connections through one proxy after the other while endpoints change without end.
func (b *bench) busy(ctx context.Context, c *Case, nodes []*testNode) error {
	if b.Busy == 0 || c.Shape.Services != b.BusyAt || c.Shape.Family != model.IPv4 {
		return nil
	}
	for _, s := range nodes {
		b.log.Step("%s: %s keeps up with changes", c.Shape, s.who.Name)
		if err := s.proxy.Resume(); err != nil {
			return err
		}
		if err := b.catchUp(ctx, s); err != nil {
			return err
		}
		if err := errors.Join(b.underChurn(ctx, s), s.proxy.Pause()); err != nil {
			return err
		}
	}
	return nil
}

// catchUp waits until a proxy has seen what happened in its pause: a change made now comes last.
func (b *bench) catchUp(ctx context.Context, s *testNode) error {
	for _, state := range []population.State{population.Shut, population.Open} {
		if _, err := b.change(ctx, s, 0, state); err != nil {
			return err
		}
	}
	return progress.Pause(ctx, rest)
}

// underChurn times connections from when changes have begun until they end.
func (b *bench) underChurn(ctx context.Context, s *testNode) error {
	other, period, pause := population.Fewer, churnPeriod, busyPause
	if b.Scaling {
		other, period, pause = population.One, scalingPeriod, 0
	}
	before, err := b.syncs(ctx, s)
	if err != nil {
		return err
	}
	churning, stop := context.WithCancel(ctx)
	done := make(chan error, 1)
	go func() {
		var err error
		s.Pushed, err = b.people.Churn(churning, period, other)
		done <- err
	}()
	err = b.timeBusy(ctx, s, pause)
	stop()
	if err := errors.Join(err, <-done); err != nil {
		return err
	}
	after, err := b.syncs(ctx, s)
	s.BusySyncs = int(after - before)
	return err
}

func (b *bench) timeBusy(ctx context.Context, s *testNode, pause time.Duration) error {
	if err := progress.Pause(ctx, rest); err != nil {
		return err
	}
	times, err := s.client.For(b.Busy, pause, b.people.Some(busyTargets)...)
	s.Busy, s.Failed = times.Took, times.Failed
	return err
}
