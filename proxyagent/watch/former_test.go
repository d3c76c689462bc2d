package watch

import (
	"net/netip"
	"testing"

	networkingv1 "k8s.io/api/networking/v1"

	"github.com/clusterip-operator/clusterip-operator/api/v1alpha1"
	"github.com/clusterip-operator/clusterip-operator/proxyagent/model"
)

// former is an IPAddress that is kept for a Service.
func former(a *networkingv1.IPAddress) { a.Finalizers = []string{v1alpha1.FinalizerFormer} }

// wantAllocation wants news of one IPAddress, and nothing else to have happened.
func (w *fixture) wantAllocation(want *model.Allocation) {
	w.t.Helper()
	got := w.take()
	got.ServiceEvents = 0
	w.wantChanges(model.Changes{Allocations: map[netip.Addr]*model.Allocation{netip.MustParseAddr("10.96.0.9"): want}}, got)
}

// TestAFormerAddressOutlivesItsIPAddress has what follows when the IPAddress of 10.96.0.9 is gone.
func TestAFormerAddressOutlivesItsIPAddress(t *testing.T) {
	kept := &model.Allocation{Addr: netip.MustParseAddr("10.96.0.9"), Service: web().Name, Additional: true, Former: true}
	of := func(service string) *model.Allocation {
		return &model.Allocation{Addr: kept.Addr, Service: model.ServiceName{Namespace: "ns", Name: service}}
	}
	for name, tc := range map[string]struct {
		then        func(*fixture)
		now, at2s   *model.Allocation
		wantNothing bool // after the time
	}{
		"nothing":                                  {func(*fixture) {}, kept, nil, false},
		"the next IPAddress of the same Service":   {set(newIPAddress("10.96.0.9", "web")), kept, of("web"), false},
		"the IPAddress of another Service":         {set(newIPAddress("10.96.0.9", "other")), of("other"), of("other"), false},
		"another one that is kept for the Service": {set(newIPAddress("10.96.0.9", "web", former)), kept, nil, true},
	} {
		t.Run(name, func(t *testing.T) {
			inFixture(t, func(w *fixture) {
				w.set(newIPAddress("10.96.0.9", "web", former))
				w.start(Options{})
				w.take()
				w.remove(newIPAddress("10.96.0.9", "web"))
				w.pass(0)
				tc.then(w)
				w.pass(0)
				w.wantAllocation(tc.now)
				w.pass(formerFor - 1)
				w.wantSleep("it is not over yet")
				w.pass(1)
				if tc.wantNothing {
					w.wantSleep("the time is over")
					return
				}
				w.wantAllocation(tc.at2s)
			}, smallCluster()...)
		})
	}
}

// TestAFormerAddressIsServedAsLongAsItsServiceIsHeld, a Service that gets the address back.
func TestAFormerAddressIsServedAsLongAsItsServiceIsHeld(t *testing.T) {
	kept := &model.Allocation{Addr: netip.MustParseAddr("10.96.0.9"), Service: web().Name, Additional: true, Former: true}
	inFixture(t, func(w *fixture) {
		w.set(newIPAddress("10.96.0.9", "web", former))
		w.start(Options{})
		w.take()
		w.set(newService("web", "", renumbering))
		w.wantHeld(web(), "10.0.0.1", "10.0.0.2")
		w.remove(newIPAddress("10.96.0.9", "web"))
		w.wantAllocation(kept)
		w.pass(holdFor / 2)
		w.wantSleep("the Service is held")
		w.set(newService("web", "10.96.0.9"))
		w.wantTakeOf("web", wantService("web", "10.96.0.9", "10.0.0.1", "10.0.0.2"))
		w.pass(formerFor)
		w.wantAllocation(nil)
	}, smallCluster()...)
}
