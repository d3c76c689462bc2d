package view

import (
	"net/netip"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/clusterip-operator/clusterip-operator/allocator"
)

func TestAllocations(t *testing.T) {
	states := map[string]allocator.State{
		"10.96.0.4": allocator.Reserved, "10.96.0.5": allocator.Cooling, "fd00::4": allocator.Reserved, "fd00::5": allocator.Cooling,
	}
	state := func(a netip.Addr) allocator.State {
		if s, ok := states[a.String()]; ok {
			return s
		}
		return allocator.Allocated
	}
	uses := since{map[netip.Addr]time.Time{}, state}
	note := func(created int64, addresses ...string) { uses.note(metav1.Unix(created, 0), addresses...) }
	note(500, "fd00::9") // IPAddresses are noted first
	note(500, "10.96.0.9")
	note(400, "10.96.0.2", "fd00::2") // additional addresses
	note(50, "10.96.0.4", "10.96.0.5", "fd00::4", "fd00::5")
	note(100, "10.96.0.9", "fd00::9")
	note(200, "10.96.0.1")
	note(300, corev1.ClusterIPNone, "")
	got := uses.all()
	of := func(address string, since int64) Allocation {
		return Allocation{netip.MustParseAddr(address), time.Unix(since, 0)}
	}
	want := []Allocation{of("10.96.0.1", 200), of("10.96.0.2", 400), of("10.96.0.9", 100), of("fd00::2", 400), of("fd00::9", 100)}
	if diff := cmp.Diff(want, got, cmp.Comparer(func(a, b netip.Addr) bool { return a == b })); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
}
