package upgrade

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"time"

	eventsv1 "k8s.io/api/events/v1"

	"github.com/clusterip-operator/clusterip-operator/test/bench/cluster"
	"github.com/clusterip-operator/clusterip-operator/test/bench/progress"
)

// shelf keeps clusters that have been stopped, each in a folder.
type shelf struct {
	dir     string
	folders int
	log     *progress.Log
}

func newShelf(log *progress.Log) (*shelf, error) {
	dir, err := os.MkdirTemp("", "clusterip-operator-bench-")
	if err != nil {
		return nil, fmt.Errorf("creating a folder for clusters: %w", err)
	}
	return &shelf{dir: dir, log: log}, nil
}

func (s *shelf) remove() error { return os.RemoveAll(s.dir) }

// next names a folder that is not there yet.
func (s *shelf) next() string {
	s.folders++
	return filepath.Join(s.dir, fmt.Sprint(s.folders))
}

// build makes a cluster as an old API server leaves it. Most of it is written into etcd while that is away; then it is started once
// more, and has to find everything in order.
func (s *shelf) build(ctx context.Context, shape Shape) (folder string, err error) {
	s.log.Step("building a cluster of %s", shape)
	options := shape.old()
	options.Dir = s.next()
	c, err := cluster.Open(ctx, options, s.log)
	if err != nil {
		return "", err
	}
	defer func() { err = errors.Join(err, c.Stop()) }()
	if err := c.CreateTemplate(ctx, shape.template()...); err != nil {
		return "", err
	}
	if err := c.API.Stop(); err != nil {
		return "", err
	}
	if err := c.Stock(ctx, shape.Services-2, shape.ranges()); err != nil {
		return "", err
	}
	if err := c.API.Start(ctx); err != nil {
		return "", err
	}
	return options.Dir, expectOrder(ctx, c)
}

// expectOrder fails if an API server that has just been started found something to repair.
func expectOrder(ctx context.Context, c *cluster.Cluster) error {
	if err := c.Settle(ctx, time.Minute); err != nil {
		return err
	}
	n, err := c.Repairs(ctx, func(*eventsv1.Event) bool { return true })
	if err == nil && n > 0 {
		err = fmt.Errorf("the old API server found fault with %d Services: what was written to etcd is not what it writes itself", n)
	}
	return err
}

// open starts the old API server on a copy of a cluster.
func (s *shelf) open(ctx context.Context, folder string, shape Shape) (*subject, error) {
	options := shape.old()
	options.Dir = s.next()
	if err := os.CopyFS(options.Dir, os.DirFS(folder)); err != nil {
		return nil, fmt.Errorf("copying a cluster: %w", err)
	}
	c, err := cluster.Open(ctx, options, s.log)
	if err != nil {
		return nil, err
	}
	return &subject{Cluster: c, shape: shape}, c.Settle(ctx, 30*time.Second)
}

// put stops a cluster and keeps its folder.
func (s *shelf) put(c *subject) (folder string, err error) { return c.Dir(), c.Stop() }

// discard stops a cluster and removes its folder.
func (s *shelf) discard(c *subject) error {
	folder, err := s.put(c)
	return errors.Join(err, os.RemoveAll(folder))
}
