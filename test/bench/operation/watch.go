package operation

import (
	"context"
	"fmt"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/wait"

	"github.com/clusterip-operator/clusterip-operator/api/v1alpha1"
	"github.com/clusterip-operator/clusterip-operator/test/bench/cluster"
	"github.com/clusterip-operator/clusterip-operator/test/bench/progress"
	"github.com/clusterip-operator/clusterip-operator/test/framework"
)

// Start is the time from the start of the process until things are so, and what it took.
type Start struct {
	// Ready: /readyz answers. Known: every address is counted in the metrics. Checked: every address
	// and every Service was looked at once, and none waits.
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
	if s.Known, err = since(ctx, start, m, func(f framework.Metrics) bool {
		allocated, _ := f.Value("clusterip_operator_allocated_ips", "cidr", cluster.Range.String())
		return int(allocated) >= c.Addresses()
	}); err != nil {
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
	err := wait.PollUntilContextCancel(ctx, 100*time.Millisecond, true, func(ctx context.Context) (bool, error) {
		figures, err := m.Metrics(ctx)
		return err == nil && so(figures), err
	})
	return time.Since(start), err
}

// worked reports whether a controller has worked off at least n keys and has none left, neither
// waiting nor in the hands of a worker.
func worked(f framework.Metrics, controller string, n int) bool {
	done, _ := f.Value("controller_runtime_reconcile_total", "controller", controller)
	waiting, _ := f.Value("workqueue_depth", "name", controller)
	working, _ := f.Value("controller_runtime_active_workers", "controller", controller)
	return int(done) >= n && waiting == 0 && working == 0
}

// Idle is a program while nothing happens in the cluster.
type Idle struct {
	// RSS is its resident memory at the end, in bytes, CPU the processor time that it used.
	RSS int64
	CPU time.Duration
}

// process is what is measured of a program: a framework.Process.
type process interface {
	RSS() (int64, error)
	CPUTime() (time.Duration, error)
}

// watchIdle waits until the cluster is quiet and watches one program for a while.
func watchIdle(ctx context.Context, c *cluster.Cluster, p process, period time.Duration, log *progress.Log) (idle Idle, err error) {
	if err := c.Settle(ctx, time.Minute); err != nil {
		return idle, err
	}
	log.Step("watching it do nothing for %s", period)
	before, err := used(p)
	if err != nil {
		return idle, err
	}
	if err := progress.Pause(ctx, period); err != nil {
		return idle, err
	}
	after, err := used(p)
	if err != nil {
		return idle, err
	}
	idle.CPU = after[0] - before[0]
	idle.RSS, err = p.RSS()
	return idle, err
}

// used is the processor time of some programs until now.
func used(of ...process) (times []time.Duration, err error) {
	for _, p := range of {
		one, err := p.CPUTime()
		if err != nil {
			return nil, err
		}
		times = append(times, one)
	}
	return times, nil
}

// Labels is the first start of a manager that labels, in a cluster without band labels.
type Labels struct {
	// Written is how many IPAddresses were labelled in Took.
	Written int
	Took    time.Duration
	// Manager, API and Etcd are the processor times of that.
	Manager, API, Etcd time.Duration
}

// watchLabels follows the labelling from where it is to its end.
func watchLabels(ctx context.Context, c *cluster.Cluster, m *framework.Manager, log *progress.Log) (l Labels, err error) {
	start, told := time.Now(), time.Now()
	earlier, err := used(m, c.API, c.Etcd)
	if err != nil {
		return l, err
	}
	before, err := labelled(ctx, c)
	if err != nil {
		return l, err
	}
	log.Step("labelling; %d of %d have their band", before, c.Addresses())
	l.Took, err = since(ctx, start, m, func(f framework.Metrics) bool {
		if time.Since(told) > 30*time.Second {
			told = time.Now()
			waiting, _ := f.Value("workqueue_depth", "name", "bandlabel")
			log.Step("labelling; %.0f wait for their band", waiting)
		}
		return worked(f, "bandlabel", c.Addresses())
	})
	if err != nil {
		return l, fmt.Errorf("waiting for band labels: %w", err)
	}
	now, err := used(m, c.API, c.Etcd)
	if err != nil {
		return l, err
	}
	l.Manager, l.API, l.Etcd = now[0]-earlier[0], now[1]-earlier[1], now[2]-earlier[2]
	after, err := labelled(ctx, c)
	l.Written = after - before
	if err == nil && after != c.Addresses() {
		err = fmt.Errorf("%d of %d IPAddresses have a band label", after, c.Addresses())
	}
	return l, err
}

// labelled counts the IPAddresses with a band label.
func labelled(ctx context.Context, c *cluster.Cluster) (int, error) {
	list, err := c.Client.NetworkingV1().IPAddresses().List(ctx, metav1.ListOptions{LabelSelector: v1alpha1.LabelBand})
	if err != nil {
		return 0, fmt.Errorf("counting band labels: %w", err)
	}
	return len(list.Items), nil
}
