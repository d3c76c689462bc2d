package scale

import (
	"bytes"
	"context"
	"crypto/tls"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"sync/atomic"
	"time"

	admissionv1 "k8s.io/api/admission/v1"
	authenticationv1 "k8s.io/api/authentication/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"

	"github.com/clusterip-operator/clusterip-operator/test/bench/progress"
	"github.com/clusterip-operator/clusterip-operator/test/bench/stats"
	"github.com/clusterip-operator/clusterip-operator/test/framework"
)

// askEach is the time between two questions.
const askEach = 10 * time.Millisecond

// asker asks a webhook as the API server does about creations. The Services never come, so that the
// addresses stay in flight for 15 s: one or two of each tenant.
type asker struct {
	http *http.Client
	url  string
	// asked numbers the requests: each is about a tenant of its own.
	asked  atomic.Int64
	ranges int
}

func newAsker(address string, ranges int) *asker {
	transport := &http.Transport{TLSClientConfig: &tls.Config{InsecureSkipVerify: true}} //nolint:gosec // managers sign their certificates themselves
	return &asker{http: &http.Client{Transport: transport, Timeout: 10 * time.Second}, url: "https://" + address + "/mutate-service", ranges: ranges}
}

// ask asks where a Service of both families gets its addresses, and fails if these are not those of
// its tenant's policy.
func (a *asker) ask(ctx context.Context) (took time.Duration, err error) {
	n := int(a.asked.Add(1))
	i := n % a.ranges
	body, err := question(i, fmt.Sprint("asked-", n))
	if err != nil {
		return 0, err
	}
	began := time.Now()
	request, err := http.NewRequestWithContext(ctx, http.MethodPost, a.url+"?timeout=2s", bytes.NewReader(body))
	if err != nil {
		return 0, err
	}
	request.Header.Set("Content-Type", "application/json")
	response, err := a.http.Do(request)
	if err != nil {
		return 0, err
	}
	defer func() { _ = response.Body.Close() }()
	text, err := io.ReadAll(response.Body)
	took = time.Since(began)
	if err != nil {
		return took, err
	}
	addresses, err := answered(text)
	if err == nil && !inRange(i, addresses) {
		err = fmt.Errorf("%w: a Service of %s is given %v", errUnsteered, rangeName(i), addresses)
	}
	return took, err
}

// errUnsteered is an answer with addresses that the policy does not have.
var errUnsteered = errors.New("unsteered")

// answered returns the addresses that an answer gives a Service.
func answered(text []byte) (addresses []string, err error) {
	var review admissionv1.AdmissionReview
	if err := json.Unmarshal(text, &review); err != nil || review.Response == nil {
		return nil, fmt.Errorf("reading an answer: %w: %.300s", err, text)
	}
	if !review.Response.Allowed {
		return nil, fmt.Errorf("it is refused: %s", review.Response.Result.Message)
	}
	var patch []struct {
		Path  string
		Value json.RawMessage
	}
	if err := json.Unmarshal(review.Response.Patch, &patch); err != nil {
		return nil, fmt.Errorf("reading the patch of an answer: %w: %.300s", err, text)
	}
	for _, p := range patch {
		if p.Path == "/spec/clusterIPs" {
			err = json.Unmarshal(p.Value, &addresses)
		}
	}
	return addresses, err
}

// question is an AdmissionReview of the creation of a Service of a tenant.
func question(i int, name string) ([]byte, error) {
	namespace := fmt.Sprintf("tenant-%04d", i)
	service := framework.NewService(namespace, name, framework.RequireDualStack())
	service.TypeMeta = metav1.TypeMeta{APIVersion: "v1", Kind: "Service"}
	service.Spec.Type, service.Spec.SessionAffinity = corev1.ServiceTypeClusterIP, corev1.ServiceAffinityNone
	raw, err := json.Marshal(service)
	if err != nil {
		return nil, err
	}
	kind := metav1.GroupVersionKind{Version: "v1", Kind: "Service"}
	resource := metav1.GroupVersionResource{Version: "v1", Resource: "services"}
	return json.Marshal(admissionv1.AdmissionReview{
		TypeMeta: metav1.TypeMeta{APIVersion: "admission.k8s.io/v1", Kind: "AdmissionReview"},
		Request: &admissionv1.AdmissionRequest{
			UID: types.UID(fmt.Sprintf("%08x-0000-4000-8000-%012x", 'q', time.Now().UnixNano()&0xffffffffffff)), Operation: admissionv1.Create,
			Namespace: namespace, Name: service.Name, Kind: kind, RequestKind: &kind, Resource: resource, RequestResource: &resource,
			UserInfo: authenticationv1.UserInfo{Username: "system:serviceaccount:kube-system:deployer", Groups: []string{"system:authenticated"}},
			Object:   runtime.RawExtension{Raw: raw},
		},
	})
}

// measureAnswers asks the leader for a while, and again while the cluster changes.
func (r *Result) measureAnswers(ctx context.Context, e *environment) error {
	if len(e.replicas) == 0 {
		return errors.New("no manager runs")
	}
	ask := func(into *stats.Sample) func(context.Context) error {
		return func(ctx context.Context) error {
			a := newAsker(e.replicas[0].WebhookAddress(), min(e.level.Ranges, e.options.Namespaces))
			for range int(e.options.Asked / askEach) {
				took, err := a.ask(ctx)
				if err != nil {
					return err
				}
				*into = append(*into, took.Seconds()*1e3)
				if err := progress.Pause(ctx, askEach-min(took, askEach)); err != nil {
					return err
				}
			}
			return nil
		}
	}
	if err := ask(&r.Asked)(ctx); err != nil {
		return err
	}
	var err error
	r.Churned, err = e.churn(ctx, ask(&r.AskedInChurn))
	e.log.Step("answers: p50 and p99 %s ms, with churn %s ms", r.Asked.Tail(), r.AskedInChurn.Tail())
	return err
}
