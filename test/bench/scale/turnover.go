package scale

import (
	"context"
	"errors"
	"fmt"
	"time"

	"golang.org/x/sync/errgroup"

	"github.com/clusterip-operator/clusterip-operator/test/framework/seed"
)

// Writes a second, as in a large cluster. Nodes tell of themselves every five minutes.
const (
	serviceWrites       = 50
	endpointSliceWrites = 200
	heartbeat           = 5 * time.Minute
)

// Turnover is how many writes there were.
type Turnover struct {
	Services, EndpointSlices, Nodes int
	Took                            time.Duration
}

// churn writes until done returns, and returns what it wrote.
//
// Of ten Service writes one lets a Service come and one lets one go, with its IPAddresses: the
// Services beyond those of the level are a ring.
func (e *environment) churn(ctx context.Context, done func(context.Context) error) (t Turnover, err error) {
	began := time.Now()
	life, end := context.WithCancel(ctx)
	var group errgroup.Group
	run := func(n *int, each time.Duration, one func(context.Context, int) error) {
		group.Go(func() error {
			ticker := time.NewTicker(each)
			defer ticker.Stop()
			for ; ; *n++ {
				select {
				case <-life.Done():
					return nil
				case <-ticker.C:
				}
				if err := one(context.WithoutCancel(life), *n); err != nil {
					return fmt.Errorf("writing what changes: %w", err)
				}
			}
		})
	}
	run(&t.Services, time.Second/serviceWrites, e.churnService)
	run(&t.EndpointSlices, time.Second/endpointSliceWrites, func(ctx context.Context, i int) error {
		return e.one(ctx, e.world.endpointSliceAt(i%e.level.Services, time.Now()))
	})
	run(&t.Nodes, heartbeat/time.Duration(e.options.Nodes), func(ctx context.Context, i int) error {
		return e.one(ctx, e.world.nodeAt(i%e.options.Nodes, time.Now()))
	})
	err = done(ctx)
	end()
	err = errors.Join(err, group.Wait())
	t.Took = time.Since(began)
	return t, err
}

// ring is how many Services come before the first of them goes, and half of those that change.
const ring = 100

// churnService makes the n-th write of a Service.
func (e *environment) churnService(ctx context.Context, n int) error {
	come := e.level.Services + n/10%(2*ring)
	switch n % 10 {
	case 0:
		return errors.Join(
			e.one(ctx, e.world.ipAddressAt(2*come)), e.one(ctx, e.world.ipAddressAt(2*come+1)), e.one(ctx, e.world.serviceAt(come, "")),
		)
	case 5:
		leaving := e.level.Services + (n/10+ring)%(2*ring)
		return errors.Join(
			e.gone(ctx, e.world.serviceAt(leaving, "")), e.gone(ctx, e.world.ipAddressAt(2*leaving)), e.gone(ctx, e.world.ipAddressAt(2*leaving+1)),
		)
	default:
		return e.one(ctx, e.world.serviceAt(n%e.level.Services, fmt.Sprint(n)))
	}
}

func (e *environment) one(ctx context.Context, o seed.Object) error {
	return e.objects.Write(ctx, 0, 1, 0, func(int) seed.Object { return o })
}

func (e *environment) gone(ctx context.Context, o seed.Object) error {
	o.Value = nil
	return e.one(ctx, o)
}
