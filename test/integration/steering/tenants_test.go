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
)

// Blue has an exclusive range and gets addresses nowhere else. Red has a small one, open to other
// tenants, and goes elsewhere when it is full. The third and the default range are for all.
var _ = inOrder("Two tenants and three ranges", func() {
	const (
		blue4, blue6     = "10.101.0.0/24", "fd00:101::/120"
		red4, red6       = "10.102.0.0/25", "fd00:102::/121"
		shared4, shared6 = "10.103.0.0/24", "fd00:103::/120"
	)
	var blues, reds, plains []*corev1.Service

	BeforeAll(func(ctx SpecContext) {
		c.OfferRange(ctx, "blue", nil, blue4, blue6)
		c.OfferRange(ctx, "red", nil, red4, red6)
		c.OfferRange(ctx, "shared", nil, shared4, shared6)
		c.Program(ctx, "blue", "{serviceCIDRs: [blue], namespaceSelector: {matchLabels: {tenant: blue}}, exclusive: true, onFull: Fail}")
		c.Program(ctx, "red", "{serviceCIDRs: [red], namespaceSelector: {matchLabels: {tenant: red}}, onFull: Fallback}")
	})

	It("take 500 Services from 16 clients where the policies say", func(ctx SpecContext) {
		filled := c.Decisions(ctx, cluster.Filled)
		of := func(i int) string { return []string{"blue", "red", "blue", "red", "plain"}[i%5] }
		all := c.CreateServices(ctx, 500, func(i int) *corev1.Service {
			var options []framework.ServiceOption
			if i%2 == 1 {
				options = append(options, framework.WithFamilies(corev1.IPv6Protocol, corev1.IPv4Protocol))
			}
			return cluster.Dual(of(i), fmt.Sprintf("crowd-%d", i), options...)
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
			Expect(cluster.In(blue, blues...)).To(HaveLen(200))
			Expect(cluster.In(blue, reds...)).To(BeEmpty())
			Expect(cluster.In(blue, plains...)).To(BeEmpty())
		}
		Expect(c.Decisions(ctx, cluster.Filled)-filled).To(BeNumerically(">=", 500), "none was left to chance")
		c.ExpectConsistent(ctx)
		c.ExpectNothingLeaked(ctx)
		for _, red := range []string{red4, red6} {
			Expect(cluster.In(red, append(reds, plains...)...)).To(HaveLen(dynamics(red)), "reds go elsewhere only when their range is full")
		}
		for _, cidr := range []string{blue4, blue6, red4, red6, shared4, shared6, default4, default6} {
			Expect(cluster.In(cidr, all...)).To(each(dynamic(cidr)), "while any range has dynamic ones")
		}
	})

	// Half a minute: no write but that of the counts is due.
	It("show in the status what is used", Label("all"), func(ctx SpecContext) {
		Eventually(func(g Gomega) {
			blue := c.Policy(ctx, "blue").Status
			g.Expect(blue.Summary).To(Equal(v1alpha1.PolicySummary{Ranges: 2, BandStatus: v1alpha1.BandStatus{
				Size: int64(size(blue4) + size(blue6)), Used: 400, Free: int64(size(blue4) + size(blue6) - 400),
			}}))
			g.Expect(blue.Ranges).To(ConsistOf(
				And(HaveField("CIDR", blue4), HaveField("ServiceCIDR", "blue"), HaveField("Dynamic.Used", BeEquivalentTo(200)), HaveField("Static.Used", BeZero())),
				And(HaveField("CIDR", blue6), HaveField("ServiceCIDR", "blue"), HaveField("Dynamic.Used", BeEquivalentTo(200))),
			))
			red := c.Policy(ctx, "red").Status
			g.Expect(red.Ranges).To(HaveEach(And(HaveField("Dynamic.Free", BeZero()), HaveField("Static.Free", BeEquivalentTo(16)))))
		}).Should(Succeed())
	})

	It("keep others out of an exclusive range by choice too", func(ctx SpecContext) {
		for _, address := range []string{"10.101.0.5", "fd00:101::5", "10.101.0.200", "fd00:101::c8"} {
			for _, namespace := range []string{"red", "plain"} {
				Expect(c.ExpectRefused(ctx, "blue", cluster.Asking(namespace, "intruder", address))).To(ContainSubstring(address))
			}
		}
		c.Create(ctx, cluster.Asking("blue", "chosen", "10.101.0.5", "fd00:101::5"))
		c.Create(ctx, cluster.Asking("red", "elsewhere", "10.103.0.5", "fd00:103::5"))
	})

	// First the dynamic addresses, then the static ones, then none, though other ranges have plenty.
	It("refuse a Service of a tenant whose range is full and who goes nowhere else", func(ctx SpecContext) {
		for cidr, family := range map[string]corev1.IPFamily{blue4: corev1.IPv4Protocol, blue6: corev1.IPv6Protocol} {
			create := func(n int, name string) []string {
				GinkgoHelper()
				return cluster.In(cidr, fill(ctx, n, func(i int) *corev1.Service {
					return cluster.Single("blue", fmt.Sprintf("%s-%s-%d", name, lower(family), i), family)
				})...)
			}
			free := dynamics(cidr) - 200
			Expect(create(free, "dynamic")).To(And(HaveLen(free), HaveEach(dynamic(cidr))), "while there are dynamic ones")
			Expect(create(15, "static")).To(And(HaveLen(15), HaveEach(static(cidr))), "when there are none left; one was chosen before")
			message := c.ExpectRefused(ctx, "blue", cluster.Single("blue", "too-much", family))
			Expect(message).To(And(ContainSubstring("no %s address is left", family), ContainSubstring("range is full"), Not(ContainSubstring(cidr))))
			c.ExpectNoted(ctx, "blue", string(family), cidr)
		}
		c.ExpectRefused(ctx, "blue", cluster.Dual("blue", "too-much"))
		c.ExpectRefused(ctx, "blue", framework.NewService("blue", "too-much", framework.PreferDualStack()))
		c.ExpectConsistent(ctx)
		c.ExpectNothingLeaked(ctx)
	})

	// Other namespaces have been refused addresses of this range before.
	It("count refusals by namespace and reason, in no more than ten lines", func(ctx SpecContext) {
		for i := range 12 {
			c.ExpectRefused(ctx, "blue", cluster.Dual("blue", fmt.Sprintf("refused-%d", i)))
		}
		for i := range 20 {
			address := fmt.Sprintf("10.101.0.%d", 200+i)
			c.ExpectRefused(ctx, "blue", cluster.Asking("red", "scanner", address))
		}
		Eventually(func() []v1alpha1.PolicyRefusal { return c.Policy(ctx, "blue").Status.Refusals }).Should(And(
			HaveLen(10),
			ContainElement(And(HaveField("Service", "red/scanner"), HaveField("Message", HavePrefix("the address 10.101.0.219 lies in a range")))),
			ContainElement(And(HaveField("Service", "blue/refused-11"), HaveField("Count", BeNumerically(">=", 12)), HaveField("Message", HavePrefix("no IPv4 address is left in its ranges")),
				HaveField("Time.Time", BeTemporally("~", time.Now(), time.Minute)), HaveField("First", Not(BeNil())))),
		))
	})

	It("take a Service again where one has left", func(ctx SpecContext) {
		gone := blues[0]
		c.DeleteServices(ctx, gone)
		c.WaitFreed(ctx, gone)
		var again *corev1.Service
		Eventually(func() (err error) {
			again, err = c.Try(ctx, cluster.Dual("blue", "again"))
			return err
		}).Should(Succeed())
		Expect(again.Spec.ClusterIPs).To(ConsistOf(gone.Spec.ClusterIPs), "the only ones that are free")
	})
})

// Each policy has its own range, which shows the policy that decided. Tables decide how policies
// rank (internal/steering).
var _ = inOrder("Of several policies and ranges for a Service", func() {
	const cidr4, cidr6 = "10.105.%d.0/28", "fd00:105:%d::/124"
	of := func(n int) []string { return []string{fmt.Sprintf(cidr4, n+1), fmt.Sprintf(cidr6, n+1)} }

	BeforeAll(func(ctx SpecContext) {
		for n := range 3 {
			c.OfferRange(ctx, fmt.Sprintf("rank-%d", n), nil, of(n)...)
		}
	})
	AfterEach(func(ctx SpecContext) {
		for _, policy := range c.AllPolicies(ctx) {
			c.DeletePolicies(ctx, policy.Name)
		}
		c.DeleteAllServices(ctx)
	})
	serial := 0
	expectFrom := func(ctx context.Context, cidrs ...string) {
		GinkgoHelper()
		for range 3 {
			serial++
			service := c.Create(ctx, cluster.Dual("green", fmt.Sprintf("ranked-%d", serial)))
			Expect(service).To(lieIn(cidrs...))
			c.DeleteServices(ctx, service)
			c.WaitFreed(ctx, service)
		}
	}

	It("the policy of the highest priority decides, whatever their age and name", func(ctx SpecContext) {
		c.Program(ctx, "a-old", "{serviceCIDRs: [rank-0], namespaceSelector: {matchLabels: {tenant: green}}}")
		c.Program(ctx, "z-high", "{serviceCIDRs: [rank-1], namespaceSelector: {matchLabels: {tenant: green}}, priority: 10}")
		c.Program(ctx, "b-low", "{serviceCIDRs: [rank-2], namespaceSelector: {matchLabels: {tenant: green}}, priority: -10}")
		expectFrom(ctx, of(1)...)
		c.Program(ctx, "a-old", "{serviceCIDRs: [rank-0], namespaceSelector: {matchLabels: {tenant: green}}, priority: 20}")
		expectFrom(ctx, of(0)...)
	})

	It("the next gets its turn when the first is full, and those that are open at last", func(ctx SpecContext) {
		c.Program(ctx, "first", "{serviceCIDRs: [rank-0], namespaceSelector: {matchLabels: {tenant: green}}, priority: 3, onFull: Fallback}")
		c.Program(ctx, "second", "{serviceCIDRs: [rank-1], namespaceSelector: {matchLabels: {tenant: green}}, priority: 2, onFull: Fallback}")
		create := func(name string) (services []*corev1.Service) {
			GinkgoHelper()
			for i := range size(of(0)[0]) {
				services = append(services, c.Create(ctx, cluster.Dual("green", fmt.Sprintf("%s-%d", name, i))))
			}
			return services
		}
		first, second := create("first"), create("second")
		Expect(cluster.In(of(0)[0], first...)).To(HaveLen(len(first)))
		Expect(cluster.In(of(1)[0], second...)).To(HaveLen(len(second)))
		Expect(cluster.In(of(0)[1], append(first, second...)...)).To(HaveLen(size(of(0)[1])), "IPv6 has one more, and each family goes on by itself")
		last := c.Create(ctx, cluster.Dual("green", "last"))
		Expect(append(cluster.In(of(0)[0], last), cluster.In(of(1)[0], last)...)).To(BeEmpty())
		c.DeleteServices(ctx, last) // it may have one of the third range, which is open
		c.WaitFreed(ctx, last)

		By("a third one that refuses")
		c.Program(ctx, "third", "{serviceCIDRs: [rank-2], namespaceSelector: {matchLabels: {tenant: green}}, priority: 1, onFull: Fail}")
		third := create("third")
		Expect(cluster.In(of(2)[0], third...)).To(HaveLen(len(third)))
		c.ExpectRefused(ctx, "third", cluster.Dual("green", "nowhere"))
		c.ExpectConsistent(ctx)
	})

	It("a policy decides about the families alone of which it has ranges", Label("all"), func(ctx SpecContext) {
		c.OfferRange(ctx, "only-4", nil, "10.105.16.0/28")
		c.OfferRange(ctx, "only-6", nil, "fd00:105:16::/124")
		c.Program(ctx, "four", "{serviceCIDRs: [only-4], namespaceSelector: {matchLabels: {tenant: green}}, priority: 2, onFull: Fail}")
		c.Program(ctx, "both", "{serviceCIDRs: [rank-0], namespaceSelector: {matchLabels: {tenant: green}}, priority: 1, onFull: Fail}")
		expectFrom(ctx, "10.105.16.0/28", of(0)[1])
		c.Program(ctx, "six", "{serviceCIDRs: [only-6], namespaceSelector: {matchLabels: {tenant: green}}, priority: 3, onFull: Fail}")
		expectFrom(ctx, "10.105.16.0/28", "fd00:105:16::/124")
	})

	It("no address of a static band is touched as long as any range of a policy has a dynamic one", Label("all"), func(ctx SpecContext) {
		cidrs := []string{"10.104.0.0/26", "10.104.0.64/26"}
		c.OfferRange(ctx, "lower", nil, cidrs[0], "fd00:104::/122")
		c.OfferRange(ctx, "upper", nil, cidrs[1], "fd00:104::40/122")
		c.Program(ctx, "banded", "{serviceCIDRs: [lower, upper], namespaceSelector: {matchLabels: {tenant: green}}, onFull: Fail}")
		first := fill(ctx, 2*dynamics(cidrs[0]), framework.Numbered("green", "first", framework.RequireDualStack()))
		next := fill(ctx, 8, framework.Numbered("green", "next", framework.WithFamilies(corev1.IPv4Protocol)))
		c.ExpectConsistent(ctx)
		for _, cidr := range cidrs {
			Expect(cluster.In(cidr, first...)).To(And(HaveLen(dynamics(cidr)), HaveEach(dynamic(cidr))), "all dynamic ones")
			Expect(cluster.In(cidr, next...)).To(each(static(cidr)), "when there are none left")
		}
		for _, cidr := range []string{"fd00:104::/122", "fd00:104::40/122"} {
			Expect(cluster.In(cidr, first...)).To(each(dynamic(cidr)))
		}
	})
})

// The ranges of a tenant are those that carry a label at the moment.
var _ = inOrder("Ranges that a policy selects by their labels", func() {
	const one4, one6 = "10.106.1.0/28", "fd00:106:1::/124"
	const two4, two6 = "10.106.2.0/28", "fd00:106:2::/124"
	serial := 0
	// try creates a Service, and deletes it again.
	try := func(ctx context.Context) (*corev1.Service, error) {
		serial++
		service, err := c.Try(ctx, cluster.Dual("green", fmt.Sprintf("selected-%d", serial)))
		if err == nil {
			c.DeleteServices(ctx, service)
		}
		return service, err
	}
	expectFrom := func(ctx context.Context, cidrs ...string) {
		GinkgoHelper()
		service, err := try(ctx)
		Expect(err).NotTo(HaveOccurred())
		Expect(service).To(lieIn(cidrs...))
		c.WaitFreed(ctx, service)
	}
	ranges := func(ctx context.Context) []v1alpha1.PolicyRange { return c.Policy(ctx, "green").Status.Ranges }
	label := func(ctx context.Context, serviceCIDR, value string) {
		c.Kubectl(ctx, "label", "--overwrite", "servicecidr", serviceCIDR, "of="+value)
	}
	// refused waits until a Service is. It asks by dry runs: an address that a replica hands out of a
	// range which the API server has left already counts as on its way for fifteen seconds.
	refused := func(ctx context.Context) {
		GinkgoHelper()
		Eventually(preview).WithArguments(ctx, cluster.Dual("green", "refused")).Should(MatchError(ContainSubstring(`ServiceCIDRPolicy "green"`)))
		time.Sleep(propagation) // that was one replica
		c.ExpectRefused(ctx, "green", cluster.Dual("green", "refused"))
	}

	It("refuse while there is none", func(ctx SpecContext) {
		c.ApplyPolicy(ctx, "green",
			"{serviceCIDRSelector: {matchLabels: {of: green}}, namespaceSelector: {matchLabels: {tenant: green}}, exclusive: true, onFull: Fail}")
		refused(ctx)
	})

	It("come", func(ctx SpecContext) {
		c.OfferRange(ctx, "one", map[string]string{"of": "green"}, one4, one6)
		c.WaitProgrammed(ctx, "green")
		Eventually(ranges).WithArguments(ctx).Should(HaveLen(2))
		expectFrom(ctx, one4, one6)
		c.ExpectRefused(ctx, "green", cluster.Asking("red", "intruder", "10.106.1.5"))
	})

	It("are exchanged", func(ctx SpecContext) {
		c.OfferRange(ctx, "two", nil, two4, two6)
		label(ctx, "two", "green")
		label(ctx, "one", "nobody")
		Eventually(ranges).WithArguments(ctx).Should(ConsistOf(HaveField("CIDR", two4), HaveField("CIDR", two6)))
		time.Sleep(propagation)
		expectFrom(ctx, two4, two6)
		c.Create(ctx, cluster.Asking("red", "settler", "10.106.1.5", "fd00:106:1::5"))
	})

	It("go", func(ctx SpecContext) {
		c.DeleteServiceCIDRs(ctx, "two")
		refused(ctx)
		label(ctx, "one", "green")
		Eventually(try).WithArguments(ctx).Should(lieIn(one4, one6))
		time.Sleep(propagation) // that was one replica
		expectFrom(ctx, one4, one6)
	})
})
