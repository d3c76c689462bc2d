package plugin

import (
	"context"
	"errors"
	"net/netip"

	"github.com/clusterip-operator/clusterip-operator/test/bench/cluster"
	"github.com/clusterip-operator/clusterip-operator/test/bench/progress"
	"github.com/clusterip-operator/clusterip-operator/test/framework/seed"
)

// grow adds copies until there are n. The API server is away meanwhile: it could not follow.
func grow(ctx context.Context, c *cluster.Cluster, n int, log *progress.Log) error {
	log.Step("writing %d Services with their IPAddresses to etcd", n-c.Copies)
	if err := c.API.Stop(); err != nil {
		return err
	}
	copies := func(ranges ...netip.Prefix) seed.Copies {
		return seed.Copies{Etcd: c.Etcd.URL(), Template: cluster.Template, Ranges: ranges, From: c.Copies, To: n}
	}
	err := errors.Join(copies(cluster.Range).WriteIPAddresses(ctx), copies(cluster.RangeV6).WriteIPAddresses(ctx), copies(cluster.Range, cluster.RangeV6).WriteServices(ctx))
	if err != nil {
		return err
	}
	c.Copies = n
	log.Step("starting kube-apiserver on them")
	return c.API.Start(ctx)
}
