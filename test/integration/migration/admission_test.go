package migration_test

import (
	"context"
	"net/http"
	"sync"
	"sync/atomic"
	"time"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"
	admissionv1 "k8s.io/api/admission/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/clusterip-operator/clusterip-operator/test/framework"
	"github.com/clusterip-operator/clusterip-operator/test/integration/internal/cluster"
)

// hold keeps the creation of Services waiting at its last step before the storage.
type hold struct {
	waits    atomic.Bool
	gate     chan struct{}
	released sync.Once
}

func (h *hold) waiting() bool { return h.waits.Load() }

func (h *hold) release() { h.released.Do(func() { close(h.gate) }) }

// slowAdmission makes the API server ask before it creates the Service "slow", and answers on
// release. It ends with the calling node.
func (w *environment) slowAdmission(ctx context.Context) *hold {
	GinkgoHelper()
	h := &hold{gate: make(chan struct{})}
	webhook := cluster.StartWebhook(func(r *http.Request, _ *admissionv1.AdmissionRequest, _ *admissionv1.AdmissionResponse) {
		h.waits.Store(true)
		select {
		case <-h.gate:
		case <-r.Context().Done():
		}
	})
	w.Consult(ctx, "Validating", "slow", webhook, `timeoutSeconds: 30, rules: [{apiGroups: [""], apiVersions: ["*"], operations: [CREATE], resources: [services]}],
		matchConditions: [{name: slow, expression: 'object.metadata.name.startsWith("slow")'}]`)
	DeferCleanup(h.release)
	w.admissionHolds(ctx, h)
	return h
}

// admissionHolds waits until the API server knows the webhook: it asks about a Service for show.
func (w *environment) admissionHolds(ctx context.Context, h *hold) {
	GinkgoHelper()
	show := framework.NewService(cluster.Namespace, "slow-show")
	Eventually(func() bool {
		ctx, cancel := context.WithTimeout(ctx, time.Second)
		defer cancel()
		_, _ = w.Client().CoreV1().Services(show.Namespace).Create(ctx, show, metav1.CreateOptions{DryRun: []string{metav1.DryRunAll}})
		return h.waiting()
	}).WithTimeout(cluster.Timeout).Should(BeTrue())
	h.waits.Store(false)
}
