// Package plans has Plans of the node agent for tests of what executes them: a [Random] history,
// and parts of a small one. A seed always leads to the same history, and no two ports of a Plan
// share an address or a node port, as a compiler promises. Start with [Random.Step].
package plans

import (
	"cmp"
	"fmt"
	"maps"
	"math/rand/v2"
	"net/netip"
	"slices"

	"github.com/clusterip-operator/clusterip-operator/proxyagent/model"
)

// Random makes random steps from one Plan to the next.
type Random struct {
	*rand.Rand
	// Plan is the sum of all steps, and must not be changed.
	Plan model.Plan
	// Names replace namespace, name and port name where they are not empty.
	Names [3]string
}

// New returns a Random whose Plan has no ports yet.
func New(seed uint64, f model.Family) *Random {
	p := &Random{Rand: rand.New(rand.NewPCG(seed, 1)), Plan: model.Plan{Ports: map[model.PortName]model.ServicePort{}, Allocated: map[netip.Addr]struct{}{}}}
	p.Plan.Globals = p.globals(f)
	return p
}

func (p *Random) globals(f model.Family) model.Globals {
	g := model.Globals{Family: f, MasqueradeBit: 14, NodePortAny: true}
	if f == model.IPv4 {
		g.LocalhostNodePorts = p.IntN(2) == 0
		g.Ranges = []netip.Prefix{netip.MustParsePrefix("10.96.0.0/16")}
	} else {
		g.Ranges = []netip.Prefix{netip.MustParsePrefix("fd00:10:96::/112")}
	}
	switch p.IntN(5) {
	case 0:
		g.MasqueradeAll = true
	case 1:
		g.LocalSource = model.LocalSource{Interface: "br0"}
	case 2:
		g.LocalSource = model.LocalSource{InterfacePrefix: "veth"}
	case 3:
		g.LocalSource = model.LocalSource{CIDR: netip.PrefixFrom(Address(f, 2, 0), f.Bits()-8).Masked()}
	}
	if p.IntN(3) == 0 {
		g.NodePortAny, g.LocalhostNodePorts = false, false
		g.NodePortAddrs = []netip.Addr{Address(f, 9, 1), Address(f, 9, 2)}
	}
	g.KeepInvalid = p.IntN(3) == 0
	return g
}

// Address is the n-th address of a network.
func Address(f model.Family, network byte, n int) netip.Addr {
	if f == model.IPv4 {
		return netip.AddrFrom4([4]byte{10, 96 + network, byte(n >> 8), byte(n)})
	}
	return netip.AddrFrom16([16]byte{0xfd, 0, 0, 0x10, 0, 0x96, 12: network, 14: byte(n >> 8), 15: byte(n)})
}

// Step changes a few ports, and sometimes the Globals, and returns the Delta.
func (p *Random) Step(n int) model.Delta {
	d := model.Delta{Ports: map[model.PortName]*model.ServicePort{}, Before: map[model.PortName]model.ServicePort{}, Allocated: map[netip.Addr]bool{}}
	if p.IntN(6) == 0 {
		g := p.globals(p.Plan.Globals.Family)
		p.Plan.Globals, d.Globals = g, &g
	}
	for range n {
		index := p.IntN(120)
		name := model.PortName{
			Service: model.ServiceName{Namespace: cmp.Or(p.Names[0], "ns"), Name: fmt.Sprint(cmp.Or(p.Names[1], "s"), index)},
			Port:    cmp.Or(p.Names[2], "p"), Protocol: model.Protocols[p.IntN(3)],
		}
		if before, there := p.Plan.Ports[name]; there && d.Ports[name] == nil {
			d.Before[name] = before
		}
		if p.IntN(4) == 0 {
			delete(p.Plan.Ports, name)
			d.Ports[name] = nil
			continue
		}
		port := p.port(name, index)
		p.Plan.Ports[name], d.Ports[name] = port, &port
	}
	for range p.IntN(3) {
		a := Address(p.Plan.Globals.Family, 0, p.IntN(500))
		if _, there := p.Plan.Allocated[a]; there {
			delete(p.Plan.Allocated, a)
			d.Allocated[a] = false
		} else {
			p.Plan.Allocated[a] = struct{}{}
			d.Allocated[a] = true
		}
	}
	return d
}

func (p *Random) port(name model.PortName, index int) model.ServicePort {
	f := p.Plan.Globals.Family
	s := model.ServicePort{Name: name, Port: []uint16{80, 1, 65535}[p.IntN(3)], InternalLocal: p.IntN(4) == 0, ExternalLocal: p.IntN(3) == 0}
	s.ClusterIPs = []netip.Addr{Address(f, 0, index)}
	if p.IntN(8) == 0 {
		s.ClusterIPs = append(s.ClusterIPs, Address(f, 1, index))
	}
	if p.IntN(3) == 0 {
		s.NodePort = uint16(30000 + index*7)
	}
	if p.IntN(4) == 0 {
		s.ExternalIPs = []netip.Addr{Address(f, 3, index)}
	}
	if p.IntN(4) == 0 {
		s.LoadBalancerIPs = []netip.Addr{Address(f, 4, index)}
		if p.IntN(2) == 0 {
			s.SourceRanges = []netip.Prefix{
				netip.PrefixFrom(Address(f, 5, p.IntN(3)*256), f.Bits()-8-p.IntN(2)*p.IntN(16)).Masked(), netip.PrefixFrom(Address(f, 4, index), f.Bits()),
			}
		}
	}
	if p.IntN(4) == 0 {
		s.AffinitySeconds = []int{10, 11, 86400}[p.IntN(3)]
	}
	if s.ExternalLocal && len(s.LoadBalancerIPs) > 0 {
		s.HealthCheckNodePort = uint16(32000 + index)
	}
	p.endpoints(f, &s)
	return s
}

func (p *Random) endpoints(f model.Family, s *model.ServicePort) {
	all := map[netip.AddrPort]struct{}{}
	for range []int{0, 1, 2, 3, 3, 7, 9, 40, 200}[p.IntN(9)] {
		all[netip.AddrPortFrom(Address(f, 2, p.IntN(400)), 8080)] = struct{}{}
	}
	sorted := slices.SortedFunc(maps.Keys(all), netip.AddrPort.Compare)
	s.HasEndpoints = len(sorted) > 0
	s.Cluster = sorted
	if s.InternalLocal || s.ExternalLocal {
		s.Local = sorted[:p.IntN(len(sorted)+1)]
		s.Hairpin = s.Local
	}
	if s.InternalLocal && !s.HasExternal() {
		s.Cluster = nil
	}
}

// Whole is the Delta from nothing to the Plan.
func Whole(p model.Plan) model.Delta {
	d := model.Delta{Globals: &p.Globals, Ports: map[model.PortName]*model.ServicePort{}, Allocated: map[netip.Addr]bool{}}
	for name, port := range p.Ports {
		d.Ports[name] = &port
	}
	for a := range p.Allocated {
		d.Allocated[a] = true
	}
	return d
}

// Endpoints are n of them side by side.
func Endpoints(f model.Family, n int) []netip.AddrPort {
	a := netip.MustParseAddr("10.244.3.250")
	if f == model.IPv6 {
		a = netip.MustParseAddr("fd00:10:244::fff0")
	}
	var all []netip.AddrPort
	for range n {
		all = append(all, netip.AddrPortFrom(a, 8080))
		a = a.Next()
	}
	return all
}

// Name is that of a port of a Service.
func Name() model.PortName {
	return model.PortName{Service: model.ServiceName{Namespace: "default", Name: "web"}, Port: "http", Protocol: model.TCP}
}
