//go:build linux

package ipvs

import (
	"cmp"
	"maps"
	"net/netip"
	"slices"

	"github.com/clusterip-operator/clusterip-operator/proxyagent/model"
)

// Table is what the kernel should have for one family, and what of it the kernel has. An Apply and
// its steps cost what the Delta touches. Not for concurrent use.
type Table struct {
	family      model.Family
	standard    model.Scheduler // of ports that ask for none
	unavailable map[model.Scheduler]bool

	globals model.Globals // as they were given
	ports   map[model.PortName]*model.ServicePort
	own     map[netip.Addr]bool // addresses that the node has on other interfaces than ours
	nodes   []netip.Addr        // those at which node ports are served

	virtual map[front]claim    // by virtual IP
	node    map[front]claim    // node ports, by their marks
	marks   map[front]int      // ports that need a mark because a virtual IP is one of own, by how many do
	vips    map[netip.Addr]int // by how many fronts

	have    map[front]*server
	bound   map[netip.Addr]bool // virtual IPs that our interface has
	touched map[front]bool      // may differ from the kernel
	moved   map[netip.Addr]bool // virtual IPs that may
}

// claim is a port that is served at a front, and by which endpoints.
type claim struct {
	port   *model.ServicePort
	usable []netip.AddrPort
}

// NewTable returns a Table that wants nothing, for a kernel that has nothing.
func NewTable(f model.Family, standard model.Scheduler) *Table {
	t := &Table{family: f, standard: cmp.Or(standard, model.RoundRobin), unavailable: map[model.Scheduler]bool{}, ports: map[model.PortName]*model.ServicePort{}, own: map[netip.Addr]bool{}}
	t.forget()
	t.reset()
	return t
}

// forget is for a kernel of which nothing is known.
func (t *Table) forget() {
	t.have, t.bound = map[front]*server{}, map[netip.Addr]bool{}
	t.touched, t.moved = map[front]bool{}, map[netip.Addr]bool{}
}

func (t *Table) reset() {
	t.virtual, t.node, t.marks, t.vips = map[front]claim{}, map[front]claim{}, map[front]int{}, map[netip.Addr]int{}
}

// Apply takes a Delta in.
func (t *Table) Apply(d model.Delta) {
	if d.Globals != nil {
		t.globals = *d.Globals
		t.place(false)
	}
	// All are removed before any is added: an address or a node port may move from one to another.
	for name := range d.Ports {
		if old := t.ports[name]; old != nil {
			t.put(old, false)
			delete(t.ports, name)
		}
	}
	for name, p := range d.Ports {
		if p != nil {
			t.ports[name] = p
			t.put(p, true)
		}
	}
}

// SetOwn takes the addresses of the node in, and reports whether they are other ones than before.
func (t *Table) SetOwn(addrs []netip.Addr) bool {
	own := model.SetOf(addrs)
	if maps.Equal(own, t.own) {
		return false
	}
	t.own = own
	t.place(true)
	return true
}

// place looks at everything again when addresses of the node, or those of node ports, changed.
func (t *Table) place(others bool) {
	nodes := t.nodePortAddrs()
	if !others && slices.Equal(t.nodes, nodes) {
		return
	}
	t.touchAll()
	t.nodes = nodes
	t.reset()
	for _, p := range t.ports {
		t.put(p, true)
	}
}

// touchAll has everything compared that the kernel has, or should have.
func (t *Table) touchAll() {
	for f := range t.have {
		t.touched[f] = true
	}
	for f := range t.virtual {
		t.touched[f] = true
	}
	for m := range t.node {
		t.touchNode(m)
	}
	for a := range t.bound {
		t.moved[a] = true
	}
	for a := range t.vips {
		t.moved[a] = true
	}
}

func (t *Table) touchNode(mark front) {
	t.touched[mark] = true
	for _, a := range t.nodes {
		t.touched[front{mark.protocol, netip.AddrPortFrom(a, mark.at.Port())}] = true
	}
}

// nodePortAddrs are those with node ports. IPVS takes no packets from 127.0.0.0/8, and link-local
// addresses are the same on each interface.
func (t *Table) nodePortAddrs() []netip.Addr {
	from := t.globals.NodePortAddrs
	if t.globals.NodePortAny {
		from = slices.SortedFunc(maps.Keys(t.own), netip.Addr.Compare)
	}
	return slices.DeleteFunc(slices.Clone(from), func(a netip.Addr) bool { return a.IsLoopback() || a.IsLinkLocalUnicast() })
}

// put adds the fronts of a port, or removes them.
func (t *Table) put(p *model.ServicePort, present bool) {
	for _, f := range p.Fronts() {
		at, addr, claims := front{p.Name.Protocol, f.At}, f.At.Addr(), t.virtual
		if f.IsNodePort() {
			at, claims = front{p.Name.Protocol, netip.AddrPortFrom(t.family.Unspecified(), p.NodePort)}, t.node
		}
		model.Put(claims, at, claim{p, f.Usable}, present)
		if f.IsNodePort() {
			t.touchNode(at)
			continue
		}
		t.touched[at], t.moved[addr] = true, true
		model.Count(t.vips, addr, model.Sign(present))
		if t.own[addr] {
			model.Count(t.marks, at.mark(), model.Sign(present))
			t.touched[at.mark()] = true
		}
	}
}

// wanted is the virtual server that a front should have, nil for none.
func (t *Table) wanted(f front) *server {
	_, isNodePort := t.node[f]
	if c := t.claimed(f); c.port != nil {
		scheduler, _ := t.scheduler(c.port)
		return &server{balancing{scheduler, c.port.AffinitySeconds}, weightsOf(c.port, c.usable)}
	}
	if f.isMark() && (isNodePort || t.marks[f] > 0) {
		return &server{balancing: balancing{scheduler: model.RoundRobin}}
	}
	return nil
}

// claimed is the claim that is served at a front; its port is nil for none.
func (t *Table) claimed(f front) claim {
	if c, ok := t.virtual[f]; ok {
		return c
	}
	if slices.Contains(t.nodes, f.at.Addr()) {
		return t.node[f.mark()]
	}
	return claim{}
}

// scheduler is that of a port, and whether it is the one that it asks for.
func (t *Table) scheduler(p *model.ServicePort) (model.Scheduler, bool) {
	s := cmp.Or(p.Scheduler, t.standard)
	if !model.IPVS.Has(s) || t.unavailable[s] {
		return t.standard, false
	}
	return s, true
}

// refuse notes that the kernel does not have a scheduler. Many ports may ask for it.
func (t *Table) refuse(s model.Scheduler) {
	if !t.unavailable[s] {
		t.unavailable[s] = true
		t.touchAll()
	}
}

// retryUnavailable is for schedulers that the kernel did not have: a module may have been loaded
// since. The kernel must not be asked for those that are unloaded.
func (t *Table) retryUnavailable(unloaded []model.Scheduler) {
	now := model.SetOf(unloaded)
	if !maps.Equal(now, t.unavailable) {
		t.unavailable = now
		t.touchAll()
	}
}

// steps are what to do about virtual servers. Those that bring something come before those that
// take something away. A mark comes before what it marks, and goes after it.
func (t *Table) steps() (build, clear []step) {
	var first, last []step
	for _, f := range slices.SortedFunc(maps.Keys(t.touched), front.compare) {
		b, c := decide(f, t.wanted(f), t.have[f])
		if f.isMark() {
			first, last = append(first, b...), append(last, c...)
		} else {
			build, clear = append(build, b...), append(clear, c...)
		}
	}
	return append(first, build...), append(clear, last...)
}

// addresses are the virtual IPs that our interface should get, and those that it should lose. One
// that another interface has stays there alone.
func (t *Table) addresses() (come, gone []netip.Addr) {
	for _, a := range slices.SortedFunc(maps.Keys(t.moved), netip.Addr.Compare) {
		switch wanted := t.vips[a] > 0 && !t.own[a]; {
		case wanted && !t.bound[a]:
			come = append(come, a)
		case !wanted && t.bound[a]:
			gone = append(gone, a)
		}
	}
	return come, gone
}

func (t *Table) done(s step) {
	switch s.action {
	case addServer:
		t.have[s.front] = &server{s.balancing, map[netip.AddrPort]int{}}
	case setServer:
		t.have[s.front].balancing = s.balancing
	case removeServer:
		delete(t.have, s.front)
	case addEndpoint, setWeight:
		t.have[s.front].weights[s.endpoint] = s.weight
	case removeEndpoint:
		delete(t.have[s.front].weights, s.endpoint)
	}
}

// settled notes that the kernel has everything as it should be.
func (t *Table) settled() { clear(t.touched); clear(t.moved) }

// fronts are those of a port, sorted.
func (t *Table) fronts(p *model.ServicePort) (all []front) {
	for _, f := range p.Fronts() {
		at := []netip.Addr{f.At.Addr()}
		if f.IsNodePort() {
			at = t.nodes
		}
		for _, a := range at {
			all = append(all, front{p.Name.Protocol, netip.AddrPortFrom(a, f.At.Port())})
		}
	}
	slices.SortFunc(all, front.compare)
	return slices.Compact(all)
}
