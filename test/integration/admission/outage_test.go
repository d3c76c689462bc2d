package admission_test

import (
	"context"
	"encoding/json"
	"fmt"
	"net/http"
	"slices"
	"sync"
	"time"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"
	admissionv1 "k8s.io/api/admission/v1"
	admissionregistrationv1 "k8s.io/api/admissionregistration/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/clusterip-operator/clusterip-operator/test/framework"
	"github.com/clusterip-operator/clusterip-operator/test/framework/suite"
	"github.com/clusterip-operator/clusterip-operator/test/integration/internal/audit"
	"github.com/clusterip-operator/clusterip-operator/test/integration/internal/cluster"
	"github.com/clusterip-operator/clusterip-operator/test/integration/internal/history"
	"github.com/clusterip-operator/clusterip-operator/test/integration/internal/traffic"
)

// Whatever happens to the webhook, Services are created, as without the operator. Afterwards it
// learns what was allocated without it, steers again, and forgets what never was.
var _ = Describe("Services are created although", Label("long"), Ordered, ContinueOnFailure, func() {
	const (
		timeout  = 2 * time.Second // of the webhook: a Service waits no longer
		recovery = cluster.Timeout // until all is consistent; seconds, where nothing else is busy
		some     = 24
		clients  = 12
	)
	var (
		c     *cluster.Cluster
		log   audit.Log
		round int
		made  []*traffic.Crowd // that are there

		before int // how often the leader had been silent when the spec began
	)

	BeforeEach(func() { before = c.Unheard() })

	BeforeAll(func(ctx SpecContext) {
		var flags []string
		log, flags = history.NewLog()
		c = cluster.Start(ctx, cluster.Options{
			// Small ranges, so that what the operator has not learned of is soon handed out a second time.
			Options:   framework.Options{ServiceClusterIPRange: "10.96.0.0/22,fd00:10:96::/118", Args: flags},
			Installed: true, Replicas: 2, ShippedTimeout: true,
		})
		c.OfferRange(ctx, "tenant", nil, "10.160.0.0/25", "fd00:10:160::/121")
		Expect(c.TryPolicy(ctx, "tenant", `{serviceCIDRs: [tenant], serviceSelector: {matchLabels: {tenant: a}}, exclusive: true, enforcement: Webhook, onFull: Fail, coolDown: 1h,
			reservations: [{name: four, address: 10.160.0.9, for: default/reserved}, {name: six, address: "fd00:10:160::9", for: default/reserved}]}`)).To(Succeed())
		c.WaitProgrammed(ctx, "tenant")
	})

	tenants := func(ctx context.Context, name string) *corev1.Service {
		return c.CreateService(ctx, name, framework.RequireDualStack(), framework.WithLabel("tenant", "a"))
	}
	// gather makes a crowd with an identity of its own.
	gather := func() *traffic.Crowd {
		round++
		those := traffic.NewCrowd(c, fmt.Sprintf("round-%d", round), clients, 1<<20)
		made = append(made, those)
		return those
	}
	// served wants clients not to have noticed anything but the delay.
	served := func(those *traffic.Crowd, delay time.Duration) {
		GinkgoHelper()
		Expect(those.Tally.Failures()).To(BeEmpty(), those.Tally.String())
		Expect(those.Tally.Slowest()).To(BeNumerically("<", delay+3*time.Second))
	}
	// create makes Services from many clients at once.
	create := func(ctx context.Context, delay time.Duration) {
		GinkgoHelper()
		those := gather()
		those.Create(ctx, some)
		if collided := those.Tally.Count(traffic.Collided); collided > 0 {
			Expect(c.Unheard()).To(BeNumerically(">", before), "a collision, though the leader has answered all the time: "+those.Tally.String())
			those.Tally.Drop(traffic.Collided) // a replica that hears nothing of its leader for a second draws beside it: docs/steering.md
			those.Create(ctx, collided)
		}
		served(those, delay)
	}
	// clear deletes what create has made.
	clear := func(ctx context.Context) {
		GinkgoHelper()
		for _, those := range made {
			for _, name := range those.Names() {
				c.DeleteServices(ctx, framework.NewService(cluster.Namespace, name))
			}
		}
		made = nil
	}
	// expectNormal wants everything as if nothing had happened, five seconds after the trouble. First
	// it deletes what the API server has allocated by itself, maybe where policies do not allow it.
	expectNormal := func(ctx context.Context) {
		GinkgoHelper()
		over := time.Now()
		Eventually(c.Breaches).WithArguments(ctx).WithTimeout(recovery).Should(BeEmpty())
		n := 0
		Eventually(func(g Gomega) {
			n++
			service := tenants(ctx, fmt.Sprintf("steered-%d-%d", round, n))
			defer c.DeleteServices(ctx, service)
			g.Expect(service.Spec.ClusterIPs).To(ConsistOf(HavePrefix("10.160.0."), HavePrefix("fd00:10:160::")))
		}).WithTimeout(time.Until(over.Add(recovery))).WithPolling(200 * time.Millisecond).Should(Succeed())
		clear(ctx)
		before := cluster.FailedOpen(ctx, c.Access)
		create(ctx, 0)
		Expect(cluster.FailedOpen(ctx, c.Access)).To(Equal(before), "they were not asked")
		c.ExpectNothingLeaked(ctx)
		c.ExpectConsistentWithin(ctx, recovery)
		for _, kept := range []string{"10.160.0.9", "fd00:10:160::9"} {
			Expect(c.Purpose(ctx, kept)).To(Equal(cluster.Reservation))
		}
		clear(ctx)
	}
	// createAlone creates Services, and wants the API server to have got no answer about them.
	createAlone := func(ctx context.Context, delay time.Duration) {
		GinkgoHelper()
		before := cluster.FailedOpen(ctx, c.Access)
		create(ctx, delay)
		Expect(cluster.FailedOpen(ctx, c.Access)-before).To(BeNumerically(">=", some), "the API server was not alone")
	}

	It("all replicas are down, and their certificate expires meanwhile", func(ctx SpecContext) {
		tenant, reserved := tenants(ctx, "leaver"), tenants(ctx, "reserved")
		Expect(tenant.Spec.ClusterIPs).To(ConsistOf(HavePrefix("10.160.0."), HavePrefix("fd00:10:160::")))
		Expect(reserved.Spec.ClusterIPs).To(ConsistOf("10.160.0.9", "fd00:10:160::9"))
		c.StopReplicas()
		createAlone(ctx, 0)
		c.DeleteServices(ctx, tenant, reserved)
		changeSecret(ctx, c, expired)
		create(ctx, 0)
		c.StartReplicas(ctx)
		over := time.Now()
		for _, kept := range reserved.Spec.ClusterIPs {
			Eventually(c.Purpose).WithArguments(ctx, kept).WithTimeout(time.Until(over.Add(recovery))).Should(Equal(cluster.Reservation))
		}
		expectNormal(ctx)
	})

	It("all replicas are killed while Services are created", func(ctx SpecContext) {
		replicas := c.Replicas()
		killed := make(chan struct{})
		go func() {
			defer GinkgoRecover()
			defer close(killed)
			time.Sleep(300 * time.Millisecond)
			for _, replica := range replicas {
				Expect(replica.Kill()).To(Succeed())
			}
		}()
		those := gather()
		those.Create(ctx, 10*some)
		<-killed
		// The API server, alone at that moment, or the replica that outlived the leader by milliseconds,
		// was faster than Services whose addresses came from us (see the limits in docs/steering.md).
		// Only Services that were on their way when a replica was killed can have collided.
		ours, others := those.Collisions(history.Requests(log))
		AddReportEntry("collisions", fmt.Sprintf("ours %q, with the API server's own choice %q", ours, others))
		collided := len(ours) + len(others)
		Expect(collided).To(BeNumerically("<=", len(replicas)*clients))
		those.Tally.Drop(traffic.Collided)
		those.Create(ctx, collided)
		served(those, 0)
		Expect(those.Tally.Count(traffic.Created)).To(Equal(10 * some))
		createAlone(ctx, 0)
		c.StartReplicas(ctx)
		expectNormal(ctx)
	})

	DescribeTable("the network is in trouble:", func(ctx SpecContext, trouble framework.Trouble, delay, late time.Duration) {
		c.Balancer.Inflict(trouble)
		c.Balancer.Cut()
		createAlone(ctx, delay)
		c.Balancer.Inflict(framework.Trouble{})
		time.Sleep(late)
		c.Balancer.Cut()
		expectNormal(ctx)
	},
		Entry("the webhook answers after five seconds", framework.Trouble{SlowReplies: 5 * time.Second}, timeout, time.Duration(0)),
		// It hears of them when no client waits any more, and has to forget what it gives.
		Entry("the webhook hears of them after five seconds", framework.Trouble{SlowRequests: 5 * time.Second}, timeout, timeout+time.Second),
		Entry("the connections are refused", framework.Trouble{Refuse: true}, time.Duration(0), time.Duration(0)),
	)

	It("the replicas are frozen, and decide when nobody waits any more", func(ctx SpecContext) {
		for _, replica := range c.Replicas() {
			Expect(replica.Pause()).To(Succeed())
			DeferCleanup(func() { _ = replica.Resume() })
		}
		createAlone(ctx, timeout)
		for _, replica := range c.Replicas() {
			Expect(replica.Resume()).To(Succeed())
		}
		c.WaitServing(ctx)
		expectNormal(ctx)
	})

	It("somebody else is in the place of the webhook: a slow one, and one that is waited for, while the API server starts", func(ctx SpecContext) {
		c.StopReplicas()
		slow, _ := startOtherWebhook(5 * time.Second)
		changeWebhooks(ctx, c, admissionregistrationv1.Ignore, slow)
		createAlone(ctx, timeout)

		By("a start in which the API server has to create its own Service, and would wait for ever if it asked about it")
		prompt, asked := startOtherWebhook(0)
		changeWebhooks(ctx, c, admissionregistrationv1.Fail, prompt)
		Expect(c.Client().CoreV1().Services("default").Delete(ctx, "kubernetes", metav1.DeleteOptions{})).To(Succeed())
		Expect(c.API.Kill()).To(Succeed())
		Expect(c.API.Start(ctx)).To(Succeed(), "it waits for our webhook")
		Expect(asked()).NotTo(ContainElement(HavePrefix("system:apiserver ")))
		kubernetes := suite.Must(c.Client().CoreV1().Services("default").Get(ctx, "kubernetes", metav1.GetOptions{}))
		Expect(kubernetes.Spec.ClusterIP).To(Equal("10.96.0.1"))
		c.DeleteServices(ctx, c.CreateService(ctx, "asked-about"))
		Expect(asked()).To(ContainElement(HaveSuffix(" services")))

		c.RemoveWebhooks(ctx)
		c.AddWebhooks(ctx)
		c.StartReplicas(ctx)
		expectNormal(ctx)
	})
})

// changeWebhooks changes where all webhooks of both configurations lead, and their failure policy.
// RemoveWebhooks and AddWebhooks undo it.
func changeWebhooks(
	ctx context.Context, c *cluster.Cluster, failurePolicy admissionregistrationv1.FailurePolicyType, to admissionregistrationv1.WebhookClientConfig,
) {
	GinkgoHelper()
	api := c.Client().AdmissionregistrationV1()
	mutating := suite.Must(api.MutatingWebhookConfigurations().Get(ctx, cluster.WebhookConfiguration, metav1.GetOptions{}))
	validating := suite.Must(api.ValidatingWebhookConfigurations().Get(ctx, cluster.WebhookConfiguration, metav1.GetOptions{}))
	for i := range mutating.Webhooks {
		mutating.Webhooks[i].ClientConfig, mutating.Webhooks[i].FailurePolicy = to, &failurePolicy
	}
	for i := range validating.Webhooks {
		validating.Webhooks[i].ClientConfig, validating.Webhooks[i].FailurePolicy = to, &failurePolicy
	}
	for resource, webhooks := range map[string]any{
		"mutatingwebhookconfigurations": mutating.Webhooks, "validatingwebhookconfigurations": validating.Webhooks,
	} {
		patch := suite.Must(json.Marshal(map[string]any{"webhooks": webhooks}))
		Expect(api.RESTClient().Patch(types.MergePatchType).Resource(resource).Name(cluster.WebhookConfiguration).Body(patch).Do(ctx).Error()).To(Succeed())
	}
	time.Sleep(time.Second) // until the API server goes by it
}

// startOtherWebhook starts a webhook that allows all, after a delay, and notes which user asked for
// what. It ends with the calling node.
func startOtherWebhook(delay time.Duration) (config admissionregistrationv1.WebhookClientConfig, asked func() []string) {
	GinkgoHelper()
	var (
		mu   sync.Mutex
		seen []string // "user resource"
	)
	config = cluster.StartWebhook(func(r *http.Request, question *admissionv1.AdmissionRequest, _ *admissionv1.AdmissionResponse) {
		mu.Lock()
		seen = append(seen, question.UserInfo.Username+" "+question.Resource.Resource)
		mu.Unlock()
		select {
		case <-time.After(delay):
		case <-r.Context().Done():
		}
	})
	return config, func() []string {
		mu.Lock()
		defer mu.Unlock()
		return slices.Clone(seen)
	}
}
