package operation

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/clusterip-operator/clusterip-operator/test/bench/cluster"
	"github.com/clusterip-operator/clusterip-operator/test/bench/progress"
	"github.com/clusterip-operator/clusterip-operator/test/bench/report"
	"github.com/clusterip-operator/clusterip-operator/test/bench/stats"
	"github.com/clusterip-operator/clusterip-operator/test/framework"
)

// MemoryOptions say what to measure of the memory of manager and kube-controller-manager.
type MemoryOptions struct {
	// Sizes are numbers of Services with one address, Dual of Services with one of each family.
	Sizes, Dual []int
	// Quiet is how long each is watched while nothing happens.
	Quiet time.Duration
}

// FullMemory are the options of the document, QuickMemory those that show that it works.
func FullMemory() MemoryOptions {
	return MemoryOptions{Sizes: []int{10_000, 50_000}, Dual: []int{100_000}, Quiet: 20 * time.Second}
}

// QuickMemory is small.
func QuickMemory() MemoryOptions {
	return MemoryOptions{Sizes: []int{500}, Dual: []int{500}, Quiet: 3 * time.Second}
}

// Memory is what was measured, by size.
type Memory struct {
	Versions string
	Crowds   []Crowd
	// Shares are what the manager keeps of each Service.
	Shares []Share
}

// Crowd is what manager and peer need in one cluster.
type Crowd struct {
	Services int
	Dual     bool
	versions string
	// Manager looks at all of it, Peer is kube-controller-manager with its ServiceCIDR controller.
	Manager, Peer Resident
	// Heap are the bytes of the manager's objects when idle, with what is not collected yet.
	Heap float64
}

// Resident is resident memory in bytes: when nothing happens, and the most until then.
type Resident struct{ Idle, Peak int64 }

// RunMemory measures all sizes.
func RunMemory(ctx context.Context, o MemoryOptions, log *progress.Log) (m Memory, err error) {
	if m.Shares, err = measureShares(ctx); err != nil {
		return m, err
	}
	for _, family := range []struct {
		sizes []int
		dual  bool
	}{{o.Sizes, false}, {o.Dual, true}} {
		for _, services := range family.sizes {
			crowd, err := measureCrowd(ctx, services, family.dual, o.Quiet, log)
			if err != nil {
				return m, fmt.Errorf("measuring memory at %d Services: %w", services, err)
			}
			m.Versions, m.Crowds = crowd.versions, append(m.Crowds, crowd)
		}
	}
	return m, nil
}

// measureCrowd measures one cluster, first with kube-controller-manager as measureSize does.
func measureCrowd(ctx context.Context, services int, dual bool, quiet time.Duration, log *progress.Log) (crowd Crowd, err error) {
	crowd = Crowd{Services: services, Dual: dual}
	start := cluster.Start
	if dual {
		start = cluster.StartDual
	}
	c, err := start(ctx, log)
	if err != nil {
		return crowd, err
	}
	defer func() { err = errors.Join(err, c.Stop()) }()
	if crowd.versions, err = populated(ctx, c, services); err != nil {
		return crowd, err
	}
	peer, err := c.StartControllerManager(ctx, framework.ServiceCIDRController)
	if err != nil {
		return crowd, err
	}
	crowd.Peer, err = resident(ctx, c, peer, quiet, log)
	if err = errors.Join(err, peer.Stop()); err != nil {
		return crowd, err
	}
	manager, err := startManager(ctx, c, false, &Start{})
	if err != nil {
		return crowd, err
	}
	defer func() { err = errors.Join(err, manager.Stop()) }()
	if crowd.Manager, err = resident(ctx, c, manager, quiet, log); err != nil {
		return crowd, err
	}
	figures, err := manager.Metrics(ctx)
	crowd.Heap, _ = figures.Value("go_memstats_heap_alloc_bytes")
	log.Step("%d Services: the manager has %d MiB, kube-controller-manager %d MiB", services, crowd.Manager.Idle>>20, crowd.Peer.Idle>>20)
	return crowd, err
}

// resident watches a program that is as busy as a start makes it, until it is idle.
func resident(ctx context.Context, c *cluster.Cluster, p interface {
	process
	PeakRSS() (int64, error)
}, quiet time.Duration, log *progress.Log) (r Resident, err error) {
	idle, err := watchIdle(ctx, c, p, quiet, log)
	if err != nil {
		return r, err
	}
	r.Idle = idle.RSS
	r.Peak, err = p.PeakRSS()
	return r, err
}

// Tables has a row for each cluster.
func (m Memory) Tables() []report.Table {
	table := report.Table{Header: []string{
		"in the same run", "the manager, idle MiB", "kube-controller-manager, idle MiB", "the manager, most MiB", "kube-controller-manager, most MiB", "of it the manager's objects, idle MiB",
	}}
	for _, c := range m.Crowds {
		table.Add(c.name(), stats.MiB(c.Manager.Idle), stats.MiB(c.Peer.Idle), stats.MiB(c.Manager.Peak), stats.MiB(c.Peer.Peak), stats.MiB(int64(c.Heap)))
	}
	return []report.Table{table, m.shares()}
}

// shares says what the bytes of a Service are for, and what the heap has of them altogether.
func (m Memory) shares() report.Table {
	table := report.Table{Header: []string{"for each Service with one address", "bytes", "of which"}}
	known := 0.0
	for _, s := range m.Shares {
		table.Add(s.What, stats.Count(int(s.Bytes)), s.Why)
		known += s.Bytes
	}
	var one []Crowd
	for _, c := range m.Crowds {
		if !c.Dual {
			one = append(one, c)
		}
	}
	if n := len(one); n > 1 {
		all := (one[n-1].Heap - one[0].Heap) / float64(one[n-1].Services-one[0].Services)
		table.Add("the rest", stats.Count(int(all-known)), "queues and maps that have once had every key; what is not collected yet")
		table.Add("together: by how much the heap of "+one[n-1].name()+" is larger than that of "+stats.Count(one[0].Services), stats.Count(int(all)), "")
	}
	return table
}

func (c Crowd) name() string {
	if c.Dual {
		return stats.Count(c.Services) + " Services of two families"
	}
	return stats.Count(c.Services) + " Services"
}

// targetCrowd is what the manager may have at 100,000 Services of two families.
const targetCrowd = 300 << 20

// Notes says which targets were reached.
func (m Memory) Notes() (notes []string) {
	for _, c := range m.Crowds {
		switch {
		case c.Services == 50_000:
			notes = append(notes, report.Target(c.Manager.Idle <= c.Peer.Idle, "no more than kube-controller-manager at "+c.name(),
				stats.MiB(c.Manager.Idle)+" and "+stats.MiB(c.Peer.Idle)+" MiB"))
		case c.Services == 100_000 && c.Dual:
			notes = append(notes, report.Target(c.Manager.Idle <= targetCrowd, "at most 300 MiB at "+c.name(), stats.MiB(c.Manager.Idle)+" MiB"))
		}
	}
	return notes
}
