package addressindex

import (
	"net/netip"
	"slices"

	corev1 "k8s.io/api/core/v1"
	networkingv1 "k8s.io/api/networking/v1"
	"k8s.io/apimachinery/pkg/types"
	toolscache "k8s.io/client-go/tools/cache"
	netutils "k8s.io/utils/net"

	"github.com/clusterip-operator/clusterip-operator/allocator"
	"github.com/clusterip-operator/clusterip-operator/api/v1alpha1"
	"github.com/clusterip-operator/clusterip-operator/controllers/internal/upstream"
)

// ParseClusterIP reads an entry of spec.clusterIPs. Services written before Kubernetes 1.22 may hold leading
// zeros ("10.096.0.1"), which net/netip refuses and the API server still reads as decimal.
func ParseClusterIP(text string) (netip.Addr, bool) {
	if a, err := netip.ParseAddr(text); err == nil {
		return a.Unmap(), true
	}
	a, ok := netip.AddrFromSlice(netutils.ParseIPSloppy(text))
	return a.Unmap(), ok
}

// ClusterIPs returns the addresses that a Service claims; headless and ExternalName Services claim none, and
// what is no address is left out (the service controller reports it).
func ClusterIPs(s *corev1.Service) []netip.Addr {
	if s.Spec.Type == corev1.ServiceTypeExternalName {
		return nil
	}
	var out []netip.Addr
	for _, text := range s.Spec.ClusterIPs {
		if text == corev1.ClusterIPNone || text == "" {
			continue
		}
		if a, ok := ParseClusterIP(text); ok {
			out = append(out, a)
		}
	}
	return out
}

// stateOf says what an IPAddress uses its address for: the API server's and those that lost their label are allocations, ours are
// what they are kept for, everybody else's are reservations.
func stateOf(o *networkingv1.IPAddress) allocator.State {
	switch {
	case ours(o):
		return newOwned(o).state()
	case o.Labels[networkingv1.LabelManagedBy] == v1alpha1.ManagedByAPIServer, o.Labels[networkingv1.LabelManagedBy] == "":
		return allocator.Allocated
	default:
		return allocator.Reserved
	}
}

func (l *Index) ipAddressHandler() toolscache.ResourceEventHandler {
	return toolscache.ResourceEventHandlerDetailedFuncs{
		AddFunc: func(o any, initial bool) {
			l.putObject(o.(*networkingv1.IPAddress))
			if !initial {
				l.countAllocation(o.(*networkingv1.IPAddress))
			}
		},
		UpdateFunc: func(old, o any) {
			if old.(*networkingv1.IPAddress).ResourceVersion != o.(*networkingv1.IPAddress).ResourceVersion {
				l.putObject(o.(*networkingv1.IPAddress))
			}
			// After a gap in the watch, one that went and one that came since are told as one change.
			if old.(*networkingv1.IPAddress).UID != o.(*networkingv1.IPAddress).UID {
				l.countAllocation(o.(*networkingv1.IPAddress))
			}
		},
		DeleteFunc: func(o any) {
			if ip, ok := deleted[*networkingv1.IPAddress](o); ok {
				l.dropObject(ip.Name)
			}
		},
	}
}

// putObject indexes an IPAddress under its name, which the API server has validated as a canonical address.
func (l *Index) putObject(o *networkingv1.IPAddress) {
	a, err := netip.ParseAddr(o.Name)
	if err != nil {
		return
	}
	l.record(a, func(e *entry) {
		e.object, e.parent = stateOf(o), upstream.Service(o)
		l.disown(a)
		if ours(o) {
			l.own(a, newOwned(o))
		}
	})
}

// dropObject removes an IPAddress. Where nobody claims the address, free still has to know whether it was one of ours.
func (l *Index) dropObject(name string) {
	a, err := netip.ParseAddr(name)
	if err != nil {
		return
	}
	l.record(a, func(e *entry) {
		e.object, e.parent = allocator.Free, types.NamespacedName{}
		if len(e.claims) > 0 {
			l.disown(a)
		}
	})
}

// countAllocation counts a new allocation under each range that offers the address.
func (l *Index) countAllocation(o *networkingv1.IPAddress) {
	a, err := netip.ParseAddr(o.Name)
	if err != nil || stateOf(o) != allocator.Allocated {
		return
	}
	covering := l.Covering(a)
	l.mu.Lock()
	defer l.mu.Unlock()
	for _, c := range covering {
		for _, r := range c.Ranges {
			b, ok := r.BandOf(a)
			if counts := l.allocations[c.Name]; ok && counts != nil {
				counts[RangeBand{r.Prefix(), b}]++
			}
		}
	}
}

func (l *Index) serviceHandler() toolscache.ResourceEventHandler {
	return toolscache.ResourceEventHandlerFuncs{
		AddFunc:    func(o any) { l.claim(o.(*corev1.Service), nil) },
		UpdateFunc: func(old, o any) { l.moveClaim(old.(*corev1.Service), o.(*corev1.Service)) },
		DeleteFunc: func(o any) {
			if s, ok := deleted[*corev1.Service](o); ok {
				l.withdraw(key(s), ClusterIPs(s))
			}
		},
	}
}

// moveClaim skips the updates that leave the addresses alone, which is nearly all of them. Another UID is a
// Service deleted and created anew while the watch was broken: its age, and so its right, is another.
func (l *Index) moveClaim(old, s *corev1.Service) {
	before := ClusterIPs(old)
	if old.UID != s.UID || !slices.Equal(before, ClusterIPs(s)) {
		l.claim(s, before)
	}
}

// claim indexes the addresses of a Service, and drops those that it held before and no longer does.
func (l *Index) claim(s *corev1.Service, before []netip.Addr) {
	now := ClusterIPs(s)
	l.withdraw(key(s), slices.DeleteFunc(before, func(a netip.Addr) bool { return slices.Contains(now, a) }))
	for _, a := range now {
		l.record(a, func(e *entry) {
			if !slices.Contains(e.claims, key(s)) {
				e.claims = append(e.claims, key(s))
			}
		})
	}
}

func (l *Index) withdraw(service types.NamespacedName, addresses []netip.Addr) {
	for _, a := range addresses {
		l.record(a, func(e *entry) {
			e.claims = slices.DeleteFunc(e.claims, func(k types.NamespacedName) bool { return k == service })
		})
	}
}

func key(s *corev1.Service) types.NamespacedName {
	return types.NamespacedName{Namespace: s.Namespace, Name: s.Name}
}

// deleted unwraps the object of a delete event, also when the watch missed it and only the last known state
// is left.
func deleted[T any](o any) (T, bool) {
	if gone, ok := o.(toolscache.DeletedFinalStateUnknown); ok {
		o = gone.Obj
	}
	t, ok := o.(T)
	return t, ok
}
