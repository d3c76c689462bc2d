package cluster

import (
	"encoding/json"
	"encoding/pem"
	"net/http"
	"net/http/httptest"

	. "github.com/onsi/ginkgo/v2"
	admissionv1 "k8s.io/api/admission/v1"
	admissionregistrationv1 "k8s.io/api/admissionregistration/v1"
)

// Rules have a webhook asked about an operation on a resource.
func Rules(o admissionregistrationv1.OperationType, group, resource string) []admissionregistrationv1.RuleWithOperations {
	return []admissionregistrationv1.RuleWithOperations{{
		Operations: []admissionregistrationv1.OperationType{o},
		Rule:       admissionregistrationv1.Rule{APIGroups: []string{group}, APIVersions: []string{"*"}, Resources: []string{resource}},
	}}
}

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
		_ = json.NewEncoder(w).Encode(review) // whoever asked may have gone
	}))
	DeferCleanup(server.Close)
	DeferCleanup(server.CloseClientConnections) // comes first: an API server that gave up does not keep us waiting
	authority := pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: server.Certificate().Raw})
	return admissionregistrationv1.WebhookClientConfig{URL: &server.URL, CABundle: authority}
}
