package behaviour_test

import (
	"context"
	"fmt"
	"sync"
	"time"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes"

	"github.com/clusterip-operator/clusterip-operator/test/framework"
	"github.com/clusterip-operator/clusterip-operator/test/framework/suite"
	"github.com/clusterip-operator/clusterip-operator/test/integration/internal/cluster"
)

// Two API servers allocate from one range of 126 IPv4 and 127 IPv6 addresses, and learn late of
// each other's choices. Only the name of the IPAddress is unique.
var _ = Describe("Two API servers on one etcd", Ordered, ContinueOnFailure, func() {
	const each = 55
	var (
		c       *cluster.Cluster
		servers []kubernetes.Interface
		current []*corev1.Service
	)

	BeforeAll(func(ctx SpecContext) {
		options := framework.Options{ServiceClusterIPRange: "10.94.0.0/25,fd00:94::/121"}
		c = cluster.Start(ctx, cluster.Options{Options: options})
		other := suite.APIServer(ctx, c.ControlPlane, options)
		servers = []kubernetes.Interface{c.Client(), other.Client()}
	})

	// race lets five clients of each API server create Services at the same time.
	race := func(ctx context.Context, name string, n int) []*corev1.Service {
		GinkgoHelper()
		created, errs := make([][]*corev1.Service, len(servers)), make([]error, len(servers))
		var clients sync.WaitGroup
		for i, server := range servers {
			clients.Go(func() {
				created[i], errs[i] = framework.CreateServices(ctx, server, n, 5, named(fmt.Sprintf("%s-%d", name, i), framework.RequireDualStack()))
			})
		}
		clients.Wait()
		Expect(errs).To(HaveEach(Succeed()))
		return append(created[0], created[1]...)
	}

	// expectOneToOne wants no address to have two Services, and one IPAddress to name each Service.
	expectOneToOne := func(ctx SpecContext) {
		GinkgoHelper()
		Eventually(c.Breaches).WithArguments(ctx).Should(BeEmpty())
	}

	// 110 of 125 addresses are taken, by ten clients at once.
	It("give no address away twice when they race for most of a range", func(ctx SpecContext) {
		current = race(ctx, "racer", each)
		Expect(current).To(HaveLen(2 * each))
		expectOneToOne(ctx)
	})

	// A Service goes, and ten clients want just the addresses that it had.
	It("give an address that many ask for to one of them", func(ctx SpecContext) {
		vacated := current[len(current)-1]
		c.DeleteServices(ctx, vacated)
		for family, address := range vacated.Spec.ClusterIPs {
			errs := make([]error, 10)
			var clients sync.WaitGroup
			for i := range errs {
				clients.Go(func() {
					wanted := framework.NewService(cluster.Namespace, fmt.Sprintf("wants-%d-%d", family, i), framework.WithClusterIPs(address))
					_, errs[i] = servers[i%len(servers)].CoreV1().Services(cluster.Namespace).Create(ctx, wanted, metav1.CreateOptions{})
				})
			}
			clients.Wait()
			var served []error
			Expect(errs).To(ContainElement(Succeed(), &served))
			Expect(served).To(HaveLen(1))
			Expect(errs).To(HaveEach(Or(Succeed(), Satisfy(apierrors.IsInvalid))))
		}
		expectOneToOne(ctx)
	})

	// Nothing was wrong in all this, and operators that raise false alarms are soon ignored.
	It("do not alarm the operator", Label("all"), func(ctx SpecContext) {
		Consistently(func(g Gomega) {
			g.Expect(c.Metric(ctx, "drift_detected_total")).To(BeZero())
			g.Expect(c.Events(ctx).Ours().Warnings().For("ClusterIPNotAllocated")).To(BeEmpty())
		}).WithTimeout(7 * time.Second).Should(Succeed()) // for longer than the operator doubts any kind of drift
		Expect(c.Breaches(ctx)).To(BeEmpty())
	})
})
