package controllers_test

import (
	"context"
	"fmt"
	"strings"
	"time"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"
	corev1 "k8s.io/api/core/v1"
	networkingv1 "k8s.io/api/networking/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/kubernetes"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/clusterip-operator/clusterip-operator/api/v1alpha1"
	"github.com/clusterip-operator/clusterip-operator/test/framework"
	"github.com/clusterip-operator/clusterip-operator/test/framework/suite"
)

var _ = Describe("Services that lack an additional address", func() {
	const services = 15

	// has counts the additional addresses of the Services.
	has := func(ctx context.Context) (n int) {
		GinkgoHelper()
		list := &networkingv1.IPAddressList{}
		Expect(admin.List(ctx, list, client.MatchingLabels{v1alpha1.LabelPurpose: v1alpha1.PurposeAdditional})).To(Succeed())
		for _, ip := range list.Items {
			if strings.HasPrefix(ip.Spec.ParentRef.Name, "lacks-") {
				n++
			}
		}
		return n
	}

	It("are told at a rate, cost nothing while they wait, and are woken by what they wait for", Label("long"), func(ctx SpecContext) {
		labels := map[string]string{"lacks": "yes"}
		policy := create(ctx, &v1alpha1.ServiceCIDRPolicy{ObjectMeta: metav1.ObjectMeta{Name: "lacks"}, Spec: v1alpha1.ServiceCIDRPolicySpec{
			ServiceCIDRs: []string{"lacks"}, AdditionalAddresses: true, ServiceSelector: &metav1.LabelSelector{MatchLabels: labels},
		}})
		count := readsOf("lacks-")
		for i := range services {
			Eventually(func() error {
				s := dual(fmt.Sprint("lacks-", i), framework.WithLabel("lacks", "yes"), func(s *corev1.Service) {
					s.Annotations = map[string]string{v1alpha1.AnnotationAdditionalFrom: "lacks"}
				})
				return admin.Create(ctx, s)
			}).Should(Succeed(), "the webhook has to know the policy")
			DeferCleanup(func(ctx SpecContext) {
				Expect(client.IgnoreNotFound(admin.Delete(ctx, dual(fmt.Sprint("lacks-", i))))).To(Succeed())
			})
		}
		kube := suite.Must(kubernetes.NewForConfig(environment.Config))
		told := func() (n int) {
			list := suite.Must(kube.EventsV1().Events(namespace).List(ctx, metav1.ListOptions{}))
			for _, e := range list.Items {
				if e.Reason == "AdditionalIPNotAllocated" && strings.HasPrefix(e.Regarding.Name, "lacks-") {
					n++
				}
			}
			return n
		}
		Eventually(told).Should(BeNumerically(">=", 5), "other specs have Services in this namespace too")
		// Two equal counts, a second apart, were not the last ones: the next look may come later.
		last, since := 0, time.Now()
		quiet := func() time.Duration { // since when nothing was read, once all have been looked at
			if n := count(); n != last || n < 2*services {
				last, since = n, time.Now()
			}
			return time.Since(since)
		}
		Eventually(quiet).WithTimeout(time.Minute).Should(BeNumerically(">", 5*time.Second), "nothing has changed")
		Expect(told()).To(BeNumerically("<=", 13))

		By("a policy that has the ServiceCIDR no more, and has it again")
		allow := func(yes bool) {
			patch := client.RawPatch(types.MergePatchType, fmt.Appendf(nil, `{"spec":{"additionalAddresses":%t}}`, yes))
			Expect(admin.Patch(ctx, policy, patch)).To(Succeed())
		}
		allow(false)
		create(ctx, framework.NewServiceCIDR("lacks", "10.104.0.0/24", "fd00:10:104::/120"))
		Eventually(condition).WithArguments(ctx, "lacks", v1alpha1.PolicyProgrammed).Should(HaveField("Status", metav1.ConditionTrue))
		Consistently(has).WithArguments(ctx).WithTimeout(time.Second).Should(BeZero())
		allow(true)
		Eventually(has).WithArguments(ctx).Should(Equal(2 * services))
	})
})
