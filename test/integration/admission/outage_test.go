package admission_test

import (
	"context"
	"encoding/json"
	"fmt"
	"time"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"
	admissionregistrationv1 "k8s.io/api/admissionregistration/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/clusterip-operator/clusterip-operator/test/framework"
	"github.com/clusterip-operator/clusterip-operator/test/integration/internal/cluster"
	"github.com/clusterip-operator/clusterip-operator/test/integration/internal/steering"
	"github.com/clusterip-operator/clusterip-operator/test/integration/internal/traffic"
)

// Whatever happens to the webhook, Services are created; the API server allocates as if the operator were not installed. When it is
// over the operator knows within five seconds what was allocated without it, steers again, and remembers nothing that never was.
var _ = Describe("Services are created although", Label("all"), Ordered, ContinueOnFailure, func() {
	const (
		webhook  = "service.clusterip-operator.io"
		timeout  = 2 * time.Second // of the webhook: a Service waits no longer
		patience = 5 * time.Second // until all is consistent
		some     = 24
		clients  = 12
	)
	var (
		b     *steering.Bed
		log   traffic.AuditLog
		round int
		made  []*traffic.Crowd // that are there
	)

	BeforeAll(func(ctx SpecContext) {
		var flags []string
		log, flags = traffic.NewAuditLog()
		b = steering.Start(ctx, steering.Options{
			// Small ranges, so that what the operator has not learned of is soon handed out a second time.
			Options: framework.Options{ServiceClusterIPRange: "10.96.0.0/22,fd00:10:96::/118", Args: flags}, Replicas: 2, ShippedTimeout: true,
		})
		b.OfferRange(ctx, "tenant", nil, "10.160.0.0/25", "fd00:10:160::/121")
		a := newAuthor(b.AdminConfig())
		Expect(a.TryPolicy(ctx, "tenant", `{serviceCIDRs: [tenant], serviceSelector: {matchLabels: {tenant: a}}, exclusive: true, onFull: Fail,
			coolDown: 1h, reservations: [{name: four, address: 10.160.0.9, for: default/reserved}, {name: six, address: "fd00:10:160::9", for: default/reserved}]}`)).To(Succeed())
		b.WaitProgrammed(ctx, "tenant")
	})

	// gather is a crowd that nobody else belongs to.
	gather := func() *traffic.Crowd {
		round++
		those := traffic.NewCrowd(b.Cluster, fmt.Sprintf("round-%d", round), clients, 1<<20)
		made = append(made, those)
		return those
	}
	// served wants clients not to have noticed anything but the delay.
	served := func(those *traffic.Crowd, delay time.Duration) {
		GinkgoHelper()
		AddReportEntry("created", those.Tally.String())
		Expect(those.Tally.Failures()).To(BeEmpty(), those.Tally.String())
		Expect(those.Tally.Slowest()).To(BeNumerically("<", delay+3*time.Second))
	}
	// create makes Services from many clients at once.
	create := func(ctx context.Context, n int, delay time.Duration) {
		GinkgoHelper()
		those := gather()
		those.Create(ctx, n)
		served(those, delay)
	}
	// repeatLost creates those anew that had their addresses from us, and that the API server, left alone at that moment, was faster than;
	// see the limits in docs/steering.md. It can have met no others than were on their way when a replica was killed.
	repeatLost := func(ctx context.Context, those *traffic.Crowd, killed int) {
		GinkgoHelper()
		ours, others := those.Collisions(traffic.Events(log))
		AddReportEntry("collisions", fmt.Sprintf("ours %q, with the API server's own choice %q", ours, others))
		Expect(ours).To(BeEmpty())
		Expect(len(others)).To(BeNumerically("<=", killed*clients))
		those.Tally.Drop(traffic.Collided)
		those.Create(ctx, len(others))
	}
	// clear deletes what create has made.
	clear := func(ctx context.Context) {
		GinkgoHelper()
		var services []*corev1.Service
		for _, those := range made {
			for _, name := range those.Names() {
				services = append(services, framework.NewService(cluster.Namespace, name))
			}
		}
		b.DeleteServices(ctx, services...)
		made = nil
	}
	// backToNormal wants everything to be as if nothing had happened, five seconds after it is over. What the API server has
	// allocated by itself may lie where policies do not allow it; that goes first.
	backToNormal := func(ctx context.Context) {
		GinkgoHelper()
		over := time.Now()
		Eventually(b.Breaches).WithArguments(ctx).WithTimeout(patience).WithPolling(100 * time.Millisecond).Should(BeEmpty())
		steered(ctx, b, fmt.Sprintf("steered-%d", round), time.Until(over.Add(patience)))
		clear(ctx)
		before := b.FailedOpen(ctx, webhook)
		create(ctx, some, 0)
		Expect(b.FailedOpen(ctx, webhook)).To(Equal(before), "they were not asked")
		b.ExpectNothingLeaked(ctx)
		b.ExpectConsistentWithin(ctx, patience)
		for _, kept := range []string{"10.160.0.9", "fd00:10:160::9"} {
			Expect(b.Purpose(ctx, kept)).To(Equal(steering.Reservation))
		}
		clear(ctx)
	}
	// without wants nobody to have been asked with success while do ran.
	without := func(ctx context.Context, do func()) {
		GinkgoHelper()
		before := b.FailedOpen(ctx, webhook)
		do()
		Expect(b.FailedOpen(ctx, webhook)-before).To(BeNumerically(">=", some), "the API server was not alone")
	}

	It("all replicas are down, and their certificate expires meanwhile", func(ctx SpecContext) {
		tenant := b.CreateService(ctx, "leaver", framework.RequireDualStack(), framework.WithLabel("tenant", "a"))
		Expect(tenant.Spec.ClusterIPs).To(ConsistOf(HavePrefix("10.160.0."), HavePrefix("fd00:10:160::")))
		reserved := b.CreateService(ctx, "reserved", framework.RequireDualStack(), framework.WithLabel("tenant", "a"))
		Expect(reserved.Spec.ClusterIPs).To(ConsistOf("10.160.0.9", "fd00:10:160::9"))
		b.StopReplicas()
		without(ctx, func() { create(ctx, some, 0) })
		b.DeleteServices(ctx, tenant, reserved)
		plant(ctx, b, expiredCertificates("localhost"))
		create(ctx, some, 0)
		b.StartReplicas(ctx)
		over := time.Now()
		for _, kept := range reserved.Spec.ClusterIPs {
			Eventually(b.Purpose).WithArguments(ctx, kept).WithTimeout(time.Until(over.Add(patience))).Should(Equal(steering.Reservation))
		}
		backToNormal(ctx)
	})

	It("all replicas are killed while Services are created", func(ctx SpecContext) {
		replicas := b.Replicas()
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
		repeatLost(ctx, those, len(replicas))
		served(those, 0)
		Expect(those.Tally.Count(traffic.Created)).To(Equal(10 * some))
		without(ctx, func() { create(ctx, some, 0) })
		b.StartReplicas(ctx)
		backToNormal(ctx)
	})

	It("the webhook answers after five seconds", func(ctx SpecContext) {
		b.Balancer.Inflict(framework.Trouble{SlowReplies: 5 * time.Second})
		without(ctx, func() { create(ctx, some, timeout) })
		b.Balancer.Inflict(framework.Trouble{})
		b.Balancer.Cut()
		backToNormal(ctx)
	})

	It("the webhook hears of them after five seconds", func(ctx SpecContext) {
		b.Balancer.Inflict(framework.Trouble{SlowRequests: 5 * time.Second})
		without(ctx, func() { create(ctx, some, timeout) })
		b.Balancer.Inflict(framework.Trouble{})
		time.Sleep(timeout + time.Second) // now it hears of them, and has to forget what it gives
		b.Balancer.Cut()
		backToNormal(ctx)
	})

	It("the replicas are frozen, and decide when nobody waits any more", func(ctx SpecContext) {
		for _, replica := range b.Replicas() {
			Expect(replica.Pause()).To(Succeed())
			DeferCleanup(func() { _ = replica.Resume() })
		}
		without(ctx, func() { create(ctx, some, timeout) })
		for _, replica := range b.Replicas() {
			Expect(replica.Resume()).To(Succeed())
		}
		b.WaitServing(ctx)
		backToNormal(ctx)
	})

	It("the connections are refused", func(ctx SpecContext) {
		b.Balancer.Inflict(framework.Trouble{Refuse: true})
		b.Balancer.Cut()
		without(ctx, func() { create(ctx, some, 0) })
		b.Balancer.Inflict(framework.Trouble{})
		backToNormal(ctx)
	})

	It("the certificate expires while the replicas run, and is renewed", func(ctx SpecContext) {
		plant(ctx, b, expiredCertificates("localhost"))
		create(ctx, some, 0)
		b.WaitServing(ctx)
		backToNormal(ctx)
	})

	It("the webhook's Service is gone", func(ctx SpecContext) {
		restore := refer(ctx, b, &admissionregistrationv1.ServiceReference{Namespace: steering.Namespace, Name: "clusterip-operator-webhook"})
		without(ctx, func() { create(ctx, some, 0) })
		restore()
		b.WaitServing(ctx)
		backToNormal(ctx)
	})

	It("the API server was started anew", func(ctx SpecContext) {
		Expect(b.API.Kill()).To(Succeed())
		Expect(b.API.Start(ctx)).To(Succeed())
		create(ctx, some, timeout)
		b.WaitServing(ctx)
		backToNormal(ctx)
	})

	It("somebody else is in the place of the webhook: a slow one, and one that is waited for, while the API server starts", func(ctx SpecContext) {
		b.StopReplicas()
		restore := direct(ctx, b, startStandIn(5*time.Second))
		without(ctx, func() { create(ctx, some, timeout) })

		By("a start in which the API server has to create its own Service, and would wait for ever if it asked about it")
		listener := startStandIn(0)
		direct(ctx, b, listener)
		demand(ctx, b, admissionregistrationv1.Fail)
		Expect(b.Client().CoreV1().Services("default").Delete(ctx, "kubernetes", metav1.DeleteOptions{})).To(Succeed())
		Expect(b.API.Kill()).To(Succeed())
		Expect(b.API.Start(ctx)).To(Succeed(), "it waits for our webhook")
		for _, asked := range listener.Seen() {
			Expect(asked.User).NotTo(Equal("system:apiserver"), "%+v", asked)
		}
		kubernetes, err := b.Client().CoreV1().Services("default").Get(ctx, "kubernetes", metav1.GetOptions{})
		Expect(err).NotTo(HaveOccurred())
		Expect(kubernetes.Spec.ClusterIP).To(Equal("10.96.0.1"))

		By("though others are")
		b.DeleteServices(ctx, b.CreateService(ctx, "asked-about"))
		Expect(listener.Seen()).To(ContainElement(HaveField("Resource", "services")))

		demand(ctx, b, admissionregistrationv1.Ignore)
		restore()
		b.StartReplicas(ctx)
		backToNormal(ctx)
	})
})

// steered wants Services to be steered at the latest when the patience is at its end.
func steered(ctx context.Context, b *steering.Bed, name string, patience time.Duration) {
	GinkgoHelper()
	n := 0
	Eventually(func(g Gomega) {
		n++
		service := b.CreateService(ctx, fmt.Sprintf("%s-%d", name, n), framework.RequireDualStack(), framework.WithLabel("tenant", "a"))
		defer b.DeleteServices(ctx, service)
		g.Expect(service.Spec.ClusterIPs).To(ConsistOf(HavePrefix("10.160.0."), HavePrefix("fd00:10:160::")))
	}).WithTimeout(patience).WithPolling(200 * time.Millisecond).Should(Succeed())
}

// plant puts certificates into our Secret and the CA into both configurations.
func plant(ctx context.Context, b *steering.Bed, planted certificates) {
	GinkgoHelper()
	patch, err := json.Marshal(corev1.Secret{Data: map[string][]byte{
		"ca.crt": planted.CA, "ca.key": planted.CAKey, "tls.crt": planted.Cert, "tls.key": planted.Key,
	}})
	Expect(err).NotTo(HaveOccurred())
	_, err = b.Client().CoreV1().Secrets(steering.Namespace).
		Patch(ctx, "clusterip-operator-webhook", types.MergePatchType, patch, metav1.PatchOptions{})
	Expect(err).NotTo(HaveOccurred())
	change(ctx, b, func(config *admissionregistrationv1.WebhookClientConfig) { config.CABundle = planted.CA })
}

// refer lets both configurations lead to a Service, and returns how to undo that.
func refer(ctx context.Context, b *steering.Bed, service *admissionregistrationv1.ServiceReference) (restore func()) {
	GinkgoHelper()
	return change(ctx, b, func(config *admissionregistrationv1.WebhookClientConfig) { config.URL, config.Service = nil, service })
}

// direct lets both configurations lead to a stand-in, and returns how to undo that.
func direct(ctx context.Context, b *steering.Bed, to *standIn) (restore func()) {
	GinkgoHelper()
	return change(ctx, b, func(config *admissionregistrationv1.WebhookClientConfig) {
		url := to.URL
		config.URL, config.Service, config.CABundle = &url, nil, to.CABundle()
	})
}

// change changes where all webhooks of both configurations lead, and returns how to undo that.
func change(ctx context.Context, b *steering.Bed, each func(*admissionregistrationv1.WebhookClientConfig)) (restore func()) {
	GinkgoHelper()
	return changeWebhooks(ctx, b, func(config *admissionregistrationv1.WebhookClientConfig, _ **admissionregistrationv1.FailurePolicyType) {
		each(config)
	})
}

// demand sets what happens when no webhook answers. The suite knows how it was.
func demand(ctx context.Context, b *steering.Bed, policy admissionregistrationv1.FailurePolicyType) {
	GinkgoHelper()
	changeWebhooks(ctx, b, func(_ *admissionregistrationv1.WebhookClientConfig, p **admissionregistrationv1.FailurePolicyType) {
		*p = &policy
	})
}

// learning is how long an API server may take until it goes by a changed configuration.
const learning = time.Second

func changeWebhooks(
	ctx context.Context, b *steering.Bed, each func(*admissionregistrationv1.WebhookClientConfig, **admissionregistrationv1.FailurePolicyType),
) (restore func()) {
	GinkgoHelper()
	api := b.Client().AdmissionregistrationV1()
	mutating, err := api.MutatingWebhookConfigurations().Get(ctx, steering.Configuration, metav1.GetOptions{})
	Expect(err).NotTo(HaveOccurred())
	validating, err := api.ValidatingWebhookConfigurations().Get(ctx, steering.Configuration, metav1.GetOptions{})
	Expect(err).NotTo(HaveOccurred())
	write := func(ctx context.Context, m []admissionregistrationv1.MutatingWebhook, v []admissionregistrationv1.ValidatingWebhook) {
		GinkgoHelper()
		for resource, webhooks := range map[string]any{"mutatingwebhookconfigurations": m, "validatingwebhookconfigurations": v} {
			patch, err := json.Marshal(map[string]any{"webhooks": webhooks})
			Expect(err).NotTo(HaveOccurred())
			Expect(api.RESTClient().Patch(types.MergePatchType).Resource(resource).Name(steering.Configuration).Body(patch).Do(ctx).Error()).To(Succeed())
		}
		time.Sleep(learning)
	}
	oldMutating, oldValidating := mutating.DeepCopy().Webhooks, validating.DeepCopy().Webhooks
	for i := range mutating.Webhooks {
		each(&mutating.Webhooks[i].ClientConfig, &mutating.Webhooks[i].FailurePolicy)
	}
	for i := range validating.Webhooks {
		each(&validating.Webhooks[i].ClientConfig, &validating.Webhooks[i].FailurePolicy)
	}
	write(ctx, mutating.Webhooks, validating.Webhooks)
	return func() { write(ctx, oldMutating, oldValidating) }
}
