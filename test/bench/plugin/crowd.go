package plugin

import (
	"context"
	"errors"
	"fmt"
	"net/netip"

	networkingv1 "k8s.io/api/networking/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/clusterip-operator/clusterip-operator/test/bench/cluster"
	"github.com/clusterip-operator/clusterip-operator/test/bench/progress"
	"github.com/clusterip-operator/clusterip-operator/test/framework"
	"github.com/clusterip-operator/clusterip-operator/test/framework/seed"
)

// templateAddresses are of the Service that is copied; no copy lies in the static band.
var templateAddresses = []string{"10.96.0.10", "fd00:10:96::a"}

// seconds are the ranges of the second family, each for so many copies: they are scattered over
// 65,279 addresses of a range. The first is the API server's own.
var seconds = []netip.Prefix{netip.MustParsePrefix("fd00:10:96::/108"), netip.MustParsePrefix("fd00:20:96::/108")}

const inSecond = 60_000

// open starts a control plane of two families with the template of copies.
func open(ctx context.Context, log *progress.Log) (*cluster.Cluster, error) {
	log.Step("starting etcd and kube-apiserver")
	c, err := cluster.Open(ctx, framework.Options{ServiceClusterIPRange: cluster.Range.String() + "," + seconds[0].String()}, log)
	if err != nil {
		return nil, err
	}
	err = c.CreateTemplate(ctx, templateAddresses...)
	for i, one := range seconds[1:] {
		cidr := &networkingv1.ServiceCIDR{ObjectMeta: metav1.ObjectMeta{Name: fmt.Sprint("second-", i)}, Spec: networkingv1.ServiceCIDRSpec{CIDRs: []string{one.String()}}}
		if err == nil {
			_, err = c.Client.NetworkingV1().ServiceCIDRs().Create(ctx, cidr, metav1.CreateOptions{})
		}
	}
	if err != nil {
		return nil, errors.Join(err, c.Stop())
	}
	return c, nil
}

// grow adds copies until there are n. The API server is away meanwhile: it could not follow.
func grow(ctx context.Context, c *cluster.Cluster, n int, log *progress.Log) error {
	log.Step("writing %d Services with their IPAddresses to etcd", n-c.Copies)
	if err := c.API.Stop(); err != nil {
		return err
	}
	for c.Copies < n {
		to := min(n, c.Copies/inSecond*inSecond+inSecond)
		second := seconds[c.Copies/inSecond]
		copies := func(ranges ...netip.Prefix) seed.Copies {
			return seed.Copies{Etcd: c.Etcd.URL(), Template: cluster.Template, Ranges: ranges, From: c.Copies, To: to}
		}
		if err := errors.Join(copies(cluster.Range).WriteIPAddresses(ctx), copies(second).WriteIPAddresses(ctx), copies(cluster.Range, second).WriteServices(ctx)); err != nil {
			return err
		}
		c.Copies = to
	}
	log.Step("starting kube-apiserver on them")
	return c.API.Start(ctx)
}
