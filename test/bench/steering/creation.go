package steering

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/clusterip-operator/clusterip-operator/test/bench/load"
	"github.com/clusterip-operator/clusterip-operator/test/bench/stats"
)

// Creation is what was measured of one combination.
type Creation struct {
	Services, Policies, Families, Clients int
	comparison
	// Interleaved are creations by one client, put in turn to our webhook, none, and the least one.
	Interleaved comparison
	Least       turns
}

// String says where it was measured.
func (c Creation) String() string {
	return fmt.Sprintf("%s Services, %d policies, families: %d, clients: %d", stats.Count(c.Services), c.Policies, c.Families, c.Clients)
}

// measureCreations measures the combinations, the numbers of Services ascending.
func (e *environment) measureCreations(ctx context.Context, o Options) (all []Creation, err error) {
	w, err := e.startLeastWebhook(ctx)
	if err != nil {
		return nil, err
	}
	defer func() { err = errors.Join(err, w.stop(ctx, e)) }()
	for _, size := range o.Sizes {
		if err := e.Grow(ctx, size); err != nil {
			return all, err
		}
		for _, policies := range o.Policies {
			some, err := e.measureUnder(ctx, policies, o)
			all = append(all, some...)
			if err != nil {
				return all, fmt.Errorf("measuring with %d Services and %d policies: %w", size, policies, err)
			}
		}
	}
	return all, nil
}

// measureUnder measures what is to be measured under so many policies.
func (e *environment) measureUnder(ctx context.Context, policies int, o Options) (all []Creation, err error) {
	if err := e.createPolicies(ctx, policies, false); err != nil {
		return nil, err
	}
	if err := e.waitPolicies(ctx, policies); err != nil {
		return nil, err
	}
	for _, n := range o.Families {
		if n > 1 && policies < slices.Max(o.Policies) {
			continue
		}
		for _, clients := range o.Clients {
			c, err := e.measureCreation(ctx, Creation{Services: e.Copies, Policies: policies, Families: n, Clients: clients}, o)
			if err != nil {
				return all, err
			}
			all = append(all, c)
		}
	}
	return all, e.deletePolicies(ctx)
}

func (e *environment) measureCreation(ctx context.Context, c Creation, o Options) (Creation, error) {
	w := work{Load: o.loadOf(c.Clients), one: e.create(families(c.Families))}
	w.after = e.removeAll(w.Count)
	var err error
	if c.comparison, err = e.compare(ctx, o.Rounds, w); err != nil {
		return c, err
	}
	if c.Clients == 1 {
		if err := e.interleave(ctx, o, &c); err != nil {
			return c, err
		}
	}
	e.log.Step("%s: p50 %.2f ms with, %.2f ms without; %.0f and %.0f per second", c,
		c.latencies().With.Latencies().Median(), c.latencies().Without.Latencies().Median(), c.With.Rates().Median(), c.Without.Rates().Median())
	return c, nil
}

// latencies are those of one client call by call, of more turn by turn.
func (c Creation) latencies() comparison {
	if c.Clients == 1 {
		return c.Interleaved
	}
	return c.comparison
}

// leastAdded is how many ms longer the median call took with the least webhook, round by round.
func (c Creation) leastAdded() stats.Sample {
	return comparison{With: c.Least, Without: c.Interleaved.Without}.added()
}

// interleave creates Services one by one: a third goes to our webhook, a third to none, a third to
// the least one. So a machine with other load, and a cluster that grows, are the same to all.
func (e *environment) interleave(ctx context.Context, o Options, c *Creation) error {
	if err := e.setWebhooks(ctx, true); err != nil {
		return err
	}
	kinds := []struct {
		label string
		*turns
	}{{"", &c.Interleaved.With}, {"none", &c.Interleaved.Without}, {least, &c.Least}}
	for range o.Rounds {
		if err := errors.Join(e.settle(ctx), e.freeLeast(ctx)); err != nil {
			return err
		}
		for _, k := range kinds {
			k.Outcomes = append(k.Outcomes, load.Outcome{})
		}
		n := 2 * len(kinds) * o.Single
		for i := range n {
			k := kinds[(i+i/len(kinds))%len(kinds)] // none is always the first of three
			outcome := &k.Outcomes[len(k.Outcomes)-1]
			begin := time.Now()
			if err := e.create(passing(k.label, families(c.Families)))(ctx, i); err != nil {
				return err
			}
			outcome.Calls++
			outcome.Latencies = append(outcome.Latencies, time.Since(begin).Seconds()*1e3)
		}
		if err := e.removeAll(n)(ctx); err != nil {
			return err
		}
	}
	return nil
}

// Other is what was measured of another operation.
type Other struct {
	Name string
	comparison
}

// measureOthers measures what else is done to Services, without policies.
func (e *environment) measureOthers(ctx context.Context, o Options) (all []Other, err error) {
	l := o.loadOf(helpers)
	for _, w := range []struct {
		name string
		work
	}{
		{"creation with a chosen address", work{Load: l, one: e.create(chosen), after: e.removeAll(l.Count)}},
		{"change of a label", work{Load: l, before: e.createAll(l.Count, nil), one: e.label, after: e.removeAll(l.Count)}},
		{"deletion", work{Load: l, before: e.createAll(l.Count, nil), one: e.remove}},
	} {
		c, err := e.compare(ctx, min(o.Rounds, 2), w.work)
		if err != nil {
			return all, fmt.Errorf("measuring %s: %w", w.name, err)
		}
		e.log.Step("%s: p50 %.2f ms with, %.2f ms without", w.name, c.With.Latencies().Median(), c.Without.Latencies().Median())
		all = append(all, Other{w.name, c})
	}
	return all, nil
}

// Scale is the resident memory of a manager a few seconds after its start.
type Scale struct {
	// Policies, each with a range of its own.
	Policies int
	Alone    int64 // without any, in bytes
	Crowded  int64
	// Ready is the time from the first range until all were ready; from the first policy, Created
	// until all were there, Steering until Services obeyed, Programmed until each status said so.
	Ready, Created, Steering, Programmed time.Duration
	// Creation is by 16 clients, with all of them there.
	Creation comparison
}

// measureScale measures the memory of the only replica.
func (e *environment) measureScale(ctx context.Context, o Options) (s Scale, err error) {
	s.Policies = o.Crowd
	if s.Alone, err = e.memory(ctx); err != nil {
		return s, err
	}
	start := time.Now()
	e.log.Step("creating %d ranges, and then a policy for each", o.Crowd)
	if err := e.createRanges(ctx, o.Crowd); err != nil {
		return s, err
	}
	s.Ready, start = time.Since(start), time.Now()
	if err := e.createPolicies(ctx, o.Crowd, true); err != nil {
		return s, err
	}
	s.Created = time.Since(start)
	if err := e.waitSteered(ctx, o.Crowd-1); err != nil {
		return s, err
	}
	s.Steering = time.Since(start)
	if err := e.waitPolicies(ctx, o.Crowd); err != nil {
		return s, err
	}
	s.Programmed = time.Since(start)
	e.log.Step("the ranges are ready after %.1f s; the policies are there after %.1f s, steer after %.1f s, and say so after %.1f s",
		s.Ready.Seconds(), s.Created.Seconds(), s.Steering.Seconds(), s.Programmed.Seconds())
	if s.Crowded, err = e.memory(ctx); err != nil {
		return s, err
	}
	e.log.Step("resident memory %d MiB, and %d MiB without them", s.Crowded>>20, s.Alone>>20)
	w := work{Load: o.loadOf(helpers), one: e.create(nil)}
	w.after = e.removeAll(w.Count)
	s.Creation, err = e.compare(ctx, 1, w)
	return s, err
}

// memory starts the replica anew and reads its memory when it has had its first look at everything.
func (e *environment) memory(ctx context.Context) (int64, error) {
	if err := e.restart(ctx); err != nil {
		return 0, err
	}
	if err := e.Settle(ctx, 15*time.Second); err != nil {
		return 0, err
	}
	return e.replicas[0].RSS()
}
