package proxy

import (
	"context"
	"errors"
	"time"
)

// measure makes all measurements at one size.
func (b *bench) measure(ctx context.Context, shape Shape) (err error) {
	b.log.Step("%s: creating Services and EndpointSlices", shape)
	if err := b.grow(ctx, shape.Services); err != nil {
		return err
	}
	if err := b.plane.Settle(ctx, time.Minute); err != nil {
		return err
	}
	c := Case{Shape: shape, Figures: map[string]*Figures{}}
	stands, err := b.start(ctx, &c)
	defer func() { err = errors.Join(err, closeAll(stands)) }()
	if err != nil {
		return err
	}
	for _, step := range []func(context.Context, *Case, []*stand) error{b.latencies, b.quiet, b.busy} {
		if err := step(ctx, &c, stands); err != nil {
			return err
		}
	}
	b.result.Cases = append(b.result.Cases, c)
	return nil
}

// start starts the proxies one after the other, measures what each does alone, and returns those that came to an end, paused.
func (b *bench) start(ctx context.Context, c *Case) (stands []*stand, err error) {
	for _, who := range b.contenders {
		f := &Figures{}
		c.Figures[who.Key] = f
		if who.Most > 0 && c.Shape.Services > who.Most {
			f.Absent = "left out"
			continue
		}
		s, err := b.newStand(ctx, who, f)
		if err != nil {
			return stands, err
		}
		stands = append(stands, s)
		if err := b.alone(ctx, c.Shape, s); err != nil {
			return stands, err
		}
		if f.Late > 0 {
			err := s.close()
			if stands = stands[:len(stands)-1]; err != nil {
				return stands, err
			}
		}
	}
	return stands, nil
}

// alone is what one proxy does while all others are paused or not there yet.
func (b *bench) alone(ctx context.Context, shape Shape, s *stand) error {
	if err := b.cold(ctx, s); err != nil || s.Late > 0 {
		return err
	}
	for _, step := range []func(context.Context, *stand) error{b.changes, b.affinity, b.footprint} {
		if err := step(ctx, s); err != nil {
			return err
		}
	}
	b.log.Step("%s: %s: %s", shape, s.who.Name, s.Figures)
	return s.proxy.Pause()
}

func closeAll(stands []*stand) error {
	var errs []error
	for _, s := range stands {
		errs = append(errs, s.close())
	}
	return errors.Join(errs...)
}
