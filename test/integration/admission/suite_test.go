// Package admission_test is about what goes wrong: clients whose creations all fail, replicas that die, webhooks that cannot be
// reached, and input that makes no sense. It wants Services to be created all the same, a cluster that is consistent soon
// afterwards, and whoever is at fault to be told what to do. It also has what nobody sees when all is well: the guards of IPAddresses and
// ServiceCIDRs, and the life of additional addresses.
//
// One bed lives as long as the suite, for everything that leaves it in order. What ends replicas, fills ranges or needs other flags has a
// bed of its own.
//
// Start with "Services are created although".
package admission_test

import (
	"testing"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"

	"github.com/clusterip-operator/clusterip-operator/test/integration/internal/steering"
)

func TestAdmission(t *testing.T) {
	RegisterFailHandler(Fail)
	RunSpecs(t, "admission")
}

var (
	// c is the bed of all specs that leave it in order, with one replica. Each has ranges and names of its own there.
	c *steering.Bed
	// user writes policies in it.
	user *author
)

var _ = BeforeSuite(func(ctx SpecContext) {
	c = steering.Start(ctx, steering.Options{})
	user = newAuthor(c.AdminConfig())
})
