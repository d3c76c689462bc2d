package migration

import (
	"context"
	"errors"
	"fmt"
	"strings"

	"golang.org/x/sync/errgroup"
	corev1 "k8s.io/api/core/v1"
	networkingv1 "k8s.io/api/networking/v1"
	"k8s.io/apimachinery/pkg/types"
	toolscache "k8s.io/client-go/tools/cache"
	"sigs.k8s.io/controller-runtime/pkg/cache"
	"sigs.k8s.io/controller-runtime/pkg/client"
)

// FollowAPI tells the keeper of every Service and IPAddress, from the cache's informers. It returns when all that exists has
// been told; the cache must have been started.
func (k *Keeper) FollowAPI(ctx context.Context, informers cache.Informers) error {
	err := handle(ctx, informers, &networkingv1.IPAddress{}, k.PutIPAddress, func(o *networkingv1.IPAddress) { k.DropIPAddress(o.Name) })
	if err != nil {
		return fmt.Errorf("watching IPAddresses: %w", err)
	}
	err = handle(ctx, informers, &corev1.Service{}, k.PutService, func(o *corev1.Service) {
		k.DropService(types.NamespacedName{Namespace: o.Namespace, Name: o.Name})
	})
	if err != nil {
		return fmt.Errorf("watching Services: %w", err)
	}
	return nil
}

// object is what an informer has.
type object interface {
	*corev1.Service | *networkingv1.IPAddress
	client.Object
}

func handle[T object](ctx context.Context, informers cache.Informers, kind T, put, drop func(T)) error {
	informer, err := informers.GetInformer(ctx, kind)
	if err != nil {
		return err
	}
	registration, err := informer.AddEventHandler(toolscache.ResourceEventHandlerFuncs{
		AddFunc:    func(o any) { put(o.(T)) },
		UpdateFunc: func(_, o any) { put(o.(T)) },
		DeleteFunc: func(o any) {
			if gone, ok := o.(toolscache.DeletedFinalStateUnknown); ok {
				o = gone.Obj
			}
			drop(o.(T))
		},
	})
	if err != nil {
		return err
	}
	if !toolscache.WaitForCacheSync(ctx.Done(), registration.HasSynced) {
		return ctx.Err()
	}
	return nil
}

// FollowStore tells the keeper of every Service and IPAddress in etcd. It calls told when all that exists has been told, and
// goes on until ctx ends. When etcd has forgotten changes that were not seen yet, it begins anew.
func (k *Keeper) FollowStore(ctx context.Context, store Store, told func()) error {
	for {
		revision, err := k.readStore(ctx, store)
		if err != nil {
			return err
		}
		told()
		if err := k.watchStore(ctx, store, revision); !errors.Is(err, ErrCompacted) {
			return err
		}
	}
}

// watchStore follows the two kinds side by side, and nothing else of what an API server stores.
func (k *Keeper) watchStore(ctx context.Context, store Store, revision int64) error {
	group, ctx := errgroup.WithContext(ctx)
	for _, prefix := range []string{prefixServices, prefixIPAddresses} {
		group.Go(func() error { return store.Watch(ctx, prefix, revision, k.change) })
	}
	return group.Wait()
}

// readStore tells all that is there at one revision, and forgets what is not.
func (k *Keeper) readStore(ctx context.Context, store Store) (revision int64, err error) {
	seen := map[string]bool{}
	for _, prefix := range []string{prefixServices, prefixIPAddresses} { // no IPAddress is without its Service meanwhile
		revision, err = store.List(ctx, prefix, revision, func(v Value) error {
			seen[v.Key] = true
			return k.change(v)
		})
		if err != nil {
			return 0, fmt.Errorf("reading %s: %w", prefix, err)
		}
	}
	for _, key := range k.known() {
		if !seen[key] {
			k.drop(key)
		}
	}
	return revision, nil
}

// known are the keys of all that was told.
func (k *Keeper) known() (keys []string) {
	k.mu.Lock()
	defer k.mu.Unlock()
	for name := range k.index.services {
		keys = append(keys, prefixServices+name.String())
	}
	for a, e := range k.index.entries {
		if e.object != nil {
			keys = append(keys, prefixIPAddresses+a.String())
		}
	}
	return keys
}

// change tells of one key. What cannot be decoded is left out: the check reports it.
func (k *Keeper) change(v Value) error {
	switch o := v.Object.(type) {
	case *corev1.Service:
		k.PutService(o)
	case *networkingv1.IPAddress:
		k.PutIPAddress(o)
	case nil:
		if !v.Exists() {
			k.drop(v.Key)
		}
	}
	return nil
}

func (k *Keeper) drop(key string) {
	if name, ok := strings.CutPrefix(key, prefixIPAddresses); ok {
		k.DropIPAddress(name)
	}
	if rest, ok := strings.CutPrefix(key, prefixServices); ok {
		namespace, name, _ := strings.Cut(rest, "/")
		k.DropService(types.NamespacedName{Namespace: namespace, Name: name})
	}
}
