package steering

import (
	"context"
	"encoding/json"
	"encoding/pem"
	"errors"
	"fmt"
	"net/http"
	"net/http/httptest"
	"sync/atomic"

	jsonpatch "gomodules.xyz/jsonpatch/v2"
	admissionregistrationv1 "k8s.io/api/admissionregistration/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/ptr"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/webhook/admission"

	"github.com/clusterip-operator/clusterip-operator/test/bench/cluster"
	"github.com/clusterip-operator/clusterip-operator/test/framework"
)

// leastCount is how many addresses of a family the least webhook names: more than exist at a time.
const leastCount = 200

// leastAddresses are the i-th ones, in the static bands, from which the API server does not draw.
func leastAddresses(i int) []string {
	return []string{fmt.Sprintf("10.96.0.%d", 20+i), fmt.Sprintf("fd00:10:96::%x", 20+i)}
}

// freeLeast deletes those of their IPAddresses that are left after all Services. The API server's
// repair recreates an IPAddress whose end it sees before its Service's, which happens when many are
// deleted, and takes it back minutes later.
func (e *environment) freeLeast(ctx context.Context) error {
	return e.all(leastCount, func(ctx context.Context, i int) error {
		for _, a := range leastAddresses(i) {
			if err := e.Client.NetworkingV1().IPAddresses().Delete(ctx, a, metav1.DeleteOptions{}); client.IgnoreNotFound(err) != nil {
				return fmt.Errorf("freeing %s: %w", a, err)
			}
		}
		return nil
	})(ctx)
}

// leastWebhook is a webhook in this process that only names the next address of a counter. It costs
// a creation what the API server takes for any webhook that names addresses.
type leastWebhook struct {
	server  *httptest.Server
	answers atomic.Int64
}

// startLeastWebhook returns when the API server asks the webhook about Services labelled for it.
func (e *environment) startLeastWebhook(ctx context.Context) (*leastWebhook, error) {
	w := &leastWebhook{}
	w.server = httptest.NewTLSServer(&admission.Webhook{Handler: w})
	err := e.client.Create(ctx, w.configuration())
	if err == nil {
		err = e.until(ctx, "the least webhook", func(ctx context.Context) (bool, error) {
			service := framework.NewService(cluster.Namespace, "dry-run", framework.WithLabel(passingLabel, least))
			_, err := e.Client.CoreV1().Services(cluster.Namespace).Create(ctx, service, metav1.CreateOptions{DryRun: []string{metav1.DryRunAll}})
			return w.answers.Load() > 0, err
		})
	}
	if err != nil {
		return nil, errors.Join(fmt.Errorf("starting the least webhook: %w", err), w.stop(ctx, e))
	}
	return w, nil
}

func (w *leastWebhook) stop(ctx context.Context, e *environment) error {
	err := client.IgnoreNotFound(e.client.Delete(ctx, w.configuration()))
	w.server.Close()
	return err
}

func (w *leastWebhook) configuration() *admissionregistrationv1.MutatingWebhookConfiguration {
	authority := pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: w.server.Certificate().Raw})
	return &admissionregistrationv1.MutatingWebhookConfiguration{
		ObjectMeta: metav1.ObjectMeta{Name: "bench-least"},
		Webhooks: []admissionregistrationv1.MutatingWebhook{{
			Name:                    "least.bench.example.com",
			ClientConfig:            admissionregistrationv1.WebhookClientConfig{URL: &w.server.URL, CABundle: authority},
			AdmissionReviewVersions: []string{"v1"},
			SideEffects:             ptr.To(admissionregistrationv1.SideEffectClassNone),
			ObjectSelector:          &metav1.LabelSelector{MatchLabels: map[string]string{passingLabel: least}},
			Rules: []admissionregistrationv1.RuleWithOperations{{
				Operations: []admissionregistrationv1.OperationType{admissionregistrationv1.Create},
				Rule:       admissionregistrationv1.Rule{APIGroups: []string{""}, APIVersions: []string{"v1"}, Resources: []string{"services"}},
			}},
		}},
	}
}

// Handle implements admission.Handler.
func (w *leastWebhook) Handle(_ context.Context, req admission.Request) admission.Response {
	var service struct {
		Spec struct{ IPFamilyPolicy corev1.IPFamilyPolicy }
	}
	if err := json.Unmarshal(req.Object.Raw, &service); err != nil {
		return admission.Errored(http.StatusBadRequest, err)
	}
	addresses := leastAddresses(int(w.answers.Add(1)) % leastCount)
	if service.Spec.IPFamilyPolicy != corev1.IPFamilyPolicyRequireDualStack {
		addresses = addresses[:1]
	}
	return admission.Patched("", jsonpatch.NewOperation("add", "/spec/clusterIPs", addresses), jsonpatch.NewOperation("add", "/spec/clusterIP", addresses[0]))
}
