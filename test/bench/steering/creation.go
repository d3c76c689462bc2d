package steering

import (
	"context"
	"fmt"
	"slices"
)

// Creation is what was measured of one combination.
type Creation struct {
	Services, Policies, Families, Clients int
	contest
}

// measureCreations measures the combinations, the numbers of Services ascending.
func (b *bed) measureCreations(ctx context.Context, o Options) (all []Creation, err error) {
	for _, size := range o.Sizes {
		if err := b.Grow(ctx, size); err != nil {
			return all, err
		}
		for _, policies := range o.Policies {
			some, err := b.measureUnder(ctx, policies, o)
			all = append(all, some...)
			if err != nil {
				return all, fmt.Errorf("measuring with %d Services and %d policies: %w", size, policies, err)
			}
		}
	}
	return all, nil
}

// measureUnder measures what is to be measured under so many policies.
func (b *bed) measureUnder(ctx context.Context, policies int, o Options) (all []Creation, err error) {
	if err := b.crowd(ctx, policies); err != nil {
		return nil, err
	}
	if err := b.waitCrowd(ctx, policies); err != nil {
		return nil, err
	}
	for _, n := range o.Families {
		if n > 1 && policies < slices.Max(o.Policies) {
			continue
		}
		for _, clients := range o.Clients {
			c, err := b.measureCreation(ctx, Creation{Services: b.Copies, Policies: policies, Families: n, Clients: clients}, o)
			if err != nil {
				return all, err
			}
			all = append(all, c)
		}
	}
	return all, b.disperse(ctx)
}

func (b *bed) measureCreation(ctx context.Context, c Creation, o Options) (Creation, error) {
	w := work{Load: o.loadOf(c.Clients), one: b.create(families(c.Families))}
	w.after = b.removeAll(w.Count)
	var err error
	if c.contest, err = b.compare(ctx, o.Rounds, w); err != nil {
		return c, err
	}
	b.log.Step("%d Services, %d policies, families: %d, clients: %d: p50 %.2f ms with, %.2f ms without; %.0f and %.0f per second", c.Services, c.Policies, c.Families,
		c.Clients, c.With.latencies().Median(), c.Without.latencies().Median(), c.With.sample(rate).Median(), c.Without.sample(rate).Median())
	return c, nil
}
