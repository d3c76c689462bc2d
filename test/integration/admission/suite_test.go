// Package admission_test is about webhooks that go wrong: replicas die, webhooks cannot be reached,
// certificates are lost, all creations of a client fail, or input makes no sense. It wants Services
// to be created all the same, a cluster that is soon consistent, and errors that say what to do. It
// also tests the guards of IPAddresses and ServiceCIDRs, and additional addresses.
//
// Specs that leave the cluster in order share one, each with its own ranges and names. Specs that
// end replicas, fill ranges or need other flags have a cluster of their own.
//
// Start with "Services are created although".
package admission_test

import (
	"testing"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"

	"github.com/clusterip-operator/clusterip-operator/test/integration/internal/cluster"
)

func TestAdmission(t *testing.T) {
	RegisterFailHandler(Fail)
	RunSpecs(t, "admission")
}

// c is the cluster of all specs that leave it in order.
var c *cluster.Cluster

var _ = BeforeSuite(func(ctx SpecContext) {
	c = cluster.Start(ctx, cluster.Options{
		Installed: true, Replicas: 1, OperatorArgs: []string{"--reserved-networks=corporate=10.152.0.0/16,lab=fd00:10:152::/112"},
	})
})
