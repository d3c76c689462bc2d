package view

import (
	"context"
	"fmt"
	"net/netip"
	"slices"
	"time"

	corev1 "k8s.io/api/core/v1"
	networkingv1 "k8s.io/api/networking/v1"
)

// Allocation is an address in use, and since when.
type Allocation struct {
	Address netip.Addr
	Since   time.Time
}

// Allocations are the addresses in use, in order. One of a Service is in use since the creation of
// the Service, because a migration or a repair writes the IPAddress anew; any other since that of
// its IPAddress. No object tells of addresses released since.
func (v *View) Allocations(ctx context.Context) ([]Allocation, error) {
	services, ips := &corev1.ServiceList{}, &networkingv1.IPAddressList{}
	if err := v.List(ctx, services); err != nil {
		return nil, fmt.Errorf("reading Services: %w", err)
	}
	if err := v.List(ctx, ips); err != nil {
		return nil, fmt.Errorf("reading IPAddresses: %w", err)
	}
	since := make(map[netip.Addr]time.Time, len(ips.Items))
	for i := range ips.Items {
		if a, err := netip.ParseAddr(ips.Items[i].Name); err == nil {
			since[a] = ips.Items[i].CreationTimestamp.Time
		}
	}
	for i := range services.Items {
		for _, text := range services.Items[i].Spec.ClusterIPs {
			if a, err := netip.ParseAddr(text); err == nil {
				since[a] = services.Items[i].CreationTimestamp.Time
			}
		}
	}
	all := make([]Allocation, 0, len(since))
	for a, t := range since {
		all = append(all, Allocation{a, t})
	}
	slices.SortFunc(all, func(a, b Allocation) int { return a.Address.Compare(b.Address) })
	return all, nil
}
