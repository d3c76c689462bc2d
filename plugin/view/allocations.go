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
	services, ips := &corev1.ServiceList{}, &networkingv1.IPAddressList{}
	if err := v.List(ctx, services); err != nil {
		return nil, fmt.Errorf("reading Services: %w", err)
	}
	if err := v.List(ctx, ips); err != nil {
		return nil, fmt.Errorf("reading IPAddresses: %w", err)
	}
	return allocations(services.Items, ips.Items, v.index.State), nil
}

func allocations(services []corev1.Service, ips []networkingv1.IPAddress, state func(netip.Addr) allocator.State) []Allocation {
	since := make(map[netip.Addr]time.Time, len(ips))
	note := func(text string, created metav1.Time) {
		if a, err := netip.ParseAddr(text); err == nil && state(a) == allocator.Allocated {
			since[a] = created.Time
		}
	}
	for i := range ips {
		note(ips[i].Name, ips[i].CreationTimestamp)
	}
	for i := range services {
		for _, text := range services[i].Spec.ClusterIPs {
			note(text, services[i].CreationTimestamp)
		}
	}
	all := make([]Allocation, 0, len(since))
	for a, t := range since {
		all = append(all, Allocation{a, t})
	}
	slices.SortFunc(all, func(a, b Allocation) int { return a.Address.Compare(b.Address) })
	return all
}
