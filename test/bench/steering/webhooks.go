package steering

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"strings"
	"time"

	admissionregistrationv1 "k8s.io/api/admissionregistration/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/clusterip-operator/clusterip-operator/test/bench/cluster"
	"github.com/clusterip-operator/clusterip-operator/test/framework"
)

// install applies the manifests, with the balancer as the place of the webhooks. Labelled objects
// pass these.
func (e *environment) install(ctx context.Context) error {
	return e.Install(ctx, e.balancer, func(webhook map[string]any) {
		webhook["objectSelector"] = map[string]any{"matchExpressions": []any{map[string]any{"key": passingLabel, "operator": "DoesNotExist"}}}
	})
}

// passingLabel is on Services that pass our webhooks; its value least puts them to the least one.
const passingLabel, least = "bench.example.com/passing", "least"

// configuration is the name of both.
const configuration = "clusterip-operator"

// webhooks are the configurations as the manager completed them, with its certificate's authority.
type webhooks struct {
	configurations []client.Object
	deleted        bool
}

// readWebhooks waits until the manager has completed the configurations, and keeps them for turns.
func (e *environment) readWebhooks(ctx context.Context) (w webhooks, err error) {
	mutating, validating := &admissionregistrationv1.MutatingWebhookConfiguration{}, &admissionregistrationv1.ValidatingWebhookConfiguration{}
	w.configurations = []client.Object{mutating, validating}
	err = e.until(ctx, "the authority in the webhook configurations", func(ctx context.Context) (bool, error) {
		for _, o := range w.configurations {
			if err := e.client.Get(ctx, client.ObjectKey{Name: configuration}, o); err != nil {
				return false, err
			}
		}
		return len(mutating.Webhooks[0].ClientConfig.CABundle) > 0 && len(validating.Webhooks[0].ClientConfig.CABundle) > 0, nil
	})
	if err != nil {
		return w, err
	}
	return w, e.waitWebhooks(ctx, true)
}

// askDirectly lets the API server ask the only replica without the balancer: that process would be
// measured too, while the NAT of a Service, which it stands for, takes microseconds.
func (e *environment) askDirectly(ctx context.Context) error {
	port := strings.NewReplacer(fmt.Sprintf("localhost:%d", e.balancer.Port()), fmt.Sprintf("localhost:%d", e.replicas[0].WebhookPort()))
	for _, o := range e.webhooks.configurations {
		text, err := json.Marshal(o)
		if err := errors.Join(err, json.Unmarshal([]byte(port.Replace(string(text))), o)); err != nil {
			return fmt.Errorf("changing the address of the webhooks: %w", err)
		}
		if err := e.client.Update(ctx, o); err != nil {
			return fmt.Errorf("changing the webhook configurations: %w", err)
		}
	}
	// It asks every 100 ms whether the replica is ready, which costs a handshake with itself.
	e.balancer.Remove(e.replicas[0].WebhookAddress())
	e.balancer.Cut()
	return e.waitWebhooks(ctx, true)
}

// setWebhooks restores or deletes the webhook configurations, and waits for the API server to obey.
func (e *environment) setWebhooks(ctx context.Context, whether bool) (err error) {
	if whether == !e.webhooks.deleted {
		return nil
	}
	for _, o := range e.webhooks.configurations {
		if whether {
			o.SetResourceVersion("")
			o.SetUID("")
			o.SetManagedFields(nil)
			err = e.client.Create(ctx, o)
		} else {
			err = client.IgnoreNotFound(e.client.Delete(ctx, o))
		}
		if err != nil {
			return fmt.Errorf("changing the webhook configurations: %w", err)
		}
	}
	e.webhooks.deleted = !whether
	return e.waitWebhooks(ctx, whether)
}

// waitWebhooks waits until a creation is put to a replica, or is not; a dry run is put too.
func (e *environment) waitWebhooks(ctx context.Context, whether bool) error {
	return e.until(ctx, fmt.Sprintf("webhooks that are asked: %t", whether), func(ctx context.Context) (bool, error) {
		before, err := e.sum(ctx, decisionsTotal)
		if err != nil {
			return false, err
		}
		service := framework.NewService(cluster.Namespace, "dry-run")
		if _, err := e.Client.CoreV1().Services(cluster.Namespace).Create(ctx, service, metav1.CreateOptions{DryRun: []string{metav1.DryRunAll}}); err != nil {
			return false, fmt.Errorf("trying a Service: %w", err)
		}
		after, err := e.sum(ctx, decisionsTotal)
		return after > before == whether, err
	})
}

// settle gives API server and etcd a moment to finish what they are at.
func (e *environment) settle(ctx context.Context) error { return e.Settle(ctx, 5*time.Second) }
