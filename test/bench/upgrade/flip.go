package upgrade

import (
	"context"
	"fmt"
	"os"
	"strings"
	"time"

	eventsv1 "k8s.io/api/events/v1"

	"github.com/clusterip-operator/clusterip-operator/test/bench/stats"
	"github.com/clusterip-operator/clusterip-operator/test/framework"
)

// Flip is the first start of a new API server on what the old one has left.
type Flip struct {
	// Ready is the time from the first start of the process to /readyz; 0 if that never came.
	Ready time.Duration
	// Restarts is how often it ended itself and was started again at once.
	Restarts int
	// Events are the repair warnings, Written the IPAddresses that it wrote, when all was quiet again.
	Events, Written int

	version string // of the new API server
}

// Flips are the same measurement, made several times.
type Flips []Flip

// times are in seconds.
type times stats.Sample

// ready are the times of those that came to an end.
func (f Flips) ready() (s times) {
	for _, one := range f {
		if one.Ready > 0 {
			s = append(s, one.Ready.Seconds())
		}
	}
	return s
}

func (f Flips) sample(of func(Flip) int) (s stats.Sample) {
	for _, one := range f {
		s = append(s, float64(of(one)))
	}
	return s
}

// givenUp is what an API server says that ends itself, since a minute did not suffice for repairs.
const givenUp = "unable to perform initial IP and Port allocation check"

// flip replaces the API server by one of another version. It is given up after bound.
func (s *subject) flip(ctx context.Context, to framework.Version, bound time.Duration) (f Flip, err error) {
	if err := s.API.Stop(); err != nil {
		return f, err
	}
	limited, cancel := context.WithTimeout(ctx, bound)
	defer cancel()
	for start := time.Now(); ; f.Restarts++ {
		logged := s.logged()
		err := s.Restart(limited, s.shape.newer(to))
		if err == nil {
			f.Ready = time.Since(start)
			break
		}
		if ctx.Err() == nil && limited.Err() != nil {
			return f, nil
		}
		if !strings.Contains(s.logSince(logged), givenUp) {
			return f, err
		}
	}
	err = s.examine(ctx, &f)
	return f, err
}

// examine counts what the start has left behind.
func (s *subject) examine(ctx context.Context, f *Flip) error {
	if err := s.Settle(ctx, time.Minute); err != nil {
		return err
	}
	events, err := s.Repairs(ctx, func(e *eventsv1.Event) bool { return e.Type == "Warning" })
	if err != nil {
		return err
	}
	all, written, err := s.count(ctx)
	if err != nil {
		return err
	}
	f.Events, f.Written = events, written
	if f.version, err = s.ServerVersion(); err != nil {
		return err
	}
	if all != s.shape.addresses() {
		return fmt.Errorf("the new API server is ready with %d IPAddresses for %d ClusterIPs", all, s.shape.addresses())
	}
	return nil
}

// logged is the length of the API server's log.
func (s *subject) logged() int64 {
	info, err := os.Stat(s.API.LogFile())
	if err != nil {
		return 0
	}
	return info.Size()
}

func (s *subject) logSince(offset int64) string {
	content, err := os.ReadFile(s.API.LogFile())
	if err != nil || int64(len(content)) < offset {
		return ""
	}
	return string(content[offset:])
}

// measureFlip flips a copy of a cluster, and goes on with it if that has come to an end.
func (s *shelf) measureFlip(ctx context.Context, folder string, shape Shape, bound time.Duration, then func(*subject) error) (f Flip, err error) {
	err = s.onCopy(ctx, folder, shape, func(ctx context.Context, c *subject) (err error) {
		if f, err = c.flip(ctx, framework.V137, bound); err != nil || f.Ready == 0 || then == nil {
			return err
		}
		return then(c)
	})
	return f, err
}
