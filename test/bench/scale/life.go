package scale

import (
	"context"
	"errors"
	"fmt"
	"time"

	"k8s.io/apimachinery/pkg/util/wait"

	"github.com/clusterip-operator/clusterip-operator/test/bench/progress"
	"github.com/clusterip-operator/clusterip-operator/test/framework"
)

// Start is the time from the start of the process until things are so, and what it took.
type Start struct {
	// Ready: /readyz answers. Leads: it is the leader. Checked: every address and every Service was
	// looked at once, and none waits.
	Ready, Leads, Checked time.Duration
	// CPU is the processor time until Checked, RSS the resident memory at that moment, in bytes.
	CPU time.Duration
	RSS int64
}

// Idle is the manager while nothing happens in the cluster.
type Idle struct {
	// RSS is its resident memory at the end, in bytes, CPU the share of a processor that it used.
	RSS int64
	CPU float64
}

// settleIn starts a manager and waits until it has written what the level lacks.
func (e *environment) settleIn(ctx context.Context) (time.Duration, error) {
	e.log.Step("starting the manager, which writes what is missing")
	began := time.Now()
	m, err := e.addReplica(ctx)
	if err != nil {
		return 0, err
	}
	if err := e.waitKept(ctx); err != nil {
		return 0, err
	}
	if _, err := e.waitQuiet(ctx, m); err != nil {
		return 0, err
	}
	took := time.Since(began)
	e.log.Step("%d reservations are in place, and it is quiet after %.0f s", e.level.Ranges*reserved, took.Seconds())
	return took, nil
}

// restart starts a manager anew, where all is in place, and follows it until all is checked.
func (e *environment) restart(ctx context.Context) (s Start, err error) {
	if err := e.stopReplicas(); err != nil {
		return s, err
	}
	if err := e.Settle(ctx, 10*time.Second); err != nil {
		return s, err
	}
	began := time.Now()
	m, err := e.addReplica(ctx)
	if err != nil {
		return s, err
	}
	s.Ready = time.Since(began)
	if err := e.metric(ctx, m, "it leads", func(f framework.Metrics) bool {
		leads, _ := f.Value("leader_election_master_status")
		return leads == 1
	}); err != nil {
		return s, err
	}
	s.Leads = time.Since(began)
	if err := e.metric(ctx, m, "all is checked", func(f framework.Metrics) bool {
		return worked(f, "ipaddress", 2*e.level.Services) && worked(f, "service", e.level.Services) && worked(f, "servicecidr", e.level.Ranges)
	}); err != nil {
		return s, err
	}
	s.Checked = time.Since(began)
	s.CPU, err = m.CPUTime()
	if err != nil {
		return s, err
	}
	if s.RSS, err = m.RSS(); err != nil {
		return s, err
	}
	_, err = e.waitQuiet(ctx, m)
	return s, err
}

// metric waits until the metrics of a manager say so.
func (e *environment) metric(ctx context.Context, m *framework.Manager, what string, so func(framework.Metrics) bool) error {
	return e.until(ctx, what, func(ctx context.Context) (bool, error) {
		figures, err := m.Metrics(ctx)
		return err == nil && so(figures), err
	})
}

// worked reports whether a controller has worked off at least n keys and has none left.
func worked(f framework.Metrics, controller string, n int) bool {
	done, _ := f.Value("controller_runtime_reconcile_total", "controller", controller)
	return int(done) >= n && queued(f, controller) == 0
}

// queued is how many keys wait, or are in the hands of a worker; of all controllers without a name.
func queued(f framework.Metrics, controller ...string) float64 {
	var names, controllers []string
	for _, c := range controller {
		names, controllers = []string{"name", c}, []string{"controller", c}
	}
	waiting, _ := f.Value("workqueue_depth", names...)
	working, _ := f.Value("controller_runtime_active_workers", controllers...)
	return waiting + working
}

// waitQuiet waits until a manager has nothing in its queues and takes hardly any processor time,
// as long as the options say: what is held back, as looks at a range are, comes within two seconds.
// It returns the processor time until then, without that of being asked for metrics.
func (e *environment) waitQuiet(ctx context.Context, m *framework.Manager) (used time.Duration, err error) {
	const step, idle = 250 * time.Millisecond, 20 * time.Millisecond
	moment, quiet := int(e.options.Still/step), 0
	var last, asked time.Duration
	err = wait.PollUntilContextTimeout(ctx, step, timeout, true, func(ctx context.Context) (bool, error) {
		now, err := m.CPUTime()
		if err != nil {
			return false, err
		}
		if quiet++; now-last > idle {
			quiet = 0
		}
		if last, used = now, now-asked; quiet < moment {
			return false, nil
		}
		figures, err := m.Metrics(ctx)
		if err != nil || queued(figures) == 0 {
			return err == nil, err
		}
		last, err = m.CPUTime() // of a thousand ranges there are many metrics, and a key may wait a minute
		asked += last - now
		return false, err
	})
	if err != nil {
		err = fmt.Errorf("waiting for the manager to be quiet: %w", err)
	}
	return used, err
}

// watchIdle watches a manager while nothing happens.
func (e *environment) watchIdle(ctx context.Context, p *framework.Manager) (idle Idle, err error) {
	before, err := p.CPUTime()
	if err != nil {
		return idle, err
	}
	if err := progress.Pause(ctx, e.options.Quiet); err != nil {
		return idle, err
	}
	after, err := p.CPUTime()
	if err != nil {
		return idle, err
	}
	idle.CPU = (after - before).Seconds() / e.options.Quiet.Seconds()
	idle.RSS, err = p.RSS()
	return idle, err
}

// measurePeer returns the memory of kube-controller-manager with its one controller for our job,
// ServiceCIDRs.
func (e *environment) measurePeer(ctx context.Context) (rss int64, err error) {
	e.log.Step("starting kube-controller-manager with %s alone", framework.ServiceCIDRController)
	peer, err := e.StartControllerManager(ctx, framework.ServiceCIDRController)
	if err != nil {
		return 0, err
	}
	defer func() { err = errors.Join(err, peer.Stop()) }()
	if err := e.Settle(ctx, 30*time.Second); err != nil {
		return 0, err
	}
	if rss, err = peer.RSS(); err == nil {
		e.log.Step("resident %d MiB", rss>>20)
	}
	return rss, err
}
