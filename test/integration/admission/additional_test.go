package admission_test

import (
	"context"
	"fmt"
	"maps"
	"net/netip"
	"slices"
	"strings"
	"time"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"
	corev1 "k8s.io/api/core/v1"
	networkingv1 "k8s.io/api/networking/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/clusterip-operator/clusterip-operator/test/framework"
	"github.com/clusterip-operator/clusterip-operator/test/integration/internal/cluster"
)

// withAdditional asks for one more address of each family from each of the ranges.
func withAdditional(ranges string) framework.ServiceOption {
	return func(s *corev1.Service) { metav1.SetMetaDataAnnotation(&s.ObjectMeta, cluster.AdditionalFrom, ranges) }
}

// additional returns the IPAddresses of ours that name a Service, by their addresses.
func additional(ctx context.Context, service string) map[string]networkingv1.IPAddress {
	GinkgoHelper()
	found := map[string]networkingv1.IPAddress{}
	for _, ip := range c.Ours(ctx) {
		if parent := ip.Spec.ParentRef; parent != nil && parent.Resource == "services" && parent.Name == service {
			found[ip.Name] = ip
		}
	}
	return found
}

// getsAdditional waits until a Service has exactly one additional address per CIDR, in their order.
func getsAdditional(ctx context.Context, service string, cidrs ...string) (addresses []string) {
	GinkgoHelper()
	Eventually(func(g Gomega) {
		addresses = nil
		ips := additional(ctx, service)
		g.Expect(ips).To(HaveLen(len(cidrs)), "of %s: %v", service, ips)
		all := framework.NewService("", "", framework.WithClusterIPs(slices.Collect(maps.Keys(ips))...))
		for _, cidr := range cidrs {
			addresses = append(addresses, cluster.In(cidr, all)...)
			g.Expect(cluster.In(cidr, all)).To(HaveLen(1), "of %v in %s", ips, cidr)
		}
	}).Should(Succeed())
	return addresses
}

// hasNone waits until a Service has no additional address.
func hasNone(ctx context.Context, service string) {
	GinkgoHelper()
	Eventually(additional).WithArguments(ctx, service).Should(BeEmpty())
}

// annotate asks for additional addresses of a Service; an empty value takes the annotation away.
func annotate(ctx context.Context, service, ranges string) {
	GinkgoHelper()
	value := fmt.Sprintf("%q", ranges)
	if ranges == "" {
		value = "null"
	}
	Expect(c.PatchService(ctx, service, `{"metadata":{"annotations":{"`+cluster.AdditionalFrom+`":`+value+`}}}`)).Error().NotTo(HaveOccurred())
}

// complains waits until the operator has warned on a Service with all of the words.
func complains(ctx context.Context, service string, words ...string) {
	GinkgoHelper()
	Eventually(func() []string { return c.Events(ctx).OnService(service).Ours().Warnings().Notes() }).
		Should(ContainElement(cluster.ContainAll(words...)))
}

var _ = Describe("Additional addresses", Ordered, ContinueOnFailure, func() {
	const (
		blue4, blue6 = "10.130.0.0/24", "fd00:10:130::/120" // ServiceCIDR blue
		green4       = "10.131.0.0/24"                      // ServiceCIDR green
		green6       = "fd00:10:132::/120"                  // ServiceCIDR green-6
		held4, held6 = "10.133.0.0/28", "fd00:10:133::/124" // ServiceCIDR held
	)
	var (
		addresses []string  // of the Service holder, in the ServiceCIDR held
		deleted   time.Time // when this was asked for
	)

	BeforeAll(func(ctx SpecContext) {
		c.CreateServiceCIDR(ctx, "blue", blue4, blue6)
		c.CreateServiceCIDR(ctx, "green", green4)
		c.CreateServiceCIDR(ctx, "green-6", green6)
		c.WaitLookedAfter(ctx, "blue", "green", "green-6")
		c.AllowAdditional(ctx, "additional", "blue", "green", "green-6", "held", "closed", "tiny", "10.140.0.20")
	})

	It("are only given where a policy allows them to the Service, and stay when it does so no more", func(ctx SpecContext) {
		const only4, only6 = "10.136.0.0/24", "fd00:10:136::/120"
		c.OfferRange(ctx, "only", nil, only4, only6)
		selects := "{serviceCIDRs: [only], serviceSelector: {matchLabels: {only: allowed}}, priority: -30, additionalAddresses: "
		c.AddPolicy(ctx, "only", selects+"false}")
		c.WaitProgrammed(ctx, "only")
		allowed := framework.WithLabel("only", "allowed")
		refused := func(what string, options ...framework.ServiceOption) {
			GinkgoHelper()
			_, err := c.TryService(ctx, "refused", append(options, framework.RequireDualStack())...)
			Expect(err).To(MatchError(cluster.ContainAll(cluster.AdditionalFrom, "no ServiceCIDRPolicy allows this Service additional addresses of ServiceCIDR")), what)
		}
		refused("no policy", withAdditional("kubernetes"))
		refused("a ServiceCIDR that does not exist, as one that does", withAdditional("nowhere"))
		refused("a policy that does not say so", allowed, withAdditional("only"))
		c.ApplyPolicy(ctx, "only", selects+"true}")
		Eventually(func() error {
			_, err := c.TryService(ctx, "only", framework.RequireDualStack(), allowed, withAdditional("only"))
			return err
		}).Should(Succeed())
		refused("a policy that does not select it", withAdditional("only"))
		has := getsAdditional(ctx, "only", only4, only6)

		By("and while no webhook answers")
		c.CreateService(ctx, "only-later", framework.RequireDualStack())
		c.WithoutWebhooks(ctx, func() { annotate(ctx, "only-later", "only") })
		complains(ctx, "only-later", "no ServiceCIDRPolicy allows this Service")
		Expect(additional(ctx, "only-later")).To(BeEmpty())
		c.WithoutWebhooks(ctx, func() {
			Expect(c.PatchService(ctx, "only-later", `{"metadata":{"labels":{"only":"allowed"}}}`)).Error().NotTo(HaveOccurred())
		})
		getsAdditional(ctx, "only-later", only4, only6)

		By("the policy takes it back")
		c.ApplyPolicy(ctx, "only", selects+"false}")
		Eventually(func() error {
			_, err := c.TryService(ctx, "only-not", framework.RequireDualStack(), allowed, withAdditional("only"))
			return err
		}).ShouldNot(Succeed())
		Expect(c.PatchService(ctx, "only", `{"metadata":{"labels":{"seen":"again"}}}`)).Error().NotTo(HaveOccurred())
		annotate(ctx, "only-later", "") // the same loop looks at it afterwards
		hasNone(ctx, "only-later")
		Expect(getsAdditional(ctx, "only", only4, only6)).To(Equal(has))
		annotate(ctx, "only", "")
		hasNone(ctx, "only")
	})

	It("are one of each family from each range, labelled and owned", func(ctx SpecContext) {
		service := c.CreateService(ctx, "dual", framework.RequireDualStack(), withAdditional("green,blue,green-6"))
		for _, address := range getsAdditional(ctx, "dual", blue4, blue6, green4, green6) {
			ip := c.IPAddress(ctx, address)
			Expect(ip.Labels).To(And(HaveKeyWithValue(cluster.PurposeLabel, cluster.Additional),
				HaveKeyWithValue(networkingv1.LabelIPAddressFamily, string(framework.FamilyOf(address)))))
			Expect(*ip.Spec.ParentRef).To(Equal(networkingv1.ParentReference{Resource: "services", Namespace: cluster.Namespace, Name: "dual"}))
			Expect(ip.Annotations).To(And(HaveKeyWithValue("clusterip-operator.io/service-uid", string(service.UID)), HaveKey("clusterip-operator.io/service-cidr")))
			Expect(ip.Finalizers).To(BeEmpty())
			Expect(isStatic(address)).To(BeFalse(), address)
		}
		Expect(c.Breaches(ctx)).To(BeEmpty(), "they are no ClusterIPs, and nobody takes them for such")
	})

	It("are of the families of the Service, and follow it when it gets another one, and loses it", func(ctx SpecContext) {
		c.CreateService(ctx, "only-4", framework.WithFamilies(corev1.IPv4Protocol), withAdditional("blue,green"))
		c.CreateService(ctx, "only-6", framework.WithFamilies(corev1.IPv6Protocol), withAdditional("blue,green-6"))
		getsAdditional(ctx, "only-4", blue4, green4)
		getsAdditional(ctx, "only-6", blue6, green6)
		Expect(c.PatchService(ctx, "only-4", `{"spec":{"ipFamilyPolicy":"RequireDualStack"}}`)).Error().NotTo(HaveOccurred())
		getsAdditional(ctx, "only-4", blue4, blue6, green4)
		Expect(c.PatchService(ctx, "only-4", `{"spec":{"ipFamilyPolicy":"SingleStack"}}`)).Error().NotTo(HaveOccurred())
		getsAdditional(ctx, "only-4", blue4, green4)
	})

	It("come and go with the annotation, each by itself", func(ctx SpecContext) {
		c.CreateService(ctx, "changing", framework.RequireDualStack())
		annotate(ctx, "changing", "blue")
		blue := getsAdditional(ctx, "changing", blue4, blue6)
		annotate(ctx, "changing", "blue, green")
		both := getsAdditional(ctx, "changing", blue4, blue6, green4)
		Expect(both[:2]).To(Equal(blue), "what it has it keeps")
		annotate(ctx, "changing", "green")
		Expect(getsAdditional(ctx, "changing", green4)).To(Equal(both[2:]))
		annotate(ctx, "changing", "")
		hasNone(ctx, "changing")
	})

	It("go with the Service, and are new when one is created under the same name", func(ctx SpecContext) {
		first := c.CreateService(ctx, "anew", framework.RequireDualStack(), withAdditional("blue"))
		getsAdditional(ctx, "anew", blue4, blue6)
		c.DeleteServices(ctx, first)
		second := c.CreateService(ctx, "anew", framework.RequireDualStack(), withAdditional("blue"))
		owned := HaveEach(HaveField("Annotations", HaveKeyWithValue("clusterip-operator.io/service-uid", string(second.UID))))
		Eventually(additional).WithArguments(ctx, "anew").Should(And(HaveLen(2), owned), "none is left of the first")
		getsAdditional(ctx, "anew", blue4, blue6)
		c.DeleteServices(ctx, second)
		hasNone(ctx, "anew")
	})

	It("hold their range, which says so", func(ctx SpecContext) {
		c.OfferRange(ctx, "held", nil, held4, held6)
		c.CreateService(ctx, "holder", framework.RequireDualStack(), withAdditional("held"))
		addresses = getsAdditional(ctx, "holder", held4, held6)
		c.DeleteServiceCIDRs(ctx, "held")
		deleted = time.Now()
		Eventually(c.Warning(ctx, "held", cluster.DeletionBlocked)).Should(ContainSubstring("default/holder"))

		By("and give nothing more")
		c.CreateService(ctx, "late-holder", framework.RequireDualStack(), withAdditional("held"))
		complains(ctx, "late-holder", "held")
		Expect(additional(ctx, "late-holder")).To(BeEmpty())
	})

	It("are not given from a range that somebody has for himself", func(ctx SpecContext) {
		const closed4, closed6 = "10.134.0.0/24", "fd00:10:134::/120"
		c.OfferRange(ctx, "closed", nil, closed4, closed6)
		c.AddPolicy(ctx, "keeper", `{serviceCIDRs: [closed], serviceSelector: {matchLabels: {tenant: keeper}}, exclusive: true,
			reservations: [{name: all-but-three, address: 10.134.0.16-10.134.0.251}]}`)
		c.WaitProgrammed(ctx, "keeper")
		refused := MatchError(cluster.ContainAll(`ServiceCIDRPolicy "keeper": `, "ServiceCIDR closed is not open to this Service"))
		Expect(c.TryService(ctx, "stranger", framework.RequireDualStack(), withAdditional("blue,closed"))).Error().To(refused)
		c.CreateService(ctx, "stranger", framework.RequireDualStack(), withAdditional("blue"))
		Expect(c.PatchService(ctx, "stranger", `{"metadata":{"annotations":{"`+cluster.AdditionalFrom+`":"blue,closed"}}}`)).Error().To(refused, "nor later")

		By("and not while no webhook answers either")
		c.WithoutWebhooks(ctx, func() { annotate(ctx, "stranger", "closed,blue") })
		complains(ctx, "stranger", "keeper", "ServiceCIDR closed is not open to this Service")
		getsAdditional(ctx, "stranger", blue4, blue6)

		By("but to whom the policy selects, and around its reservations")
		c.CreateService(ctx, "guest", framework.RequireDualStack(), withAdditional("closed"), framework.WithLabel("tenant", "keeper"))
		Expect(getsAdditional(ctx, "guest", closed4, closed6)[0]).To(BeElementOf("10.134.0.252", "10.134.0.253", "10.134.0.254"))
	})

	It("wait for a range that does not exist, and for a free address, and say so", func(ctx SpecContext) {
		const tiny4, tiny6 = "10.135.0.0/30", "fd00:10:135::/126"
		c.CreateService(ctx, "waiting", framework.RequireDualStack(), withAdditional("tiny,blue"))
		complains(ctx, "waiting", "tiny")
		getsAdditional(ctx, "waiting", blue4, blue6)
		c.CreateServiceCIDR(ctx, "tiny", tiny4, tiny6)
		getsAdditional(ctx, "waiting", blue4, blue6, tiny4, tiny6)

		first := c.CreateService(ctx, "tiny-1", framework.WithFamilies(corev1.IPv4Protocol), withAdditional("tiny"))
		getsAdditional(ctx, "tiny-1", tiny4)
		c.CreateService(ctx, "tiny-2", framework.WithFamilies(corev1.IPv4Protocol), withAdditional("tiny"))
		complains(ctx, "tiny-2", "tiny", "IPv4")
		c.DeleteServices(ctx, first)
		getsAdditional(ctx, "tiny-2", tiny4)
	})

	// Upstream's grace is 10 s. Most of it has passed with the specs before.
	It("hold their range as long as it takes, and let it go with them", func(ctx SpecContext) {
		Eventually(time.Since).WithArguments(deleted).Should(BeNumerically(">", 12*time.Second))
		Expect(c.Remaining(ctx, "held")).To(ConsistOf("held"))
		Expect(getsAdditional(ctx, "holder", held4, held6)).To(Equal(addresses), "it keeps what it has")
		annotate(ctx, "holder", "")
		Eventually(c.Remaining).WithArguments(ctx, "held").Should(BeEmpty())
	})

	It("stay as they are when the operator is started again, which finds what leaked meanwhile", Label("long"), func(ctx SpecContext) {
		create := func(name, ranges string, cidrs ...string) *corev1.Service {
			GinkgoHelper()
			service := c.CreateService(ctx, name, framework.RequireDualStack(), withAdditional(ranges))
			getsAdditional(ctx, name, cidrs...)
			return service
		}
		create("steady", "blue,green", blue4, blue6, green4)
		create("asks-less", "blue,green", blue4, blue6, green4)
		gone, again := create("gone", "blue", blue4, blue6), create("again", "blue", blue4, blue6)
		uids := func() (all []types.UID) {
			for _, address := range getsAdditional(ctx, "steady", blue4, blue6, green4) {
				all = append(all, c.IPAddress(ctx, address).UID)
			}
			return all
		}
		before := uids()
		Expect(c.Replicas()[0].Kill()).To(Succeed())
		c.DeleteServices(ctx, gone, again)
		c.CreateService(ctx, "again", framework.RequireDualStack()) // it does not ask
		annotate(ctx, "asks-less", "green")
		c.StartReplicas(ctx)
		hasNone(ctx, "gone")
		hasNone(ctx, "again")
		getsAdditional(ctx, "asks-less", green4)
		Expect(uids()).To(Equal(before), "none was released and taken again")
	})

	// Any tenant may annotate, with any text of up to 256 KiB. A table decides on names of ranges.
	DescribeTable("are refused or reported when the annotation makes no sense", Label("all"), func(ctx SpecContext, name, value string, words ...string) {
		service, err := c.TryService(ctx, name, framework.RequireDualStack(), withAdditional(value))
		if err != nil {
			Expect(err).To(MatchError(ContainSubstring(cluster.AdditionalFrom)))
			Expect(len(err.Error())).To(BeNumerically("<", 2000), "nobody reads that")
			return
		}
		Expect(service.Spec.ClusterIPs).To(HaveLen(2))
		complains(ctx, name, words...)
		Expect(c.Events(ctx).OnService(name).Ours().Notes()).To(HaveEach(WithTransform(func(s string) int { return len(s) }, BeNumerically("<=", 1024))))
		Expect(additional(ctx, name)).To(BeEmpty())
	},
		Entry("thousands of names", "thousands", strings.Repeat("nowhere,", 5000), cluster.AdditionalFrom),
		Entry("100 KiB", "large", strings.Repeat("a", 100<<10), cluster.AdditionalFrom),
		Entry("no words at all", "unicode", "ranges,🦜,\u202eblue\r\n\xc3", cluster.AdditionalFrom),
		Entry("an address, as ServiceCIDRs may be called", "address", "10.140.0.20", "ServiceCIDR 10.140.0.20"),
	)

	It("are not asked for by naming another family's range alone", func(ctx SpecContext) {
		c.CreateService(ctx, "other-family", framework.WithFamilies(corev1.IPv4Protocol), withAdditional("green-6"))
		complains(ctx, "other-family", "green-6", "family")
		Expect(additional(ctx, "other-family")).To(BeEmpty())
	})
})

// isStatic reports whether an address is in the static band: in the specs' /24s, the first sixteen.
func isStatic(address string) bool {
	bytes := netip.MustParseAddr(address).AsSlice()
	return bytes[len(bytes)-1] <= 16
}
