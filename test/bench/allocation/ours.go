package allocation

import (
	"context"
	"fmt"
	"net/netip"
	"sync"
	"time"

	networkingv1 "k8s.io/api/networking/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/informers"
	"k8s.io/client-go/tools/cache"

	"github.com/clusterip-operator/clusterip-operator/allocator"
	"github.com/clusterip-operator/clusterip-operator/test/bench/cluster"
	"github.com/clusterip-operator/clusterip-operator/test/bench/load"
	"github.com/clusterip-operator/clusterip-operator/test/framework"
)

// resync is the period of kube-apiserver's own informers, and of those of the program upstream runs in.
const resync = 10 * time.Minute

// ours draws addresses from an allocator.Pool that follows the cluster by an informer, as upstream's follows it.
type ours struct {
	cluster *cluster.Cluster

	mu    sync.Mutex
	taken []string
}

func (o *ours) allocate(ctx context.Context, l load.Load) (measurement, error) {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	pool := allocator.NewPool()
	if err := o.follow(ctx, pool); err != nil {
		return measurement{}, err
	}
	r, err := allocator.NewRange(cluster.Range)
	if err != nil {
		return measurement{}, err
	}
	tier, err := allocator.NewTier([]allocator.Span{r.Band(allocator.Dynamic)}, nil)
	if err != nil {
		return measurement{}, err
	}
	outcome, err := l.Run(ctx, func(ctx context.Context, i int) error {
		if err := o.allocateOne(ctx, pool, allocator.Lot{Tiers: []*allocator.Tier{tier}}, i); err != nil {
			return err
		}
		// Upstream counts what is used and free after each allocation, for its gauges. So do we.
		_ = pool.Usage(r.Span())
		return nil
	})
	return measured(outcome), err
}

// follow makes pool follow the IPAddresses of the cluster until ctx ends, and returns when it knows all of them.
func (o *ours) follow(ctx context.Context, pool *allocator.Pool) error {
	factory := informers.NewSharedInformerFactoryWithOptions(o.cluster.Client, resync, informers.WithTransform(trim))
	registration, err := factory.Networking().V1().IPAddresses().Informer().AddEventHandler(cache.ResourceEventHandlerFuncs{
		AddFunc: func(object any) {
			if a, ok := addressOf(object); ok {
				pool.Observe(a, allocator.Allocated)
			}
		},
		DeleteFunc: func(object any) {
			if a, ok := addressOf(object); ok {
				pool.Release(a)
			}
		},
	})
	if err != nil {
		return fmt.Errorf("watching IPAddresses: %w", err)
	}
	factory.Start(ctx.Done())
	if !cache.WaitForCacheSync(ctx.Done(), registration.HasSynced) {
		return fmt.Errorf("listing IPAddresses: %w", context.Cause(ctx))
	}
	return nil
}

// allocateOne draws an address, and writes it. A name that is taken is somebody else's, of whom
// the informer has not told yet.
func (o *ours) allocateOne(ctx context.Context, pool *allocator.Pool, lot allocator.Lot, i int) error {
	for {
		drawn, err := pool.Draw(lot)
		if err != nil {
			return err
		}
		a := drawn.Addr
		ip := framework.NewIPAddress(a.String(), cluster.Namespace, fmt.Sprintf("ours-%06d", i))
		_, err = o.cluster.Client.NetworkingV1().IPAddresses().Create(ctx, ip, metav1.CreateOptions{})
		if apierrors.IsAlreadyExists(err) {
			pool.Observe(a, allocator.Allocated)
			continue
		}
		if err != nil {
			pool.Forget(a)
			return fmt.Errorf("creating IPAddress %s: %w", a, err)
		}
		pool.Observe(a, allocator.Allocated)
		o.mu.Lock()
		defer o.mu.Unlock()
		o.taken = append(o.taken, ip.Name)
		return nil
	}
}

func (o *ours) release(ctx context.Context) error {
	err := deleteAddresses(ctx, o.cluster, o.taken)
	o.taken = nil
	return err
}

// trim keeps managed fields out of the cache, as kube-apiserver's informers do.
func trim(object any) (any, error) {
	if accessor, err := meta.Accessor(object); err == nil {
		accessor.SetManagedFields(nil)
	}
	return object, nil
}

// addressOf returns the address of an IPAddress, also of one whose deletion the watch has missed.
func addressOf(object any) (netip.Addr, bool) {
	if gone, ok := object.(cache.DeletedFinalStateUnknown); ok {
		object = gone.Obj
	}
	ip, ok := object.(*networkingv1.IPAddress)
	if !ok {
		return netip.Addr{}, false
	}
	a, err := netip.ParseAddr(ip.Name)
	return a, err == nil
}
