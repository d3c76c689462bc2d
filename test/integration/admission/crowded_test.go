package admission_test

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"sync"
	"time"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"
	corev1 "k8s.io/api/core/v1"

	"github.com/clusterip-operator/clusterip-operator/test/framework"
	"github.com/clusterip-operator/clusterip-operator/test/integration/internal/cluster"
	"github.com/clusterip-operator/clusterip-operator/test/integration/internal/steering"
)

// A /20 has 4,094 usable addresses and a /116 has 4,095; the API server's own Service has one of either. At 99 % about forty are free
// while thirty-two clients create Services, so that two replicas that drew from the same ones would collide all the time.
var _ = Describe("Thirty-two clients in ranges that are almost full", Label("soak"), Ordered, ContinueOnFailure, func() {
	const (
		clients   = 32
		creations = 3000
		level     = 4053 // 99 %
	)
	var (
		b      *steering.Bed
		log    witness
		those  *crowd
		killed *framework.Manager
		// before is how many Services got their addresses from the API server alone, until now.
		before int
		joined *framework.Manager
	)

	BeforeAll(func(ctx SpecContext) {
		var flags []string
		log, flags = newWitness()
		b = steering.Start(ctx, steering.Options{
			Options:  framework.Options{ServiceClusterIPRange: "10.96.0.0/20,fd00:10:96::/116", Args: flags},
			Replicas: 2, Plain: true,
		})
		// It has to outlive the spec in which it joins.
		joined = b.AddReplicas(ctx, 1)[0]
		Expect(joined.Stop()).To(Succeed())
		b.WaitServing(ctx)
		those = newCrowd(b.Cluster, "crowd", clients, level)
	})

	// served wants every creation since the last call to have succeeded. A Service that the API server gave addresses to by itself, because
	// none of ours answered, may have taken them from others that were being created: nobody can keep them apart. These are counted.
	served := func(ctx context.Context, n, unsteered int) {
		GinkgoHelper()
		testimony := log.Testimony()
		by := map[string]int{}
		for name, chosen := range testimony {
			if strings.HasPrefix(name, "crowd-") {
				by[chosen]++
			}
		}
		alone := by[unasked] + by[leftByUs] - before
		before += alone
		ours, others := those.collisions(testimony)
		AddReportEntry("the crowd", fmt.Sprintf("%s; so far %v; failed: %v", those.tally.String(), by, b.Decisions(ctx, steering.Failed)))
		AddReportEntry("collisions", fmt.Sprintf("ours %q, with the API server's own choice %q", ours, others))
		done, summary := those.tally.count(created), those.tally.String()
		those.tally, those.lost = tally{}, nil
		Expect(ours).To(BeEmpty())
		Expect(alone).To(BeNumerically("<=", unsteered), "the API server was on its own")
		Expect(len(others)).To(BeNumerically("<=", 2*alone), "one for each of its addresses")
		Expect(done+len(others)).To(Equal(n), summary)
	}

	It("fill them", func(ctx SpecContext) {
		those.create(ctx, level-clients)
		served(ctx, level-clients, level/100) // on a machine that is short of time a request may wait for too long
		Expect(b.EachMetric(ctx, "admission_decisions_total", "result", steering.Filled)).To(HaveEach(BeNumerically(">", level/10)),
			"both have to take part, or there is nothing to collide")
	})

	It("are all served, while a replica joins and another is killed", func(ctx SpecContext) {
		those.done.Store(0)
		var both sync.WaitGroup
		both.Go(func() {
			defer GinkgoRecover()
			those.create(ctx, creations)
		})
		answered := func(n int) {
			GinkgoHelper()
			Eventually(those.done.Load).WithTimeout(3 * time.Minute).WithPolling(10 * time.Millisecond).Should(BeNumerically(">=", n))
		}
		answered(creations / 5)
		Expect(joined.Start(ctx)).To(Succeed())
		b.WaitServing(ctx)
		b.Balancer.CloseIdle() // or the API server keeps asking those whom it knows
		AddReportEntry("joined", those.done.Load())
		answered(creations * 3 / 5)
		killed = b.Replicas()[0]
		Expect(killed.Kill()).To(Succeed())
		AddReportEntry("killed", those.done.Load())
		both.Wait()

		// Meanwhile a third of the free addresses belongs to a replica that is not sure of them yet, or is dead and not known to be.
		served(ctx, creations, clients+creations/100) // what was asked of the one that was killed, too
		filled, found := metricOf(ctx, joined, "clusterip_operator_admission_decisions_total", "result", steering.Filled)
		Expect(found).To(BeTrue())
		Expect(filled).To(BeNumerically(">", 50), "the one that joined had its share")
	})

	It("have one address of each family each, and nobody else has it", func(ctx SpecContext) {
		services := b.Services(ctx)
		twice := doubles(services)
		for _, double := range twice {
			// Its own repair and its own deletion of a Service may both delete the IPAddress, the later one when somebody else has it.
			address := double[strings.LastIndex(double, " ")+1:]
			said := saidByAPIServers(b.Dir(), address)
			Expect(said).To(ContainElement(ContainSubstring("appears to have leaked: cleaning up")), "%s, and the API server said %q", double, said)
			AddReportEntry("given away by the API server", double)
			services = slices.DeleteFunc(services, func(s corev1.Service) bool {
				if strings.HasPrefix(double, s.Name+" ") {
					b.DeleteServices(ctx, &s)
					return true
				}
				return false
			})
			those.forget(double[:strings.Index(double, " ")])
		}
		Expect(len(twice)).To(BeNumerically("<=", 1), "%q", twice)
		names := those.there()
		Expect(len(names)).To(BeNumerically(">=", level-2*clients), "the ranges were not full enough")
		for _, s := range services {
			delete(names, s.Name)
		}
		Expect(names).To(BeEmpty(), "they were created and are not there")
		// The operator gives an IPAddress whose Service it does not see a minute.
		b.ExpectConsistentWithin(ctx, 90*time.Second)
	})

	It("leave nothing behind in the replicas", func(ctx SpecContext) {
		b.ExpectNothingLeaked(ctx)
		Eventually(func() []float64 { return b.EachMetric(ctx, "admission_replicas") }).WithTimeout(cluster.Patience).
			Should(Equal([]float64{2, 2}), "the one that was killed is missed")
		Expect(b.Ours(ctx)).To(BeEmpty())
	})

	// The two that are left have the shards of all, so nothing is out of reach.
	It("can have every last address afterwards", func(ctx SpecContext) {
		those.limit = 1 << 20
		left := 4094 - len(b.Services(ctx))
		those.oldest = make(chan string, 2*left)
		those.clients = 4
		those.create(ctx, left)
		served(ctx, left, 0)
		those.create(ctx, 1)
		Expect(those.tally.failures()).To(Equal(map[outcome]int{full: 1}), those.tally.String())
	})
})
