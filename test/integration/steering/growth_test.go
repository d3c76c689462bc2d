package steering_test

import (
	"context"
	"fmt"
	"net/http"
	"sync"
	"time"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"
	admissionv1 "k8s.io/api/admission/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/clusterip-operator/clusterip-operator/test/framework"
	"github.com/clusterip-operator/clusterip-operator/test/integration/internal/cluster"
)

// createdFor are the ServiceCIDRs that the operator created for a policy.
func createdFor(ctx context.Context, policy string) (names []string) {
	for _, o := range c.ServiceCIDRs(ctx) {
		if o.Annotations[cluster.CreatedForAnnotation] == policy {
			names = append(names, o.Name)
		}
	}
	return names
}

var _ = inOrder("A policy with growth", func() {
	// Without growth 62 of the 100 Services would get an address. The range must come while 57 of them
	// are left: in 2.8 seconds, of which the operator waits for 1.2. The rest is work of the processes
	// under this load; as Services come one by one, a slow machine creates fewer a second.
	It("refuses nobody under 20 Services a second, and says when it has grown as far as it can", func(ctx SpecContext) {
		c.OfferRange(ctx, "small", map[string]string{"pool": "blue"}, "10.97.0.0/26", "fd00:10:97::/122")
		c.Program(ctx, "blue", `{serviceCIDRSelector: {matchLabels: {pool: blue}}, namespaceSelector: {matchLabels: {tenant: blue}}, onFull: Fail, exclusive: true, growth: {
			from: [{cidr: 10.200.0.0/25, prefixLength: 26}, {cidr: "fd00:10:200::/121", prefixLength: 122}], whenFreePercent: 90}}`)
		const services, aSecond = 100, 20
		pace := time.NewTicker(time.Second / aSecond)
		defer pace.Stop()
		for i := range services {
			<-pace.C
			_, err := c.Client().CoreV1().Services("blue").Create(ctx, cluster.Dual("blue", fmt.Sprint("load-", i)), metav1.CreateOptions{})
			Expect(err).NotTo(HaveOccurred(), func() string { return fmt.Sprint("Service ", i, ", with ", createdFor(ctx, "blue")) })
		}
		Eventually(createdFor).WithArguments(ctx, "blue").Should(ConsistOf("grown-10-200-0-0-26", "grown-10-200-0-64-26", "grown-fd00-10-200---122", "grown-fd00-10-200--40-122"))
		c.WaitCondition(ctx, "blue", cluster.GrowthExhausted, metav1.ConditionTrue, "No IPv4 block is left in 10.200.0.0/25", "No IPv6 block is left in fd00:10:200::/121")
		Expect(c.Try(ctx, cluster.Single("blue", "afterwards", corev1.IPv4Protocol))).To(
			Or(lieIn("10.97.0.0/26"), lieIn("10.200.0.0/25")), "the condition comes before it is full")
	})

	// A policy that has no range needs one at once.
	const growth = `growth: {from: [{cidr: 10.201.0.0/24, prefixLength: 26}]}}`
	takenOver := func(ctx context.Context, policy string) {
		GinkgoHelper()
		c.StartReplicas(ctx)
		before = unsteered(ctx)
		c.WaitCondition(ctx, policy, cluster.Growing, metav1.ConditionFalse, "Enough addresses are free")
		Expect(createdFor(ctx, policy)).To(HaveLen(1))
	}

	// heldCreation has a policy grow, and the API server hold the creation that the leader asks for.
	heldCreation := func(ctx context.Context, policy string) (leader *framework.Manager, release func()) {
		GinkgoHelper()
		held, release := holdCreation(ctx)
		leader, _ = c.Leader(ctx)
		c.AddPolicy(ctx, policy, fmt.Sprintf("{serviceCIDRSelector: {matchLabels: {pool: %[1]s}}, namespaceSelector: {matchLabels: {tenant: %[1]s}}, ", policy)+growth)
		Eventually(held).Should(BeClosed())
		return leader, release
	}

	It("creates one range when the leader is killed between deciding and creating", Label("long"), func(ctx SpecContext) {
		leader, _ := heldCreation(ctx, "red")
		Expect(leader.Kill()).To(Succeed())
		Expect(createdFor(ctx, "red")).To(BeEmpty())
		takenOver(ctx, "red")
	})

	It("creates one range when the leader is killed before it hears that there is one", Label("soak"), func(ctx SpecContext) {
		leader, release := heldCreation(ctx, "green")
		Expect(leader.Pause()).To(Succeed())
		release()
		Eventually(createdFor).WithArguments(ctx, "green").Should(HaveLen(1))
		Expect(leader.Kill()).To(Succeed())
		takenOver(ctx, "green")
	})
}, "all")

// holdCreation holds the first creation of a ServiceCIDR, and tells when, until it is released or
// the API server stops waiting.
func holdCreation(ctx context.Context) (held <-chan struct{}, release func()) {
	GinkgoHelper()
	waits, released, asked := make(chan struct{}), make(chan struct{}), make(chan struct{}, 1)
	var once sync.Once
	webhook := cluster.StartWebhook(func(r *http.Request, question *admissionv1.AdmissionRequest, _ *admissionv1.AdmissionResponse) {
		if *question.DryRun {
			asked <- struct{}{}
			return
		}
		once.Do(func() {
			close(waits)
			select {
			case <-released:
			case <-r.Context().Done():
			}
		})
	})
	c.Consult(ctx, "Validating", "hold", webhook,
		`timeoutSeconds: 30, failurePolicy: Fail, rules: [{apiGroups: [networking.k8s.io], apiVersions: ["*"], operations: [CREATE], resources: [servicecidrs]}]`)
	Eventually(func() <-chan struct{} { // the API server learns of it
		_, err := c.Networking().ServiceCIDRs().Create(ctx, framework.NewServiceCIDR("probe", "10.202.0.0/28"), metav1.CreateOptions{DryRun: []string{metav1.DryRunAll}})
		Expect(err).NotTo(HaveOccurred())
		return asked
	}).Should(Receive())
	return waits, func() { close(released) }
}
