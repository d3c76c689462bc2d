package proxy

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/clusterip-operator/clusterip-operator/proxyagent/model"
	"github.com/clusterip-operator/clusterip-operator/test/bench/proxy/population"
	"github.com/clusterip-operator/clusterip-operator/test/bench/proxy/probe"
)

// awake is how long the proxies get to find out what they have slept through.
const awake = 5 * time.Second

// quiet lets all proxies run at the same time while nothing happens in the cluster. That of the other family would tell nothing new.
func (b *bench) quiet(ctx context.Context, c *Case, stands []*stand) error {
	if b.Quiet == 0 || c.Shape.Endpoints != endpoints || c.Shape.Family != model.IPv4 {
		return nil
	}
	b.log.Step("%s: watching the proxies do nothing for %s", c.Shape, b.Quiet)
	for _, s := range stands {
		if err := s.proxy.Resume(); err != nil {
			return err
		}
	}
	if err := sleep(ctx, awake); err != nil {
		return err
	}
	before := make([]time.Duration, len(stands))
	for i, s := range stands {
		var err error
		if before[i], err = usage(s.proxy.Pid()); err != nil {
			return err
		}
	}
	if err := sleep(ctx, b.Quiet); err != nil {
		return err
	}
	for i, s := range stands {
		if err := b.rested(s, before[i]); err != nil {
			return err
		}
	}
	return nil
}

// rested reads what a proxy has used, and pauses it again.
func (b *bench) rested(s *stand, before time.Duration) (err error) {
	after, err := usage(s.proxy.Pid())
	if err != nil {
		return err
	}
	s.Quiet, s.CPU = true, time.Duration(float64(after-before)*float64(time.Minute)/float64(b.Quiet))
	if s.RSS, err = s.proxy.RSS(); err != nil {
		return err
	}
	return s.proxy.Pause()
}

func sleep(ctx context.Context, d time.Duration) error {
	select {
	case <-ctx.Done():
		return context.Cause(ctx)
	case <-time.After(d):
		return nil
	}
}

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

// cold starts the proxy and waits until the last Service can be reached and the proxy says that it has synced.
func (b *bench) cold(ctx context.Context, s *stand) error {
	b.log.Step("starting %s", s.who.Name)
	if err := b.startProxy(ctx, s); err != nil {
		return err
	}
	services := b.people.Services()
	connected, reached, err := s.client.Until(services[len(services)-1], probe.Connected, 1, b.Timeout)
	if err != nil {
		return err
	}
	if !reached {
		b.log.Step("%s: not within %s", s.who.Name, b.Timeout)
		s.Late = b.Timeout
		return nil
	}
	synced, err := b.firstSync(ctx, s)
	if err != nil {
		return err
	}
	s.Cold, err = sinceStart(s.proxy.Pid(), connected, synced)
	return err
}

// sinceStart is the time from the start of a process to the later of two moments, to a hundredth of a second.
func sinceStart(pid int, connected probe.Moment, synced time.Time) (time.Duration, error) {
	old, err := age(pid)
	if err != nil {
		return 0, err
	}
	now, err := probe.Now()
	if err != nil {
		return 0, err
	}
	return old - min(now.Since(connected), time.Since(synced)), nil
}

// firstSync returns when the proxy synced for the first time, as it tells itself.
func (b *bench) firstSync(ctx context.Context, s *stand) (time.Time, error) {
	const pause, timeout = 5 * time.Millisecond, time.Minute
	for deadline := time.Now().Add(timeout); time.Now().Before(deadline); time.Sleep(pause) {
		at, err := b.value(ctx, s, "sync_proxy_rules_last_timestamp_seconds")
		if err != nil {
			return time.Time{}, err
		}
		if at > 0 {
			return time.UnixMicro(int64(at * 1e6)), nil
		}
	}
	return time.Time{}, fmt.Errorf("%s serves but speaks of no sync; the end of its log:\n%s", s.who.Name, s.proxy.LogTail(20))
}
