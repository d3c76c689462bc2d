package metrics

import (
	"net/netip"
	"testing"

	ctrlmetrics "sigs.k8s.io/controller-runtime/pkg/metrics"

	"github.com/clusterip-operator/clusterip-operator/allocator"
	"github.com/clusterip-operator/clusterip-operator/internal/addressindex"
	"github.com/clusterip-operator/clusterip-operator/internal/metricsdoc"
	"github.com/clusterip-operator/clusterip-operator/internal/nodeports"
)

// TestDocumentation checks the manager's part of docs/reference/metrics.md, which hack/generate.sh
// writes.
func TestDocumentation(t *testing.T) {
	r, err := allocator.NewRange(netip.MustParsePrefix("10.96.0.0/16"))
	if err != nil {
		t.Fatal(err)
	}
	index := addressindex.New()
	index.Declare([]allocator.Range{r})
	addresses := &Addresses{Index: index, Migration: true, Cordoned: func(allocator.Range) bool { return true }}
	ctrlmetrics.Registry.MustRegister(addresses)
	defer ctrlmetrics.Registry.Unregister(addresses)
	ports := &NodePorts{Index: nodeports.NewIndex(nodeports.Range{})}
	ctrlmetrics.Registry.MustRegister(ports)
	defer ctrlmetrics.Registry.Unregister(ports)
	BlockedDeletions.WithLabelValues("kubernetes")
	WritesRefused.WithLabelValues("repair", "create")
	WebhooksConfigured.WithLabelValues("MutatingWebhookConfiguration")
	if err := metricsdoc.Check("../../docs/reference/metrics.md", prefix, ctrlmetrics.Registry.(metricsdoc.Registry)); err != nil {
		t.Error(err)
	}
}
