//go:build linux

package tables

import (
	"net/netip"
	"slices"

	"github.com/clusterip-operator/clusterip-operator/proxyagent/model"
)

// contributed is what one port adds.
type contributed struct {
	spread
	values  map[Key]string
	runs    map[run][]netip.AddrPort
	members map[Key]struct{} // that other ports may want too
	routes  map[route]struct{}
}

func (c contributed) lead(s Set, of string, r route) {
	if r.direct() {
		c.values[Key{Set: s, Of: of}] = r.name()
	} else {
		c.values[Key{Set: s + routesOf, Of: of}] = r.number()
	}
	c.routes[r] = struct{}{}
}

func (c contributed) add(s Set, of string) { c.members[Key{Set: s, Of: of}] = struct{}{} }

// run are the endpoints of a front: an element for each index. Of thousands, few change at a time.
type run struct {
	set   Set
	front string
}

func (r run) key(i int) Key { return Key{Set: r.set, Of: r.front + index(i)} }

// contribution is a pure function of a port. With plain, its scheduler and weights do not count.
func contribution(p *model.ServicePort, plain bool) contributed {
	c := contributed{spread: spreadOf(p, plain), values: map[Key]string{}, runs: map[run][]netip.AddrPort{}, members: map[Key]struct{}{}, routes: map[route]struct{}{}}
	for _, f := range p.Fronts() {
		c.front(p, f)
	}
	for _, e := range p.Hairpin {
		c.add(hairpin, addr(e.Addr())+addr(e.Addr())+service(p.Name.Protocol, e.Port()))
	}
	if p.AffinitySeconds > 0 {
		c.keep(p.Name, false, p.Cluster)
		c.keep(p.Name, true, p.Local)
	}
	return c
}

// keep lets clients keep their endpoints. Once an endpoint leaves the set, all its clients lose it.
func (c contributed) keep(name model.PortName, local bool, all []netip.AddrPort) {
	for _, e := range all {
		c.values[Key{Set: kept, Of: numberOf(name, local) + destination(e)}] = ""
	}
}

// place are the maps of one kind of front.
type place struct{ fronts, picked, local, anywhere, unserved, affinity Set }

var (
	atAddress = place{fronts, picked, local, anywhere, unserved, affinity}
	atNode    = place{nodeFronts, nodePicked, nodeLocal, nodeAnywhere, nodeUnserved, nodeAffinity}
)

// front leads from one front of a port to its endpoints.
func (c contributed) front(p *model.ServicePort, f model.Front) {
	in, of := atNode, service(p.Name.Protocol, f.At.Port())
	if !f.IsNodePort() {
		in, of = atAddress, addr(f.At.Addr())+of
		c.address(p, f, of)
	}
	usable, picked := c.cluster, in.picked
	if f.Local {
		usable, picked = c.local, in.local
	}
	r := route{node: f.IsNodePort(), outside: f.Outside, local: f.Local}
	if !p.Balanced {
		r.n, r.by, r.affinity = len(usable), c.picker, p.AffinitySeconds
		c.runs[run{picked, of}] = usable
		if r.by == inTurn {
			r.counter = model.Digest(p.Name.String())
		}
	}
	if p.AffinitySeconds > 0 {
		c.values[Key{Set: in.affinity, Of: of}] = index(0) + numberOf(p.Name, false)[:8]
	}
	if f.Exempt {
		c.runs[run{in.picked, of}] = c.cluster
		c.lead(in.anywhere, of, route{node: r.node, through: true, n: len(c.cluster), by: r.by, counter: r.counter, affinity: r.affinity})
	}
	// IPVS may have an endpoint before rules know, and still when they do not any more: what it
	// takes has its mark always.
	if len(usable) > 0 || f.Exempt || p.Balanced {
		c.lead(in.fronts, of, r)
	}
	switch f.Fate {
	case model.Refuse:
		c.values[Key{Set: in.unserved, Of: of}] = chainRefuse
	case model.Drop:
		c.values[Key{Set: in.unserved, Of: of}] = Drop
	}
}

// address adds what only fronts with an address have.
func (c contributed) address(p *model.ServicePort, f model.Front, of string) {
	vip := addr(f.At.Addr())
	if f.Outside {
		c.add(vips, vip)
	} else {
		c.add(active, vip)
	}
	if p.Balanced && len(f.Usable) > 0 {
		c.add(balanced, of)
	}
	if p.Balanced && f.Outside && p.HealthCheckNodePort != 0 {
		c.add(balanced, vip+service(model.TCP, p.HealthCheckNodePort)) // the agent answers there
	}
	if len(f.Sources) > 0 {
		c.add(firewalled, of)
	}
	for _, source := range f.Sources {
		for _, part := range parts(source.Masked()) {
			c.add(sources, index(part.Bits())+of+addr(part.Addr()))
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
	upper := p.Addr().AsSlice()
	upper[p.Bits()/8] |= 0x80 >> (p.Bits() % 8)
	a, _ := netip.AddrFromSlice(upper)
	return slices.Concat(parts(netip.PrefixFrom(p.Addr(), p.Bits()+1)), parts(netip.PrefixFrom(a, p.Bits()+1)))
}
