package steering_test

import (
	"context"
	"encoding/json"
	"encoding/pem"
	"fmt"
	"net/http"
	"net/http/httptest"
	"strings"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"
	admissionv1 "k8s.io/api/admission/v1"
	admissionregistrationv1 "k8s.io/api/admissionregistration/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/clusterip-operator/clusterip-operator/test/framework"
	"github.com/clusterip-operator/clusterip-operator/test/integration/internal/steering"
)

// company is another mutating webhook, which API servers ask after ours: by names that begin with them it finds what it does to Services, JSON patches.
var company = map[string]string{
	"labelled-": `[{"op": "add", "path": "/metadata/labels", "value": {"of": "company"}}]`,
	"doubled-":  `[{"op": "add", "path": "/spec/ipFamilyPolicy", "value": "RequireDualStack"}]`,
}

// answerAsCompany is the handler of the company.
func answerAsCompany(w http.ResponseWriter, r *http.Request) {
	var review admissionv1.AdmissionReview
	var service metav1.PartialObjectMetadata
	if json.NewDecoder(r.Body).Decode(&review) != nil || review.Request == nil || json.Unmarshal(review.Request.Object.Raw, &service) != nil {
		http.Error(w, "no AdmissionReview", http.StatusBadRequest)
		return
	}
	review.Response = &admissionv1.AdmissionResponse{UID: review.Request.UID, Allowed: true}
	for prefix, patch := range company {
		if strings.HasPrefix(service.Name+service.GenerateName, prefix) {
			review.Response.Patch, review.Response.PatchType = []byte(patch), new(admissionv1.PatchTypeJSONPatch)
		}
	}
	review.Request = nil
	_ = json.NewEncoder(w).Encode(review) // whoever asked may have gone
}

// keepCompany starts the company, and has API servers ask it until the container ends.
func keepCompany(ctx context.Context) {
	GinkgoHelper()
	server := httptest.NewTLSServer(http.HandlerFunc(answerAsCompany))
	DeferCleanup(server.Close)
	authority := pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: server.Certificate().Raw})
	configurations := bed.Client().AdmissionregistrationV1().MutatingWebhookConfigurations()
	_, err := configurations.Create(ctx, &admissionregistrationv1.MutatingWebhookConfiguration{
		ObjectMeta: metav1.ObjectMeta{Name: "zz-company"},
		Webhooks: []admissionregistrationv1.MutatingWebhook{{
			Name: "company.example.com", ClientConfig: admissionregistrationv1.WebhookClientConfig{URL: &server.URL, CABundle: authority},
			AdmissionReviewVersions: []string{"v1"}, SideEffects: new(admissionregistrationv1.SideEffectClassNone),
			Rules: []admissionregistrationv1.RuleWithOperations{{
				Operations: []admissionregistrationv1.OperationType{admissionregistrationv1.Create},
				Rule:       admissionregistrationv1.Rule{APIGroups: []string{""}, APIVersions: []string{"v1"}, Resources: []string{"services"}},
			}},
		}},
	}, metav1.CreateOptions{})
	Expect(err).NotTo(HaveOccurred())
	DeferCleanup(func(ctx SpecContext) {
		Expect(configurations.Delete(ctx, "zz-company", metav1.DeleteOptions{})).To(Succeed())
	})
	Eventually(func(g Gomega) {
		probe, err := bed.Try(ctx, dual("plain", "labelled-probe"))
		g.Expect(err).NotTo(HaveOccurred())
		defer bed.DeleteServices(ctx, probe)
		g.Expect(probe.Labels).To(HaveKeyWithValue("of", "company"))
	}).WithTimeout(soon).Should(Succeed())
}

// What the company changes makes API servers ask ours once more, and of two replicas it may be the other one that they ask.
var _ = inOrder("A webhook that is asked after ours", func() {
	BeforeAll(func(ctx SpecContext) { keepCompany(ctx) })

	It("makes no Service lose the addresses that it was given, nor take others", func(ctx SpecContext) {
		services := fill(ctx, 40, func(i int) *corev1.Service {
			service := dual("plain", fmt.Sprintf("labelled-%d", i))
			if i%2 == 0 {
				service.Name, service.GenerateName = "", "labelled-"
			}
			return service
		})
		for _, cidr := range []string{default4, default6} {
			Expect(held(services, cidr)).To(And(HaveLen(len(services)), HaveEach(dynamic(cidr))))
		}
		for _, service := range services {
			Expect(service.Labels).To(HaveKeyWithValue("of", "company"))
		}
		bed.ExpectConsistent(ctx)
		bed.ExpectNothingLeaked(ctx)
		bed.DeleteServices(ctx, services...)
	})

	It("can make a Service need one more address", func(ctx SpecContext) {
		filled := bed.Decisions(ctx, steering.Filled)
		services := fill(ctx, 20, func(i int) *corev1.Service {
			return single("plain", fmt.Sprintf("doubled-%d", i), []corev1.IPFamily{corev1.IPv4Protocol, corev1.IPv6Protocol}[i%2])
		})
		for i, service := range services {
			Expect(service.Spec.IPFamilies[0]).To(Equal([]corev1.IPFamily{corev1.IPv4Protocol, corev1.IPv6Protocol}[i%2]), service.Name)
		}
		for _, cidr := range []string{default4, default6} {
			Expect(held(services, cidr)).To(And(HaveLen(len(services)), HaveEach(dynamic(cidr))))
		}
		Expect(bed.Decisions(ctx, steering.Filled)-filled).To(BeEquivalentTo(2*len(services)), "once for each address")
		bed.ExpectConsistent(ctx)
		bed.DeleteServices(ctx, services...)
	})

	It("does not come between a user and the address that he asks for", func(ctx SpecContext) {
		service := bed.Create(ctx, dual("plain", "labelled-chosen", framework.WithClusterIPs("10.96.0.9", "fd00:10:96::9")))
		Expect(service.Spec.ClusterIPs).To(ConsistOf("10.96.0.9", "fd00:10:96::9"))
		bed.ExpectConsistent(ctx)
		bed.DeleteServices(ctx, service)
	})
})
