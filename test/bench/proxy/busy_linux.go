package proxy

import (
	"context"
	"errors"
	"time"

	"github.com/clusterip-operator/clusterip-operator/test/bench/proxy/population"
)

const (
	// churnPeriod is how often endpoints change: for each proxy there is always something to do.
	churnPeriod = 20 * time.Millisecond
	// busyPause is between two connections, so that the client does not need the processor for itself.
	busyPause = time.Millisecond
	// busyTargets is how many Services are connected to.
	busyTargets = 1000
)

// busy times new connections through one proxy after the other while endpoints change without end.
func (b *bench) busy(ctx context.Context, c *Case, stands []*stand) error {
	if b.Busy == 0 || c.Shape.Services != b.BusyAt {
		return nil
	}
	for _, s := range stands {
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

// catchUp waits until a proxy has seen everything that happened while it was paused: a change that is made now comes last.
func (b *bench) catchUp(ctx context.Context, s *stand) error {
	for _, state := range []population.State{population.Shut, population.Open} {
		if _, err := b.change(ctx, s, 0, state); err != nil {
			return err
		}
	}
	return sleep(ctx, rest)
}

// underChurn times connections from when changes have begun until they end.
func (b *bench) underChurn(ctx context.Context, s *stand) error {
	before, err := b.syncs(ctx, s)
	if err != nil {
		return err
	}
	churning, stop := context.WithCancel(ctx)
	done := make(chan error, 1)
	go func() {
		var err error
		s.Pushed, err = b.people.Churn(churning, churnPeriod)
		done <- err
	}()
	err = b.timeBusy(ctx, s)
	stop()
	if err := errors.Join(err, <-done); err != nil {
		return err
	}
	after, err := b.syncs(ctx, s)
	s.BusySyncs = int(after.count - before.count)
	return err
}

func (b *bench) timeBusy(ctx context.Context, s *stand) error {
	if err := sleep(ctx, rest); err != nil {
		return err
	}
	times, err := s.client.For(b.Busy, busyPause, b.people.Some(busyTargets)...)
	s.Busy, s.Failed = times.Took, times.Failed
	return err
}
