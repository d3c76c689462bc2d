package view

import (
	"context"

	corev1 "k8s.io/api/core/v1"
	networkingv1 "k8s.io/api/networking/v1"
	"sigs.k8s.io/controller-runtime/pkg/cache"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/clusterip-operator/clusterip-operator/internal/kube"
)

// store is a cache that has mirrors of the kinds of which there are many.
type store struct {
	cache.Cache
	services  *mirror[corev1.Service, *corev1.Service]
	addresses *mirror[networkingv1.IPAddress, *networkingv1.IPAddress]
}

// newStore keeps of Services and IPAddresses what the operator keeps.
func newStore(others cache.Cache) *store {
	service, address := kube.Transforms()
	return &store{
		Cache:     others,
		services:  newMirror[corev1.Service](corev1.Resource("services"), service),
		addresses: newMirror[networkingv1.IPAddress](networkingv1.Resource("ipaddresses"), address),
	}
}

// GetInformer implements cache.Informers.
func (s *store) GetInformer(ctx context.Context, o client.Object, options ...cache.InformerGetOption) (cache.Informer, error) {
	switch o.(type) {
	case *corev1.Service:
		return s.services, nil
	case *networkingv1.IPAddress:
		return s.addresses, nil
	}
	return s.Cache.GetInformer(ctx, o, options...)
}

// Get implements client.Reader.
func (s *store) Get(ctx context.Context, name client.ObjectKey, into client.Object, options ...client.GetOption) error {
	switch into := into.(type) {
	case *corev1.Service:
		return s.services.get(name, into)
	case *networkingv1.IPAddress:
		return s.addresses.get(name, into)
	}
	return s.Cache.Get(ctx, name, into, options...)
}
