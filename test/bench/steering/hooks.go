package steering

import (
	"context"
	"fmt"
	"time"

	admissionregistrationv1 "k8s.io/api/admissionregistration/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/clusterip-operator/clusterip-operator/test/bench/cluster"
	"github.com/clusterip-operator/clusterip-operator/test/framework"
)

// configuration is the name of both.
const configuration = "clusterip-operator"

// hooks are the webhook configurations as the manager has completed them, with the authority of its certificate.
type hooks struct {
	mutating   *admissionregistrationv1.MutatingWebhookConfiguration
	validating *admissionregistrationv1.ValidatingWebhookConfiguration
	deleted    bool
}

// readHooks waits until the manager has completed the configurations, and keeps them for turns to come.
func (b *bed) readHooks(ctx context.Context) (h hooks, err error) {
	api := b.Client.AdmissionregistrationV1()
	err = b.until(ctx, "the authority in the webhook configurations", func(ctx context.Context) (bool, error) {
		if h.mutating, err = api.MutatingWebhookConfigurations().Get(ctx, configuration, metav1.GetOptions{}); err != nil {
			return false, err
		}
		if h.validating, err = api.ValidatingWebhookConfigurations().Get(ctx, configuration, metav1.GetOptions{}); err != nil {
			return false, err
		}
		return len(h.mutating.Webhooks[0].ClientConfig.CABundle) > 0 && len(h.validating.Webhooks[0].ClientConfig.CABundle) > 0, nil
	})
	if err != nil {
		return h, err
	}
	for _, o := range []metav1.Object{h.mutating, h.validating} {
		o.SetResourceVersion("")
		o.SetUID("")
		o.SetManagedFields(nil)
	}
	return h, b.waitAsked(ctx, true)
}

// ask puts the webhook configurations back, or deletes them, and returns when the API server goes by it.
func (b *bed) ask(ctx context.Context, whether bool) (err error) {
	if whether == !b.hooks.deleted {
		return nil
	}
	mutating, validating := b.Client.AdmissionregistrationV1().MutatingWebhookConfigurations(), b.Client.AdmissionregistrationV1().ValidatingWebhookConfigurations()
	if whether {
		if _, err = mutating.Create(ctx, b.hooks.mutating, metav1.CreateOptions{}); err == nil {
			_, err = validating.Create(ctx, b.hooks.validating, metav1.CreateOptions{})
		}
	} else if err = mutating.Delete(ctx, configuration, metav1.DeleteOptions{}); err == nil {
		err = validating.Delete(ctx, configuration, metav1.DeleteOptions{})
	}
	if err != nil {
		return fmt.Errorf("changing the webhook configurations: %w", err)
	}
	b.hooks.deleted = !whether
	return b.waitAsked(ctx, whether)
}

// waitAsked waits until a creation is put to a replica, or is not; a dry run is put too.
func (b *bed) waitAsked(ctx context.Context, whether bool) error {
	return b.until(ctx, fmt.Sprintf("webhooks that are asked: %t", whether), func(ctx context.Context) (bool, error) {
		before, err := b.sum(ctx, decisionsTotal)
		if err != nil {
			return false, err
		}
		probe := framework.NewService(cluster.Namespace, "probe")
		if _, err := b.Client.CoreV1().Services(cluster.Namespace).Create(ctx, probe, metav1.CreateOptions{DryRun: []string{metav1.DryRunAll}}); err != nil {
			return false, fmt.Errorf("trying a Service: %w", err)
		}
		after, err := b.sum(ctx, decisionsTotal)
		return after > before == whether, err
	})
}

// rest gives API server and etcd a moment to finish what they are at.
func (b *bed) rest(ctx context.Context) error { return b.Settle(ctx, 5*time.Second) }
