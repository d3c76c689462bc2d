package proxy

import (
	"context"
	"time"

	"github.com/clusterip-operator/clusterip-operator/proxyagent/model"
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
