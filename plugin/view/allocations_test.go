package view

import (
	"net/netip"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	networkingv1 "k8s.io/api/networking/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/clusterip-operator/clusterip-operator/allocator"
)

func TestAllocations(t *testing.T) {
	at := func(seconds int64) metav1.Time { return metav1.Unix(seconds, 0) }
	ip := func(name string, created int64) networkingv1.IPAddress {
		return networkingv1.IPAddress{ObjectMeta: metav1.ObjectMeta{Name: name, CreationTimestamp: at(created)}}
	}
	service := func(created int64, ips ...string) corev1.Service {
		return corev1.Service{ObjectMeta: metav1.ObjectMeta{CreationTimestamp: at(created)}, Spec: corev1.ServiceSpec{ClusterIPs: ips}}
	}
	states := map[string]allocator.State{
		"10.96.0.4": allocator.Reserved, "10.96.0.5": allocator.Cooling, "fd00::4": allocator.Reserved, "fd00::5": allocator.Cooling,
	}
	state := func(a netip.Addr) allocator.State {
		if s, ok := states[a.String()]; ok {
			return s
		}
		return allocator.Allocated
	}
	got := allocations(
		[]corev1.Service{service(100, "10.96.0.9", "fd00::9"), service(200, "10.96.0.1"), service(300, corev1.ClusterIPNone), service(300, "")},
		[]networkingv1.IPAddress{
			ip("fd00::9", 500), ip("10.96.0.9", 500), ip("10.96.0.2", 400), ip("fd00::2", 400), // the last two are additional addresses
			ip("10.96.0.4", 50), ip("10.96.0.5", 50), ip("fd00::4", 50), ip("fd00::5", 50),
		}, state)
	of := func(address string, since int64) Allocation {
		return Allocation{netip.MustParseAddr(address), time.Unix(since, 0)}
	}
	want := []Allocation{of("10.96.0.1", 200), of("10.96.0.2", 400), of("10.96.0.9", 100), of("fd00::2", 400), of("fd00::9", 100)}
	if diff := cmp.Diff(want, got, cmp.Comparer(func(a, b netip.Addr) bool { return a == b })); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
}
