package batch

import (
	"context"
	"errors"
	"sync/atomic"

	"golang.org/x/sync/errgroup"
	"golang.org/x/time/rate"
)

// Progress is told how far the work is. Its methods may be called concurrently.
type Progress interface {
	Begin(what string, total int) // announces how many items there are, and ends the work before
	Done(n int)                   // counts items that are done
	End()                         // says that there is no more
}

// Pace bounds the work under way: by default one item at a time, unpaced. Each needs its Progress.
type Pace struct {
	Limit    rate.Limit // items per second; 0: no limit
	Workers  int        // items at a time
	Progress Progress
}

// Limiter returns what holds workers to the limit.
func (p Pace) Limiter() *rate.Limiter {
	limit := p.Limit
	if limit == 0 {
		limit = rate.Inf
	}
	return rate.NewLimiter(limit, max(1, p.Workers))
}

// Each calls do for every item and counts those that it has done. An item for which do returns
// ErrMoved is left to the next plan, and not counted. After any other error, or when ctx has ended,
// Each begins no further item and returns that error once the items under way have ended.
func Each[T any](ctx context.Context, p Pace, what string, items []T, do func(context.Context, T) error) (done int, err error) {
	if len(items) == 0 {
		return 0, nil
	}
	p.Progress.Begin(what, len(items))
	defer p.Progress.End()
	var count atomic.Int64
	limit := p.Limiter()
	group, going := errgroup.WithContext(ctx) // an error ends going, but not what is under way
	group.SetLimit(max(1, p.Workers))
	for _, item := range items {
		if going.Err() != nil {
			break
		}
		group.Go(func() error {
			if err := limit.Wait(going); err != nil {
				return err
			}
			switch err := do(ctx, item); {
			case err == nil:
				count.Add(1)
			case !errors.Is(err, ErrMoved):
				return err
			}
			p.Progress.Done(1)
			return nil
		})
	}
	if err = group.Wait(); err == nil {
		err = ctx.Err()
	}
	return int(count.Load()), err
}
