package renumber_test

import (
	"time"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"
	corev1 "k8s.io/api/core/v1"
	discoveryv1 "k8s.io/api/discovery/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/clusterip-operator/clusterip-operator/api/v1alpha1"
	"github.com/clusterip-operator/clusterip-operator/internal/upstream"
	"github.com/clusterip-operator/clusterip-operator/test/framework"
	"github.com/clusterip-operator/clusterip-operator/test/framework/suite"
)

// The owner of a Service may write and delete its second one, and what else is in the namespace.
var _ = Describe("A hostile owner of a second Service", func() {
	const hold, letGo = `{"metadata":{"finalizers":["tenant.example/x"]}}`, `{"metadata":{"finalizers":null}}`

	// owner is the Service that the IPAddress of an address names.
	owner := func(ctx SpecContext, a string) types.NamespacedName {
		return upstream.Service(suite.Must(c.Networking().IPAddresses().Get(ctx, a, metav1.GetOptions{})))
	}

	It("takes no address from the first one by a finalizer, once that has it again", func(ctx SpecContext) {
		was, file := handedOver(ctx)
		for a, second := range secondsIn(ctx, was.Namespace) {
			Expect(a).To(BeElementOf(was.Spec.ClusterIPs))
			edit(ctx, was.Namespace, second.Name, hold)
		}
		held := secondsIn(ctx, was.Namespace)
		Expect(held).NotTo(BeEmpty())
		renumber(ctx, "rollback", "--from", file, "--wait=false")
		Expect(get(ctx, was.Namespace, was.Name).Spec.ClusterIPs).To(Equal(was.Spec.ClusterIPs))
		for a, second := range held {
			Expect(get(ctx, was.Namespace, second.Name).Spec.ClusterIPs).To(BeEmpty(), "its finalizer keeps it, and not the address")
			edit(ctx, was.Namespace, second.Name, letGo)
			Consistently(owner).WithArguments(ctx, a).WithTimeout(500 * time.Millisecond).Should(Equal(types.NamespacedName{Namespace: was.Namespace, Name: was.Name}))
		}
	})

	It("takes none from another tenant's Service by a finalizer, once the address was given up", func(ctx SpecContext) {
		was, _ := handedOver(ctx)
		held := secondsIn(ctx, was.Namespace)
		Expect(held).NotTo(BeEmpty())
		for _, second := range held {
			edit(ctx, was.Namespace, second.Name, hold)
		}
		renumber(ctx, "kept", "--delete", "--older-than=1ns")
		namespace := newNamespace(ctx)
		for a, second := range held {
			want := framework.NewService(namespace, "", framework.WithClusterIPs(a), func(s *corev1.Service) { s.GenerateName, s.Spec.IPFamilies = "other-", second.Spec.IPFamilies })
			// The API server looks for policies every second: it may refuse the address that long.
			var other *corev1.Service
			Eventually(func() (err error) {
				other, err = c.Client().CoreV1().Services(namespace).Create(ctx, want, metav1.CreateOptions{})
				return err
			}).Should(Succeed())
			edit(ctx, was.Namespace, second.Name, letGo)
			Consistently(owner).WithArguments(ctx, a).WithTimeout(500 * time.Millisecond).Should(Equal(types.NamespacedName{Namespace: namespace, Name: other.Name}))
		}
	})

	It("keeps no address by more EndpointSlices than are read, whoever they say has written them", func(ctx SpecContext) {
		was, _ := handedOver(ctx)
		for _, second := range secondsIn(ctx, was.Namespace) {
			for n := range 101 {
				suite.Must(c.Client().DiscoveryV1().EndpointSlices(was.Namespace).Create(ctx, &discoveryv1.EndpointSlice{
					ObjectMeta: metav1.ObjectMeta{
						GenerateName: "mine-", Labels: map[string]string{discoveryv1.LabelServiceName: second.Name, discoveryv1.LabelManagedBy: []string{"tenant.example", v1alpha1.ManagerRenumbering}[n%2]},
					},
					AddressType: discoveryv1.AddressTypeIPv4,
				}, metav1.CreateOptions{}))
			}
		}
		succeed(ctx, "kept", "--delete", "--older-than=1ns")
		Expect(secondsIn(ctx, was.Namespace)).To(BeEmpty())
		expectHandedOver(ctx)
	})

	It("keeps no address from other Services by an EndpointSlice of its own", func(ctx SpecContext) {
		was, file := one(ctx, selecting, bySecond)
		stopBetween(ctx, was.Name, func() {
			for family, endpoint := range map[discoveryv1.AddressType]string{discoveryv1.AddressTypeIPv4: "10.1.2.3", discoveryv1.AddressTypeIPv6: "fd01::3"} {
				suite.Must(c.Client().DiscoveryV1().EndpointSlices(was.Namespace).Create(ctx, &discoveryv1.EndpointSlice{
					ObjectMeta:  metav1.ObjectMeta{GenerateName: "mine-", Labels: map[string]string{discoveryv1.LabelServiceName: was.Name}},
					AddressType: family, Endpoints: []discoveryv1.Endpoint{{Addresses: []string{endpoint}}},
				}, metav1.CreateOptions{}))
			}
		}, "run", "--from", file, "--wait=false")
		records := suite.Must(c.Client().AdmissionregistrationV1().ValidatingAdmissionPolicies().List(ctx, metav1.ListOptions{LabelSelector: v1alpha1.LabelPurpose + "=" + v1alpha1.PurposeHandover}))
		Expect(records.Items).To(BeEmpty())
	})
})
