package ipaddress

import (
	"net/netip"
	"testing"
	"testing/synctest"
	"time"

	"golang.org/x/time/rate"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/client-go/tools/events"

	"github.com/clusterip-operator/clusterip-operator/internal/loop"
)

// Each event is a request, which takes the API server's time from repairs still to be made.
func TestEventsOfAMassRepairArePaced(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		const repairs = 4 * eventsASecond
		recorder := events.NewFakeRecorder(repairs)
		r := &Reconciler{Cluster: loop.Cluster{Events: recorder}, eventPace: rate.NewLimiter(eventsASecond, eventsASecond)}
		address := netip.MustParseAddr("fd00::")
		for range repairs {
			address = address.Next()
			in := inputs{address: address, claims: []*corev1.Service{held("a", time.Hour)}}
			r.announce(in, decision{do: create, reason: reasonNotAllocated, note: "was not allocated; repaired"})
		}
		synctest.Wait()
		if n := len(recorder.Events); n != eventsASecond {
			t.Errorf("%d events at once, want %d", n, eventsASecond)
		}
		time.Sleep(repairs / eventsASecond * time.Second)
		synctest.Wait()
		if n := len(recorder.Events); n != repairs {
			t.Errorf("%d events of %d repairs", n, repairs)
		}
	})
}
