package steering

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/clusterip-operator/clusterip-operator/test/bench/load"
	"github.com/clusterip-operator/clusterip-operator/test/bench/stats"
)

// usage is what calls took: processor time, of the managers in sum, and requests to our webhook.
type usage struct {
	API, Etcd, Managers time.Duration
	Asked               float64
}

// add adds times as much of o.
func (u *usage) add(o usage, times int) {
	u.API += time.Duration(times) * o.API
	u.Etcd += time.Duration(times) * o.Etcd
	u.Managers += time.Duration(times) * o.Managers
	u.Asked += float64(times) * o.Asked
}

// turns are some turns of a work, with what all of them used.
type turns struct {
	load.Outcomes
	usage
}

// work is what is measured with and without webhooks.
type work struct {
	load.Load
	// before and after are not measured; nil for nothing.
	before, after func(context.Context) error
	one           func(ctx context.Context, i int) error
}

// comparison is the same work, with and without webhooks, round by round.
type comparison struct{ With, Without turns }

// compare lets both have their turns, each round in the other order.
func (e *environment) compare(ctx context.Context, rounds int, w work) (c comparison, err error) {
	for round := range rounds {
		for i := range 2 {
			with, t := (round+i)%2 == 0, &c.Without
			if with {
				t = &c.With
			}
			if err := e.setWebhooks(ctx, with); err != nil {
				return c, err
			}
			if err := e.take(ctx, w, t); err != nil {
				return c, err
			}
		}
	}
	return c, nil
}

// take runs a work once more.
func (e *environment) take(ctx context.Context, w work, t *turns) error {
	if w.before != nil {
		if err := w.before(ctx); err != nil {
			return err
		}
	}
	if err := e.settle(ctx); err != nil {
		return err
	}
	outcome, used, err := e.measure(ctx, w)
	if err == nil && outcome.Calls != w.Count {
		err = fmt.Errorf("%d of %d calls were made", outcome.Calls, w.Count)
	}
	if w.after != nil {
		err = errors.Join(err, w.after(ctx))
	}
	t.Outcomes = append(t.Outcomes, outcome)
	t.add(used, 1)
	return err
}

// measure runs a load. What is still done about it a moment later counts too.
func (e *environment) measure(ctx context.Context, w work) (o load.Outcome, used usage, err error) {
	before, err := e.used(ctx)
	if err != nil {
		return o, used, err
	}
	if o, err = w.Run(ctx, w.one); err != nil {
		return o, used, err
	}
	const moment = 100 * time.Millisecond
	time.Sleep(moment)
	used, err = e.used(ctx)
	used.add(before, -1)
	return o, used, err
}

// used is what was used until now.
func (e *environment) used(ctx context.Context) (u usage, err error) {
	if u.Asked, err = e.sum(ctx, decisionsTotal); err != nil {
		return u, err
	}
	for _, replica := range e.replicas {
		used, err := replica.CPUTime()
		if err != nil {
			return u, err
		}
		u.Managers += used
	}
	if u.API, err = e.API.CPUTime(); err != nil {
		return u, err
	}
	u.Etcd, err = e.Etcd.CPUTime()
	return u, err
}

// perCall is a time of all turns together, in milliseconds for each call.
func (t turns) perCall(of time.Duration) float64 { return of.Seconds() * 1000 / float64(t.Calls()) }

// asked is how many requests to our webhook came to one call.
func (t turns) asked() float64 { return t.Asked / float64(t.Calls()) }

// added is how much longer the median call took with webhooks, in milliseconds, round by round.
func (c comparison) added() (s stats.Sample) {
	for i, with := range c.With.Outcomes {
		s = append(s, with.Latencies.Median()-c.Without.Outcomes[i].Latencies.Median())
	}
	return s
}

// share is the rate with webhooks as a share of that without, round by round.
func (c comparison) share() stats.Sample { return c.With.Rates().Over(c.Without.Rates()) }
