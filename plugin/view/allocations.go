package view

import (
	"context"
	"fmt"
	"net/netip"
	"slices"
	"time"

	corev1 "k8s.io/api/core/v1"
	networkingv1 "k8s.io/api/networking/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/clusterip-operator/clusterip-operator/allocator"
)

// Allocation is an address in use, and since when.
type Allocation struct {
	Address netip.Addr
	Since   time.Time
}

// Allocations are the addresses in use, in order: those that Usage counts as allocated, and not
// those that are reserved or cool down. One of a Service is in use since the creation of the
// Service, because a migration or a repair writes the IPAddress anew; any other since that of its
// IPAddress. No object tells of addresses released since.
func (v *View) Allocations(ctx context.Context) ([]Allocation, error) {
	uses := since{times: map[netip.Addr]time.Time{}, state: v.index.State}
	err := v.EachIPAddress(ctx, func(ip *networkingv1.IPAddress) error {
		uses.note(ip.CreationTimestamp, ip.Name)
		return nil
	})
	if err != nil {
		return nil, fmt.Errorf("reading IPAddresses: %w", err)
	}
	err = v.EachService(ctx, func(s *corev1.Service) error {
		uses.note(s.CreationTimestamp, s.Spec.ClusterIPs...)
		return nil
	})
	if err != nil {
		return nil, fmt.Errorf("reading Services: %w", err)
	}
	return uses.all(), nil
}

// since is since when addresses are in use.
type since struct {
	times map[netip.Addr]time.Time
	state func(netip.Addr) allocator.State
}

// note notes a time of those of the addresses that are allocated. A later note wins.
func (s since) note(created metav1.Time, addresses ...string) {
	for _, text := range addresses {
		if a, err := netip.ParseAddr(text); err == nil && s.state(a) == allocator.Allocated {
			s.times[a] = created.Time
		}
	}
}

// all are the allocations, in order.
func (s since) all() []Allocation {
	all := make([]Allocation, 0, len(s.times))
	for a, t := range s.times {
		all = append(all, Allocation{a, t})
	}
	slices.SortFunc(all, func(a, b Allocation) int { return a.Address.Compare(b.Address) })
	return all
}
