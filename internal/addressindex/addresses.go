package addressindex

import (
	"net/netip"
	"slices"

	corev1 "k8s.io/api/core/v1"
	networkingv1 "k8s.io/api/networking/v1"
	"k8s.io/apimachinery/pkg/types"
	toolscache "k8s.io/client-go/tools/cache"
	netutils "k8s.io/utils/net"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/clusterip-operator/clusterip-operator/allocator"
	"github.com/clusterip-operator/clusterip-operator/internal/compact"
	"github.com/clusterip-operator/clusterip-operator/internal/upstream"
)

// ParseClusterIP reads an entry of spec.clusterIPs. Services from before Kubernetes 1.22 may hold
// leading zeros ("10.096.0.1"), which net/netip refuses and the API server reads as decimal.
func ParseClusterIP(text string) (netip.Addr, bool) {
	if a, err := netip.ParseAddr(text); err == nil {
		return a.Unmap(), true
	}
	a, ok := netip.AddrFromSlice(netutils.ParseIPSloppy(text))
	return a.Unmap(), ok
}

// Misspells reports whether one of a Service's ClusterIPs is the address, not as its IPAddress is
// named, as "fd00::00AC" for fd00::ac. API servers take such an IPv6 address with a warning. Their
// repair loop compares texts: it deletes the IPAddress, because the Service seems not to have its
// address, and later creates it for the Service, whose address seems to have none.
func Misspells(texts []string, a netip.Addr) bool {
	return slices.ContainsFunc(texts, func(text string) bool {
		b, ok := ParseClusterIP(text)
		return ok && a == b && text != a.String()
	})
}

// ClusterIPs returns the addresses that a Service claims: none of a headless or ExternalName one,
// and without what is no address (the service controller reports it).
func ClusterIPs(s *corev1.Service) []netip.Addr {
	if s.Spec.Type == corev1.ServiceTypeExternalName {
		return nil
	}
	var out []netip.Addr
	for _, text := range s.Spec.ClusterIPs {
		if a, ok := ParseClusterIP(text); ok {
			out = append(out, a)
		}
	}
	return out
}

// stateOf says what an IPAddress uses its address for. The API server's, and those without label,
// are allocations; ours are what they are kept for; those of other managers are reservations.
func stateOf(o *networkingv1.IPAddress) allocator.State {
	switch {
	case upstream.OwnedByOperator(o):
		return newOwned(o).state()
	case upstream.ManagedByAPIServer(o), o.Labels[networkingv1.LabelManagedBy] == "":
		return allocator.Allocated
	default:
		return allocator.Reserved
	}
}

// Handler calls changed for each event, with the full object of a compact one. before is nil for an
// addition, now for a deletion; initial says that the object is in the first listing.
func Handler[T any](changed func(before, now *T, initial bool)) toolscache.ResourceEventHandler {
	return toolscache.ResourceEventHandlerDetailedFuncs{
		AddFunc:    func(o any, initial bool) { changed(nil, compact.Expand(o).(*T), initial) },
		UpdateFunc: func(before, o any) { changed(compact.Expand(before).(*T), compact.Expand(o).(*T), false) },
		DeleteFunc: func(o any) {
			if missed, ok := o.(toolscache.DeletedFinalStateUnknown); ok {
				o = missed.Obj // the last known state, where the watch missed the deletion
			}
			if last, ok := compact.Expand(o).(*T); ok {
				changed(last, nil, false)
			}
		},
	}
}

func (ix *Index) ipAddressChanged(before, now *networkingv1.IPAddress, initial bool) {
	if now == nil {
		ix.dropObject(before.Name)
		return
	}
	// After a gap in the watch, one that went and one that came since are told as one change; if etcd
	// was restored, maybe with one version.
	other := before == nil || before.UID != now.UID
	if other || before.ResourceVersion != now.ResourceVersion {
		ix.putObject(now)
	}
	if other && !initial {
		ix.countAllocation(now)
	}
}

// putObject indexes an IPAddress by its name, which the API server has validated as canonical.
func (ix *Index) putObject(o *networkingv1.IPAddress) {
	a, err := netip.ParseAddr(o.Name)
	if err != nil {
		return
	}
	ix.record(a, func(e *entry) {
		e.show(stateOf(o), upstream.Service(o))
		ix.owned.remove(a)
		if upstream.OwnedByOperator(o) {
			ix.owned.put(a, newOwned(o))
		}
	})
}

// dropObject removes an IPAddress. If no Service claims it, free must know whether it was ours.
func (ix *Index) dropObject(name string) {
	a, err := netip.ParseAddr(name)
	if err != nil {
		return
	}
	ix.record(a, func(e *entry) {
		e.show(allocator.Free, types.NamespacedName{})
		if e.claimed() {
			ix.owned.remove(a)
		}
	})
}

// countAllocation counts a new allocation under each range that offers the address.
func (ix *Index) countAllocation(o *networkingv1.IPAddress) {
	a, err := netip.ParseAddr(o.Name)
	if err != nil || stateOf(o) != allocator.Allocated {
		return
	}
	covering := ix.Covering(a)
	ix.mu.Lock()
	defer ix.mu.Unlock()
	for _, c := range covering {
		for _, r := range c.Ranges {
			b, ok := r.BandOf(a)
			if counts := ix.allocations[c.Name]; ok && counts != nil {
				counts[RangeBand{r.Prefix(), b}]++
			}
		}
	}
}

// serviceChanged indexes what a Service claims, and drops what it held before and no longer does.
func (ix *Index) serviceChanged(before, now *corev1.Service, _ bool) {
	var held, claimed []netip.Addr
	var service types.NamespacedName
	if before != nil {
		held, service = ClusterIPs(before), client.ObjectKeyFromObject(before)
	}
	if now != nil {
		claimed, service = ClusterIPs(now), client.ObjectKeyFromObject(now)
	}
	// Nearly all updates leave the addresses alone. With another UID the Service was deleted and
	// created anew while the watch was broken: its age, and so its right, is another.
	if before != nil && now != nil && before.UID == now.UID && slices.Equal(held, claimed) {
		return
	}
	for _, a := range held {
		if !slices.Contains(claimed, a) {
			ix.record(a, func(e *entry) { e.release(service) })
		}
	}
	for _, a := range claimed {
		ix.record(a, func(e *entry) { e.claim(service) })
	}
}
