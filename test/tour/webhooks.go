package main

import (
	"context"
	"errors"
	"fmt"
	"net"
	"strings"
	"time"

	admissionregistrationv1 "k8s.io/api/admissionregistration/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/util/retry"

	"github.com/clusterip-operator/clusterip-operator/test/framework"
)

// webhooks is the name of both webhook configurations.
const webhooks = "clusterip-operator"

// leadWebhooks leads the API server's questions to the manager on loopback: behind the Service that config/default names are no pods here.
// The manager enters by itself whom the API server may trust, perhaps at this very moment.
func (t *tour) leadWebhooks(ctx context.Context) error {
	if err := retry.RetryOnConflict(retry.DefaultRetry, func() error { return t.leadMutating(ctx) }); err != nil {
		return fmt.Errorf("leading the mutating webhook to the manager: %w", err)
	}
	if err := retry.RetryOnConflict(retry.DefaultRetry, func() error { return t.leadValidating(ctx) }); err != nil {
		return fmt.Errorf("leading the validating webhooks to the manager: %w", err)
	}
	t.say("      There is no cluster network here: the webhooks of config/default were led to https://localhost:%s, past their Service.", t.webhookPort())
	return eventually(ctx, "the API server to ask the manager about Services", 30*time.Second, func() (bool, error) { return t.asks(ctx) })
}

func (t *tour) leadMutating(ctx context.Context) error {
	configurations := t.plane.Client().AdmissionregistrationV1().MutatingWebhookConfigurations()
	c, err := configurations.Get(ctx, webhooks, metav1.GetOptions{})
	if err != nil {
		return err
	}
	for i := range c.Webhooks {
		t.lead(&c.Webhooks[i].ClientConfig)
	}
	_, err = configurations.Update(ctx, c, metav1.UpdateOptions{})
	return err
}

func (t *tour) leadValidating(ctx context.Context) error {
	configurations := t.plane.Client().AdmissionregistrationV1().ValidatingWebhookConfigurations()
	c, err := configurations.Get(ctx, webhooks, metav1.GetOptions{})
	if err != nil {
		return err
	}
	for i := range c.Webhooks {
		t.lead(&c.Webhooks[i].ClientConfig)
	}
	_, err = configurations.Update(ctx, c, metav1.UpdateOptions{})
	return err
}

func (t *tour) lead(config *admissionregistrationv1.WebhookClientConfig) {
	config.URL = new("https://localhost:" + t.webhookPort() + *config.Service.Path)
	config.Service = nil
}

func (t *tour) webhookPort() string {
	_, port, _ := net.SplitHostPort(t.manager.WebhookAddress())
	return port
}

// asks reports whether the manager hears of somebody who would like to create a Service.
func (t *tour) asks(ctx context.Context) (bool, error) {
	before, err := t.decisions(ctx)
	if err != nil {
		return false, err
	}
	_, err = t.plane.Client().CoreV1().Services(metav1.NamespaceDefault).Create(ctx,
		framework.NewService(metav1.NamespaceDefault, "is-anybody-there"), metav1.CreateOptions{DryRun: []string{metav1.DryRunAll}})
	if err != nil && !apierrors.IsForbidden(err) {
		return false, err
	}
	after, err := t.decisions(ctx)
	return after > before, err
}

func (t *tour) decisions(ctx context.Context) (float64, error) {
	metrics, err := t.manager.Metrics(ctx)
	if err != nil {
		return 0, err
	}
	sum, _ := metrics.Value("clusterip_operator_admission_decisions_total")
	return sum, nil
}

// setAside is longer than the manager keeps an address aside for a request whose answer came too late.
const setAside = 20 * time.Second

// answered does something about which the API server asks the manager. When that does not answer within two seconds, which may happen on
// a busy machine, the API server goes on as if there were no operator; what it did is undone then, and done again.
func (t *tour) answered(ctx context.Context, do, undo func() error) error {
	for range 3 {
		before, err := t.failedOpen(ctx)
		if err != nil {
			return err
		}
		refusal := do()
		after, err := t.failedOpen(ctx)
		if err != nil {
			return err
		}
		if after == before {
			return refusal
		}
		t.say("      The manager did not answer in time, so the API server went on by itself. Once more, after %v:", setAside)
		if refusal == nil {
			if err := undo(); err != nil {
				return fmt.Errorf("undoing what was done without the manager: %w", err)
			}
		}
		select {
		case <-ctx.Done():
			return ctx.Err()
		case <-time.After(setAside):
		}
	}
	return errors.New("the manager did not answer the API server in time, three times in a row")
}

// failedOpen counts the questions that the API server went on without an answer to.
func (t *tour) failedOpen(ctx context.Context) (float64, error) {
	text, err := t.plane.Client().Discovery().RESTClient().Get().AbsPath("/metrics").DoRaw(ctx)
	if err != nil {
		return 0, fmt.Errorf("scraping the API server: %w", err)
	}
	metrics, err := framework.ParseMetrics(string(text))
	if err != nil {
		return 0, err
	}
	sum, _ := metrics.Value("apiserver_admission_webhook_fail_open_count")
	return sum, nil
}

// refusedService shows that nobody gets a Service with an address that is not for him.
func (t *tour) refusedService(ctx context.Context, reason, name, address string) error {
	undo := func() error {
		return t.plane.Client().CoreV1().Services(samples).Delete(ctx, name, metav1.DeleteOptions{})
	}
	return t.refused(ctx, reason, undo, "-n", samples, "create", "service", "clusterip", name, "--tcp=80", "--clusterip="+address)
}

// refused shows a command that the operator refuses, and what it says. undo takes back what passed without it.
func (t *tour) refused(ctx context.Context, reason string, undo func() error, args ...string) error {
	err := t.answered(ctx, func() error {
		_, err := t.kubectl(ctx, args...)
		return err
	}, undo)
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
