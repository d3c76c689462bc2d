package enforcement_test

import (
	"context"
	"fmt"
	"net/netip"
	"strings"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/clusterip-operator/clusterip-operator/api/v1alpha1"
	"github.com/clusterip-operator/clusterip-operator/test/framework"
)

// allocating is a policy that is not exclusive, for all Services.
func allocating(name string, allocation v1alpha1.Allocation, serviceCIDRs ...string) *v1alpha1.ServiceCIDRPolicy {
	return &v1alpha1.ServiceCIDRPolicy{ObjectMeta: metav1.ObjectMeta{Name: name}, Spec: v1alpha1.ServiceCIDRPolicySpec{ServiceCIDRs: serviceCIDRs, Allocation: allocation}}
}

// withheld waits until the API server says what a policy does, to a Service that it drew for.
func withheld(ctx context.Context, policy string) {
	GinkgoHelper()
	Eventually(func() metav1.Condition { return condition(ctx, policy, v1alpha1.PolicyEnforced) }).WithTimeout(soon).
		Should(HaveField("Status", metav1.ConditionTrue))
}

// drawMany creates Services that choose no address, more than the default range has: those that the
// API server refuses it drew for from a range of the policy.
func drawMany(ctx context.Context, policy, cidr string, family corev1.IPFamily) {
	GinkgoHelper()
	in, refused := netip.MustParsePrefix(cidr), 0
	for i := range 50 {
		s := framework.NewService("plain", fmt.Sprintf("drawn-%s-%d", strings.ToLower(string(family)), i), framework.WithFamilies(family))
		err := admin.Create(ctx, s)
		switch {
		case err != nil && strings.Contains(err.Error(), "range is full"):
		case err != nil:
			Expect(err).To(beRefused(policy))
			refused++
		default:
			DeferCleanup(func(ctx SpecContext) { Expect(admin.Delete(ctx, s)).To(Succeed()) })
			Expect(in.Contains(netip.MustParseAddr(s.Spec.ClusterIP))).To(BeFalse(), s.Spec.ClusterIP)
		}
	}
	Expect(refused).To(BeNumerically(">", 5), "the API server has hardly ever drawn from %s", cidr)
}

// No webhook runs here, and the operator is down: what is refused the API server refuses.
var _ = Describe("The API server gives out addresses as policies say, also when the operator is down:", Ordered, ContinueOnFailure, func() {
	It("by request only: a chosen one passes in any way in which it is chosen, and none is drawn", func(ctx SpecContext) {
		stop := start(ctx)
		offer(ctx, "asked", "10.5.0.0/28", "fd00:5::/124")
		p := allocating("asked", v1alpha1.AllocationByRequest, "asked")
		p.Spec.Reservations = []v1alpha1.Reservation{{Name: "for-one", Address: "10.5.0.9", For: "plain/one"}}
		create(ctx, p)
		withheld(ctx, "asked")
		stop()

		By("clients that choose")
		put(ctx, service("plain", "list", nil, "10.5.0.3", "fd00:5::3"))
		put(ctx, service("blue", "single", nil, "fd00:5::4"))
		first := framework.NewService("plain", "first-alone", framework.WithFamilies(corev1.IPv4Protocol))
		first.Spec.ClusterIP = "10.5.0.4"
		put(ctx, first)
		applied := framework.NewService("plain", "applied", framework.WithFamilies(corev1.IPv4Protocol))
		applied.APIVersion, applied.Kind, applied.Spec.ClusterIP = "v1", "Service", "10.5.0.5"
		Expect(admin.Patch(ctx, applied, client.Apply, client.FieldOwner("test"))).To(Succeed()) //nolint:staticcheck // the typed apply has no such Service
		DeferCleanup(func(ctx SpecContext) { Expect(admin.Delete(ctx, applied)).To(Succeed()) })
		restored := service("plain", "restored", nil, "10.5.0.6")
		restored.ManagedFields = []metav1.ManagedFieldsEntry{{
			Manager: "velero", Operation: metav1.ManagedFieldsOperationUpdate, APIVersion: "v1", FieldsType: "FieldsV1",
			FieldsV1: metav1.NewFieldsV1(`{"f:spec":{"f:ports":{}}}`),
		}}
		put(ctx, restored)

		By("updates that choose")
		external := put(ctx, framework.NewService("plain", "external", framework.ExternalName("example.com")))
		external.Spec.Type, external.Spec.ExternalName, external.Spec.ClusterIP, external.Spec.Ports = corev1.ServiceTypeClusterIP, "", "10.5.0.7", first.Spec.Ports
		Expect(admin.Update(ctx, external)).To(Succeed())
		emptied := put(ctx, framework.NewService("plain", "emptied", framework.ExternalName("example.com")))
		change(ctx, emptied, `{"metadata":{"managedFields":[{}]}}`)
		Expect(emptied.ManagedFields).To(BeEmpty())
		emptied.Spec.Type, emptied.Spec.ExternalName, emptied.Spec.ClusterIP, emptied.Spec.Ports = corev1.ServiceTypeClusterIP, "", "10.5.0.8", first.Spec.Ports
		Expect(admin.Update(ctx, emptied)).To(Succeed())
		single := put(ctx, service("plain", "growing", nil, "10.96.0.21"))
		single.Spec.ClusterIPs = []string{"10.96.0.21", "fd00:5::5"}
		single.Spec.IPFamilies, single.Spec.IPFamilyPolicy = nil, new(corev1.IPFamilyPolicyRequireDualStack)
		Expect(admin.Update(ctx, single)).To(Succeed())

		By("addresses that the API server draws")
		for family, cidr := range map[corev1.IPFamily]string{corev1.IPv4Protocol: "10.5.0.0/28", corev1.IPv6Protocol: "fd00:5::/124"} {
			drawMany(ctx, "asked", cidr, family)
		}
		Expect(ipAddress(ctx, "10.5.0.10")).To(BeFalse(), "an address leaked")
	})

	It("cordoned: nothing new, drawn or chosen, and what exists can be changed", func(ctx SpecContext) {
		stop := start(ctx)
		offer(ctx, "old", "10.5.1.0/28", "fd00:5:1::/124")
		before := put(ctx, service("plain", "before", nil, "10.5.1.3", "fd00:5:1::3"))
		p := allocating("old", v1alpha1.AllocationCordoned, "old")
		create(ctx, p)
		withheld(ctx, "old")
		stop()

		for _, addresses := range [][]string{{"10.5.1.4"}, {"fd00:5:1::4"}, {"10.5.1.4", "fd00:5:1::4"}, {"10.96.0.20", "fd00:5:1::4"}} {
			Expect(admin.Create(ctx, service("plain", "late", nil, addresses...))).To(And(beRefused("old"), MatchError(ContainSubstring("is cordoned"))), "%v", addresses)
		}
		for _, a := range []string{"10.5.1.4", "fd00:5:1::4", "10.96.0.20"} {
			Expect(ipAddress(ctx, a)).To(BeFalse(), "%s leaked", a)
		}
		drawMany(ctx, "old", "10.5.1.0/28", corev1.IPv4Protocol)
		before.Labels = map[string]string{"changed": "yes"}
		before.Spec.Ports[0].Port++
		Expect(admin.Update(ctx, before)).To(Succeed())

		By("taking the cordon away")
		start(ctx)
		Expect(admin.Patch(ctx, p, client.RawPatch(types.MergePatchType, []byte(`{"spec":{"allocation":"Automatic"}}`)))).To(Succeed())
		Eventually(func() error { return try(ctx, "plain", "late", nil, "10.5.1.4", "fd00:5:1::4") }).WithTimeout(soon).Should(Succeed())
		Eventually(objects).WithArguments(ctx).WithTimeout(soon).Should(BeEmpty())
	})

	It("together with exclusive: those that the policy selects have to ask, and the rest may not", func(ctx SpecContext) {
		start(ctx)
		offer(ctx, "red", "10.5.2.0/28", "fd00:5:2::/124")
		p := exclusive("red", "red", "red")
		p.Spec.Allocation = v1alpha1.AllocationByRequest
		create(ctx, p)
		enforced(ctx, "red", "10.5.2.3", "fd00:5:2::3")
		Expect(try(ctx, "red", "mine", nil, "10.5.2.3", "fd00:5:2::3")).To(Succeed())
		Expect(admin.Create(ctx, service("blue", "stranger", nil, "fd00:5:2::3"))).To(And(beRefused("red"), MatchError(ContainSubstring("keeps for other Services"))))
	})
})
