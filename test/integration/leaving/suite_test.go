// Package leaving_test takes the operator away from clusters: in order, by force, too early, twice,
// and by ending only its process. The rest must be as in a cluster that never had the operator.
//
// Start with "An operator that leaves", which follows a cluster from its last day with the operator
// to its first ones without.
package leaving_test

import (
	"context"
	"slices"
	"strings"
	"testing"
	"time"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"
	networkingv1 "k8s.io/api/networking/v1"

	"github.com/clusterip-operator/clusterip-operator/test/framework"
	"github.com/clusterip-operator/clusterip-operator/test/integration/internal/cluster"
	"github.com/clusterip-operator/clusterip-operator/test/integration/inventory"
)

func TestLeaving(t *testing.T) {
	RegisterFailHandler(Fail)
	RunSpecs(t, "leaving", Label("all"))
}

// Exit statuses of the manager.
const (
	done     = 0
	couldNot = 1
)

const (
	// widgets is another manager of IPAddresses, with labels, annotations and finalizers of its own.
	widgets   = "widgets.example.com"
	theirHold = "widgets.example.com/hold"
	// ourPrefix begins our conditions.
	ourPrefix = "clusterip-operator.io/"
	// leaseNamespace is told to the manager and to its clean-up.
	leaseNamespace = "--namespace=" + cluster.Namespace
)

// cleanUp runs `manager cleanup` to its end and returns what it said, line by line.
func cleanUp(ctx context.Context, c *cluster.Cluster, args ...string) (said []string, status int) {
	GinkgoHelper()
	ctx, cancel := context.WithTimeout(ctx, 3*time.Minute) // thousands of objects, one after the other
	defer cancel()
	output, status, err := c.RunManager(ctx, framework.ManagerOptions{Race: true, Args: append([]string{"cleanup"}, args...)})
	Expect(err).NotTo(HaveOccurred())
	Expect(output).NotTo(ContainSubstring("DATA RACE"))
	return slices.DeleteFunc(strings.Split(output, "\n"), func(line string) bool { return line == "" }), status
}

// everything takes down the cluster, but for Leases: a manager renews its own all the time.
func everything(ctx context.Context, c *cluster.Cluster) inventory.Objects {
	GinkgoHelper()
	return c.Everything(ctx, "leases.coordination.k8s.io")
}

// settled is everything once no program writes any more.
func settled(ctx context.Context, c *cluster.Cluster) (now inventory.Objects) {
	GinkgoHelper()
	Eventually(func() []string {
		now = everything(ctx, c)
		time.Sleep(2 * time.Second) // longer than the manager holds anything back
		return now.Changes(everything(ctx, c))
	}).Should(BeEmpty(), "somebody goes on writing")
	return now
}

// reserved is an IPAddress that is no Service's.
func reserved(address, manager string, options ...framework.IPAddressOption) *networkingv1.IPAddress {
	parent := networkingv1.ParentReference{Group: "example.com", Resource: "widgets", Namespace: "factory", Name: "gear"}
	return framework.NewIPAddress(address, "", "", append(options, framework.ManagedBy(manager), framework.WithParent(parent))...)
}

// worksByItself wants a cluster to allocate, and to restore an IPAddress, without our manager. It
// deletes its Service, whose address may be from any range, and would hold it.
func worksByItself(ctx context.Context, c *cluster.Cluster) {
	GinkgoHelper()
	service := c.CreateService(ctx, "allocated", framework.RequireDualStack())
	defer c.DeleteServices(ctx, service)
	for _, address := range service.Spec.ClusterIPs {
		Expect(c.Owner(ctx, address)).To(Equal(cluster.Namespace + "/" + service.Name))
		c.DeleteIPAddress(ctx, address)
	}
	Expect(c.PatchService(ctx, service.Name, `{"metadata":{"annotations":{"example.com/touched":"yes"}}}`)).Error().NotTo(HaveOccurred())
	for _, address := range service.Spec.ClusterIPs {
		Eventually(c.Owner).WithArguments(ctx, address).Should(Equal(cluster.Namespace+"/"+service.Name), "the API server's own repair")
		ip := c.IPAddress(ctx, address)
		Expect(ip.Labels).To(HaveLen(2))
		Expect(ip.ManagedFields).To(HaveEach(HaveField("Manager", "kube-apiserver")))
	}
}
