package controllers_test

import (
	"bytes"
	"context"
	"crypto/tls"
	"encoding/json"
	"net/http"
	"net/netip"
	"time"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"
	admissionv1 "k8s.io/api/admission/v1"
	authenticationv1 "k8s.io/api/authentication/v1"
	corev1 "k8s.io/api/core/v1"
	networkingv1 "k8s.io/api/networking/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/clusterip-operator/clusterip-operator/api/v1alpha1"
	"github.com/clusterip-operator/clusterip-operator/test/framework"
	"github.com/clusterip-operator/clusterip-operator/test/framework/suite"
)

// create creates an object that goes with the spec.
func create[T client.Object](ctx context.Context, object T) T {
	GinkgoHelper()
	Expect(admin.Create(ctx, object)).To(Succeed())
	DeferCleanup(func(ctx SpecContext) { Expect(client.IgnoreNotFound(admin.Delete(ctx, object))).To(Succeed()) })
	return object
}

// dual builds a Service with an address of each family.
func dual(name string, options ...framework.ServiceOption) *corev1.Service {
	return framework.NewService(namespace, name, append(options, framework.RequireDualStack())...)
}

// owner is the Service that the IPAddress of an address names, empty if there is none.
func owner(ctx context.Context, address string) string {
	ip := &networkingv1.IPAddress{}
	if err := admin.Get(ctx, client.ObjectKey{Name: address}, ip); err != nil {
		return ""
	}
	return ip.Spec.ParentRef.Namespace + "/" + ip.Spec.ParentRef.Name
}

// serviceCIDR reads a ServiceCIDR.
func serviceCIDR(ctx context.Context, name string) *networkingv1.ServiceCIDR {
	GinkgoHelper()
	cidr := &networkingv1.ServiceCIDR{}
	Expect(admin.Get(ctx, client.ObjectKey{Name: name}, cidr)).To(Succeed())
	return cidr
}

// inside succeeds for addresses of which each lies in one of the ranges.
func inside(ranges ...string) OmegaMatcher {
	return HaveEach(Satisfy(func(address string) bool {
		for _, r := range ranges {
			if netip.MustParsePrefix(r).Contains(netip.MustParseAddr(address)) {
				return true
			}
		}
		return false
	}))
}

var _ = Describe("The IPAddresses of a Service", func() {
	It("are kept from users, and restored when a controller deletes them", func(ctx SpecContext) {
		service := create(ctx, dual("held"))
		for _, address := range service.Spec.ClusterIPs {
			ip := &networkingv1.IPAddress{ObjectMeta: metav1.ObjectMeta{Name: address}}
			Eventually(admin.Delete).WithArguments(ctx, ip, client.DryRunAll).Should(MatchError(ContainSubstring("belongs to Service default/held")))
			Expect(collector.Delete(ctx, ip)).To(Succeed())
		}
		for _, address := range service.Spec.ClusterIPs {
			Eventually(owner).WithArguments(ctx, address).Should(Equal("default/held"))
		}
	})

	// The cache keeps a part of an object: what it does not keep must not be written away. An API
	// server that looks at a Service, as it does once after its creation, makes an IPAddress without
	// the labels of its allocator anew (recreateIPAddress in its repairip.go), and everything that
	// other clients wrote is lost. Where it is faster than the operator, labels are taken once more.
	It("keep what other clients wrote into them when their labels are mended", func(ctx SpecContext) {
		service := create(ctx, dual("noted"))
		body := []byte(`{"metadata": {"annotations": {"example.com/a": "1"}, "labels": {"example.com/b": "2", "` + networkingv1.LabelIPAddressFamily + `": null}}}`)
		mended := func(address string) (before, after *networkingv1.IPAddress) {
			GinkgoHelper()
			before = &networkingv1.IPAddress{ObjectMeta: metav1.ObjectMeta{Name: address}}
			Eventually(admin.Patch).WithArguments(ctx, before, client.RawPatch(types.MergePatchType, body)).Should(Succeed())
			Eventually(func(g Gomega) {
				after = &networkingv1.IPAddress{}
				g.Expect(admin.Get(ctx, client.ObjectKeyFromObject(before), after)).To(Succeed())
				g.Expect(after.Labels).To(And(HaveKey(networkingv1.LabelIPAddressFamily), HaveKey(v1alpha1.LabelBand)))
			}).WithTimeout(time.Minute).Should(Succeed())
			return before, after
		}
		for _, address := range service.Spec.ClusterIPs {
			before, after := mended(address)
			if after.UID != before.UID { // the API server looks again in three minutes
				before, after = mended(address)
			}
			Expect(*after).To(And(HaveField("Labels", HaveKeyWithValue("example.com/b", "2")), HaveField("Annotations", HaveKeyWithValue("example.com/a", "1")),
				HaveField("UID", before.UID), HaveField("Spec", before.Spec)))
		}
		Expect(admin.Get(ctx, client.ObjectKeyFromObject(service), service)).To(Succeed())
		Expect(service.Spec).To(And(HaveField("Ports", Not(BeEmpty())), HaveField("IPFamilies", HaveLen(2))))
	})
})

var _ = Describe("A ServiceCIDR", func() {
	It("stays as long as a Service has its addresses in it alone, and says so", func(ctx SpecContext) {
		cidr := create(ctx, framework.NewServiceCIDR("needed", "10.97.0.0/28", "fd00:10:97::/124"))
		Eventually(func() []string { return serviceCIDR(ctx, "needed").Finalizers }).
			Should(ConsistOf(v1alpha1.FinalizerServiceCIDR))
		Eventually(admin.Create).WithArguments(ctx, dual("needs", framework.WithClusterIPs("10.97.0.7", "fd00:10:97::7"))).Should(Succeed())
		DeferCleanup(func(ctx SpecContext) { Expect(admin.Delete(ctx, dual("needs"))).To(Succeed()) })
		Expect(admin.Delete(ctx, cidr)).To(Succeed())
		Eventually(func() *metav1.Condition {
			return meta.FindStatusCondition(serviceCIDR(ctx, "needed").Status.Conditions, v1alpha1.ConditionDeletionBlocked)
		}).Should(And(HaveField("Status", metav1.ConditionTrue), HaveField("Message", ContainSubstring("Service default/needs"))))
	})
})

var _ = Describe("An exclusive policy", func() {
	It("gives its ranges to those whom it selects, and to nobody else", func(ctx SpecContext) {
		const four, six = "10.98.0.0/24", "fd00:10:98::/120"
		create(ctx, framework.NewServiceCIDR("tenant", four, six))
		programmed(ctx, "tenant", v1alpha1.ServiceCIDRPolicySpec{
			ServiceCIDRs: []string{"tenant"}, Exclusive: true, OnFull: v1alpha1.OnFullFail,
			ServiceSelector: &metav1.LabelSelector{MatchLabels: map[string]string{"tenant": "a"}},
		})
		Expect(create(ctx, dual("tenants", framework.WithLabel("tenant", "a"))).Spec.ClusterIPs).To(inside(four, six))
		Expect(create(ctx, dual("others")).Spec.ClusterIPs).NotTo(ContainElement(Or(HavePrefix("10.98.0."), HavePrefix("fd00:10:98::"))))
		for _, address := range []string{"10.98.0.77", "fd00:10:98::77"} {
			family := corev1.IPv4Protocol
			if netip.MustParseAddr(address).Is6() {
				family = corev1.IPv6Protocol
			}
			stranger := framework.NewService(namespace, "stranger", framework.WithFamilies(family), framework.WithClusterIPs(address))
			Expect(admin.Create(ctx, stranger)).To(MatchError(ContainSubstring(`ServiceCIDRPolicy "tenant": `)))
		}
	})
})

var _ = Describe("A replica that does not lead", func() {
	It("becomes ready, and answers with addresses", func(ctx SpecContext) {
		webhooks := freeAddress()
		startOperator(webhooks, freeAddress()) // which waits until it is ready; the first one leads and goes on
		raw := suite.Must(json.Marshal(dual("elsewhere")))
		review := admissionv1.AdmissionReview{Request: &admissionv1.AdmissionRequest{
			UID: "u", Operation: admissionv1.Create, Namespace: namespace, Name: "elsewhere", UserInfo: authenticationv1.UserInfo{Username: "someone"},
			Resource: metav1.GroupVersionResource{Version: "v1", Resource: "services"}, Object: runtime.RawExtension{Raw: raw},
		}}
		review.SetGroupVersionKind(admissionv1.SchemeGroupVersion.WithKind("AdmissionReview"))
		body := suite.Must(json.Marshal(review))
		request := suite.Must(http.NewRequestWithContext(ctx, http.MethodPost, "https://"+webhooks+"/mutate-service", bytes.NewReader(body)))
		request.Header.Set("Content-Type", "application/json")
		answer, err := (&http.Transport{TLSClientConfig: &tls.Config{InsecureSkipVerify: true}}).RoundTrip(request) //nolint:gosec // a replica of ours
		Expect(err).NotTo(HaveOccurred())
		defer func() { _ = answer.Body.Close() }()
		Expect(json.NewDecoder(answer.Body).Decode(&review)).To(Succeed())
		Expect(review.Response.Allowed).To(BeTrue())
		Expect(string(review.Response.Patch)).To(ContainSubstring("/spec/clusterIPs"))
	})
})
