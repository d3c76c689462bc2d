package operation

import (
	"context"
	"fmt"
	"time"

	"github.com/clusterip-operator/clusterip-operator/test/bench/cluster"
	"github.com/clusterip-operator/clusterip-operator/test/framework"
)

// Start is the time from the start of the process until things are so, and what it took.
type Start struct {
	// Ready: /readyz answers. Known: every address is counted in the metrics. Checked: every address and every
	// Service has been looked at once, and nothing waits.
	Ready, Known, Checked time.Duration
	// CPU is the processor time until Checked, RSS the resident memory at that moment, in bytes.
	CPU time.Duration
	RSS int64
}

// startTimeout is how long a manager may take to check everything.
const startTimeout = 5 * time.Minute

// startManager starts the manager and follows it until it has checked every address.
func startManager(ctx context.Context, c *cluster.Cluster, labels bool, s *Start) (*framework.Manager, error) {
	ctx, cancel := context.WithTimeout(ctx, startTimeout)
	defer cancel()
	// The first run of all builds the manager, which is not part of its start.
	if _, _, err := c.RunManager(ctx, framework.ManagerOptions{Args: []string{"version"}}); err != nil {
		return nil, err
	}
	start := time.Now()
	m, err := c.StartManager(ctx, framework.ManagerOptions{Args: []string{fmt.Sprintf("--band-labels=%t", labels)}})
	if err != nil {
		return nil, err
	}
	s.Ready = time.Since(start)
	if s.Known, err = since(ctx, start, m, func(f framework.Metrics) bool { return allKnown(f, c) }); err != nil {
		return m, fmt.Errorf("waiting for the manager to know all addresses: %w", err)
	}
	if s.Checked, err = since(ctx, start, m, func(f framework.Metrics) bool {
		return worked(f, "ipaddress", c.Addresses()) && worked(f, "service", c.Addresses())
	}); err != nil {
		return m, fmt.Errorf("waiting for the manager to check all addresses: %w", err)
	}
	if s.CPU, err = m.CPUTime(); err != nil {
		return m, err
	}
	s.RSS, err = m.RSS()
	return m, err
}

// since scrapes the manager until its metrics say so, and returns how long that is after start.
func since(ctx context.Context, start time.Time, m *framework.Manager, so func(framework.Metrics) bool) (time.Duration, error) {
	const pause = 100 * time.Millisecond
	for {
		figures, err := m.Metrics(ctx)
		if err != nil {
			return 0, err
		}
		if so(figures) {
			return time.Since(start), nil
		}
		select {
		case <-ctx.Done():
			return 0, context.Cause(ctx)
		case <-time.After(pause):
		}
	}
}

func allKnown(f framework.Metrics, c *cluster.Cluster) bool {
	allocated, _ := f.Value("clusterip_operator_allocated_ips", "cidr", cluster.Range.String())
	return int(allocated) >= c.Addresses()
}

// worked reports whether a controller has worked off at least n keys and has none left, neither waiting nor in
// the hands of a worker.
func worked(f framework.Metrics, controller string, n int) bool {
	done, _ := f.Value("controller_runtime_reconcile_total", "controller", controller)
	waiting, _ := f.Value("workqueue_depth", "name", controller)
	working, _ := f.Value("controller_runtime_active_workers", "controller", controller)
	return int(done) >= n && waiting == 0 && working == 0
}
