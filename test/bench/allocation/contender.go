package allocation

import (
	"context"
	"encoding/binary"
	"fmt"
	"math/rand/v2"
	"net/netip"
	"strconv"
	"sync"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/clusterip-operator/clusterip-operator/test/bench/cluster"
	"github.com/clusterip-operator/clusterip-operator/test/bench/load"
	"github.com/clusterip-operator/clusterip-operator/test/framework"
)

// contender is a way to get addresses.
type contender interface {
	// allocate takes addresses. Getting ready, such as filling a cache, is not part of the measurement.
	allocate(ctx context.Context, l load.Load) (measurement, error)
	// release gives back what the last allocate took.
	release(ctx context.Context) error
}

// measurement is one turn of a contender. Latencies are in milliseconds.
type measurement struct {
	Count     int
	PerSecond float64
	P50, P99  float64
}

func measured(o load.Outcome) measurement {
	return measurement{o.Calls, o.PerSecond(), o.Latencies.Median(), o.Latencies.Quantile(0.99)}
}

// giveBack is the load that takes away what a contender left behind: it is not measured, only to be over soon.
func giveBack(count int) load.Load { return load.Load{Workers: 16, Count: count} }

// deleteAddresses deletes IPAddresses that belong to no Service. The API server would do that too, after a minute.
func deleteAddresses(ctx context.Context, c *cluster.Cluster, names []string) error {
	_, err := giveBack(len(names)).Run(ctx, func(ctx context.Context, i int) error {
		err := c.Client.NetworkingV1().IPAddresses().Delete(ctx, names[i], metav1.DeleteOptions{})
		if err != nil && !apierrors.IsNotFound(err) {
			return fmt.Errorf("deleting IPAddress %s: %w", names[i], err)
		}
		return nil
	})
	return err
}

// grace is how long an address may be without its Service before the API server takes it away: no turn may come near.
const grace = 60 * time.Second

// bare writes IPAddresses with random addresses and no allocator at all: what the API server can take, and so the
// most that any allocator can reach.
type bare struct {
	cluster *cluster.Cluster

	mu    sync.Mutex
	taken []string
}

func (b *bare) allocate(ctx context.Context, l load.Load) (measurement, error) {
	outcome, err := l.Run(ctx, func(ctx context.Context, i int) error {
		for {
			ip := framework.NewIPAddress(guess().String(), cluster.Namespace, fmt.Sprintf("bare-%06d", i))
			_, err := b.cluster.Client.NetworkingV1().IPAddresses().Create(ctx, ip, metav1.CreateOptions{})
			if apierrors.IsAlreadyExists(err) {
				continue
			}
			if err != nil {
				return fmt.Errorf("creating IPAddress %s: %w", ip.Name, err)
			}
			b.mu.Lock()
			defer b.mu.Unlock()
			b.taken = append(b.taken, ip.Name)
			return nil
		}
	})
	return measured(outcome), err
}

func (b *bare) release(ctx context.Context) error {
	err := deleteAddresses(ctx, b.cluster, b.taken)
	b.taken = nil
	return err
}

// guess returns some address of the range. At the levels measured few are taken.
func guess() netip.Addr {
	network := cluster.Range.Addr().As4()
	var a [4]byte
	size := uint32(1) << (32 - cluster.Range.Bits())
	binary.BigEndian.PutUint32(a[:], binary.BigEndian.Uint32(network[:])+1+rand.Uint32N(size-2))
	return netip.AddrFrom4(a)
}

// services creates Services, which get their address from the allocator inside the API server.
type services struct {
	cluster *cluster.Cluster
	taken   int
}

func (s *services) allocate(ctx context.Context, l load.Load) (measurement, error) {
	outcome, err := l.Run(ctx, func(ctx context.Context, i int) error {
		service := framework.NewService(cluster.Namespace, s.name(i))
		if _, err := s.cluster.Client.CoreV1().Services(cluster.Namespace).Create(ctx, service, metav1.CreateOptions{}); err != nil {
			return fmt.Errorf("creating Service %s: %w", service.Name, err)
		}
		return nil
	})
	s.taken = outcome.Calls
	return measured(outcome), err
}

func (s *services) release(ctx context.Context) error {
	_, err := giveBack(s.taken).Run(ctx, func(ctx context.Context, i int) error {
		err := s.cluster.Client.CoreV1().Services(cluster.Namespace).Delete(ctx, s.name(i), metav1.DeleteOptions{})
		if err != nil && !apierrors.IsNotFound(err) {
			return fmt.Errorf("deleting Service %s: %w", s.name(i), err)
		}
		return nil
	})
	s.taken = 0
	return err
}

func (s *services) name(i int) string { return fmt.Sprintf("created-%06d", i) }

// upstream runs upstream's allocator in a process of its own, outside of the API server: see hack/tools/peer-allocation.
type upstream struct {
	cluster *cluster.Cluster
	taken   []string
}

func (u *upstream) allocate(ctx context.Context, l load.Load) (measurement, error) {
	var result struct {
		Allocations   int
		PerSecond     float64
		LatencyMillis struct{ P50, P99 float64 }
		Addresses     []string
	}
	err := cluster.Peer(ctx, &result, "allocate", "--kubeconfig="+u.cluster.Kubeconfig(), "--namespace="+cluster.Namespace,
		"--workers="+strconv.Itoa(l.Workers), "--count="+strconv.Itoa(l.Count), "--limit="+l.Limit.String())
	u.taken = result.Addresses
	return measurement{result.Allocations, result.PerSecond, result.LatencyMillis.P50, result.LatencyMillis.P99}, err
}

func (u *upstream) release(ctx context.Context) error {
	err := deleteAddresses(ctx, u.cluster, u.taken)
	u.taken = nil
	return err
}
