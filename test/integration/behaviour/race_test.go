package behaviour_test

import (
	"fmt"
	"sync"
	"time"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes"

	"github.com/clusterip-operator/clusterip-operator/test/framework"
	"github.com/clusterip-operator/clusterip-operator/test/framework/suite"
	"github.com/clusterip-operator/clusterip-operator/test/integration/internal/cluster"
)

// Two API servers allocate from one range of 126 IPv4 and 127 IPv6 addresses, and learn late of
// each other's choices: only the name of the IPAddress is unique. Ten clients take 110 of the 125
// addresses that are free, five through each; a Service goes, and ten clients want just the
// addresses that it had. Nothing is wrong in all this: operators that raise false alarms are soon
// ignored.
var _ = It("Two API servers on one etcd that race for addresses do not alarm the operator", Label("long"), func(ctx SpecContext) {
	options := framework.Options{ServiceClusterIPRange: "10.94.0.0/25,fd00:94::/121"}
	c := cluster.Start(ctx, cluster.Options{Options: options})
	servers := []kubernetes.Interface{c.Client(), suite.APIServer(ctx, c.ControlPlane, options).Client()}
	race := func(n int, do func(i int, server kubernetes.Interface) error) []error {
		errs := make([]error, n)
		var clients sync.WaitGroup
		for i := range errs {
			clients.Go(func() { errs[i] = do(i, servers[i%len(servers)]) })
		}
		clients.Wait()
		return errs
	}

	created := make([][]*corev1.Service, len(servers))
	Expect(race(len(servers), func(i int, server kubernetes.Interface) (err error) {
		created[i], err = framework.CreateServices(ctx, server, 55, 5, framework.Numbered(cluster.Namespace, fmt.Sprint("racer-", i), framework.RequireDualStack()))
		return err
	})).To(HaveEach(Succeed()))
	c.DeleteServices(ctx, created[0][0])
	for family, address := range created[0][0].Spec.ClusterIPs {
		Expect(race(10, func(i int, server kubernetes.Interface) error {
			wanted := framework.NewService(cluster.Namespace, fmt.Sprintf("wants-%d-%d", family, i), framework.WithClusterIPs(address))
			_, err := server.CoreV1().Services(cluster.Namespace).Create(ctx, wanted, metav1.CreateOptions{})
			return err
		})).To(ContainElement(Succeed()))
	}

	Consistently(func(g Gomega) {
		g.Expect(c.Metric(ctx, "drift_detected_total")).To(BeZero())
		g.Expect(c.Events(ctx).Ours().Warnings().For("ClusterIPNotAllocated")).To(BeEmpty())
	}).WithTimeout(7 * time.Second).Should(Succeed()) // for longer than the operator doubts any kind of drift
	Expect(c.Breaches(ctx)).To(BeEmpty())
})
