package main

import (
	"context"
	"fmt"
	"path/filepath"
	"slices"
	"strings"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	"github.com/clusterip-operator/clusterip-operator/test/framework"
)

// webhooks is the name of both webhook configurations.
const webhooks = "clusterip-operator"

// leadWebhooks leads the API server's questions to the manager on loopback: config/default's
// Service has no pods here. It applies the configurations in the name of kubectl, so that an
// admin's next apply meets no other owner. It gives the manager ten seconds for an answer, as the
// machine may be busy. The manager itself enters whom the API server may trust.
func (t *tour) leadWebhooks(ctx context.Context) error {
	root, err := framework.ModuleRoot()
	if err != nil {
		return err
	}
	objects, err := framework.Render(ctx, filepath.Join(root, "config", "default"))
	if err != nil {
		return err
	}
	objects = slices.DeleteFunc(objects, func(o unstructured.Unstructured) bool { return !strings.HasSuffix(o.GetKind(), "WebhookConfiguration") })
	for i := range objects {
		if err := framework.LeadWebhooks(&objects[i], t.manager.WebhookPort(), func(webhook map[string]any) { webhook["timeoutSeconds"] = int64(10) }); err != nil {
			return err
		}
	}
	if err := t.plane.ApplyObjects(ctx, objects); err != nil {
		return fmt.Errorf("leading the webhooks to the manager: %w", err)
	}
	return nil
}

// awaitWebhooks waits until the API server asks the manager.
func (t *tour) awaitWebhooks(ctx context.Context) error {
	t.say("      There is no cluster network here: the webhooks of config/default were led to https://localhost:%d, past their Service.", t.manager.WebhookPort())
	return eventually(ctx, "the API server to ask the manager about Services", 30*time.Second, func() (bool, error) { return t.asks(ctx) })
}

// asks reports whether the API server asks the manager about a new Service.
func (t *tour) asks(ctx context.Context) (bool, error) {
	_, err := t.plane.Client().CoreV1().Services(metav1.NamespaceDefault).Create(ctx,
		framework.NewService(metav1.NamespaceDefault, "is-anybody-there"), metav1.CreateOptions{DryRun: []string{metav1.DryRunAll}})
	if err != nil && !apierrors.IsForbidden(err) {
		return false, err
	}
	metrics, err := t.manager.Metrics(ctx)
	if err != nil {
		return false, err
	}
	decisions, _ := metrics.Value("clusterip_operator_admission_decisions_total")
	return decisions > 0, nil
}

// refusedService shows that a Service is refused an address that is not meant for it.
func (t *tour) refusedService(ctx context.Context, reason, name, address string) error {
	return t.refused(ctx, reason, "-n", samples, "create", "service", "clusterip", name, "--tcp=80", "--clusterip="+address)
}

// refused shows a command that the operator refuses, and what it says.
func (t *tour) refused(ctx context.Context, reason string, args ...string) error {
	_, err := t.kubectl(ctx, args...)
	if err == nil {
		return fmt.Errorf("kubectl %s was not refused", strings.Join(args, " "))
	}
	_, message, found := strings.Cut(err.Error(), "denied the request: ")
	if !found || !strings.Contains(message, reason) {
		return fmt.Errorf("want a refusal that says %q, got: %w", reason, err)
	}
	t.say("      refused: %s", strings.TrimSpace(message))
	return nil
}
