package cluster

import (
	"context"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"

	"github.com/clusterip-operator/clusterip-operator/test/framework"
)

// NoSeries is what Metric answers when there is no such series. None of our metrics is ever negative.
const NoSeries = -1.0

// Metric returns the sum of the operator's series of this name (after the prefix clusterip_operator_) that carry the labels
// (name, value, name, value...), NoSeries if there is none.
func (c *Cluster) Metric(ctx context.Context, name string, labels ...string) float64 {
	GinkgoHelper()
	metrics, err := c.Operator.Metrics(ctx)
	Expect(err).NotTo(HaveOccurred())
	return valueOf(metrics, "clusterip_operator_"+name, labels)
}

// UpstreamMetric is Metric of the API server's own allocator.
func (c *Cluster) UpstreamMetric(ctx context.Context, name string, labels ...string) float64 {
	GinkgoHelper()
	text, err := c.Client().Discovery().RESTClient().Get().AbsPath("/metrics").DoRaw(ctx)
	Expect(err).NotTo(HaveOccurred())
	metrics, err := framework.ParseMetrics(string(text))
	Expect(err).NotTo(HaveOccurred())
	return valueOf(metrics, "kube_apiserver_clusterip_allocator_"+name, labels)
}

func valueOf(metrics framework.Metrics, name string, labels []string) float64 {
	if value, found := metrics.Value(name, labels...); found {
		return value
	}
	return NoSeries
}
