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
	_, reached, err := s.client.Until(services[len(services)-1], probe.Connected, 1, b.Patience)
	if err != nil {
		return err
	}
	if !reached {
		b.log.Step("%s: not within %s", s.who.Name, b.Patience)
		s.Late = b.Patience
		return nil
	}
	if err := b.waitSynced(ctx, s); err != nil {
		return err
	}
	s.Cold, err = age(s.proxy.Pid())
	return err
}

// waitSynced waits until the proxy tells of a sync.
func (b *bench) waitSynced(ctx context.Context, s *stand) error {
	const pause, patience = 5 * time.Millisecond, time.Minute
	for deadline := time.Now().Add(patience); time.Now().Before(deadline); time.Sleep(pause) {
		at, err := b.value(ctx, s, "sync_proxy_rules_last_timestamp_seconds")
		if err != nil || at > 0 {
			return err
		}
	}
	return fmt.Errorf("%s serves but speaks of no sync; the end of its log:\n%s", s.who.Name, s.proxy.LogTail(20))
}
