package allocation

import (
	"context"
	"encoding/binary"
	"fmt"
	"math/rand/v2"
	"net/netip"
	"sync"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/clusterip-operator/clusterip-operator/test/bench/cluster"
	"github.com/clusterip-operator/clusterip-operator/test/bench/load"
	"github.com/clusterip-operator/clusterip-operator/test/framework"
)

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
