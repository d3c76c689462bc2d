package iptables

import (
	"cmp"
	"fmt"
	"maps"
	"math/rand/v2"
	"net/netip"
	"slices"

	"github.com/clusterip-operator/clusterip-operator/proxyagent/model"
)

// plans makes random Plans and random steps from one to the next. Addresses are given out so that no two ports share one, as a compiler
// promises.
type plans struct {
	*rand.Rand
	plan model.Plan
	// names replace namespace, name and port name where they are not empty.
	names [3]string
}

func newPlans(seed uint64, f model.Family) *plans {
	p := &plans{Rand: rand.New(rand.NewPCG(seed, 1)), plan: model.Plan{Ports: map[model.PortName]model.ServicePort{}, Allocated: map[netip.Addr]struct{}{}}}
	p.plan.Globals = p.globals(f)
	return p
}

func (p *plans) globals(f model.Family) model.Globals {
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
		g.LocalSource = model.LocalSource{CIDR: netip.PrefixFrom(p.addr(f, 2, 0), f.Bits()-8).Masked()}
	}
	if p.IntN(3) == 0 {
		g.NodePortAny, g.LocalhostNodePorts = false, false
		g.NodePortAddrs = []netip.Addr{p.addr(f, 9, 1), p.addr(f, 9, 2)}
	}
	g.KeepInvalid = p.IntN(3) == 0
	return g
}

// addr is the n-th address of a network.
func (p *plans) addr(f model.Family, network byte, n int) netip.Addr {
	if f == model.IPv4 {
		return netip.AddrFrom4([4]byte{10, 96 + network, byte(n >> 8), byte(n)})
	}
	return netip.AddrFrom16([16]byte{0xfd, 0, 0, 0x10, 0, 0x96, 12: network, 14: byte(n >> 8), 15: byte(n)})
}

// step changes a few ports, and sometimes the Globals, and returns the Delta.
func (p *plans) step(n int) model.Delta {
	d := model.Delta{Ports: map[model.PortName]*model.ServicePort{}, Before: map[model.PortName]model.ServicePort{}, Allocated: map[netip.Addr]bool{}}
	if p.IntN(6) == 0 {
		g := p.globals(p.plan.Globals.Family)
		p.plan.Globals, d.Globals = g, &g
	}
	for range n {
		index := p.IntN(120)
		name := model.PortName{
			Service: model.ServiceName{Namespace: cmp.Or(p.names[0], "ns"), Name: fmt.Sprint(cmp.Or(p.names[1], "s"), index)},
			Port:    cmp.Or(p.names[2], "p"), Protocol: model.Protocols[p.IntN(3)],
		}
		if before, there := p.plan.Ports[name]; there && d.Ports[name] == nil {
			d.Before[name] = before
		}
		if p.IntN(4) == 0 {
			delete(p.plan.Ports, name)
			d.Ports[name] = nil
			continue
		}
		port := p.port(name, index)
		p.plan.Ports[name], d.Ports[name] = port, &port
	}
	for range p.IntN(3) {
		a := p.addr(p.plan.Globals.Family, 0, p.IntN(500))
		if _, there := p.plan.Allocated[a]; there {
			delete(p.plan.Allocated, a)
			d.Allocated[a] = false
		} else {
			p.plan.Allocated[a] = struct{}{}
			d.Allocated[a] = true
		}
	}
	return d
}

func (p *plans) port(name model.PortName, index int) model.ServicePort {
	f := p.plan.Globals.Family
	s := model.ServicePort{Name: name, Port: []uint16{80, 1, 65535}[p.IntN(3)], InternalLocal: p.IntN(4) == 0, ExternalLocal: p.IntN(3) == 0}
	s.ClusterIPs = []netip.Addr{p.addr(f, 0, index)}
	if p.IntN(8) == 0 {
		s.ClusterIPs = append(s.ClusterIPs, p.addr(f, 1, index))
	}
	if p.IntN(3) == 0 {
		s.NodePort = uint16(30000 + index*7)
	}
	if p.IntN(4) == 0 {
		s.ExternalIPs = []netip.Addr{p.addr(f, 3, index)}
	}
	if p.IntN(4) == 0 {
		s.LoadBalancerIPs = []netip.Addr{p.addr(f, 4, index)}
		if p.IntN(2) == 0 {
			s.SourceRanges = []netip.Prefix{
				netip.PrefixFrom(p.addr(f, 5, p.IntN(3)*256), f.Bits()-8-p.IntN(2)*p.IntN(16)).Masked(), single(p.addr(f, 4, index)),
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

func (p *plans) endpoints(f model.Family, s *model.ServicePort) {
	all := map[netip.AddrPort]struct{}{}
	for range []int{0, 1, 2, 3, 3, 7, 9, 40, 200}[p.IntN(9)] {
		all[netip.AddrPortFrom(p.addr(f, 2, p.IntN(400)), 8080)] = struct{}{}
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

// whole is the Delta from nothing to the Plan.
func whole(p model.Plan) model.Delta {
	d := model.Delta{Globals: &p.Globals, Ports: map[model.PortName]*model.ServicePort{}, Allocated: map[netip.Addr]bool{}}
	for name, port := range p.Ports {
		d.Ports[name] = &port
	}
	for a := range p.Allocated {
		d.Allocated[a] = true
	}
	return d
}
