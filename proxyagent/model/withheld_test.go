package model

import (
	"errors"
	"net/netip"
	"slices"
	"testing"
	"time"
)

var errOdd = errors.New("odd")

func withheldPort() (ServicePort, []netip.AddrPort) {
	endpoints := []netip.AddrPort{netip.MustParseAddrPort("10.0.0.1:80"), netip.MustParseAddrPort("239.0.0.1:80"), netip.MustParseAddrPort("10.0.0.3:80")}
	return ServicePort{
		Name: PortName{Service: ServiceName{"default", "odd"}, Protocol: TCP}, Port: 80, ClusterIPs: []netip.Addr{netip.MustParseAddr("10.96.0.1")},
		ExternalIPs: []netip.Addr{netip.MustParseAddr("239.0.0.9")}, AffinitySeconds: 60, Scheduler: RoundRobin, HasEndpoints: true, Cluster: endpoints,
	}, endpoints
}

// TestWithheldPorts follows a port whose parts are refused, then all of it.
func TestWithheldPorts(t *testing.T) {
	var w Withheld
	now := time.Unix(1000, 0)
	port, endpoints := withheldPort()
	other := port
	other.Name.Service.Name = "other"
	served := map[PortName]*ServicePort{port.Name: &port, other.Name: &other}
	in := Delta{Ports: served, Allocated: map[netip.Addr]bool{port.ClusterIPs[0]: true}}
	if got := w.Apply(in); len(got.Ports) != 2 || got.Ports[port.Name] != &port || len(got.Allocated) != 1 || w.Degraded() != nil {
		t.Errorf("nothing is withheld yet: %v, %v", got, w.Degraded())
	}

	d := w.Withhold(now, served, Refusal{port.Name, endpoints[1], errOdd}, Refusal{port.Name, netip.AddrPortFrom(port.ExternalIPs[0], 0), errOdd})
	left := d.Ports[port.Name]
	if want := []netip.AddrPort{endpoints[0], endpoints[2]}; len(d.Ports) != 1 || !slices.Equal(left.Cluster, want) || len(left.ExternalIPs) != 0 || len(left.ClusterIPs) != 1 || left.AffinitySeconds != 60 {
		t.Errorf("without what is refused: %+v", left)
	}
	if len(port.Cluster) != 3 || !slices.Equal(port.Cluster, endpoints) {
		t.Errorf("the Plan's port was changed: %v", port.Cluster)
	}
	if got, want := w.Degraded(), []Degradation{{Port: port.Name, Reason: PartRefused, Detail: "odd"}}; !slices.Equal(got, want) {
		t.Errorf("degraded: %v, want %v", got, want)
	}
	if d = w.Withhold(now, served, Refusal{port.Name, endpoints[1], errOdd}); len(d.Ports) != 0 {
		t.Errorf("what is left out already changes %v", d.Ports)
	}

	d = w.WithholdAll(now, served, map[PortName]error{port.Name: errOdd})
	if left = d.Ports[port.Name]; left.HasEndpoints || left.AffinitySeconds != 0 || len(left.Cluster) > 0 || len(left.ClusterIPs) != 1 || left.Scheduler != "" {
		t.Errorf("refused as a whole: %+v", left)
	}
	if got := w.Degraded()[0].Reason; got != RulesRefused {
		t.Errorf("degraded by %s", got)
	}
	d = w.WithholdAll(now, served, map[PortName]error{port.Name: errOdd})
	if left, told := d.Ports[port.Name]; left != nil || !told {
		t.Errorf("refused without endpoints: %+v, %t", left, told)
	}

	changed := port
	changed.Port = 81
	d = w.Apply(Delta{Ports: map[PortName]*ServicePort{port.Name: &changed, other.Name: nil}})
	if left, told := d.Ports[port.Name]; left != nil || !told || len(d.Ports) != 2 {
		t.Errorf("changed while it is withheld: %v", d.Ports)
	}
	if got := w.Wanted(); len(got) != 1 || got[port.Name] != &changed {
		t.Errorf("wanted: %v", got)
	}
	if d = w.Release(w.Wanted()); d.Ports[port.Name] != &changed || w.Degraded() != nil {
		t.Errorf("released: %v, still %v", d.Ports, w.Degraded())
	}
	w.Withhold(now, map[PortName]*ServicePort{port.Name: &changed}, Refusal{Port: port.Name, Why: errOdd})
	w.Apply(Delta{Ports: map[PortName]*ServicePort{port.Name: nil}})
	if w.Degraded() != nil {
		t.Errorf("gone, and still %v", w.Degraded())
	}
}

// TestAPortWithManyRefusalsIsWithheldAsAWhole so that its changes cost little.
func TestAPortWithManyRefusalsIsWithheldAsAWhole(t *testing.T) {
	var w Withheld
	port, _ := withheldPort()
	var refusals []Refusal
	for i := range uint16(1000) {
		refusals = append(refusals, Refusal{port.Name, netip.AddrPortFrom(port.ClusterIPs[0], 1+i), errOdd})
	}
	d := w.Withhold(time.Unix(0, 0), map[PortName]*ServicePort{port.Name: &port}, refusals...)
	if held := w.ports[port.Name]; len(held.refusals) > mostRefusals || d.Ports[port.Name].HasEndpoints || w.Degraded()[0].Reason != RulesRefused {
		t.Errorf("%d refusals, %v", len(held.refusals), w.Degraded())
	}
}

// TestWithheldPortsAreTriedAgain once in a period, or after they changed, which costs little.
func TestWithheldPortsAreTriedAgain(t *testing.T) {
	var w Withheld
	port, _ := withheldPort()
	served := map[PortName]*ServicePort{port.Name: &port}
	now := time.Unix(1000, 0)
	if w.Due(now, 0) {
		t.Error("nothing is withheld")
	}
	w.WithholdAll(now, served, map[PortName]error{port.Name: errOdd})
	if w.Due(now.Add(time.Minute-1), time.Minute) || !w.Due(now.Add(time.Minute), time.Minute) {
		t.Error("not once in a period")
	}
	w.Apply(Delta{Ports: served})
	if !w.Due(now.Add(1), time.Minute) {
		t.Error("not after a change")
	}
	for range 2 {
		w.Tried(now, time.Second)
	}
	w.Apply(Delta{Ports: served})
	if w.Due(now.Add(9*time.Second), time.Minute) || !w.Due(now.Add(10*time.Second), time.Minute) {
		t.Error("changes have it tried for more than a tenth of the time")
	}
}

// TestSuspects are those that changed, as long as it is one of them.
func TestSuspects(t *testing.T) {
	var w Withheld
	port, _ := withheldPort()
	other := port
	other.Name.Service.Name = "other"
	served := map[PortName]*ServicePort{port.Name: &port, other.Name: &other}
	expect := func(want ...PortName) {
		t.Helper()
		if got := w.Suspects(served); !slices.Equal(got, want) {
			t.Errorf("suspected: %v, want %v", got, want)
		}
	}
	expect(port.Name, other.Name)
	w.Apply(Delta{Ports: map[PortName]*ServicePort{other.Name: &other, {Port: "gone"}: nil}})
	expect(other.Name)
	w.WithholdAll(time.Time{}, served, nil) // it was none of them
	expect(port.Name, other.Name)
	w.Settled()
	w.Release(map[PortName]*ServicePort{port.Name: &port})
	expect(port.Name)
	w.Apply(Delta{Globals: &Globals{}})
	expect(port.Name, other.Name)
}
