// Package behaviour_test holds the operator to what people expect of ServiceCIDRs and IPAddresses
// from Kubernetes itself: ranges fill, grow, shrink and go, families are added, API servers race,
// all as without the operator. It also ends managers in every way (asked to, killed, in the middle
// of work, beside a standby) and API servers under them, and wants the cluster to come out whole.
//
// Start with growth_test.go; each file is one topic.
package behaviour_test

import (
	"context"
	"testing"
	"time"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"
	corev1 "k8s.io/api/core/v1"

	"github.com/clusterip-operator/clusterip-operator/test/integration/internal/cluster"
)

func TestBehaviour(t *testing.T) {
	RegisterFailHandler(Fail)
	RunSpecs(t, "behaviour")
}

// expectHealth wants Services and IPAddresses to match, and the operator to have found no drift.
func expectHealth(ctx SpecContext, c *cluster.Cluster) {
	GinkgoHelper()
	Eventually(c.Breaches).WithArguments(ctx).Should(BeEmpty())
	Expect(c.Metric(ctx, "drift_detected_total")).To(BeZero())
	Expect(c.Events(ctx).Ours().Warnings().For("ClusterIPNotAllocated")).To(BeEmpty())
}

// ourWriter is the field manager of the manager's IPAddresses. It tells them from those that the
// API server repairs, minutes later.
const ourWriter = "clusterip-operator-ipaddress"

// restored deletes the IPAddress of a Service and waits until the manager has written it anew.
func restored(ctx context.Context, c *cluster.Cluster, service *corev1.Service, within time.Duration) {
	GinkgoHelper()
	address := service.Spec.ClusterIP
	c.DeleteIPAddress(ctx, address)
	Eventually(c.Owner).WithArguments(ctx, address).WithTimeout(within).Should(Equal(service.Namespace + "/" + service.Name))
	Expect(c.IPAddress(ctx, address).ManagedFields).To(ContainElement(HaveField("Manager", ourWriter)),
		"it was not the manager that restored it")
}
