package main

import (
	"context"
	"encoding/json"
	"errors"
	"flag"
	"fmt"
	"os"
	"sync"
	"time"

	"golang.org/x/sync/errgroup"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/wait"
	"k8s.io/client-go/informers"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/clientcmd"
	api "k8s.io/kubernetes/pkg/apis/core"
	"k8s.io/kubernetes/pkg/registry/core/service/ipallocator"
)

// resync is the period of kube-apiserver's own informers.
const resync = 10 * time.Minute

// outcome is what allocations came to. Latencies are a worker's, in ms, with waits for locks.
type outcome struct {
	Seconds   float64
	Latencies []float64
	Addresses []string
}

// allocate draws addresses with upstream's allocator from a number of workers and says how fast it
// went. The caller has to take the addresses away before the API server finds out, after 60 s, that
// they belong to no Service.
func allocate(ctx context.Context, args []string) error {
	flags := flag.NewFlagSet("allocate", flag.ContinueOnError)
	kubeconfig := flags.String("kubeconfig", "", "how to reach the API server")
	namespace := flags.String("namespace", "bench", "namespace of the Services that the addresses are said to belong to")
	workers := flags.Int("workers", 8, "allocations at the same time")
	count := flags.Int("count", 500, "allocations to make")
	limit := flags.Duration("limit", 8*time.Second, "start no allocation after this time")
	if err := flags.Parse(args); err != nil {
		return err
	}
	config, err := loopbackConfig(*kubeconfig)
	if err != nil {
		return err
	}
	peer, err := newAllocator(ctx, config)
	if err != nil {
		return err
	}
	defer peer.Destroy()
	var o outcome
	var mu sync.Mutex
	group, ctx := errgroup.WithContext(ctx)
	group.SetLimit(*workers)
	start := time.Now()
	for i := 0; i < *count && time.Since(start) < *limit && ctx.Err() == nil; i++ {
		group.Go(func() error {
			begin := time.Now()
			ip, err := peer.AllocateNextService(&api.Service{ObjectMeta: metav1.ObjectMeta{Namespace: *namespace, Name: fmt.Sprintf("peer-%06d", i)}})
			if err != nil {
				return fmt.Errorf("allocation %d: %w", i, err)
			}
			mu.Lock()
			defer mu.Unlock()
			o.Addresses, o.Latencies = append(o.Addresses, ip.String()), append(o.Latencies, time.Since(begin).Seconds()*1e3)
			return nil
		})
	}
	err = group.Wait()
	o.Seconds = time.Since(start).Seconds()
	return errors.Join(err, json.NewEncoder(os.Stdout).Encode(o))
}

// loopbackConfig is how kube-apiserver's loopback client is set, with the address and the
// credentials of a kubeconfig.
func loopbackConfig(kubeconfig string) (*rest.Config, error) {
	config, err := clientcmd.BuildConfigFromFlags("", kubeconfig)
	if err != nil {
		return nil, fmt.Errorf("reading the kubeconfig: %w", err)
	}
	config.QPS = -1
	config.ContentType = "application/vnd.kubernetes.protobuf"
	config.DisableCompression = true
	return config, nil
}

// newAllocator makes the allocator of IPv4 as kube-apiserver does, and waits until it has ranges.
func newAllocator(ctx context.Context, config *rest.Config) (*ipallocator.MetaAllocator, error) {
	client, err := kubernetes.NewForConfig(config)
	if err != nil {
		return nil, fmt.Errorf("making a client: %w", err)
	}
	factory := informers.NewSharedInformerFactoryWithOptions(client, resync, informers.WithTransform(trim))
	networking := factory.Networking().V1()
	peer, err := ipallocator.NewMetaAllocator(client.NetworkingV1(), networking.ServiceCIDRs(), networking.IPAddresses(), false, nil)
	if err != nil {
		return nil, fmt.Errorf("making the allocator: %w", err)
	}
	peer.EnableMetrics()
	factory.Start(ctx.Done())
	factory.WaitForCacheSync(ctx.Done())
	err = wait.PollUntilContextTimeout(ctx, 20*time.Millisecond, time.Minute, true,
		func(context.Context) (bool, error) { return peer.Free() > 0, nil })
	if err != nil {
		return nil, fmt.Errorf("waiting for a range to allocate from: %w", err)
	}
	return peer, nil
}

// trim keeps managed fields out of the cache, as kube-apiserver's informers do.
func trim(o any) (any, error) {
	if accessor, err := meta.Accessor(o); err == nil {
		accessor.SetManagedFields(nil)
	}
	return o, nil
}
