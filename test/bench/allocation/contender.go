package allocation

import (
	"context"
	"encoding/binary"
	"fmt"
	"math/rand/v2"
	"net/netip"
	"strconv"
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

const (
	// grace is how long the API server leaves an address without a Service: turns are far shorter.
	grace = 60 * time.Second
	// resync is the period of the informers of kube-apiserver and of the program upstream runs in.
	resync = 10 * time.Minute
)

// contender is a way to get addresses: it takes a turn and returns the names of the objects that it
// leaves. Preparation, such as filling a cache, is not measured.
type contender func(ctx context.Context, c *cluster.Cluster, l load.Load) (o load.Outcome, left []string, err error)

// creating is a turn in which each call creates one object, whose name it returns.
func creating(ctx context.Context, l load.Load, one func(ctx context.Context, i int) (string, error)) (load.Outcome, []string, error) {
	names := make([]string, l.Count)
	o, err := l.Run(ctx, func(ctx context.Context, i int) (err error) {
		names[i], err = one(ctx, i)
		return err
	})
	return o, names, err
}

// bare writes IPAddresses with random addresses and no allocator at all: what the API server can
// take, and so the most that any allocator can reach.
func bare(ctx context.Context, c *cluster.Cluster, l load.Load) (load.Outcome, []string, error) {
	return creating(ctx, l, func(ctx context.Context, i int) (string, error) {
		for {
			name := guess().String()
			if err := createAddress(ctx, c, name, fmt.Sprintf("bare-%06d", i)); !apierrors.IsAlreadyExists(err) {
				return name, err
			}
		}
	})
}

// guess returns some address of the range. At the levels measured few are taken.
func guess() netip.Addr {
	a := cluster.Range.Addr().As4()
	size := uint32(1) << (32 - cluster.Range.Bits())
	binary.BigEndian.PutUint32(a[:], binary.BigEndian.Uint32(a[:])+1+rand.Uint32N(size-2))
	return netip.AddrFrom4(a)
}

func createAddress(ctx context.Context, c *cluster.Cluster, name, service string) error {
	ip := framework.NewIPAddress(name, cluster.Namespace, service)
	if _, err := c.Client.NetworkingV1().IPAddresses().Create(ctx, ip, metav1.CreateOptions{}); err != nil {
		return fmt.Errorf("creating IPAddress %s: %w", name, err)
	}
	return nil
}

// services creates Services, which get their address from the allocator inside the API server.
func services(ctx context.Context, c *cluster.Cluster, l load.Load) (load.Outcome, []string, error) {
	return creating(ctx, l, func(ctx context.Context, i int) (string, error) {
		name := fmt.Sprintf("created-%06d", i)
		return name, c.CreateService(ctx, name)
	})
}

// upstream runs upstream's allocator in a process of its own: see hack/tools/peer-allocation.
func upstream(ctx context.Context, c *cluster.Cluster, l load.Load) (load.Outcome, []string, error) {
	var result struct {
		Seconds   float64
		Latencies []float64
		Addresses []string
	}
	err := cluster.Peer(ctx, &result, "--kubeconfig="+c.Kubeconfig(), "--namespace="+cluster.Namespace,
		"--workers="+strconv.Itoa(l.Workers), "--count="+strconv.Itoa(l.Count), "--limit="+l.Limit.String())
	elapsed := time.Duration(result.Seconds * float64(time.Second))
	return load.Outcome{Calls: len(result.Addresses), Elapsed: elapsed, Latencies: result.Latencies}, result.Addresses, err
}

// ours draws from an allocator.Pool that follows the cluster by an informer, as upstream's does.
func ours(ctx context.Context, c *cluster.Cluster, l load.Load) (o load.Outcome, left []string, err error) {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	pool := allocator.NewPool()
	if err := follow(ctx, c, pool); err != nil {
		return o, nil, err
	}
	r, err := allocator.NewRange(cluster.Range)
	if err != nil {
		return o, nil, err
	}
	tier, err := allocator.NewTier([]allocator.Span{r.Band(allocator.Dynamic)}, nil)
	if err != nil {
		return o, nil, err
	}
	request := allocator.Request{Tiers: []*allocator.Tier{tier}}
	return creating(ctx, l, func(ctx context.Context, i int) (string, error) {
		// Upstream counts what is used and free after each allocation, for its gauges. So do we.
		defer pool.Usage(r.Span())
		return allocate(ctx, c, pool, request, i)
	})
}

// follow makes pool follow the IPAddresses until ctx ends, and returns when it knows all of them.
func follow(ctx context.Context, c *cluster.Cluster, pool *allocator.Pool) error {
	factory := informers.NewSharedInformerFactoryWithOptions(c.Client, resync, informers.WithTransform(trim))
	registration, err := factory.Networking().V1().IPAddresses().Informer().AddEventHandler(cache.ResourceEventHandlerFuncs{
		AddFunc:    func(object any) { pool.Observe(addressOf(object), allocator.Allocated) },
		DeleteFunc: func(object any) { pool.Release(addressOf(object)) },
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

// allocate draws an address and writes it. If the IPAddress exists, another Service has the
// address, and the informer has not told of it yet.
func allocate(ctx context.Context, c *cluster.Cluster, pool *allocator.Pool, request allocator.Request, i int) (string, error) {
	for {
		drawn, err := pool.Draw(request)
		if err != nil {
			return "", err
		}
		err = createAddress(ctx, c, drawn.Addr.String(), fmt.Sprintf("ours-%06d", i))
		if err != nil && !apierrors.IsAlreadyExists(err) {
			pool.Forget(drawn.Addr)
			return "", err
		}
		pool.Observe(drawn.Addr, allocator.Allocated)
		if err == nil {
			return drawn.Addr.String(), nil
		}
	}
}

// trim keeps managed fields out of the cache, as kube-apiserver's informers do.
func trim(object any) (any, error) {
	if accessor, err := meta.Accessor(object); err == nil {
		accessor.SetManagedFields(nil)
	}
	return object, nil
}

// addressOf returns the address of an IPAddress, perhaps deleted unseen, or an invalid address.
func addressOf(object any) netip.Addr {
	if gone, ok := object.(cache.DeletedFinalStateUnknown); ok {
		object = gone.Obj
	}
	if ip, ok := object.(*networkingv1.IPAddress); ok {
		a, _ := netip.ParseAddr(ip.Name)
		return a
	}
	return netip.Addr{}
}
