package steering

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/clusterip-operator/clusterip-operator/test/bench/load"
	"github.com/clusterip-operator/clusterip-operator/test/bench/stats"
)

// turn is one run of a load.
type turn struct {
	load.Outcome
	// Requests to our webhook while it ran.
	Asked float64
	// Processor time meanwhile; that of the managers together.
	API, Etcd, Managers time.Duration
}

// work is what is measured with and without webhooks.
type work struct {
	load.Load
	// before and after are not measured; nil for nothing.
	before, after func(context.Context) error
	one           func(ctx context.Context, i int) error
}

// contest is the same work, with and without webhooks, round by round.
type contest struct{ With, Without turns }

type turns []turn

// compare lets both have their turns, each round in the other order.
func (b *bed) compare(ctx context.Context, rounds int, w work) (c contest, err error) {
	for round := range rounds {
		for i := range 2 {
			with := (round+i)%2 == 0
			if err := b.ask(ctx, with); err != nil {
				return c, err
			}
			t, err := b.take(ctx, w)
			if err != nil {
				return c, err
			}
			if with {
				c.With = append(c.With, t)
			} else {
				c.Without = append(c.Without, t)
			}
		}
	}
	return c, nil
}

// take runs a work once.
func (b *bed) take(ctx context.Context, w work) (t turn, err error) {
	if w.before != nil {
		if err := w.before(ctx); err != nil {
			return t, err
		}
	}
	if err := b.rest(ctx); err != nil {
		return t, err
	}
	t, err = b.measure(ctx, w)
	if err == nil && t.Calls != w.Count {
		err = fmt.Errorf("%d of %d calls were made", t.Calls, w.Count)
	}
	if w.after != nil {
		err = errors.Join(err, w.after(ctx))
	}
	return t, err
}

// measure runs a load. What is still done about it a moment later counts too.
func (b *bed) measure(ctx context.Context, w work) (t turn, err error) {
	before, err := b.read(ctx)
	if err != nil {
		return t, err
	}
	if t.Outcome, err = w.Run(ctx, w.one); err != nil {
		return t, err
	}
	const moment = 100 * time.Millisecond
	time.Sleep(moment)
	after, err := b.read(ctx)
	t.Asked = after.asked - before.asked
	t.API, t.Etcd, t.Managers = after.api-before.api, after.etcd-before.etcd, after.managers-before.managers
	return t, err
}

// reading is what counters say at one moment.
type reading struct {
	asked               float64
	api, etcd, managers time.Duration
}

func (b *bed) read(ctx context.Context) (r reading, err error) {
	if r.asked, err = b.sum(ctx, decisionsTotal); err != nil {
		return r, err
	}
	for _, replica := range b.replicas {
		used, err := replica.CPUTime()
		if err != nil {
			return r, err
		}
		r.managers += used
	}
	if r.api, err = b.API.CPUTime(); err != nil {
		return r, err
	}
	r.etcd, err = b.Etcd.CPUTime()
	return r, err
}

// sample is one number of each turn.
func (t turns) sample(of func(turn) float64) (s stats.Sample) {
	for _, one := range t {
		s = append(s, of(one))
	}
	return s
}

func rate(t turn) float64 { return t.PerSecond() }

func middle(t turn) float64 { return t.Latencies.Median() }

// latencies are those of all turns together.
func (t turns) latencies() (all stats.Sample) {
	for _, one := range t {
		all = append(all, one.Latencies...)
	}
	return all
}

// perCall is a time of all turns together, in milliseconds for each call.
func (t turns) perCall(of func(turn) time.Duration) float64 {
	var sum time.Duration
	for _, one := range t {
		sum += of(one)
	}
	return sum.Seconds() * 1000 / float64(t.calls())
}

// calls is how many there were in all turns.
func (t turns) calls() (n int) {
	for _, one := range t {
		n += one.Calls
	}
	return n
}

// asked is how many requests to our webhook came to one call.
func (t turns) asked() float64 {
	sum := 0.0
	for _, one := range t {
		sum += one.Asked
	}
	return sum / float64(t.calls())
}

// added is how much longer the median call took with webhooks, in milliseconds, round by round.
func (c contest) added() (s stats.Sample) {
	with, without := c.With.sample(middle), c.Without.sample(middle)
	for i := range with {
		s = append(s, with[i]-without[i])
	}
	return s
}

// share is the rate with webhooks as a share of that without, round by round.
func (c contest) share() stats.Sample { return c.With.sample(rate).Over(c.Without.sample(rate)) }
