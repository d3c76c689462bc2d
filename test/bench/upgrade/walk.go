package upgrade

import (
	"context"
	"errors"
	"fmt"

	"github.com/clusterip-operator/clusterip-operator/test/bench/progress"
	"github.com/clusterip-operator/clusterip-operator/test/bench/report"
	"github.com/clusterip-operator/clusterip-operator/test/bench/stats"
	"github.com/clusterip-operator/clusterip-operator/test/framework"
)

// Step is the first start of one minor version on what the one before has left.
type Step struct{ Without, With Flip }

// way is how a cluster of 1.32 is upgraded as Kubernetes wants it, one minor at a time.
var way = []framework.Version{framework.V133, framework.V134, framework.V135, framework.V136, framework.V137}

// walked is what kind of cluster goes all the way.
func (o Options) walked() Shape { return Shape{Services: o.Walked, Dual: true, Mixed: true} }

// Walked is a cluster that has gone through all minor versions.
type Walked struct {
	Options  Options
	Versions string // that it began on
	Steps    []Step
}

// Walk upgrades the same cluster step by step, as it is and migrated.
func Walk(ctx context.Context, o Options, log *progress.Log) (w Walked, err error) {
	clusters, err := newShelf(log)
	if err != nil {
		return w, err
	}
	defer func() { err = errors.Join(err, clusters.remove()) }()
	w = Walked{Options: o, Steps: make([]Step, len(way))}
	folder, err := clusters.build(ctx, o.walked())
	if err != nil {
		return w, err
	}
	c := Case{Shape: o.walked()}
	migrated, err := clusters.migrated(ctx, folder, &c)
	if err != nil {
		return w, err
	}
	w.Versions = c.versions
	err = clusters.walkFrom(ctx, folder, o, func(i int, f Flip) { w.Steps[i].Without = f })
	if err == nil {
		err = clusters.walkFrom(ctx, migrated, o, func(i int, f Flip) { w.Steps[i].With = f })
	}
	return w, err
}

func (s *shelf) walkFrom(ctx context.Context, folder string, o Options, made func(int, Flip)) error {
	return s.onCopy(ctx, folder, o.walked(), func(ctx context.Context, c *subject) error {
		before := Flip{} // what it counts is from the beginning
		for i, to := range way {
			f, err := c.flip(ctx, to, o.Bound)
			if err != nil {
				return fmt.Errorf("upgrading to %s: %w", to.Name, err)
			}
			if f.Ready == 0 {
				return fmt.Errorf("upgrading to %s: not ready within %v", to.Name, o.Bound)
			}
			step := f
			step.Events, step.Written = f.Events-before.Events, f.Written-before.Written
			s.tell(to.Name, step)
			made(i, step)
			before = f
		}
		return nil
	})
}

// Tables has a row for each step.
func (w Walked) Tables() []report.Table {
	table := report.Table{Header: []string{
		"first start of, with " + w.Options.walked().String(), "as it is: /readyz after, s", "restarts", "warnings", "IPAddresses written",
		"migrated: /readyz after, s", "warnings", "IPAddresses written",
	}}
	for _, s := range w.Steps {
		table.Add(s.With.version, stats.Number(s.Without.Ready.Seconds()), whole(float64(s.Without.Restarts)), whole(float64(s.Without.Events)),
			whole(float64(s.Without.Written)), stats.Number(s.With.Ready.Seconds()), whole(float64(s.With.Events)), whole(float64(s.With.Written)))
	}
	return []report.Table{table}
}

// Notes are none.
func (w Walked) Notes() []string { return nil }
