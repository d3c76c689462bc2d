package webhook

import (
	"context"
	"fmt"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/fields"
	toolscache "k8s.io/client-go/tools/cache"
	"sigs.k8s.io/controller-runtime/pkg/cache"
	"sigs.k8s.io/controller-runtime/pkg/client"
)

// follow takes every certificate that appears in the Secret, until ctx ends. Its cache is not the manager's: one that cannot be
// synchronised must not hold up the loops.
func (k *kept) follow(ctx context.Context) error {
	c, err := cache.New(k.manager.GetConfig(), cache.Options{
		HTTPClient: k.manager.GetHTTPClient(), Scheme: k.manager.GetScheme(), Mapper: k.manager.GetRESTMapper(),
		ByObject: map[client.Object]cache.ByObject{&corev1.Secret{}: {
			Namespaces: map[string]cache.Config{k.Namespace: {}},
			Field:      fields.OneTermEqualSelector("metadata.name", k.secret().Name),
		}},
	})
	if err != nil {
		return fmt.Errorf("making a cache for the Secret: %w", err)
	}
	informer, err := c.GetInformer(ctx, &corev1.Secret{}, cache.BlockUntilSynced(false))
	if err != nil {
		return fmt.Errorf("watching the Secret %s: %w", k.secret(), err)
	}
	if _, err := informer.AddEventHandler(k.events()); err != nil {
		return fmt.Errorf("watching the Secret %s: %w", k.secret(), err)
	}
	return c.Start(ctx)
}

func (k *kept) events() toolscache.ResourceEventHandler {
	take := func(o any) {
		if secret, ok := o.(*corev1.Secret); ok {
			k.take(secret)
		}
	}
	return toolscache.ResourceEventHandlerFuncs{
		AddFunc:    take,
		UpdateFunc: func(_, now any) { take(now) },
		DeleteFunc: func(any) { k.miss() },
	}
}

// miss asks for a new Secret. The certificate in use stays in use.
func (k *kept) miss() {
	select {
	case k.lost <- struct{}{}:
	default: // has been asked for
	}
}
