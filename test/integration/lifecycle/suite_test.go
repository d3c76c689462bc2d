// Package lifecycle_test ends managers in every way in which they end (asked to, killed, in the middle of work, with a
// standby beside them) and API servers under them, and wants the cluster to come out whole.
//
// Start with leader_test.go.
package lifecycle_test

import (
	"context"
	"testing"
	"time"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"
	corev1 "k8s.io/api/core/v1"

	"github.com/clusterip-operator/clusterip-operator/test/integration/internal/cluster"
)

func TestLifecycle(t *testing.T) {
	RegisterFailHandler(Fail)
	RunSpecs(t, "lifecycle")
}

// ourWriter is the field manager of the IPAddresses that the manager writes. It tells them from those that the API server
// repairs, which it does too, after minutes.
const ourWriter = "clusterip-operator-ipaddress"

// restored deletes the IPAddress of a Service and waits until the manager has written it anew.
func restored(ctx context.Context, c *cluster.Cluster, service *corev1.Service, within time.Duration) {
	GinkgoHelper()
	address := service.Spec.ClusterIP
	c.DeleteIPAddress(ctx, address)
	Eventually(c.Owner).WithArguments(ctx, address).WithTimeout(within).WithPolling(50 * time.Millisecond).
		Should(Equal(service.Namespace + "/" + service.Name))
	Expect(c.IPAddress(ctx, address).ManagedFields).To(ContainElement(HaveField("Manager", ourWriter)),
		"it was not the manager that restored it")
}
