//go:build linux && !ipvs

package ipvs

import (
	"context"
	"errors"
	"maps"
	"net/netip"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/cloudflare/ipvs"
	"github.com/vishvananda/netlink"

	"github.com/clusterip-operator/clusterip-operator/proxyagent/backend"
	"github.com/clusterip-operator/clusterip-operator/proxyagent/model"
	"github.com/clusterip-operator/clusterip-operator/test/framework/network"
)

func TestMain(m *testing.M) { network.Isolate(m) }

// fake is IPVS in memory, of one family, with faults.
type fake struct {
	ipvs.Client
	servers map[netip.AddrPort]map[netip.AddrPort]ipvs.Destination
	// server and destination are the faults of adding one.
	server, destination map[netip.AddrPort]error
	added               int
	// removals are how many of virtual servers succeed, after which all fail.
	removals int
}

func (k *fake) Services() (all []ipvs.ServiceExtended, err error) {
	for at := range k.servers {
		all = append(all, ipvs.ServiceExtended{Service: ipvs.Service{Address: at.Addr(), Port: at.Port(), Protocol: ipvs.TCP, Family: ipvs.INET, Scheduler: "rr"}})
	}
	return all, nil
}

func (k *fake) Destinations(s ipvs.Service) (all []ipvs.DestinationExtended, err error) {
	for _, d := range k.servers[netip.AddrPortFrom(s.Address, s.Port)] {
		all = append(all, ipvs.DestinationExtended{Destination: d})
	}
	return all, nil
}

func (k *fake) CreateService(s ipvs.Service) error {
	at := netip.AddrPortFrom(s.Address, s.Port)
	if err := k.server[at]; err != nil {
		return err
	}
	if k.servers[at] != nil {
		return syscall.EEXIST
	}
	k.servers[at] = map[netip.AddrPort]ipvs.Destination{}
	return nil
}

func (k *fake) UpdateService(ipvs.Service) error { return nil }

func (k *fake) RemoveService(s ipvs.Service) error {
	if k.removals--; k.removals < 0 {
		return syscall.EIO
	}
	delete(k.servers, netip.AddrPortFrom(s.Address, s.Port))
	return nil
}

func (k *fake) CreateDestination(s ipvs.Service, d ipvs.Destination) error {
	k.added++
	return k.UpdateDestination(s, d)
}

func (k *fake) UpdateDestination(s ipvs.Service, d ipvs.Destination) error {
	at, e := netip.AddrPortFrom(s.Address, s.Port), netip.AddrPortFrom(d.Address, d.Port)
	if err := k.destination[e]; err != nil {
		return err
	}
	k.servers[at][e] = d
	return nil
}

func (k *fake) RemoveDestination(s ipvs.Service, d ipvs.Destination) error {
	delete(k.servers[netip.AddrPortFrom(s.Address, s.Port)], netip.AddrPortFrom(d.Address, d.Port))
	return nil
}

// plain is a backend that notes the ports that it was given.
type plain struct {
	backend.Backend
	ports map[model.PortName]*model.ServicePort
	seen  []*model.ServicePort
}

func (s *plain) Sync(_ context.Context, deltas ...model.Delta) (bool, error) {
	for _, d := range deltas {
		for name, port := range d.Ports {
			s.ports[name] = port
		}
	}
	for _, port := range s.ports {
		s.seen = append(s.seen, port)
	}
	return false, nil
}

func (s *plain) Check(context.Context, time.Time) ([]string, error) { return nil, nil }
func (s *plain) Degraded() []model.Degradation                      { return nil }

// faulty is a Proxier before a kernel with faults, whose interface is a bridge: not every kernel
// has dummies.
func faulty(t *testing.T) (*Proxier, *fake, *plain) {
	t.Helper()
	network.NeedIsolation(t)
	if err := netlink.LinkAdd(&netlink.Bridge{LinkAttrs: netlink.LinkAttrs{Name: device}}); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if link, err := netlink.LinkByName(device); err == nil {
			_ = netlink.LinkDel(link)
		}
	})
	client := &fake{removals: 100, servers: map[netip.AddrPort]map[netip.AddrPort]ipvs.Destination{}, server: map[netip.AddrPort]error{}, destination: map[netip.AddrPort]error{}}
	rules := &plain{ports: map[model.PortName]*model.ServicePort{}}
	k := &kernel{family: model.IPv4, Client: client}
	if err := k.ensureLink(); err != nil {
		t.Fatal(err)
	}
	p := &Proxier{
		Options: Options{Family: model.IPv4, Rules: rules, Drain: time.Minute, FullCheck: time.Hour}, table: NewTable(model.IPv4, ""), kernel: k,
		draining: map[front]map[netip.AddrPort]time.Time{},
	}
	mustSync(t, p, model.Delta{Globals: &model.Globals{Family: model.IPv4, Ranges: []netip.Prefix{netip.MustParsePrefix("10.96.0.0/16")}}})
	return p, client, rules
}

func mustSync(t *testing.T, p *Proxier, deltas ...model.Delta) {
	t.Helper()
	if _, err := p.Sync(t.Context(), deltas...); err != nil {
		t.Fatal(err)
	}
}

// served is a port with a ClusterIP and endpoints.
func served(name, vip string, endpoints ...string) *model.ServicePort {
	p := &model.ServicePort{
		Name: model.PortName{Service: model.ServiceName{Namespace: "default", Name: name}, Protocol: model.TCP}, Port: 80, ClusterIPs: []netip.Addr{netip.MustParseAddr(vip)}, HasEndpoints: true,
	}
	for _, e := range endpoints {
		p.Cluster = append(p.Cluster, netip.MustParseAddrPort(e))
	}
	return p
}

// expect demands the destinations of a virtual server; none for no virtual server.
func (k *fake) expect(t *testing.T, at string, want ...string) {
	t.Helper()
	var got []string
	for e := range k.servers[netip.MustParseAddrPort(at)] {
		got = append(got, e.String())
	}
	slices.Sort(got)
	if !slices.Equal(got, want) {
		t.Errorf("%s has %v, want %v", at, got, want)
	}
}

func expectDegraded(t *testing.T, p *Proxier, why string, want ...model.Degradation) {
	t.Helper()
	got := p.Degraded()
	for i := range got {
		if !strings.Contains(got[i].Detail, why) {
			t.Errorf("degraded because %q", got[i].Detail)
		}
		got[i].Detail = ""
	}
	if !slices.Equal(got, want) {
		t.Errorf("degraded: %v, want %v", got, want)
	}
}

// TestARefusedEndpointIsLeftOut as a multicast address is by the kernel, which any tenant may put
// into an EndpointSlice. No Sync fails.
func TestARefusedEndpointIsLeftOut(t *testing.T) {
	p, kernel, rules := faulty(t)
	odd := netip.MustParseAddrPort("239.0.0.1:80")
	kernel.destination[odd] = syscall.EINVAL
	partly := served("partly", "10.96.0.1", "10.0.0.1:80", odd.String())
	wholly := served("wholly", "10.96.0.2", odd.String())
	mustSync(t, p, delta(partly, wholly, served("well", "10.96.0.3", "10.0.0.3:80")))
	kernel.expect(t, "10.96.0.1:80", "10.0.0.1:80")
	kernel.expect(t, "10.96.0.2:80")
	kernel.expect(t, "10.96.0.3:80", "10.0.0.3:80")
	expectDegraded(t, p, "adding 239.0.0.1:80 to the virtual server TCP 10.96.0.",
		model.Degradation{Port: partly.Name, Reason: model.PartRefused}, model.Degradation{Port: wholly.Name, Reason: model.PartRefused})
	for _, seen := range rules.seen {
		if seen.Name == wholly.Name && seen.HasEndpoints {
			t.Error("clients were let through to a virtual server that there is not")
		}
	}

	tries := kernel.added
	mustSync(t, p, delta(served("partly", "10.96.0.1", "10.0.0.9:80", odd.String())))
	kernel.expect(t, "10.96.0.1:80", "10.0.0.1:80", "10.0.0.9:80")
	if kernel.added != tries+1 { // the former one drains
		t.Errorf("%d tries: what is refused is tried with each change", kernel.added-tries)
	}
	delete(kernel.destination, odd)
	for range 2 { // a change has it tried again, at once
		if _, err := p.Check(t.Context(), time.Now()); err != nil {
			t.Fatal(err)
		}
	}
	kernel.expect(t, "10.96.0.2:80", odd.String())
	expectDegraded(t, p, "")
}

// TestARefusedVirtualServerConcernsItsPort alone, whose clients are rejected.
func TestARefusedVirtualServerConcernsItsPort(t *testing.T) {
	p, kernel, rules := faulty(t)
	at := netip.MustParseAddrPort("10.96.0.1:80")
	kernel.server[at] = syscall.EINVAL
	bad := served("bad", "10.96.0.1", "10.0.0.1:80")
	mustSync(t, p, delta(bad, served("well", "10.96.0.3", "10.0.0.3:80")))
	kernel.expect(t, "10.96.0.3:80", "10.0.0.3:80")
	expectDegraded(t, p, "adding the virtual server", model.Degradation{Port: bad.Name, Reason: model.RulesRefused})
	if rules.ports[bad.Name].HasEndpoints {
		t.Error("its clients are not rejected")
	}
	kernel.server = nil
	if _, err := p.Check(t.Context(), time.Now().Add(p.FullCheck)); err != nil {
		t.Fatal(err)
	}
	kernel.expect(t, "10.96.0.1:80", "10.0.0.1:80")
	expectDegraded(t, p, "")
	if !rules.ports[bad.Name].HasEndpoints {
		t.Error("its clients are rejected still")
	}
}

// TestAVirtualServerOfAnotherProgramIsTakenOver where a port comes that needs it.
func TestAVirtualServerOfAnotherProgramIsTakenOver(t *testing.T) {
	p, kernel, _ := faulty(t)
	kernel.servers[netip.MustParseAddrPort("10.96.0.1:80")] = map[netip.AddrPort]ipvs.Destination{}
	mustSync(t, p, delta(served("well", "10.96.0.1", "10.0.0.1:80")))
	kernel.expect(t, "10.96.0.1:80", "10.0.0.1:80")
	expectDegraded(t, p, "")
}

// TestWhatTheNodeLacksIsForAll fails the Sync, and degrades nothing.
func TestWhatTheNodeLacksIsForAll(t *testing.T) {
	p, kernel, _ := faulty(t)
	e := netip.MustParseAddrPort("10.0.0.1:80")
	kernel.destination[e] = syscall.ENOMEM
	if _, err := p.Sync(t.Context(), delta(served("well", "10.96.0.1", e.String()))); err == nil {
		t.Error("without memory the Sync succeeds")
	}
	expectDegraded(t, p, "")
	delete(kernel.destination, e)
	mustSync(t, p)
	kernel.expect(t, "10.96.0.1:80", e.String())
}

// TestCleanupFindsTheRest at whichever removal the run before was killed.
func TestCleanupFindsTheRest(t *testing.T) {
	for n := range 3 {
		t.Run(strconv.Itoa(n), func(t *testing.T) {
			p, client, _ := faulty(t)
			node := &netlink.Bridge{LinkAttrs: netlink.LinkAttrs{Name: "node"}}
			if err := errors.Join(netlink.LinkAdd(node), netlink.AddrAdd(node, p.kernel.addr(netip.MustParseAddr("192.0.2.1")))); err != nil {
				t.Fatal(err)
			}
			t.Cleanup(func() { _ = netlink.LinkDel(node) })
			p.known = false // its addresses are new
			port := served("web", "10.96.0.1", "10.0.0.1:80")
			port.NodePort = 30080
			mustSync(t, p, model.Delta{Globals: &model.Globals{Family: model.IPv4, NodePortAny: true}}, delta(port))
			client.expect(t, "192.0.2.1:30080", "10.0.0.1:80")
			if len(client.servers) != 3 {
				t.Fatalf("there are %v, want a virtual IP, a node port and its mark", client.servers)
			}
			for run, removals := range []int{n, 100} {
				client.removals = removals
				have, err := p.kernel.read(t.Context(), func(all observed, f front) bool { return all.ours(f, nil) })
				if err != nil {
					t.Fatal(err)
				}
				maps.DeleteFunc(have.servers, func(_ front, s *server) bool { return s.weights == nil })
				if err = p.kernel.leave(have); (err == nil) != (run == 1) {
					t.Errorf("run %d: %v", run, err)
				}
			}
			if len(client.servers) > 0 {
				t.Errorf("the next run leaves %v", client.servers)
			}
		})
	}
}
