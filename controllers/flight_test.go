package controllers_test

import (
	"context"
	"fmt"
	"sync"
	"sync/atomic"
	"time"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/clusterip-operator/clusterip-operator/api/v1alpha1"
	"github.com/clusterip-operator/clusterip-operator/test/framework"
)

var _ = Describe("A small range in which a tenant's creations all fail", func() {
	It("has an address for every Service of another namespace", func(ctx SpecContext) {
		small := framework.NewServiceCIDR("small", "10.99.7.0/28", "fd00:10:99:7::/124")
		create(ctx, small)
		create(ctx, &v1alpha1.ServiceCIDRPolicy{ObjectMeta: metav1.ObjectMeta{Name: "small"}, Spec: v1alpha1.ServiceCIDRPolicySpec{
			ServiceCIDRs: []string{"small"}, OnFull: v1alpha1.OnFullFail, ServiceSelector: &metav1.LabelSelector{MatchLabels: map[string]string{"range": "small"}},
		}})
		say(ctx, "small", v1alpha1.PolicyProgrammed, metav1.ConditionTrue, "Programmed", "")
		refusing(ctx, "fails")
		sent := fail(ctx, "fails", 14)
		Eventually(sent.Load).Should(BeNumerically(">", 14)) // as many as the range has addresses

		for i := range 20 {
			service := dual(fmt.Sprint("friendly-", i), framework.WithLabel("range", "small"))
			Expect(admin.Create(ctx, service)).To(Succeed(), "Service %d", i)
			Expect(service.Spec.ClusterIPs).To(HaveExactElements(HavePrefix("10.99.7."), HavePrefix("fd00:10:99:7::")))
			Expect(admin.Delete(ctx, service)).To(Succeed())
		}
	})
})

// fail lets a namespace send so many creations a second that are refused, until the spec ends. It
// returns how many it has sent.
func fail(ctx context.Context, namespace string, perSecond int) *atomic.Int64 {
	GinkgoHelper()
	ctx, end := context.WithCancel(ctx)
	var all sync.WaitGroup
	sent := &atomic.Int64{}
	all.Go(func() {
		tick := time.NewTicker(time.Second / time.Duration(perSecond))
		defer tick.Stop()
		for ; ctx.Err() == nil; <-tick.C {
			service := framework.NewService(namespace, fmt.Sprint("fails-", sent.Add(1)), framework.WithLabel("range", "small"), framework.RequireDualStack())
			all.Go(func() { _ = admin.Create(ctx, service) })
		}
	})
	DeferCleanup(func() {
		end()
		all.Wait()
	})
	return sent
}
