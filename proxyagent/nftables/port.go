//go:build linux

package nftables

import (
	"net/netip"
	"slices"

	"github.com/clusterip-operator/clusterip-operator/proxyagent/model"
)

// contributed is what one port adds.
type contributed struct {
	spread
	values  map[key]string
	runs    map[run][]netip.AddrPort
	members map[key]struct{} // that other ports may want too
	routes  map[route]struct{}
}

func (c contributed) lead(s set, of string, r route) {
	if r.direct() {
		c.values[key{set: s, of: of}] = r.name()
	} else {
		c.values[key{set: s + routesOf, of: of}] = r.number()
	}
	c.routes[r] = struct{}{}
}

func (c contributed) add(s set, of string) { c.members[key{set: s, of: of}] = struct{}{} }

// run are the endpoints of a front: an element for each index. Of thousands, few change at a time.
type run struct {
	set   set
	front string
}

func (r run) key(i int) key { return key{set: r.set, of: r.front + index(i)} }

// contribution is a pure function of a port. With plain, its scheduler and weights do not count.
func contribution(p *model.ServicePort, plain bool) contributed {
	c := contributed{spread: spreadOf(p, plain), values: map[key]string{}, runs: map[run][]netip.AddrPort{}, members: map[key]struct{}{}, routes: map[route]struct{}{}}
	for _, vip := range p.ClusterIPs {
		c.add(active, addr(vip))
		c.front(p, atAddress, addr(vip)+service(p.Name.Protocol, p.Port), false)
	}
	for _, vip := range slices.Concat(p.ExternalIPs, p.LoadBalancerIPs) {
		c.add(vips, addr(vip))
		c.front(p, atAddress, addr(vip)+service(p.Name.Protocol, p.Port), true)
		if p.Balanced && p.HealthCheckNodePort != 0 {
			c.add(balanced, addr(vip)+service(model.TCP, p.HealthCheckNodePort)) // the agent answers there
		}
	}
	if p.NodePort != 0 {
		c.front(p, atNode, service(p.Name.Protocol, p.NodePort), true)
	}
	for _, e := range p.Hairpin {
		c.add(hairpin, addr(e.Addr())+addr(e.Addr())+service(p.Name.Protocol, e.Port()))
	}
	if p.AffinitySeconds > 0 {
		c.keep(p.Name, false, p.Cluster)
		c.keep(p.Name, true, p.Local)
	}
	c.firewall(p)
	return c
}

// keep lets clients keep their endpoints. An endpoint that goes leaves this set, and with it all
// its clients at once, however many they are.
func (c contributed) keep(name model.PortName, local bool, all []netip.AddrPort) {
	for _, e := range all {
		c.values[key{set: kept, of: numberOf(name, local) + destination(e)}] = ""
	}
}

// affinityTo is the value of a front of a port.
func affinityTo(name model.PortName) string { return index(0) + numberOf(name, false)[:8] }

// place are the maps of one kind of front.
type place struct{ fronts, picked, local, anywhere, unserved, affinity set }

var (
	atAddress = place{fronts, picked, local, anywhere, unserved, affinity}
	atNode    = place{nodeFronts, nodePicked, nodeLocal, nodeAnywhere, nodeUnserved, nodeAffinity}
)

// front leads from one front of a port to its endpoints.
func (c contributed) front(p *model.ServicePort, in place, of string, outside bool) {
	isLocal := p.InternalLocal
	if outside {
		isLocal = p.ExternalLocal
	}
	usable := c.cluster
	if isLocal {
		usable = c.local
	}
	r := route{node: in.fronts == nodeFronts, outside: outside, local: isLocal, n: len(usable), by: c.picker, affinity: p.AffinitySeconds}
	if c.picker == inTurn {
		r.counter = model.Digest(p.Name.String())
	}
	if p.AffinitySeconds > 0 {
		c.values[key{set: in.affinity, of: of}] = affinityTo(p.Name)
	}
	if p.Balanced {
		r.n, r.by, r.counter, r.affinity = 0, atRandom, "", 0
	}
	if p.Balanced && !r.node && len(usable) > 0 {
		c.add(balanced, of)
	}
	// Clients on this node may use all endpoints of a front whose policy is Local.
	split := outside && isLocal && len(c.cluster) > 0
	if !isLocal && !p.Balanced || split {
		c.runs[run{in.picked, of}] = c.cluster
	}
	if isLocal && !p.Balanced {
		c.runs[run{in.local, of}] = c.local
	}
	if split {
		c.lead(in.anywhere, of, route{node: r.node, through: true, n: len(c.cluster), by: r.by, counter: r.counter, affinity: r.affinity})
	}
	if len(usable) > 0 || split {
		c.lead(in.fronts, of, r)
	}
	c.withoutEndpoints(p, key{set: in.unserved, of: of}, usable)
}

// withoutEndpoints says what becomes of the clients of a front that leads to no endpoint.
func (c contributed) withoutEndpoints(p *model.ServicePort, k key, usable []netip.AddrPort) {
	switch {
	case !p.HasEndpoints:
		c.values[k] = chainRefuse
	case len(usable) == 0:
		c.values[k] = drop
	}
}

// firewall limits load balancer IPs to the source ranges. Without endpoints all clients are refused.
func (c contributed) firewall(p *model.ServicePort) {
	if len(p.SourceRanges) == 0 || !p.HasEndpoints {
		return
	}
	for _, vip := range p.LoadBalancerIPs {
		of := addr(vip) + service(p.Name.Protocol, p.Port)
		c.add(firewalled, of)
		for _, r := range p.SourceRanges {
			for _, part := range parts(r.Masked()) {
				c.add(sources, index(part.Bits())+of+addr(part.Addr()))
			}
		}
	}
}

// stride is by how many bits the lengths of source ranges in the kernel differ.
const stride = 4

// parts are the prefixes of the next of these lengths that make up a prefix.
func parts(p netip.Prefix) []netip.Prefix {
	if p.Bits()%stride == 0 {
		return []netip.Prefix{p}
	}
	half := netip.PrefixFrom(p.Addr(), p.Bits()+1)
	return slices.Concat(parts(half), parts(netip.PrefixFrom(last(half).Next(), half.Bits())))
}
