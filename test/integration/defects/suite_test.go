// Package defects_test has, for each known defect of upstream's ServiceCIDRs and IPAddresses that
// the operator beats, a spec in which it does not occur; and for each kind of drift one in which it
// is repaired or reported.
//
// Two clusters live as long as the suite: with the operator, and with the operator beside
// kube-controller-manager. What needs a cluster for itself (another range, counters at zero,
// repairs that are timed) starts one.
//
// Start with deletion_test.go; each file is one topic.
package defects_test

import (
	"context"
	"testing"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"

	"github.com/clusterip-operator/clusterip-operator/test/integration/internal/cluster"
)

func TestDefects(t *testing.T) {
	RegisterFailHandler(Fail)
	RunSpecs(t, "defects", Label("all"))
}

// The clusters that all specs share. A spec may allocate dynamically only from its own ranges.
const (
	operatorAlone  = "operator alone"
	operatorBeside = "operator beside kube-controller-manager"
)

// clusters are filled before the first spec.
var clusters = map[string]*cluster.Cluster{}

var _ = BeforeSuite(func(ctx SpecContext) {
	clusters[operatorAlone] = cluster.Start(ctx, cluster.Options{OperatorArgs: []string{
		"--reserved-networks=corporate=" + corporate + ",lab=" + lab,
	}})
	leakAddresses(ctx, clusters[operatorAlone]) // takes a minute from here
	clusters[operatorBeside] = cluster.Start(ctx, cluster.Options{BesideUpstream: true})
})

// everywhere does something in each of the shared clusters.
func everywhere(do func(c *cluster.Cluster)) {
	GinkgoHelper()
	for _, name := range []string{operatorAlone, operatorBeside} {
		By(name, func() { do(clusters[name]) })
	}
}

// withOperator are the entries of a table that runs wherever the operator does.
func withOperator(description string) []TableEntry {
	return []TableEntry{
		Entry(description+", "+operatorAlone, operatorAlone),
		Entry(description+", "+operatorBeside, operatorBeside),
	}
}

// expectHealth wants Services and IPAddresses to match one to one, and no drift to be there.
func expectHealth(ctx context.Context, c *cluster.Cluster) {
	GinkgoHelper()
	Eventually(c.Breaches).WithArguments(ctx).Should(BeEmpty())
	Eventually(c.Metric).WithArguments(ctx, "drift").Should(BeZero())
}
