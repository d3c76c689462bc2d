// Package admission_test is about what goes wrong with the webhooks: replicas that die, webhooks that cannot be reached, certificates that are lost,
// clients whose creations all fail, and input that makes no sense. It wants Services to be created all the same, a cluster that is
// consistent soon afterwards, and whoever is at fault to be told what to do. It also has what nobody sees when all is well: the guards of
// IPAddresses and ServiceCIDRs, and the life of additional addresses.
//
// One cluster lives as long as the suite, for everything that leaves it in order; each spec has ranges and names of its own there. What ends
// replicas, fills ranges or needs other flags has a cluster of its own.
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
