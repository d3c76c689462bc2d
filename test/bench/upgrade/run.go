package upgrade

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/clusterip-operator/clusterip-operator/test/bench/cluster"
	"github.com/clusterip-operator/clusterip-operator/test/bench/progress"
	"github.com/clusterip-operator/clusterip-operator/test/framework"
)

// Options say what to measure.
type Options struct {
	// Sizes are numbers of Services in one family, Dual of Services in two.
	Sizes, Dual []int
	// Walked is how many Services, of two families and all kinds, Walk takes through all minors.
	Walked int
	// Repeats is how often each start is measured; without migration and beyond Once addresses, once.
	Repeats, Once int
	// Bound is how long an API server may take to become ready, restarts included.
	Bound time.Duration

	// Raced is a Size at which `migrate run` and a bare loop compete, in Rounds, with Workers each.
	Raced, Rounds, Workers int
}

// Full is what the documentation shows.
func Full() Options {
	return Options{
		Sizes: []int{1_000, 10_000, 30_000, 65_000}, Dual: []int{10_000}, Walked: 12_345,
		Repeats: 3, Once: 10_000, Bound: 10 * time.Minute,
		Raced: 10_000, Rounds: 3, Workers: 16,
	}
}

// Quick is for a look at whether the benchmark itself works.
func Quick() Options {
	return Options{Sizes: []int{500}, Dual: []int{300}, Walked: 345, Repeats: 1, Bound: time.Minute, Raced: 500, Rounds: 1, Workers: 16}
}

// Result is what was measured, and on which versions.
type Result struct {
	Options  Options
	Versions string
	Cases    []Case
	Rates    Rates // its Shape is zero if nothing was compared
}

// Case is one kind of cluster.
type Case struct {
	Shape Shape
	// Without and With migration.
	Without, With Flips
	// Check, Run and Verify come in this order, beside the old API server. Seed and Rollback need none
	// running, and are measured in the largest cluster alone.
	Check, Run, Verify Usage
	Seed, Rollback     *Usage

	versions string // of the old API server and of etcd
}

// Run measures everything.
func Run(ctx context.Context, o Options, log *progress.Log) (result Result, err error) {
	if !slices.Contains(o.Sizes, o.Raced) {
		return result, fmt.Errorf("the size at which rates are compared, %d, is none of those that are measured", o.Raced)
	}
	clusters, err := newShelf(log)
	if err != nil {
		return result, err
	}
	defer func() { err = errors.Join(err, clusters.remove()) }()
	result.Options = o
	for _, shape := range o.shapes() {
		if err := clusters.measure(ctx, shape, &result); err != nil {
			return result, fmt.Errorf("measuring %s: %w", shape, err)
		}
	}
	return result, nil
}

func (o Options) shapes() (all []Shape) {
	for _, n := range o.Sizes {
		all = append(all, Shape{Services: n})
	}
	for _, n := range o.Dual {
		all = append(all, Shape{Services: n, Dual: true})
	}
	return all
}

// measure makes all measurements on clusters of one kind.
func (s *shelf) measure(ctx context.Context, shape Shape, r *Result) error {
	folder, err := s.build(ctx, shape)
	if err != nil {
		return err
	}
	defer func() { _ = os.RemoveAll(folder) }() // all of them go in the end
	c := Case{Shape: shape}
	if err := s.flips(ctx, folder, &c, r.Options); err != nil {
		return err
	}
	if shape == r.Options.largest() {
		if c.Seed, err = s.seed(ctx, folder, shape); err != nil {
			return err
		}
	}
	r.Cases = append(r.Cases, c)
	r.Versions = c.versions + ", then kube-apiserver " + c.With[0].version
	if shape == (Shape{Services: r.Options.Raced}) {
		r.Rates, err = s.contend(ctx, folder, shape, r.Options)
	}
	return err
}

func (o Options) largest() Shape { return Shape{Services: o.Sizes[len(o.Sizes)-1]} }

// flips measures the starts with and without migration in turn.
func (s *shelf) flips(ctx context.Context, folder string, c *Case, o Options) error {
	migrated, err := s.migrated(ctx, folder, c)
	if err != nil {
		return err
	}
	defer func() { _ = os.RemoveAll(migrated) }()
	for i := range o.Repeats {
		if i == 0 || c.Shape.addresses() <= o.Once {
			f, err := s.measureFlip(ctx, folder, c.Shape, o.Bound, s.afterwards(ctx, c, o))
			if err != nil {
				return err
			}
			s.tell("as it is", f)
			c.Without = append(c.Without, f)
		}
		f, err := s.measureFlip(ctx, migrated, c.Shape, o.Bound, nil)
		if err != nil {
			return err
		}
		s.tell("migrated", f)
		c.With = append(c.With, f)
	}
	return nil
}

func (s *shelf) tell(how string, f Flip) {
	s.log.Step("%s: ready after %.1f s and %d restarts, %d warnings, %d IPAddresses written", how, f.Ready.Seconds(), f.Restarts, f.Events, f.Written)
}

// migrated returns a copy that is ready for a new API server.
func (s *shelf) migrated(ctx context.Context, folder string, c *Case) (string, error) {
	x, err := s.open(ctx, folder, c.Shape)
	if err != nil {
		return "", err
	}
	if err := x.prepare(ctx, c); err != nil {
		return "", errors.Join(err, s.discard(x))
	}
	s.log.Step("check %.1f s, run %.1f s, verify %.1f s", c.Check.Took.Seconds(), c.Run.Took.Seconds(), c.Verify.Took.Seconds())
	return s.put(x)
}

// prepare migrates a cluster.
func (s *subject) prepare(ctx context.Context, c *Case) (err error) {
	if c.versions, err = s.Versions(ctx); err != nil {
		return err
	}
	if c.Check, err = s.migrate(ctx, findings, "check"); err != nil {
		return err
	}
	if c.Run, err = s.migrate(ctx, clean, "run", "--qps=0"); err != nil {
		return err
	}
	c.Verify, err = s.migrate(ctx, clean, "verify")
	return err
}

// seed writes the IPAddresses straight into etcd.
func (s *shelf) seed(ctx context.Context, folder string, shape Shape) (u *Usage, err error) {
	err = s.onCopy(ctx, folder, shape, func(ctx context.Context, c *subject) error {
		if err := c.API.Stop(); err != nil {
			return err
		}
		usage, err := c.offline(ctx, clean, "seed", "--etcd")
		u = &usage
		return err
	})
	return u, err
}

// afterwards goes back from the new API server to the bitmap, in the largest cluster. The new one
// has written all IPAddresses in a version that the old one cannot read: a rollback's worst case.
func (s *shelf) afterwards(ctx context.Context, c *Case, o Options) func(*subject) error {
	if c.Shape != o.largest() || c.Rollback != nil {
		return nil
	}
	return func(x *subject) error {
		service := framework.NewService(cluster.Namespace, "late") // of which no bitmap knows
		if _, err := x.Client.CoreV1().Services(cluster.Namespace).Create(ctx, service, metav1.CreateOptions{}); err != nil {
			return fmt.Errorf("creating a Service after the upgrade: %w", err)
		}
		if err := x.API.Stop(); err != nil {
			return err
		}
		usage, err := x.offline(ctx, clean, "rollback", "--yes", "--archive="+filepath.Join(x.Dir(), "bitmaps.yaml"))
		c.Rollback = &usage
		return err
	}
}
