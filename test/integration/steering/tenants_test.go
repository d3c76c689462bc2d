package steering_test

import (
	"context"
	"fmt"
	"time"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"
	corev1 "k8s.io/api/core/v1"

	"github.com/clusterip-operator/clusterip-operator/api/v1alpha1"
	"github.com/clusterip-operator/clusterip-operator/test/framework"
	"github.com/clusterip-operator/clusterip-operator/test/integration/internal/cluster"
	"github.com/clusterip-operator/clusterip-operator/test/integration/internal/steering"
)

// Blue has a range for itself and gets addresses nowhere else. Red has a small one, which others may use, and goes elsewhere when it is
// full. The third range is everybody's, as the default one is.
var _ = inOrder("Two tenants and three ranges", func() {
	const (
		blue4, blue6     = "10.101.0.0/24", "fd00:101::/120"
		red4, red6       = "10.102.0.0/25", "fd00:102::/121"
		shared4, shared6 = "10.103.0.0/24", "fd00:103::/120"
	)
	var blues, reds, plains []*corev1.Service

	BeforeAll(func(ctx SpecContext) {
		bed.OfferRange(ctx, "blue", nil, blue4, blue6)
		bed.OfferRange(ctx, "red", nil, red4, red6)
		bed.OfferRange(ctx, "shared", nil, shared4, shared6)
		bed.Program(ctx, "blue", steering.From("blue"), steering.ForNamespaces("tenant", "blue"), steering.Exclusive(), steering.OrFail())
		bed.Program(ctx, "red", steering.From("red"), steering.ForNamespaces("tenant", "red"), steering.OrFallBack())
	})

	It("take 500 Services from 16 clients where the policies say", func(ctx SpecContext) {
		filled := bed.Decisions(ctx, steering.Filled)
		of := func(i int) string { return []string{"blue", "red", "blue", "red", "plain"}[i%5] }
		all := bed.CreateServices(ctx, 500, func(i int) *corev1.Service {
			var options []framework.ServiceOption
			if i%2 == 1 {
				options = append(options, framework.WithFamilies(corev1.IPv6Protocol, corev1.IPv4Protocol))
			}
			return dual(of(i), fmt.Sprintf("crowd-%d", i), options...)
		})
		for i, service := range all {
			switch of(i) {
			case "blue":
				blues = append(blues, service)
			case "red":
				reds = append(reds, service)
			default:
				plains = append(plains, service)
			}
		}
		for _, blue := range []string{blue4, blue6} {
			Expect(held(blues, blue)).To(HaveLen(200))
			Expect(held(reds, blue)).To(BeEmpty())
			Expect(held(plains, blue)).To(BeEmpty())
		}
		Expect(bed.Decisions(ctx, steering.Filled)-filled).To(BeNumerically(">=", 500), "none was left to chance")
		bed.ExpectConsistent(ctx)
		bed.ExpectNothingLeaked(ctx)
		for _, red := range []string{red4, red6} {
			Expect(held(append(reds, plains...), red)).To(HaveLen(dynamics(red)), "reds go elsewhere only when their range is full")
		}
		for _, cidr := range []string{blue4, blue6, red4, red6, shared4, shared6, default4, default6} {
			expectEach(held(all, cidr), dynamic(cidr), "while any range has dynamic ones")
		}
	})

	It("show in the status what is used", func(ctx SpecContext) {
		Eventually(func(g Gomega) {
			blue := bed.Policy(ctx, "blue").Status
			g.Expect(blue.Summary).To(Equal(v1alpha1.PolicySummary{Ranges: 2, BandStatus: v1alpha1.BandStatus{
				Size: int64(size(blue4) + size(blue6)), Used: 400, Free: int64(size(blue4) + size(blue6) - 400),
			}}))
			g.Expect(blue.Ranges).To(ConsistOf(
				And(HaveField("CIDR", blue4), HaveField("ServiceCIDR", "blue"), HaveField("Dynamic.Used", BeEquivalentTo(200)), HaveField("Static.Used", BeZero())),
				And(HaveField("CIDR", blue6), HaveField("ServiceCIDR", "blue"), HaveField("Dynamic.Used", BeEquivalentTo(200)), HaveField("Static.Size", BeEquivalentTo(16))),
			))
			red := bed.Policy(ctx, "red").Status
			g.Expect(red.Ranges).To(HaveEach(And(HaveField("Dynamic.Free", BeZero()), HaveField("Static.Free", BeEquivalentTo(16)))))
		}).WithTimeout(cluster.Patience).Should(Succeed())
	})

	It("keep others out of an exclusive range by choice too", func(ctx SpecContext) {
		for _, address := range []string{"10.101.0.5", "fd00:101::5", "10.101.0.200", "fd00:101::c8"} {
			for _, namespace := range []string{"red", "plain"} {
				Expect(bed.ExpectRefused(ctx, "blue", asking(namespace, "intruder", address))).To(ContainSubstring(address))
			}
		}
		bed.Create(ctx, asking("blue", "chosen", "10.101.0.5", "fd00:101::5"))
		bed.Create(ctx, asking("red", "elsewhere", "10.103.0.5", "fd00:103::5"))
	})

	// The dynamic addresses first, then the static ones, and then nothing: although other ranges have plenty.
	It("refuse a Service of a tenant whose range is full and who goes nowhere else", func(ctx SpecContext) {
		for cidr, family := range map[string]corev1.IPFamily{blue4: corev1.IPv4Protocol, blue6: corev1.IPv6Protocol} {
			create := func(n int, name string) []string {
				GinkgoHelper()
				created := held(fill(ctx, n, func(i int) *corev1.Service {
					return single("blue", fmt.Sprintf("%s-%s-%d", name, lower(family), i), family)
				}), cidr)
				Expect(created).To(HaveLen(n))
				return created
			}
			first := create(dynamics(cidr)-200, "dynamic")
			last := create(staticBand(cidr)-1, "static") // one was chosen before
			expectEach(first, dynamic(cidr), "while there are dynamic ones")
			expectEach(last, static(cidr), "when there are none left")

			message := bed.ExpectRefused(ctx, "blue", single("blue", "too-much", family))
			Expect(message).To(ContainSubstring(string(family)))
			Expect(message).To(ContainSubstring(cidr))
		}
		bed.ExpectRefused(ctx, "blue", dual("blue", "too-much"))
		prefer := framework.NewService("blue", "too-much", framework.PreferDualStack())
		bed.ExpectRefused(ctx, "blue", prefer)
		bed.ExpectConsistent(ctx)
		bed.ExpectNothingLeaked(ctx)
	})

	It("list the last ten refusals, the latest first", func(ctx SpecContext) {
		var names []string
		for i := range 12 {
			service := dual("blue", fmt.Sprintf("refused-%d", i))
			bed.ExpectRefused(ctx, "blue", service)
			names = append([]string{"blue/" + service.Name}, names...)
		}
		var listed []v1alpha1.PolicyRefusal
		Eventually(func() (services []string) {
			listed = bed.Policy(ctx, "blue").Status.Refusals
			for _, refusal := range listed {
				services = append(services, refusal.Service)
			}
			return services
		}).WithTimeout(cluster.Patience).Should(Equal(names[:10]))
		for _, refusal := range listed {
			Expect(refusal.Time.Time).To(BeTemporally("~", time.Now(), time.Minute))
			Expect(refusal.Message).To(HavePrefix(`ServiceCIDRPolicy "blue": no IPv`))
		}
	})

	It("take a Service again where one has left", func(ctx SpecContext) {
		gone := blues[0]
		bed.DeleteServices(ctx, gone)
		bed.WaitFreed(ctx, gone)
		var again *corev1.Service
		Eventually(func() (err error) {
			again, err = bed.Try(ctx, dual("blue", "again"))
			return err
		}).WithTimeout(soon).Should(Succeed())
		Expect(again.Spec.ClusterIPs).To(ConsistOf(gone.Spec.ClusterIPs), "the only ones that are free")
	})
})

// Where there is no policy at all, and where a policy has two ranges: no address of a static band as long as any range has a dynamic one.
var _ = inOrder("The static bands", func() {
	const extra4, extra6 = "10.104.0.0/26", "fd00:104::/122"
	const more4, more6 = "10.104.0.64/26", "fd00:104::40/122"

	expectDynamicFirst := func(ctx context.Context, namespace string, cidrs4, cidrs6 []string) {
		GinkgoHelper()
		free := 0
		for _, cidr := range cidrs4 {
			free += dynamics(cidr)
		}
		first := fill(ctx, free, func(i int) *corev1.Service { return dual(namespace, fmt.Sprintf("first-%d", i)) })
		next := fill(ctx, 8, func(i int) *corev1.Service {
			return single(namespace, fmt.Sprintf("next-%d", i), corev1.IPv4Protocol)
		})
		bed.ExpectConsistent(ctx)
		for _, cidr := range append(cidrs4, cidrs6...) {
			expectEach(held(first, cidr), dynamic(cidr), "while any range has dynamic ones")
		}
		for _, cidr := range cidrs4 {
			Expect(held(first, cidr)).To(HaveLen(dynamics(cidr)), "all dynamic ones")
			expectEach(held(next, cidr), static(cidr), "when there are none left")
		}
	}

	AfterEach(func(ctx SpecContext) { bed.DeleteAllServices(ctx) })

	It("are touched last of all open ranges", func(ctx SpecContext) {
		bed.OfferRange(ctx, "extra", nil, extra4, extra6)
		expectDynamicFirst(ctx, "plain", []string{default4, extra4}, []string{default6, extra6})
	})

	It("are touched last of the ranges of a policy", func(ctx SpecContext) {
		bed.OfferRange(ctx, "more", nil, more4, more6)
		bed.Program(ctx, "green", steering.From("extra", "more"), steering.ForNamespaces("tenant", "green"), steering.OrFail())
		expectDynamicFirst(ctx, "green", []string{extra4, more4}, []string{extra6, more6})
	})

	// A narrower range begins where a wider one is dynamic. An address that is static in one of them is static.
	It("are touched last of ranges that overlap", func(ctx SpecContext) {
		bed.OfferRange(ctx, "wide", nil, "10.104.1.0/24", "fd00:104::100/120")
		bed.OfferRange(ctx, "narrow", nil, "10.104.1.128/25", "fd00:104::180/121")
		bed.Program(ctx, "green", steering.From("wide", "narrow"), steering.ForNamespaces("tenant", "green"), steering.OrFail())
		services := fill(ctx, 254-32, func(i int) *corev1.Service { return dual("green", fmt.Sprintf("overlap-%d", i)) })
		for _, cidr := range []string{"10.104.1.0/24", "fd00:104::100/120"} {
			Expect(held(services, cidr)).To(HaveLen(len(services)))
		}
		for _, cidr := range []string{"10.104.1.0/24", "fd00:104::100/120"} {
			expectEach(held(services, cidr), dynamic(cidr), "there are enough")
		}
		for _, cidr := range []string{"10.104.1.128/25", "fd00:104::180/121"} {
			expectEach(held(services, cidr), Not(static(cidr)), "the narrow range begins with an address that only the wide one can use")
		}
	})
})

// Every policy has a range of its own, by which one sees who has decided.
var _ = inOrder("Of several policies for a Service", func() {
	const cidr4, cidr6 = "10.105.%d.0/28", "fd00:105:%d::/124"
	of := func(n int) []string { return []string{fmt.Sprintf(cidr4, n+1), fmt.Sprintf(cidr6, n+1)} }

	BeforeAll(func(ctx SpecContext) {
		for n := range 4 {
			bed.OfferRange(ctx, fmt.Sprintf("rank-%d", n), nil, of(n)...)
		}
	})
	AfterEach(func(ctx SpecContext) {
		for _, policy := range bed.AllPolicies(ctx) {
			bed.DeletePolicies(ctx, policy.Name)
		}
		bed.DeleteAllServices(ctx)
	})
	serial := 0
	expectFrom := func(ctx context.Context, n int, options ...framework.ServiceOption) {
		GinkgoHelper()
		for range 3 {
			serial++
			service := bed.Create(ctx, dual("green", fmt.Sprintf("ranked-%d", serial), options...))
			Expect(service).To(lieIn(of(n)...))
			bed.DeleteServices(ctx, service)
			bed.WaitFreed(ctx, service)
		}
	}
	green := steering.ForNamespaces("tenant", "green")

	It("the one of the highest priority decides, whatever their age and name", func(ctx SpecContext) {
		bed.Program(ctx, "a-old", steering.From("rank-0"), green)
		bed.Program(ctx, "z-high", steering.From("rank-1"), green, steering.WithPriority(10))
		bed.Program(ctx, "b-low", steering.From("rank-2"), green, steering.WithPriority(-10))
		expectFrom(ctx, 1)
		bed.Program(ctx, "a-old", steering.From("rank-0"), green, steering.WithPriority(20))
		expectFrom(ctx, 0)
	})

	It("the oldest of the same priority decides, whatever their names", func(ctx SpecContext) {
		bed.Program(ctx, "z-first", steering.From("rank-0"), green)
		created := bed.Policy(ctx, "z-first").CreationTimestamp
		Eventually(func() bool { return time.Since(created.Time) > time.Second }).WithTimeout(soon).Should(BeTrue(), "ages are told in seconds")
		bed.Program(ctx, "a-second", steering.From("rank-1"), green)
		expectFrom(ctx, 0)
		bed.DeletePolicies(ctx, "z-first")
		expectFrom(ctx, 1)
	})

	It("the first by name of the same age decides", func(ctx SpecContext) {
		Eventually(func(g Gomega) {
			for i, name := range []string{"m", "k", "l"} {
				bed.CreatePolicy(ctx, name, steering.From(fmt.Sprintf("rank-%d", i)), green)
			}
			if created := bed.Policy(ctx, "m").CreationTimestamp; !created.Equal(&bed.Policy(ctx, "l").CreationTimestamp) {
				bed.DeletePolicies(ctx, "k", "l", "m")
				g.Expect(created).To(BeNil(), "not born in the same second")
			}
		}).WithTimeout(cluster.Patience).Should(Succeed())
		bed.WaitProgrammed(ctx, "k", "l", "m")
		expectFrom(ctx, 1)
	})

	It("the next gets its turn when the first is full, and those that are open at last", func(ctx SpecContext) {
		bed.Program(ctx, "first", steering.From("rank-0"), green, steering.WithPriority(3), steering.OrFallBack())
		bed.Program(ctx, "second", steering.From("rank-1"), green, steering.WithPriority(2), steering.OrFallBack())
		var services []*corev1.Service
		create := func(name string, n int) {
			GinkgoHelper()
			for i := range n {
				services = append(services, bed.Create(ctx, dual("green", fmt.Sprintf("%s-%d", name, i))))
			}
		}
		create("first", size(of(0)[0]))
		create("second", size(of(1)[0]))
		for i := range 2 {
			Expect(held(services[i*size(of(i)[0]):][:size(of(i)[0])], of(i)[0])).To(HaveLen(size(of(i)[0])), "of IPv4 one after the other")
		}
		Expect(held(services, of(0)[1])).To(HaveLen(size(of(0)[1])), "IPv6 has one more, and each family goes on by itself")
		Expect(held(services, of(1)[1])).To(HaveLen(len(services)-size(of(0)[1])), "the rest")
		last := bed.Create(ctx, dual("green", "last"))
		Expect(held([]*corev1.Service{last}, of(0)[0])).To(BeEmpty())
		Expect(held([]*corev1.Service{last}, of(1)[0])).To(BeEmpty())
		bed.DeleteServices(ctx, last) // it may have one of the third range, which is open
		bed.WaitFreed(ctx, last)

		By("a third one that refuses", func() {
			bed.Program(ctx, "third", steering.From("rank-2"), green, steering.WithPriority(1), steering.OrFail())
			create("third", size(of(2)[0]))
			Expect(held(services, of(2)[0])).To(HaveLen(size(of(2)[0])))
			bed.ExpectRefused(ctx, "third", dual("green", "nowhere"))
		})
		bed.ExpectConsistent(ctx)
	})

	It("the one that selects it by its labels decides", func(ctx SpecContext) {
		bed.Program(ctx, "all", steering.From("rank-0"), green)
		bed.Program(ctx, "databases", steering.From("rank-1"), steering.ForServices("app", "db"), steering.WithPriority(1))
		expectFrom(ctx, 1, framework.WithLabel("app", "db"))
		expectFrom(ctx, 0, framework.WithLabel("app", "web"))
		expectFrom(ctx, 0)
	})

	It("one decides about the families alone of which it has ranges", func(ctx SpecContext) {
		bed.OfferRange(ctx, "only-4", nil, "10.105.16.0/28")
		bed.OfferRange(ctx, "only-6", nil, "fd00:105:16::/124")
		bed.Program(ctx, "four", steering.From("only-4"), green, steering.WithPriority(2), steering.OrFail())
		bed.Program(ctx, "both", steering.From("rank-0"), green, steering.WithPriority(1), steering.OrFail())
		expect := func(cidrs ...string) {
			GinkgoHelper()
			serial++
			service := bed.Create(ctx, dual("green", fmt.Sprintf("family-%d", serial)))
			Expect(service).To(lieIn(cidrs...))
			bed.DeleteServices(ctx, service)
		}
		expect("10.105.16.0/28", of(0)[1])
		bed.Program(ctx, "six", steering.From("only-6"), green, steering.WithPriority(3), steering.OrFail())
		expect("10.105.16.0/28", "fd00:105:16::/124")
	})
})

// The ranges of a tenant are those that carry a label at the moment.
var _ = inOrder("Ranges that a policy selects by their labels", func() {
	const one4, one6 = "10.106.1.0/28", "fd00:106:1::/124"
	const two4, two6 = "10.106.2.0/28", "fd00:106:2::/124"
	serial := 0
	create := func(ctx context.Context) (*corev1.Service, error) {
		serial++
		return bed.Try(ctx, dual("green", fmt.Sprintf("selected-%d", serial)))
	}
	expectFrom := func(ctx context.Context, cidrs ...string) {
		GinkgoHelper()
		service, err := create(ctx)
		Expect(err).NotTo(HaveOccurred())
		Expect(service).To(lieIn(cidrs...))
		bed.DeleteServices(ctx, service)
		bed.WaitFreed(ctx, service)
	}

	It("refuse while there is none", func(ctx SpecContext) {
		bed.CreatePolicy(ctx, "green", steering.FromLabelled("of", "green"), steering.ForNamespaces("tenant", "green"), steering.Exclusive(), steering.OrFail())
		Eventually(func() error { return leave(create(ctx)) }).WithTimeout(soon).Should(MatchError(ContainSubstring(`ServiceCIDRPolicy "green"`)))
	})

	It("come", func(ctx SpecContext) {
		bed.OfferRange(ctx, "one", map[string]string{"of": "green"}, one4, one6)
		bed.WaitProgrammed(ctx, "green")
		Eventually(func() []v1alpha1.PolicyRange { return bed.Policy(ctx, "green").Status.Ranges }).WithTimeout(soon).Should(HaveLen(2))
		expectFrom(ctx, one4, one6)
		bed.ExpectRefused(ctx, "green", asking("red", "intruder", "10.106.1.5"))
	})

	It("are exchanged", func(ctx SpecContext) {
		bed.OfferRange(ctx, "two", nil, two4, two6)
		label(ctx, "two", "of", "green")
		label(ctx, "one", "of", "nobody")
		Eventually(func() []v1alpha1.PolicyRange { return bed.Policy(ctx, "green").Status.Ranges }).WithTimeout(soon).
			Should(ConsistOf(HaveField("CIDR", two4), HaveField("CIDR", two6)))
		time.Sleep(patient)
		expectFrom(ctx, two4, two6)
		bed.Create(ctx, asking("red", "settler", "10.106.1.5", "fd00:106:1::5"))
	})

	It("go", func(ctx SpecContext) {
		bed.DeleteServiceCIDRs(ctx, "two")
		Eventually(func() error { return leave(create(ctx)) }).WithTimeout(soon).Should(MatchError(ContainSubstring(`ServiceCIDRPolicy "green"`)))
		label(ctx, "one", "of", "green")
		Eventually(func() error { return leave(create(ctx)) }).WithTimeout(soon).Should(Succeed())
		time.Sleep(patient) // that was one replica
		expectFrom(ctx, one4, one6)
	})
})
