package cluster

import (
	"context"
	"encoding/json"
	"encoding/pem"
	"fmt"
	"net/http"
	"net/http/httptest"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"
	admissionv1 "k8s.io/api/admission/v1"
	admissionregistrationv1 "k8s.io/api/admissionregistration/v1"
)

// StartWebhook starts a webhook that is not ours and ends with the calling node. answer is called
// concurrently and changes a response that allows r, which ends when the API server gives up.
func StartWebhook(
	answer func(r *http.Request, question *admissionv1.AdmissionRequest, response *admissionv1.AdmissionResponse),
) admissionregistrationv1.WebhookClientConfig {
	GinkgoHelper()
	server := httptest.NewTLSServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		var review admissionv1.AdmissionReview
		if err := json.NewDecoder(r.Body).Decode(&review); err != nil || review.Request == nil {
			http.Error(w, "no AdmissionReview", http.StatusBadRequest)
			return
		}
		review.Response = &admissionv1.AdmissionResponse{UID: review.Request.UID, Allowed: true}
		answer(r, review.Request, review.Response)
		review.Request = nil
		_ = json.NewEncoder(w).Encode(review) // the API server may have gone
	}))
	DeferCleanup(server.Close)
	DeferCleanup(server.CloseClientConnections) // comes first: an API server that gave up does not keep us waiting
	authority := pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: server.Certificate().Raw})
	return admissionregistrationv1.WebhookClientConfig{URL: &server.URL, CABundle: authority}
}

// Consult has the API server ask a webhook of another product, until the calling node ends. kind is
// Mutating or Validating; fields say in YAML of what and how, beside what every webhook has.
func (c *Cluster) Consult(ctx context.Context, kind, name string, webhook admissionregistrationv1.WebhookClientConfig, fields string) {
	GinkgoHelper()
	at, err := json.Marshal(webhook)
	Expect(err).NotTo(HaveOccurred())
	c.ApplyForNow(ctx, fmt.Sprintf(`
apiVersion: admissionregistration.k8s.io/v1
kind: %[1]sWebhookConfiguration
metadata: {name: %[2]s}
webhooks: [{name: %[2]s.example.com, clientConfig: %[3]s, admissionReviewVersions: [v1], sideEffects: None, %[4]s}]
`, kind, name, at, fields))
}

// Forbid adds a ValidatingAdmissionPolicy with a spec in YAML, until the calling node ends.
func (c *Cluster) Forbid(ctx context.Context, name, spec string) {
	GinkgoHelper()
	c.ApplyForNow(ctx, fmt.Sprintf(`
apiVersion: admissionregistration.k8s.io/v1
kind: ValidatingAdmissionPolicy
metadata: {name: %[1]s}
spec: %[2]s
---
apiVersion: admissionregistration.k8s.io/v1
kind: ValidatingAdmissionPolicyBinding
metadata: {name: %[1]s}
spec: {policyName: %[1]s, validationActions: [Deny]}
`, name, spec))
}
