// Package operation measures what it costs to run the manager beside a full cluster: the time from
// its start until it knows and has checked every address, memory, processor time while nothing
// happens, and how soon deleted IPAddresses are back. An upstream program for the same job is
// measured in the same run. Start with Run; watch.go follows a program, restore.go deleted
// addresses.
package operation

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/clusterip-operator/clusterip-operator/test/bench/cluster"
	"github.com/clusterip-operator/clusterip-operator/test/bench/progress"
	"github.com/clusterip-operator/clusterip-operator/test/bench/stats"
	"github.com/clusterip-operator/clusterip-operator/test/framework"
)

// Options say what to measure.
type Options struct {
	// Sizes are the numbers of Services, each on a control plane of its own.
	Sizes []int
	// Labelled are those Sizes that are also measured with band labels, 50 of which take a second.
	Labelled []int
	// Repaired are those Sizes where the API server alone restores addresses, maybe for minutes.
	Repaired []int
	// Quiet is how long the cluster is watched while nothing happens.
	Quiet time.Duration
	// Deleted is how many IPAddresses the manager restores; the API server restores a fiftieth.
	Deleted int
}

// Result is what was measured, by size, and on which versions.
type Result struct {
	Options  Options
	Versions string
	Sizes    []Size
}

// Size is what was measured with one number of Services.
type Size struct {
	Services int
	versions string
	// Plain is the manager without band labels, Labelled the one with them, if that was asked for.
	Plain    Manager
	Labelled *Manager
	// Peer is kube-controller-manager with nothing but its ServiceCIDR controller.
	Peer Idle
	// Repaired are the seconds until the API server restored each address, if Options ask for it.
	Repaired stats.Sample
}

// Manager is one life of the manager.
type Manager struct {
	Start    Start
	Labels   Labels // zero without band labels
	Idle     Idle
	Restored Restored
	Peak     int64 // resident memory, in bytes, the most in its life
}

// Run measures all sizes.
func Run(ctx context.Context, o Options, log *progress.Log) (Result, error) {
	result := Result{Options: o}
	for _, services := range o.Sizes {
		size, err := measureSize(ctx, services, o, log)
		if err != nil {
			return result, fmt.Errorf("measuring the manager at %d Services: %w", services, err)
		}
		result.Versions, result.Sizes = size.versions, append(result.Sizes, size)
	}
	return result, nil
}

// populated adds copies until a cluster has so many Services, two of which are none, and returns
// which versions run.
func populated(ctx context.Context, c *cluster.Cluster, services int) (versions string, err error) {
	if versions, err = c.Versions(ctx); err != nil {
		return "", err
	}
	return versions, c.Grow(ctx, services-2)
}

// measureSize starts with upstream's controller, which leaves the ServiceCIDR as our manager finds
// it in most clusters, and ends with what changes the most.
func measureSize(ctx context.Context, services int, o Options, log *progress.Log) (size Size, err error) {
	size.Services = services
	c, err := cluster.Start(ctx, log)
	if err != nil {
		return size, err
	}
	defer func() { err = errors.Join(err, c.Stop()) }()
	if size.versions, err = populated(ctx, c, services); err != nil {
		return size, err
	}
	if size.Peer, err = measurePeer(ctx, c, o, log); err != nil {
		return size, err
	}
	if size.Plain, err = measureManager(ctx, c, o, false, log); err != nil {
		return size, err
	}
	if slices.Contains(o.Labelled, services) {
		labelled, err := measureManager(ctx, c, o, true, log)
		if err != nil {
			return size, err
		}
		size.Labelled = &labelled
	}
	if slices.Contains(o.Repaired, services) {
		log.Step("no manager runs; waiting for the API server to restore %d IPAddresses by itself (up to 3 minutes)", o.Deleted/50)
		restored, err := restore(ctx, c, o.Deleted/50)
		if err != nil {
			return size, err
		}
		size.Repaired = restored.Seconds
	}
	return size, nil
}

// measureManager measures one life of the manager.
func measureManager(ctx context.Context, c *cluster.Cluster, o Options, labels bool, log *progress.Log) (m Manager, err error) {
	if err := c.Settle(ctx, time.Minute); err != nil {
		return m, err
	}
	log.Step("%d Services: starting the manager, band labels: %t", c.Addresses(), labels)
	manager, err := startManager(ctx, c, labels, &m.Start)
	if err != nil {
		return m, err
	}
	defer func() { err = errors.Join(err, manager.Stop()) }()
	log.Step("all addresses checked after %.1f s, resident %d MiB", m.Start.Checked.Seconds(), m.Start.RSS>>20)
	if labels {
		if m.Labels, err = watchLabels(ctx, c, manager, log); err != nil {
			return m, err
		}
	}
	if m.Idle, err = watchIdle(ctx, c, manager, o.Quiet, log); err != nil {
		return m, err
	}
	if m.Restored, err = restore(ctx, c, o.Deleted); err != nil {
		return m, err
	}
	log.Step("%d IPAddresses deleted, the last one back after %.1f s", o.Deleted, m.Restored.Total.Seconds())
	m.Peak, err = manager.PeakRSS()
	return m, err
}

// measurePeer measures kube-controller-manager with its one controller for our job: ServiceCIDRs.
func measurePeer(ctx context.Context, c *cluster.Cluster, o Options, log *progress.Log) (idle Idle, err error) {
	log.Step("%d Services: starting kube-controller-manager with %s alone", c.Addresses(), framework.ServiceCIDRController)
	peer, err := c.StartControllerManager(ctx, framework.ServiceCIDRController)
	if err != nil {
		return Idle{}, err
	}
	defer func() { err = errors.Join(err, peer.Stop()) }()
	return watchIdle(ctx, c, peer, o.Quiet, log)
}
