// Package badinput_test gives the manager command lines, configuration files, API servers and
// permissions that it cannot work with. It wants each refused with a message that names the cause
// and the remedy, an exit status that a script can act on, and a cluster that is as it was before.
//
// Start with untouched, which ensures the last of these for every spec.
package badinput_test

import (
	"context"
	"testing"
	"time"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/clusterip-operator/clusterip-operator/test/framework"
	"github.com/clusterip-operator/clusterip-operator/test/framework/suite"
	"github.com/clusterip-operator/clusterip-operator/test/integration/internal/cluster"
	"github.com/clusterip-operator/clusterip-operator/test/integration/inventory"
)

func TestBadInput(t *testing.T) {
	RegisterFailHandler(Fail)
	RunSpecs(t, "bad input", Label("all"))
}

// Exit statuses of the manager.
const (
	couldNot = 1 // it understood and could not do it
	notKnown = 2 // it was asked for something that does not exist
)

// c is a Kubernetes 1.37 without operator. Specs leave it running.
var c *cluster.Cluster

var _ = BeforeSuite(func(ctx SpecContext) {
	c = cluster.Start(ctx, cluster.Options{WithoutOperator: true})
	suite.Must(inventory.Settled(ctx, c.AdminConfig()))
}, NodeTimeout(3*time.Minute))

// untouched wants do to leave every object of the cluster as it was. A manager that got to work
// would change one at once: a ServiceCIDR without finalizers waits for it.
func untouched(ctx context.Context, do func()) {
	GinkgoHelper()
	work := framework.NewServiceCIDR("", "10.200.0.0/24")
	work.GenerateName = "waiting-"
	suite.Must(c.Networking().ServiceCIDRs().Create(ctx, work, metav1.CreateOptions{}))
	c.Untouched(ctx, do)
}

// run runs the manager to its end, which has to come soon.
func run(ctx context.Context, c *cluster.Cluster, options framework.ManagerOptions) (output string, status int) {
	GinkgoHelper()
	ctx, cancel := context.WithTimeout(ctx, 30*time.Second)
	defer cancel()
	output, status, err := c.RunManager(ctx, options)
	Expect(err).NotTo(HaveOccurred())
	return output, status
}
