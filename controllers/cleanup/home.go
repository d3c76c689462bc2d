package cleanup

import (
	"context"
	"fmt"

	corev1 "k8s.io/api/core/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/clusterip-operator/clusterip-operator/controllers/internal/webhook"
)

// home takes away what is left in the operator's namespace, which may outlive the operator: the certificate of the webhooks.
func (o Options) home(ctx context.Context) error {
	secret := &corev1.Secret{}
	err := o.Client.Get(ctx, client.ObjectKey{Namespace: o.Namespace, Name: webhook.SecretName}, secret)
	if client.IgnoreNotFound(err) != nil {
		return fmt.Errorf("reading the Secret %s/%s: %w", o.Namespace, webhook.SecretName, err)
	}
	if err != nil {
		return nil
	}
	return o.remove(ctx, "Secret", secret)
}

func (o Options) remove(ctx context.Context, kind string, target client.Object) error {
	if !o.say("deleted %s %s", kind, client.ObjectKeyFromObject(target)) {
		return nil
	}
	uid := target.GetUID()
	if err := o.Client.Delete(ctx, target, client.Preconditions{UID: &uid}); ignoreGone(err) != nil {
		return fmt.Errorf("deleting %s %s: %w", kind, client.ObjectKeyFromObject(target), err)
	}
	return nil
}
