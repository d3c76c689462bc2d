package defects_test

import (
	"context"
	"fmt"
	"time"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/clusterip-operator/clusterip-operator/test/framework"
	"github.com/clusterip-operator/clusterip-operator/test/framework/suite"
	"github.com/clusterip-operator/clusterip-operator/test/integration/internal/cluster"
)

// When an update takes a ClusterIP away, the API server deletes the IPAddress before it writes the
// Service. In between the operator finds it missing and restores it. Here one API server is far
// from the Services' etcd, so that the operator, which asks the other, always sees this.
var _ = Describe("An update that gives a ClusterIP up", Ordered, func() {
	const far = time.Second // from two on it would not be ready: its health check waits that long for etcd
	var (
		c      *cluster.Cluster
		remote *framework.APIServer
	)

	BeforeAll(func(ctx SpecContext) {
		c = cluster.Start(ctx, cluster.Options{})
		line := suite.Must(framework.Stretch(c.Etcd.URL(), far, 0))
		DeferCleanup(line.Stop)
		remote = suite.Must(c.AddAPIServer(ctx, framework.Options{Args: []string{"--etcd-servers-overrides=/services#" + line.URL()}}))
	})

	// Ages are told in seconds; an IPAddress of a Service that is older than five is restored at once.
	settled := func(service *corev1.Service) func() bool {
		return func() bool { return time.Since(service.CreationTimestamp.Time) > 6*time.Second }
	}
	// isAnother reports whether an address has another IPAddress than before.
	isAnother := func(ctx context.Context, address string, before types.UID) func() bool {
		return func() bool {
			ip := c.IPAddress(ctx, address)
			return ip != nil && ip.UID != before
		}
	}

	DescribeTable("leaves no IPAddress behind, and is reported by nobody", func(ctx SpecContext, name, patch string, left int) {
		service := c.CreateSettledService(ctx, name, framework.RequireDualStack())
		Eventually(settled(service)).WithTimeout(10 * time.Second).Should(BeTrue())
		lost := map[string]types.UID{}
		for _, address := range service.Spec.ClusterIPs[left:] {
			lost[address] = c.IPAddress(ctx, address).UID
		}
		about := func() cluster.Events {
			events := c.Events(ctx).OnService(name)
			for _, address := range service.Spec.ClusterIPs[left:] {
				events = append(events, c.Events(ctx).OnIPAddress(address)...)
			}
			return events.Warnings()
		}
		known := about() // an API server that hears of a new Service before it hears of the IPAddress warns

		changed := make(chan error, 1)
		go func() {
			_, err := remote.Client().CoreV1().Services(service.Namespace).Patch(ctx, name, types.MergePatchType, []byte(patch), metav1.PatchOptions{})
			changed <- err
		}()
		for address, before := range lost {
			Eventually(isAnother(ctx, address, before)).WithPolling(10*time.Millisecond).WithTimeout(10*time.Second).Should(BeTrue(), "the restored one")
		}
		Eventually(changed).WithTimeout(10 * time.Second).Should(Receive(BeNil()))

		for address := range lost {
			Eventually(c.IPAddress).WithArguments(ctx, address).Should(BeNil())
		}
		Consistently(about).WithTimeout(3 * time.Second).Should(Equal(known))
		for _, when := range []string{"detected", "repaired"} {
			Expect(c.Metric(ctx, fmt.Sprintf("drift_%s_total", when))).To(BeZero(), when)
		}
		expectHealth(ctx, c)
	},
		Entry("to ExternalName", Label("long"), "leaves", `{"spec":{"type":"ExternalName","externalName":"example.com","clusterIP":null,"clusterIPs":null}}`, 0),
		Entry("to one family", Label("long"), "shrinks", `{"spec":{"ipFamilyPolicy":"SingleStack"}}`, 1),
	)
})
