package controllers_test

import (
	"context"
	"encoding/json"
	"fmt"
	"net/netip"
	"strings"
	"time"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"
	corev1 "k8s.io/api/core/v1"
	networkingv1 "k8s.io/api/networking/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/rest"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/clusterip-operator/clusterip-operator/api/v1alpha1"
	"github.com/clusterip-operator/clusterip-operator/test/framework"
)

// programmed creates a policy and waits until it is programmed.
func programmed(ctx context.Context, name string, spec v1alpha1.ServiceCIDRPolicySpec) *v1alpha1.ServiceCIDRPolicy {
	GinkgoHelper()
	policy := create(ctx, &v1alpha1.ServiceCIDRPolicy{ObjectMeta: metav1.ObjectMeta{Name: name}, Spec: spec})
	Eventually(func() bool {
		Expect(admin.Get(ctx, client.ObjectKeyFromObject(policy), policy)).To(Succeed())
		return meta.IsStatusConditionTrue(policy.Status.Conditions, v1alpha1.PolicyProgrammed)
	}).Should(BeTrue())
	return policy
}

// refusalsOf are those that the status of a policy has.
func refusalsOf(ctx context.Context, policy string) []v1alpha1.PolicyRefusal {
	GinkgoHelper()
	p := &v1alpha1.ServiceCIDRPolicy{}
	Expect(admin.Get(ctx, client.ObjectKey{Name: policy}, p)).To(Succeed())
	return p.Status.Refusals
}

// single asks for one address.
func single(name, address string) *corev1.Service {
	family := corev1.IPv4Protocol
	if netip.MustParseAddr(address).Is6() {
		family = corev1.IPv6Protocol
	}
	return framework.NewService(namespace, name, framework.WithFamilies(family), framework.WithClusterIPs(address))
}

var _ = Describe("A tenant that asks for one address after another", func() {
	const secret = "merger-with-acme"

	It("learns of other namespaces what the API server tells, by dry runs too; admins learn the rest", func(ctx SpecContext) {
		create(ctx, framework.NewServiceCIDR("discreet", "10.94.0.0/28", "fd00:10:94::/124"))
		create(ctx, framework.NewServiceCIDR("discreet-closed", "10.94.1.0/28", "fd00:10:94:1::/124"))
		create(ctx, &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: secret}})
		programmed(ctx, "discreet", v1alpha1.ServiceCIDRPolicySpec{
			ServiceCIDRs: []string{"discreet"}, NamespaceSelector: &metav1.LabelSelector{MatchLabels: map[string]string{"kubernetes.io/metadata.name": secret}},
			CoolDown: &metav1.Duration{Duration: time.Hour},
			Reservations: []v1alpha1.Reservation{
				{Name: "war-room", Address: "10.94.0.4", For: secret + "/war-room"}, {Name: "war-room-6", Address: "fd00:10:94::4", For: secret + "/war-room"},
			},
		})
		programmed(ctx, "discreet-closed", v1alpha1.ServiceCIDRPolicySpec{
			ServiceCIDRs: []string{"discreet-closed"}, Exclusive: true, NamespaceSelector: &metav1.LabelSelector{MatchLabels: map[string]string{"kubernetes.io/metadata.name": secret}},
		})
		inSecret := func(name string, addresses ...string) *corev1.Service {
			GinkgoHelper()
			s := framework.NewService(secret, name, framework.RequireDualStack(), framework.WithClusterIPs(addresses...))
			Eventually(admin.Create).WithArguments(ctx, s).Should(Succeed())
			return s
		}
		create(ctx, dual("mine")) // the default range is in use
		held := inSecret("dataroom", "10.94.0.2", "fd00:10:94::2")
		DeferCleanup(func(ctx SpecContext) { Expect(admin.Delete(ctx, held)).To(Succeed()) })
		termsheet := inSecret("termsheet", "10.94.0.3", "fd00:10:94::3")
		Expect(admin.Delete(ctx, termsheet)).To(Succeed())
		for _, address := range termsheet.Spec.ClusterIPs {
			Eventually(func() string {
				is := owner(ctx, address)
				if is == secret+"/termsheet" { // the API server's repair, by its caches, has written it again: nothing deletes it for a minute
					Expect(client.IgnoreNotFound(collector.Delete(ctx, &networkingv1.IPAddress{ObjectMeta: metav1.ObjectMeta{Name: address}}))).To(Succeed())
				}
				return is
			}).Should(Equal("/discreet"), "it cools down")
		}
		// Held, cooling, reserved.
		taken := []string{"10.94.0.2", "10.94.0.3", "10.94.0.4", "fd00:10:94::2", "fd00:10:94::3", "fd00:10:94::4"}

		warnings := &framework.Warnings{}
		kube := rest.CopyConfig(environment.Config)
		kube.WarningHandler = warnings
		tenant := clientFor(kube)
		answer := func(address string, options ...client.CreateOption) string {
			if err := tenant.Create(ctx, single("asks", address), options...); err != nil {
				return strings.ReplaceAll(err.Error(), address, "ADDRESS")
			}
			return ""
		}
		const words = `failed to allocate IP ADDRESS: provided IP is already allocated`
		for _, address := range taken {
			Eventually(answer).WithArguments(address, client.DryRunAll).Should(ContainSubstring(words), address)
			Expect(answer(address, client.DryRunAll)).To(Equal(answer(taken[0], client.DryRunAll)), "%s: who has, had or will have it makes no difference", address)
			Expect(answer(address)).To(ContainSubstring(words), address)
		}
		for _, text := range []string{"10.94.0.0/28", "fd00:10:94::/124", "10.94.1.0/28", "fd00:10:94:1::/124", "10.0.0.0/28"} {
			for p, a := netip.MustParsePrefix(text), netip.MustParsePrefix(text).Addr(); p.Contains(a); a = a.Next() {
				warnings.HandleWarningHeader(0, "", answer(a.String(), client.DryRunAll))
			}
		}
		Expect(warnings.Texts()).NotTo(ContainElement(Or(
			ContainSubstring(secret), ContainSubstring("dataroom"), ContainSubstring("termsheet"), ContainSubstring("war-room"), ContainSubstring("kubernetes.io/metadata.name"),
		)))
		Expect(warnings.Texts()).To(ContainElement(ContainSubstring(`ServiceCIDRPolicy "discreet-closed"`)), "so that an admin can be asked")

		Eventually(func() []v1alpha1.PolicyRefusal { return refusalsOf(ctx, "discreet") }).Should(And(
			ContainElement(HaveField("Message", ContainSubstring("kept for Service "+secret+"/war-room"))),
			ContainElement(HaveField("Message", ContainSubstring("after Service "+secret+"/termsheet had it"))),
		))
		Eventually(func() []string {
			list, notes := &unstructured.UnstructuredList{}, []string{}
			list.SetGroupVersionKind(schema.GroupVersionKind{Group: "events.k8s.io", Version: "v1", Kind: "EventList"})
			Expect(admin.List(ctx, list)).To(Succeed())
			for _, e := range list.Items {
				of, _, _ := unstructured.NestedString(e.Object, "regarding", "name")
				if e.Object["reason"] == "ServiceRefused" && of == "discreet" {
					note, _, _ := unstructured.NestedString(e.Object, "note")
					notes = append(notes, note)
				}
			}
			return notes
		}).Should(And(HaveLen(1), HaveEach(HavePrefix("Refused Service default/asks: "))), "in one event of the policy")
	})
})

var _ = Describe("The refusals in the status of a policy", func() {
	// An earlier version wrote texts as they came. The API server ratchets: what was stored before
	// the limits may stay, so that the loop which writes conditions is not stopped; and the next
	// refusal cuts it.
	It("heal where an earlier version has stored what is too long now", Label("all"), func(ctx SpecContext) {
		create(ctx, framework.NewServiceCIDR("healing", "10.94.3.0/28", "fd00:10:94:3::/124"))
		policy := programmed(ctx, "healing", v1alpha1.ServiceCIDRPolicySpec{
			ServiceCIDRs: []string{"healing"}, Exclusive: true, NamespaceSelector: &metav1.LabelSelector{MatchLabels: map[string]string{"nobody": "has"}},
		})
		limit := func(ctx context.Context, operation string) {
			GinkgoHelper()
			const path = "/spec/versions/0/schema/openAPIV3Schema/properties/status/properties/refusals/items/properties/"
			patch := fmt.Sprintf(`[{"op": %q, "path": "%smessage/maxLength", "value": 256}, {"op": %q, "path": "%sservice/maxLength", "value": 128}]`,
				operation, path, operation, path)
			crd := &unstructured.Unstructured{}
			crd.SetGroupVersionKind(schema.GroupVersionKind{Group: "apiextensions.k8s.io", Version: "v1", Kind: "CustomResourceDefinition"})
			crd.SetName(v1alpha1.Resource + "." + v1alpha1.GroupVersion.Group)
			Expect(admin.Patch(ctx, crd, client.RawPatch(types.JSONPatchType, []byte(patch)))).To(Succeed())
		}
		limit(ctx, "remove")
		DeferCleanup(func(ctx SpecContext) { limit(ctx, "add") })
		long := v1alpha1.PolicyRefusal{Time: metav1.NowMicro(), Service: "default/\x1b" + strings.Repeat("x", 50<<10), Message: strings.Repeat("\x1b[2J", 10<<10)}
		Eventually(func() error {
			Expect(admin.Get(ctx, client.ObjectKeyFromObject(policy), policy)).To(Succeed())
			policy.Status.Refusals = []v1alpha1.PolicyRefusal{long}
			return admin.Status().Update(ctx, policy)
		}).Should(Succeed())
		limit(ctx, "add")
		Eventually(func() error {
			Expect(admin.Get(ctx, client.ObjectKeyFromObject(policy), policy)).To(Succeed())
			changed := policy.DeepCopy()
			changed.Status.Refusals = append(changed.Status.Refusals, long)
			return admin.Status().Update(ctx, changed, client.DryRunAll)
		}).Should(MatchError(ContainSubstring("Too long")), "the limits are back")

		policy.Spec.Priority = 7
		Expect(admin.Update(ctx, policy)).To(Succeed())
		Eventually(func() int64 {
			Expect(admin.Get(ctx, client.ObjectKeyFromObject(policy), policy)).To(Succeed())
			return policy.Status.ObservedGeneration
		}).Should(Equal(policy.Generation), "conditions are written beside what is too long")
		for _, address := range []string{"10.94.3.6", "fd00:10:94:3::6"} {
			Expect(admin.Create(ctx, single("sane", address))).To(MatchError(ContainSubstring(`ServiceCIDRPolicy "healing"`)))
		}
		Eventually(func() []v1alpha1.PolicyRefusal { return refusalsOf(ctx, "healing") }).Should(ContainElement(HaveField("Service", "default/sane")))
		text, err := json.Marshal(refusalsOf(ctx, "healing"))
		Expect(err).NotTo(HaveOccurred())
		Expect(len(text)).To(BeNumerically("<", 8<<10))
		Expect(string(text)).NotTo(MatchRegexp(`\\u001b|\\u009b`), "what steers a terminal")
	})
})
