package webhook

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"slices"

	admissionv1 "k8s.io/api/admission/v1"
)

// maxBody holds two objects of the size that an API server accepts, and what it says about them.
const maxBody = 7 << 20

// Endpoint is a handler, and which reviews an API server is configured to send to it. It sees no other requests.
type Endpoint struct {
	http.Handler
	Group, Resource string
	Operations      []admissionv1.Operation
}

// ServeHTTP refuses what no API server sends. API servers do not authenticate themselves, so whoever reaches the port can imitate one:
// this keeps out mistakes and scanners, and a NetworkPolicy the others.
func (e Endpoint) ServeHTTP(w http.ResponseWriter, req *http.Request) {
	body, err := io.ReadAll(http.MaxBytesReader(w, req.Body, maxBody))
	if err == nil {
		err = e.check(req, body)
	}
	if err != nil {
		http.Error(w, "no review of an API server: "+err.Error(), http.StatusBadRequest)
		return
	}
	req.Body = io.NopCloser(bytes.NewReader(body))
	e.Handler.ServeHTTP(w, req)
}

func (e Endpoint) check(req *http.Request, body []byte) error {
	if req.Method != http.MethodPost || req.Header.Get("Content-Type") != "application/json" {
		return errors.New("it is posted as application/json")
	}
	var review admissionv1.AdmissionReview // its objects are left undecoded
	if err := json.Unmarshal(body, &review); err != nil {
		return fmt.Errorf("decoding it: %w", err)
	}
	q := review.Request
	switch {
	case review.APIVersion != admissionv1.SchemeGroupVersion.String() || review.Kind != "AdmissionReview" || q == nil:
		return errors.New("it is an AdmissionReview of " + admissionv1.SchemeGroupVersion.String() + " with a request")
	case q.UID == "" || q.UserInfo.Username == "":
		return errors.New("its request has a UID and a user")
	case q.Resource.Group != e.Group || q.Resource.Resource != e.Resource || q.SubResource != "" || !slices.Contains(e.Operations, q.Operation):
		return fmt.Errorf("nothing is asked here about %s of %s %s", q.Operation, q.Resource.Resource, q.SubResource)
	}
	return nil
}
