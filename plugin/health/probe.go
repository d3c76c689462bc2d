package health

import (
	"context"
	"sync/atomic"
	"time"

	authorizationv1 "k8s.io/api/authorization/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	corev1client "k8s.io/client-go/kubernetes/typed/core/v1"
	"k8s.io/client-go/rest"

	"github.com/clusterip-operator/clusterip-operator/api/v1alpha1"
	"github.com/clusterip-operator/clusterip-operator/controllers/admission"
	"github.com/clusterip-operator/clusterip-operator/plugin/cli"
)

// probed says whether the API server reaches the webhooks. If both fields are empty, it does not.
type probed struct {
	// Reached is the replica that has answered.
	Reached *admission.Reached `json:"reached,omitempty"`
	// Unknown is why it could not be tried.
	Unknown string `json:"unknown,omitempty"`
}

// probeTimeout bounds the trial. The API server waits two seconds for a webhook without an answer.
const probeTimeout = 10 * time.Second

// probe creates a Service for trial: the API server shows it to the webhook and does not store it.
// It is headless, so that it draws no address. The warning shows that admission has run.
func probe(ctx context.Context, s *cli.Cluster) (probed, error) {
	refused, err := s.May(ctx, authorizationv1.ResourceAttributes{Verb: "create", Resource: "services", Namespace: s.Namespace})
	if err != nil || refused != "" {
		return probed{Unknown: refused}, err
	}
	heard := &reached{}
	config := rest.CopyConfig(s.Config)
	config.WarningHandler = heard
	c, err := corev1client.NewForConfig(config)
	if err != nil {
		return probed{}, err
	}
	service := &corev1.Service{
		ObjectMeta: metav1.ObjectMeta{GenerateName: "clusterip-probe-", Annotations: map[string]string{v1alpha1.AnnotationProbe: ""}},
		Spec:       corev1.ServiceSpec{ClusterIP: corev1.ClusterIPNone, Selector: map[string]string{v1alpha1.AnnotationProbe: ""}},
	}
	ctx, cancel := context.WithTimeout(ctx, probeTimeout)
	defer cancel()
	_, err = c.Services(s.Namespace).Create(ctx, service, metav1.CreateOptions{DryRun: []string{metav1.DryRunAll}})
	if said := heard.Load(); said != nil {
		return probed{Reached: said}, nil
	}
	if err != nil {
		return probed{Unknown: "creating a Service for trial: " + err.Error()}, nil
	}
	return probed{}, nil
}

// reached keeps what a webhook says of itself in the API server's warnings, nil without it.
type reached struct {
	atomic.Pointer[admission.Reached]
}

// HandleWarningHeader implements rest.WarningHandler.
func (r *reached) HandleWarningHeader(_ int, _, text string) {
	if said, ok := admission.ParseReached(text); ok {
		r.CompareAndSwap(nil, &said)
	}
}
