package allocation

import (
	"context"
	"strconv"

	"github.com/clusterip-operator/clusterip-operator/test/bench/cluster"
	"github.com/clusterip-operator/clusterip-operator/test/bench/load"
)

// upstream runs upstream's allocator in a process of its own, outside of the API server: see hack/tools/peer-allocation.
type upstream struct {
	cluster *cluster.Cluster
	taken   []string
}

func (u *upstream) allocate(ctx context.Context, l load.Load) (measurement, error) {
	var result struct {
		Allocations   int
		PerSecond     float64
		LatencyMillis struct{ P50, P99 float64 }
		Addresses     []string
	}
	err := cluster.Peer(ctx, &result, "allocate", "--kubeconfig="+u.cluster.Kubeconfig(), "--namespace="+cluster.Namespace,
		"--workers="+strconv.Itoa(l.Workers), "--count="+strconv.Itoa(l.Count), "--limit="+l.Limit.String())
	u.taken = result.Addresses
	return measurement{result.Allocations, result.PerSecond, result.LatencyMillis.P50, result.LatencyMillis.P99}, err
}

func (u *upstream) release(ctx context.Context) error {
	err := deleteAddresses(ctx, u.cluster, u.taken)
	u.taken = nil
	return err
}
