package tenants_test

import (
	"context"
	"encoding/json"
	"fmt"
	"slices"
	"sync/atomic"
	"time"
	"unicode"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/clusterip-operator/clusterip-operator/test/framework"
	"github.com/clusterip-operator/clusterip-operator/test/framework/suite"
	"github.com/clusterip-operator/clusterip-operator/test/integration/internal/cluster"
	"github.com/clusterip-operator/clusterip-operator/test/integration/internal/hostile"
)

const mebibyte = 1 << 20

// heap is the most that a replica has on its heap, in MiB. Requests to replicas meanwhile make
// garbage, so that a collection comes soon.
func heap(ctx context.Context) (most float64) {
	GinkgoHelper()
	padding := hostile.Large("padding", "padding", hostile.Long(hostile.LargeAnnotations))
	text := suite.Must(json.Marshal(padding))
	service := &corev1.Service{}
	Expect(json.Unmarshal(text, service)).To(Succeed())
	service.Namespace = "default"
	for range 20 {
		suite.Must(c.Client().CoreV1().Services("default").Create(ctx, service, metav1.CreateOptions{DryRun: []string{metav1.DryRunAll}}))
	}
	for _, replica := range c.Replicas() {
		bytes := cluster.MetricOf(ctx, replica, "go_memstats_heap_alloc_bytes")
		Expect(bytes).To(BeNumerically(">", 0))
		most = max(most, bytes/mebibyte)
	}
	return most
}

// statusOf is the status of a policy as it is stored.
func statusOf(ctx context.Context, policy string) string {
	GinkgoHelper()
	o := &unstructured.Unstructured{}
	o.SetGroupVersionKind(schema.GroupVersionKind{Group: "clusterip-operator.io", Version: "v1alpha1", Kind: "ServiceCIDRPolicy"})
	Expect(c.Policies().Get(ctx, client.ObjectKey{Name: policy}, o)).To(Succeed())
	text := suite.Must(json.Marshal(o.Object["status"]))
	return string(text)
}

// inFlightFor is how long the operator remembers an address whose Service never came, and a bit
// less, so that forgetting is no excuse; inMemory how long a freed address cools down before an
// IPAddress says so.
const (
	inFlightFor = 10 * time.Second
	inMemory    = time.Second
	// coolingOfNamespace is how many addresses of a family cool down for a namespace's Services.
	coolingOfNamespace = 512
)

// Promise 3.
var _ = Describe("Bounded: what a tenant can make the operator keep", Ordered, ContinueOnFailure, func() {
	var mallory *hostile.Tenant

	BeforeAll(func(ctx SpecContext) {
		mallory = hostile.New(ctx, c, "mallory-bounded", map[string]string{"pool": "bounded"})
	})

	// Each of them would be kept as long as its address is in flight.
	It("is not the name of a Service that is refused, 15 times 2.4 MiB", func(ctx SpecContext) {
		before := heap(ctx)
		long := hostile.Long(hostile.LargeName)
		var sent atomic.Int64
		stop := while(ctx, 4, func(ctx context.Context, i int) {
			if sent.Add(1) <= 15 {
				Expect(mallory.Create(ctx, hostile.Plain(fmt.Sprintf("%s-%d", long, i))).Stored()).To(BeFalse())
			}
		})
		Eventually(sent.Load).Should(BeNumerically(">", 15))
		stop()
		ended := float64(time.Now().UnixMilli()) / 1000
		Eventually(func() bool { // what a replica has not collected since shows nothing
			heap(ctx)
			return slices.ContainsFunc(c.Replicas(), func(r *framework.Manager) bool {
				return cluster.MetricOf(ctx, r, "go_memstats_last_gc_time_seconds") <= ended && cluster.MetricOf(ctx, r, "go_memstats_heap_alloc_bytes")/mebibyte >= before+12
			})
		}).Should(BeFalse())
		Eventually(heap).WithArguments(ctx).WithTimeout(inFlightFor).Should(BeNumerically("<", before+12), "MiB; it was %g before", before)
	})

	It("is no name of 120 KiB, and no escape of a terminal, in the status of another team's policy", func(ctx SpecContext) {
		treasury := closed(ctx, "treasury")
		four, six := treasury.at(30)
		for i := range 10 {
			mallory.Create(ctx, hostile.Choosing(fmt.Sprint(i, hostile.Escaping(120<<10)), four, six))
		}
		c.ExpectRefused(ctx, "treasury", cluster.Asking("default", "later", four))
		Eventually(statusOf).WithArguments(ctx, "treasury").Should(ContainSubstring("default/later"), "refusals are written as ever")
		status := statusOf(ctx, "treasury")
		Expect(len(status)).To(BeNumerically("<", 8<<10))
		Expect(status).NotTo(ContainSubstring(`\u001b`))
		Expect([]rune(status)).To(HaveEach(Satisfy(unicode.IsPrint)))
	})

	DescribeTable("is not what it writes into annotations that the operator reads", func(ctx SpecContext, n int) {
		before := heap(ctx)
		for i := range n {
			annotation, text := "clusterip-operator.io/former-ips", hostile.Addresses(hostile.LargeAnnotations)
			if i%2 == 1 {
				annotation, text = cluster.AdditionalFrom, hostile.Names(hostile.LargeAnnotations)
			}
			mallory.Create(ctx, hostile.Large(fmt.Sprintf("large-%d", i), annotation, text))
		}
		Eventually(heap).WithArguments(ctx).Should(BeNumerically("<", before+float64(n*2<<10)/mebibyte+16), "MiB; it was %g before", before)
	},
		Entry("of 100 Services, 256 KiB each", 100),
		Entry("of 1,000 Services, 256 KiB each", Label("soak"), 1000),
	)

	// A quota counts Services that are there.
	It("is not an IPAddress for each Service that was there for a moment", Label("long"), func(ctx SpecContext) {
		p := newPlace(ctx, "churned", 16)
		program(ctx, "churned", "{serviceCIDRs: [churned], namespaceSelector: {matchLabels: {pool: bounded}}, coolDown: 1h}")
		var gone atomic.Int64
		stop := while(ctx, 4, func(ctx context.Context, i int) {
			if name := fmt.Sprintf("moment-%d", i); mallory.Create(ctx, hostile.Plain(name)).Stored() && mallory.Delete(ctx, name).Stored() {
				gone.Add(1)
			}
		})
		defer stop()
		// However long it takes: none of them is free again before the hour is over.
		Eventually(gone.Load).WithTimeout(10 * time.Minute).Should(BeNumerically(">", 650))
		stop()
		Consistently(c.Kept).WithArguments(ctx, cluster.Cooling).WithTimeout(3*inMemory).WithPolling(inMemory/2).
			Should(WithTransform(func(all []string) int { return len(all) }, BeNumerically("<=", coolingOfNamespace)), "of %s", p.four)
	})
})
