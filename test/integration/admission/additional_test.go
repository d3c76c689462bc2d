package admission_test

import (
	"context"
	"fmt"
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

// Additional addresses as users see them.
const (
	additionalFrom = "clusterip-operator.io/additional-ips-from"
	purpose        = "clusterip-operator.io/purpose"
	ourManager     = "clusterip-operator.io"
)

// withAdditional asks for one more address from each of the ranges.
func withAdditional(ranges string) framework.ServiceOption {
	return func(s *corev1.Service) { metav1.SetMetaDataAnnotation(&s.ObjectMeta, additionalFrom, ranges) }
}

// additional returns the IPAddresses of ours that name a Service, by their addresses.
func additional(ctx context.Context, service string) map[string]networkingv1.IPAddress {
	GinkgoHelper()
	found := map[string]networkingv1.IPAddress{}
	for _, ip := range c.IPAddresses(ctx) {
		parent := ip.Spec.ParentRef
		if ip.Labels[networkingv1.LabelManagedBy] == ourManager && parent != nil && parent.Resource == "services" && parent.Name == service {
			found[ip.Name] = ip
		}
	}
	return found
}

// getsAdditional waits until a Service has exactly one additional address in each of the CIDRs. It returns them in the order of the CIDRs.
func getsAdditional(ctx context.Context, service string, cidrs ...string) []string {
	GinkgoHelper()
	addresses := make([]string, len(cidrs))
	Eventually(func(g Gomega) {
		ips := additional(ctx, service)
		g.Expect(ips).To(HaveLen(len(cidrs)), "of %s: %v", service, ips)
		for i, cidr := range cidrs {
			prefix := netip.MustParsePrefix(cidr)
			addresses[i] = ""
			for address := range ips {
				if prefix.Contains(netip.MustParseAddr(address)) {
					addresses[i] = address
				}
			}
			g.Expect(addresses[i]).NotTo(BeEmpty(), "none of %v is in %s", ips, cidr)
		}
	}).WithTimeout(soon).WithPolling(100 * time.Millisecond).Should(Succeed())
	return addresses
}

// hasNone waits until a Service has no additional address.
func hasNone(ctx context.Context, service string) {
	GinkgoHelper()
	Eventually(additional).WithArguments(ctx, service).WithTimeout(soon).WithPolling(100 * time.Millisecond).Should(BeEmpty())
}

// annotate sets the annotation of a Service; an empty value takes it away.
func annotate(ctx context.Context, service, annotation, value string) {
	GinkgoHelper()
	patch := fmt.Sprintf(`{"metadata":{"annotations":{%q:%q}}}`, annotation, value)
	if value == "" {
		patch = fmt.Sprintf(`{"metadata":{"annotations":{%q:null}}}`, annotation)
	}
	_, err := c.Client().CoreV1().Services(cluster.Namespace).
		Patch(ctx, service, types.MergePatchType, []byte(patch), metav1.PatchOptions{})
	Expect(err).NotTo(HaveOccurred())
}

// complains waits until the operator has warned on a Service with all of the words.
func complains(ctx context.Context, service string, words ...string) {
	GinkgoHelper()
	Eventually(func(g Gomega) {
		var found bool
		notes := c.Events(ctx).OnService(service).Ours().Warnings()
		for _, note := range notes.Notes() {
			found = found || !slices.ContainsFunc(words, func(word string) bool { return !strings.Contains(note, word) })
		}
		g.Expect(found).To(BeTrue(), "no event has %q:\n%s", words, notes.GomegaString())
	}).WithTimeout(soon).WithPolling(100 * time.Millisecond).Should(Succeed())
}

var _ = Describe("Additional addresses", Ordered, ContinueOnFailure, func() {
	const (
		blue4, blue6 = "10.130.0.0/24", "fd00:10:130::/120" // ServiceCIDR blue
		green4       = "10.131.0.0/24"                      // ServiceCIDR green
		green6       = "fd00:10:132::/120"                  // ServiceCIDR green-6
	)

	BeforeAll(func(ctx SpecContext) {
		c.CreateServiceCIDR(ctx, "blue", blue4, blue6)
		c.CreateServiceCIDR(ctx, "green", green4)
		c.CreateServiceCIDR(ctx, "green-6", green6)
		c.WaitLookedAfter(ctx, "blue", "green", "green-6")
	})

	It("are one of each family from each range, labelled and owned", func(ctx SpecContext) {
		service := c.CreateService(ctx, "dual", framework.RequireDualStack(), withAdditional("green,blue,green-6"))
		getsAdditional(ctx, "dual", blue4, blue6, green4, green6)
		for address, ip := range additional(ctx, "dual") {
			Expect(ip.Labels).To(And(HaveKeyWithValue(networkingv1.LabelManagedBy, ourManager), HaveKeyWithValue(purpose, "additional"),
				HaveKeyWithValue(networkingv1.LabelIPAddressFamily, string(familyOf(address)))))
			Expect(*ip.Spec.ParentRef).To(Equal(networkingv1.ParentReference{Resource: "services", Namespace: cluster.Namespace, Name: "dual"}))
			Expect(ip.Annotations).To(HaveKeyWithValue("clusterip-operator.io/service-uid", string(service.UID)))
			Expect(ip.Annotations).To(HaveKey("clusterip-operator.io/service-cidr"))
			Expect(ip.Finalizers).To(BeEmpty())
			Expect(inDynamicBand(address)).To(BeTrue(), "%s is in the static band", address)
		}
		Expect(c.Breaches(ctx)).To(BeEmpty(), "they are no ClusterIPs, and nobody takes them for such")
	})

	It("are of the families of the Service", func(ctx SpecContext) {
		c.CreateService(ctx, "only-4", framework.WithFamilies(corev1.IPv4Protocol), withAdditional("blue,green"))
		c.CreateService(ctx, "only-6", framework.WithFamilies(corev1.IPv6Protocol), withAdditional("blue,green-6"))
		getsAdditional(ctx, "only-4", blue4, green4)
		getsAdditional(ctx, "only-6", blue6, green6)

		By("and follow it when it gets another one, and loses it")
		patchService(ctx, "only-4", `{"spec":{"ipFamilyPolicy":"RequireDualStack"}}`)
		getsAdditional(ctx, "only-4", blue4, blue6, green4)
		patchService(ctx, "only-4", `{"spec":{"ipFamilyPolicy":"SingleStack"}}`)
		getsAdditional(ctx, "only-4", blue4, green4)
	})

	It("come and go with the annotation, each by itself", func(ctx SpecContext) {
		c.CreateService(ctx, "changing", framework.RequireDualStack())
		annotate(ctx, "changing", additionalFrom, "blue")
		blue := getsAdditional(ctx, "changing", blue4, blue6)
		annotate(ctx, "changing", additionalFrom, "blue, green")
		both := getsAdditional(ctx, "changing", blue4, blue6, green4)
		Expect(both[:2]).To(Equal(blue), "what it has it keeps")
		annotate(ctx, "changing", additionalFrom, "green")
		Expect(getsAdditional(ctx, "changing", green4)).To(Equal(both[2:]))
		annotate(ctx, "changing", additionalFrom, "")
		hasNone(ctx, "changing")
	})

	It("go with the Service", func(ctx SpecContext) {
		service := c.CreateService(ctx, "going", framework.RequireDualStack(), withAdditional("blue,green"))
		getsAdditional(ctx, "going", blue4, blue6, green4)
		c.DeleteServices(ctx, service)
		hasNone(ctx, "going")
	})

	It("are new when a Service is created anew under the same name", func(ctx SpecContext) {
		first := c.CreateService(ctx, "phoenix", framework.RequireDualStack(), withAdditional("blue"))
		getsAdditional(ctx, "phoenix", blue4, blue6)
		c.DeleteServices(ctx, first)
		second := c.CreateService(ctx, "phoenix", framework.RequireDualStack(), withAdditional("blue"))
		owned := func(g Gomega) {
			ips := additional(ctx, "phoenix")
			g.Expect(ips).To(HaveLen(2), "none is left of the first")
			for _, ip := range ips {
				g.Expect(ip.Annotations).To(HaveKeyWithValue("clusterip-operator.io/service-uid", string(second.UID)))
			}
		}
		Eventually(owned).WithTimeout(soon).Should(Succeed())
		Consistently(owned).WithTimeout(2 * time.Second).Should(Succeed())
		getsAdditional(ctx, "phoenix", blue4, blue6)
	})

	It("are restored when somebody deletes one", func(ctx SpecContext) {
		c.CreateService(ctx, "robbed", framework.RequireDualStack(), withAdditional("blue"))
		addresses := getsAdditional(ctx, "robbed", blue4, blue6)
		for _, address := range addresses {
			// Whether a user may is the matter of the guards.
			_ = c.Networking().IPAddresses().Delete(ctx, address, metav1.DeleteOptions{})
		}
		getsAdditional(ctx, "robbed", blue4, blue6)
	})

	It("hold their range, which says so, and let it go with them", Label("all"), func(ctx SpecContext) {
		const held4, held6 = "10.133.0.0/28", "fd00:10:133::/124"
		c.OfferRange(ctx, "held", nil, held4, held6)
		c.CreateService(ctx, "holder", framework.RequireDualStack(), withAdditional("held"))
		addresses := getsAdditional(ctx, "holder", held4, held6)
		c.DeleteServiceCIDRs(ctx, "held")
		Eventually(c.Warning(ctx, "held", cluster.DeletionBlocked)).WithTimeout(cluster.Patience).Should(ContainSubstring("default/holder"))
		Consistently(c.Remaining).WithArguments(ctx, "held").WithTimeout(12*time.Second).Should(ConsistOf("held"), "upstream's grace is 10 s")
		Expect(getsAdditional(ctx, "holder", held4, held6)).To(Equal(addresses), "it keeps what it has")

		By("and give nothing more")
		c.CreateService(ctx, "late-holder", framework.RequireDualStack(), withAdditional("held"))
		complains(ctx, "late-holder", "held")
		Expect(additional(ctx, "late-holder")).To(BeEmpty())

		annotate(ctx, "holder", additionalFrom, "")
		Eventually(c.Remaining).WithArguments(ctx, "held").WithTimeout(cluster.Patience).Should(BeEmpty())
	})

	It("are not given from a range that somebody has for himself", func(ctx SpecContext) {
		const closed4, closed6 = "10.134.0.0/24", "fd00:10:134::/120"
		c.OfferRange(ctx, "closed", nil, closed4, closed6)
		user.Policy(ctx, "keeper", `{serviceCIDRs: [closed], serviceSelector: {matchLabels: {tenant: keeper}}, exclusive: true,
			reservations: [{name: all-but-three, address: 10.134.0.16-10.134.0.251}]}`)
		user.EventuallySays(ctx, "keeper", programmed, "True")

		_, err := c.TryService(ctx, "stranger", framework.RequireDualStack(), withAdditional("blue,closed"))
		Expect(err).To(MatchError(And(ContainSubstring(`ServiceCIDRPolicy "keeper": `), ContainSubstring(closed4))))
		c.CreateService(ctx, "stranger", framework.RequireDualStack(), withAdditional("blue"))
		_, err = c.Client().CoreV1().Services(cluster.Namespace).Patch(ctx, "stranger", types.MergePatchType,
			[]byte(`{"metadata":{"annotations":{"`+additionalFrom+`":"blue,closed"}}}`), metav1.PatchOptions{})
		Expect(err).To(MatchError(ContainSubstring(`ServiceCIDRPolicy "keeper": `)), "nor later")

		By("and not while nobody looks at Services either")
		c.WithoutWebhooks(ctx, func() { annotate(ctx, "stranger", additionalFrom, "closed,blue") })
		complains(ctx, "stranger", "keeper", closed4, closed6)
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

	It("stay as they are when the operator is started again", Label("all"), func(ctx SpecContext) {
		c.CreateService(ctx, "steady", framework.RequireDualStack(), withAdditional("blue,green"))
		addresses := getsAdditional(ctx, "steady", blue4, blue6, green4)
		uids := map[string]types.UID{}
		for address, ip := range additional(ctx, "steady") {
			uids[address] = ip.UID
		}
		Expect(c.Replicas()[0].Kill()).To(Succeed())
		c.StartReplicas(ctx)
		annotate(ctx, "steady", "example.com/touched", "yes") // it looks at the Service at the latest now
		time.Sleep(2 * time.Second)
		Expect(getsAdditional(ctx, "steady", blue4, blue6, green4)).To(Equal(addresses))
		for address, ip := range additional(ctx, "steady") {
			Expect(ip.UID).To(Equal(uids[address]), "%s was released and taken again", address)
		}
	})

	It("that leaked while the operator was down are found", Label("all"), func(ctx SpecContext) {
		gone := c.CreateService(ctx, "leaky-gone", framework.RequireDualStack(), withAdditional("blue"))
		again := c.CreateService(ctx, "leaky-again", framework.RequireDualStack(), withAdditional("blue"))
		for _, name := range []string{"leaky-gone", "leaky-again", "leaky-asks-less"} {
			if name == "leaky-asks-less" {
				c.CreateService(ctx, name, framework.RequireDualStack(), withAdditional("blue,green"))
				getsAdditional(ctx, name, blue4, blue6, green4)
				continue
			}
			getsAdditional(ctx, name, blue4, blue6)
		}
		c.StopReplicas()
		c.DeleteServices(ctx, gone, again)
		c.CreateService(ctx, "leaky-again", framework.RequireDualStack()) // it does not ask
		annotate(ctx, "leaky-asks-less", additionalFrom, "green")
		c.StartReplicas(ctx)
		hasNone(ctx, "leaky-gone")
		hasNone(ctx, "leaky-again")
		getsAdditional(ctx, "leaky-asks-less", green4)
	})

	It("are nothing for Services without addresses", func(ctx SpecContext) {
		c.CreateService(ctx, "headless", framework.Headless(), withAdditional("blue"))
		c.CreateService(ctx, "alias", framework.ExternalName("example.com"), withAdditional("blue"))
		Consistently(func(g Gomega) {
			g.Expect(additional(ctx, "headless")).To(BeEmpty())
			g.Expect(additional(ctx, "alias")).To(BeEmpty())
		}).WithTimeout(3 * time.Second).Should(Succeed())
	})
})

func patchService(ctx context.Context, name, patch string) {
	GinkgoHelper()
	_, err := c.Client().CoreV1().Services(cluster.Namespace).Patch(ctx, name, types.MergePatchType, []byte(patch), metav1.PatchOptions{})
	Expect(err).NotTo(HaveOccurred())
}

// inDynamicBand reports whether an address of the specs' ranges, of 256 addresses each, is in the dynamic band: behind the first sixteen.
func inDynamicBand(address string) bool {
	bytes := netip.MustParseAddr(address).AsSlice()
	return bytes[len(bytes)-1] > 16
}
