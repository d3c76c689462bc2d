package operation

import (
	"context"
	"fmt"
	"net/netip"
	"runtime"
	"time"

	corev1 "k8s.io/api/core/v1"
	networkingv1 "k8s.io/api/networking/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/uuid"
	toolscache "k8s.io/client-go/tools/cache"
	"sigs.k8s.io/controller-runtime/pkg/cache"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/clusterip-operator/clusterip-operator/internal/addressindex"
	"github.com/clusterip-operator/clusterip-operator/internal/kube"
	"github.com/clusterip-operator/clusterip-operator/internal/upstream"
	"github.com/clusterip-operator/clusterip-operator/test/bench/cluster"
	"github.com/clusterip-operator/clusterip-operator/test/framework/alone"
	"github.com/clusterip-operator/clusterip-operator/test/framework/seed"
)

// Share is what one thing that the manager keeps costs for each Service of one family, in bytes.
type Share struct {
	What, Why string
	Bytes     float64
}

// crowdOfShares is how many Services the shares are measured with.
const crowdOfShares = 50_000

// measureShares keeps Services and IPAddresses in this process as the manager does, one thing after
// the other.
func measureShares(ctx context.Context) ([]Share, error) {
	services, addresses := stores()
	index, handlers := addressindex.New(), &collected{}
	if err := index.WatchAddresses(ctx, handlers); err != nil {
		return nil, fmt.Errorf("watching: %w", err)
	}
	each := func(do func(i int)) float64 {
		before := alone.Heap()
		for i := range crowdOfShares {
			do(i)
		}
		return float64(alone.Heap()-before) / crowdOfShares
	}
	keepService, keepAddress := kube.Transforms()
	add := func(to toolscache.Indexer, keep toolscache.TransformFunc, o any) {
		kept, _ := keep(o) // of these none fails
		_ = to.Add(kept)   // that fails for what has no name
	}
	tell := func(of toolscache.Indexer, key string, as func(any)) {
		if o, ok, _ := of.GetByKey(key); ok {
			as(o)
		}
	}
	shares := []Share{
		{"the Service in the cache", "80 B: UID, version, creation, type, ClusterIPs, namespace, name; the texts of name and key; a slot of the store, and one of its index by namespace",
			each(func(i int) { add(services, keepService, sampleService(i)) })},
		{"its IPAddress in the cache", "80 B: UID, version, creation, labels as a number, namespace and name of the Service; the texts of the names, of which its own is the key; a slot of the store",
			each(func(i int) { add(addresses, keepAddress, sampleAddress(i)) })},
		{"its address in the index", "a slot of 24 B for the address and 32 B for IPAddress and claims; 32 B for the name of the Service, whose text is the cache's; a bit and a state in the pool",
			each(func(i int) {
				tell(addresses, addressOf(i).String(), handlers.addAddress)
				tell(services, cluster.Namespace+"/"+nameOf(i), handlers.addService)
			})},
	}
	runtime.KeepAlive(services)
	runtime.KeepAlive(addresses)
	runtime.KeepAlive(index)
	return shares, nil
}

// stores are as the informers of the manager have them.
func stores() (services, addresses toolscache.Indexer) {
	key := toolscache.DeletionHandlingMetaNamespaceKeyFunc
	return toolscache.NewIndexer(key, toolscache.Indexers{toolscache.NamespaceIndex: toolscache.MetaNamespaceIndexFunc}), toolscache.NewIndexer(key, toolscache.Indexers{})
}

func nameOf(i int) string { return fmt.Sprintf("service-%06d", i) }

func addressOf(i int) netip.Addr { return seed.Address(cluster.Range, i) }

func sampleMeta(i int, name string) metav1.ObjectMeta {
	return metav1.ObjectMeta{Name: name, UID: uuid.NewUUID(), ResourceVersion: fmt.Sprint(1000 + i), CreationTimestamp: metav1.Unix(time.Now().Unix(), 0)}
}

func sampleService(i int) *corev1.Service {
	s := &corev1.Service{ObjectMeta: sampleMeta(i, nameOf(i))}
	s.Namespace = cluster.Namespace
	s.Spec = corev1.ServiceSpec{Type: corev1.ServiceTypeClusterIP, ClusterIPs: []string{addressOf(i).String()}}
	return s
}

func sampleAddress(i int) *networkingv1.IPAddress {
	ip := upstream.NewIPAddress(addressOf(i), types.NamespacedName{Namespace: cluster.Namespace, Name: nameOf(i)})
	ip.ObjectMeta = sampleMeta(i, ip.Name)
	ip.Labels = upstream.Labels(addressOf(i))
	return ip
}

// collected stands in for the informers of a cache, and tells their handlers of objects.
type collected struct {
	cache.Informers

	services, addresses informer
}

// GetInformer implements cache.Informers.
func (c *collected) GetInformer(_ context.Context, kind client.Object, _ ...cache.InformerGetOption) (cache.Informer, error) {
	switch kind.(type) {
	case *corev1.Service:
		return &c.services, nil
	case *networkingv1.IPAddress:
		return &c.addresses, nil
	default:
		return &informer{}, nil
	}
}

func (c *collected) addService(o any) { c.services.handler.OnAdd(o, true) }

func (c *collected) addAddress(o any) { c.addresses.handler.OnAdd(o, true) }

// informer remembers its handler.
type informer struct {
	cache.Informer

	handler toolscache.ResourceEventHandler
}

// AddEventHandler implements cache.Informer.
func (i *informer) AddEventHandler(h toolscache.ResourceEventHandler) (toolscache.ResourceEventHandlerRegistration, error) {
	i.handler = h
	return registration{}, nil
}

type registration struct {
	toolscache.ResourceEventHandlerRegistration
}

// HasSynced implements toolscache.ResourceEventHandlerRegistration.
func (registration) HasSynced() bool { return true }
