package proxy

import (
	"context"
	"fmt"
	"time"

	"github.com/clusterip-operator/clusterip-operator/test/bench/proxy/probe"
)

// cold starts the proxy and waits until the last Service can be reached and the proxy says that it has synced.
func (b *bench) cold(ctx context.Context, s *stand) error {
	b.log.Step("starting %s", s.who.Name)
	if err := b.startProxy(ctx, s); err != nil {
		return err
	}
	services := b.people.Services()
	connected, reached, err := s.client.Until(services[len(services)-1], probe.Connected, 1, b.Patience)
	if err != nil {
		return err
	}
	if !reached {
		b.log.Step("%s: not within %s", s.who.Name, b.Patience)
		s.Late = b.Patience
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
	const pause, patience = 5 * time.Millisecond, time.Minute
	for deadline := time.Now().Add(patience); time.Now().Before(deadline); time.Sleep(pause) {
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
