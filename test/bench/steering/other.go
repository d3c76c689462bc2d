package steering

import (
	"context"
	"fmt"
)

// Other is what was measured of another operation.
type Other struct {
	Name string
	contest
}

// measureOthers measures what else is done to Services, without policies.
func (b *bed) measureOthers(ctx context.Context, o Options) (all []Other, err error) {
	l := o.loadOf(helpers)
	for _, w := range []struct {
		name string
		work
	}{
		{"creation with a chosen address", work{Load: l, one: b.create(chosen), after: b.removeAll(l.Count)}},
		{"change of a label", work{Load: l, before: b.createAll(l.Count, nil), one: b.label, after: b.removeAll(l.Count)}},
		{"deletion", work{Load: l, before: b.createAll(l.Count, nil), one: b.remove}},
	} {
		c, err := b.compare(ctx, min(o.Rounds, 2), w.work)
		if err != nil {
			return all, fmt.Errorf("measuring %s: %w", w.name, err)
		}
		b.log.Step("%s: p50 %.2f ms with, %.2f ms without", w.name, c.With.latencies().Median(), c.Without.latencies().Median())
		all = append(all, Other{w.name, c})
	}
	return all, nil
}
