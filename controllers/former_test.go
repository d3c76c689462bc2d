package controllers_test

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"time"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"
	corev1 "k8s.io/api/core/v1"
	networkingv1 "k8s.io/api/networking/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/clusterip-operator/clusterip-operator/api/v1alpha1"
	"github.com/clusterip-operator/clusterip-operator/test/framework"
)

// pair is the n-th address of each family in the range of a spec.
func pair(spec, n int) []string {
	return []string{fmt.Sprintf("10.102.%d.%d", spec, n), fmt.Sprintf("fd00:10:102:%x::%x", spec, n)}
}

// room creates the ServiceCIDR of a spec.
func room(ctx context.Context, spec int) string {
	GinkgoHelper()
	name := fmt.Sprint("former-", spec)
	create(ctx, framework.NewServiceCIDR(name, fmt.Sprintf("10.102.%d.0/24", spec), fmt.Sprintf("fd00:10:102:%x::/120", spec)))
	return name
}

// gone waits until addresses have no IPAddress.
func gone(ctx context.Context, addresses []string) {
	GinkgoHelper()
	for _, address := range addresses {
		Eventually(ipAddress).WithArguments(ctx, address).Should(BeNil(), address)
	}
}

var _ = Describe("A former address of a Service that is renumbered", func() {
	It("is the Service's until it is unused, cools down, and may be had back", func(ctx SpecContext) {
		name := room(ctx, 1)
		selected := framework.WithLabel("former", "one")
		create(ctx, &v1alpha1.ServiceCIDRPolicy{ObjectMeta: metav1.ObjectMeta{Name: name}, Spec: v1alpha1.ServiceCIDRPolicySpec{
			ServiceCIDRs: []string{name}, AdditionalAddresses: true, OnFull: v1alpha1.OnFullFail, CoolDown: &metav1.Duration{Duration: time.Hour},
			ServiceSelector: &metav1.LabelSelector{MatchLabels: map[string]string{"former": "one"}},
			Reservations: []v1alpha1.Reservation{
				{Name: "four", Address: pair(1, 9)[0], For: namespace + "/former"}, {Name: "six", Address: pair(1, 9)[1], For: namespace + "/former"},
			},
		}})
		say(ctx, name, v1alpha1.PolicyProgrammed, metav1.ConditionTrue, "Programmed", "")
		r := renumbered(ctx, "former", pair(1, 5), pair(1, 9), selected)
		asks := func(s *corev1.Service) { s.Annotations[v1alpha1.AnnotationAdditionalFrom] = name }
		r.update(ctx, asks)
		Eventually(additional).WithArguments(ctx, "former").Should(HaveLen(2))
		beside := additional(ctx, "former")

		for _, cools := range []OmegaMatcher{BeNil(), HaveField("Annotations", HaveKeyWithValue(v1alpha1.AnnotationLastService, "default/former"))} {
			r.do(ctx, keeping) // the new addresses are reserved: room is made
			Expect(additional(ctx, "former")).To(ConsistOf(slices.Concat(beside, r.from)))
			for _, address := range r.from {
				isGuarded(ctx, address)
			}
			back := r.back()
			back.do(ctx, releasing) // of addresses which the Service lists, and asks for in a moment: they cool by then, in memory, and then as objects
			for _, address := range back.to {
				Eventually(ipAddress).WithArguments(ctx, address).Should(cools)
			}
			back.do(ctx, keeping)
			for _, address := range back.to {
				Eventually(owner).WithArguments(ctx, address).Should(Equal("default/former"))
			}
			Expect(additional(ctx, "former")).To(ConsistOf(slices.Concat(beside, back.from)), "what it has beside came through")
			back.end(ctx)
			for _, address := range back.from { // reserved again
				Eventually(ipAddress).WithArguments(ctx, address).Should(HaveField("Labels", HaveKeyWithValue(v1alpha1.LabelPurpose, v1alpha1.PurposeReservation)))
			}
		}
		Expect(r.complaints(ctx)).To(HaveEach(HavePrefix("AdditionalIPAllocated: ")))
		Expect(admin.Delete(ctx, dual("former"))).To(Succeed())
		for _, address := range r.from { // cooling
			Eventually(ipAddress).WithArguments(ctx, address).Should(HaveField("Annotations", HaveKeyWithValue(v1alpha1.AnnotationLastService, "default/former")))
		}
	})

	It("is not drawn before it is unused, and then is", func(ctx SpecContext) {
		create(ctx, framework.NewServiceCIDR("former-full", "10.103.0.0/30", "fd00:10:103::/127"))
		create(ctx, &v1alpha1.ServiceCIDRPolicy{ObjectMeta: metav1.ObjectMeta{Name: "former-full"}, Spec: v1alpha1.ServiceCIDRPolicySpec{
			ServiceCIDRs: []string{"former-full"}, OnFull: v1alpha1.OnFullFail, ServiceSelector: &metav1.LabelSelector{MatchLabels: map[string]string{"former": "full"}},
		}})
		say(ctx, "former-full", v1alpha1.PolicyProgrammed, metav1.ConditionTrue, "Programmed", "")
		room(ctx, 2)
		r := renumbered(ctx, "former-drawn", []string{"10.103.0.1", "fd00:10:103::1"}, pair(2, 5))
		create(ctx, framework.NewService(namespace, "former-neighbour", framework.WithClusterIPs("10.103.0.2")))
		for step := holding; step <= keeping; step++ {
			r.do(ctx, step)
			for _, family := range []corev1.IPFamily{corev1.IPv4Protocol, corev1.IPv6Protocol} {
				s := framework.NewService(namespace, "former-refused", framework.WithFamilies(family), framework.WithLabel("former", "full"))
				Expect(admin.Create(ctx, s)).To(MatchError(ContainSubstring("no %s address is left", family)), "after step %d", step)
			}
		}
		r.end(ctx)
		var s *corev1.Service
		Eventually(func() error { // the watch has to show it
			s = dual("former-successor", framework.WithLabel("former", "full"))
			return admin.Create(ctx, s)
		}).Should(Succeed())
		DeferCleanup(func(ctx SpecContext) { Expect(admin.Delete(ctx, s)).To(Succeed()) })
		Expect(s.Spec.ClusterIPs).To(ConsistOf(r.from))
		Expect(r.complaints(ctx)).To(BeEmpty())
	})

	// Each of these Services stops after another step. No drift is found in the time that the
	// repair of a label takes.
	It("is left alone where renumbering has stopped, and leaks nowhere when the Service goes", Label("all"), func(ctx SpecContext) {
		room(ctx, 3)
		var stopped []*renumbering
		states := map[*renumbering][]string{}
		for n := range keeping + 1 {
			r := renumbered(ctx, fmt.Sprint("former-stopped-", n), pair(3, 20+n), pair(3, 40+n))
			r.do(ctx, n)
			stopped = append(stopped, r)
			states[r] = r.state(ctx)
		}
		awaitRepair(ctx, 3)
		for n, r := range stopped {
			Expect(r.state(ctx)).To(Equal(states[r]), "stopped after step %d", n)
			Expect(r.complaints(ctx)).To(BeEmpty(), "stopped after step %d", n)
			Expect(admin.Delete(ctx, dual(r.service))).To(Succeed())
		}
		for n, r := range stopped {
			gone(ctx, slices.Concat(r.from, r.to))
			Expect(r.complaints(ctx)).To(BeEmpty(), "stopped after step %d", n)
		}
	})

	DescribeTable("is released at once when its Service lets go of it", func(ctx SpecContext, spec int, how func(*corev1.Service)) {
		room(ctx, spec)
		for n := leaving; n <= keeping; n++ {
			r := renumbered(ctx, fmt.Sprintf("former-released-%d-%d", spec, n), pair(spec, 20+n), pair(spec, 40+n))
			r.do(ctx, n)
			r.update(ctx, how)
			gone(ctx, r.from)
		}
	},
		Entry("by the annotation", 4, func(s *corev1.Service) { delete(s.Annotations, v1alpha1.AnnotationFormerIPs) }),
		Entry("by its type", 5, func(s *corev1.Service) {
			delete(s.Annotations, v1alpha1.AnnotationRenumbering)
			s.Spec = corev1.ServiceSpec{Type: corev1.ServiceTypeExternalName, ExternalName: "elsewhere.example.com", Ports: s.Spec.Ports}
		}),
	)

	It("passes to no other Service of the name, and is deleted where no API server has done that", func(ctx SpecContext) {
		room(ctx, 6)
		r := renumbered(ctx, "former-anew", pair(6, 5), pair(6, 9))
		r.from, r.to = r.to, r.from
		r.update(ctx, func(s *corev1.Service) { s.Annotations[v1alpha1.AnnotationFormerIPs] = strings.Join(r.from, ",") })
		leave := func(of types.UID) { // as an API server that died does: of a Service, and not deleted
			for _, address := range r.from {
				ip := framework.NewIPAddress(address, namespace, r.service, framework.ManagedBy(v1alpha1.ManagedByOperator), framework.WithIPLabel(v1alpha1.LabelPurpose, v1alpha1.PurposeAdditional))
				ip.Annotations, ip.Finalizers = map[string]string{v1alpha1.AnnotationServiceUID: string(of)}, []string{v1alpha1.FinalizerFormer}
				Expect(admin.Create(ctx, ip)).To(Succeed())
			}
		}
		leave("another of the name")
		gone(ctx, r.from)

		leave(r.uid)
		ask(ctx, "former-marker", 6) // so that the operator has looked at them
		Expect(additional(ctx, r.service)).To(ConsistOf(r.from))
		r.update(ctx, func(s *corev1.Service) { delete(s.Annotations, v1alpha1.AnnotationFormerIPs) })
		gone(ctx, r.from)
	})
})

// isGuarded has an admin try, on a former address, what only renumbering may do, and when due.
func isGuarded(ctx context.Context, address string) {
	GinkgoHelper()
	ip := ipAddress(ctx, address)
	Expect(admin.Delete(ctx, ip)).To(MatchError(ContainSubstring("`kubectl clusterip renumber` releases it")))
	Expect(patchIP(ctx, ip, map[string]any{"uid": ip.UID, "$deleteFromPrimitiveList/finalizers": []string{v1alpha1.FinalizerFormer}})).To(MatchError(ContainSubstring("`kubectl clusterip renumber` releases it")))
	Expect(patchIP(ctx, ip, map[string]any{"labels": map[string]any{networkingv1.LabelManagedBy: "x"}})).To(MatchError(ContainSubstring("is held for Service default/former")))
}

// additional are the addresses that a Service has beside its ClusterIPs.
func additional(ctx context.Context, service string) (out []string) {
	GinkgoHelper()
	list := &networkingv1.IPAddressList{}
	Expect(admin.List(ctx, list, client.MatchingLabels{v1alpha1.LabelPurpose: v1alpha1.PurposeAdditional})).To(Succeed())
	for _, ip := range list.Items {
		if ip.Spec.ParentRef.Namespace == namespace && ip.Spec.ParentRef.Name == service {
			out = append(out, ip.Name)
		}
	}
	return out
}

// ask has a new Service ask for additional addresses from a spec's range, and waits for them.
func ask(ctx context.Context, service string, spec int) {
	GinkgoHelper()
	name := fmt.Sprint("former-", spec)
	create(ctx, &v1alpha1.ServiceCIDRPolicy{ObjectMeta: metav1.ObjectMeta{Name: "more-of-" + name}, Spec: v1alpha1.ServiceCIDRPolicySpec{
		ServiceCIDRs: []string{name}, AdditionalAddresses: true, ServiceSelector: &metav1.LabelSelector{MatchLabels: map[string]string{"more-of": name}},
	}})
	Eventually(func() error {
		s := dual(service, framework.WithLabel("more-of", name), func(s *corev1.Service) {
			s.Annotations = map[string]string{v1alpha1.AnnotationAdditionalFrom: name}
		})
		return admin.Create(ctx, s)
	}).Should(Succeed(), "the webhook has to know the policy")
	DeferCleanup(func(ctx SpecContext) { Expect(client.IgnoreNotFound(admin.Delete(ctx, dual(service)))).To(Succeed()) })
	Eventually(additional).WithArguments(ctx, service).Should(HaveLen(2))
}

// awaitRepair takes the label off the IPAddress of a Service and waits until the operator has
// written it back: that takes as long as it takes to be sure about all other drift, or longer.
func awaitRepair(ctx context.Context, spec int) {
	GinkgoHelper()
	marker := create(ctx, dual("former-marker", framework.WithClusterIPs(pair(spec, 60)...)))
	for _, address := range marker.Spec.ClusterIPs {
		ip := ipAddress(ctx, address)
		before := client.MergeFrom(ip.DeepCopy())
		delete(ip.Labels, networkingv1.LabelIPAddressFamily)
		Expect(collector.Patch(ctx, ip, before)).To(Succeed())
	}
	for _, address := range marker.Spec.ClusterIPs {
		Eventually(ipAddress).WithArguments(ctx, address).Should(HaveField("Labels", HaveKey(networkingv1.LabelIPAddressFamily)))
	}
}
