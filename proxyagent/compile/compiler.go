package compile

import (
	"net/netip"
	"slices"

	"github.com/clusterip-operator/clusterip-operator/proxyagent/model"
)

// Compiler compiles changes for one family. Make one with New; its methods must not run at the same time. It keeps references to what it
// was given, and what it returns is never changed afterwards.
//
// Apply costs what changed: the endpoints of the Services in it, and, where the claims of a Service change, those of all Services that
// claim one of the same addresses or ports. Only a Node with another name, zone or address costs all Services. Plan and Disputes cost
// what they return, Explain one Service.
type Compiler struct {
	set  model.Settings
	node model.Node
	// local and ranges are as the API server and the node said them.
	local  []netip.Addr
	ranges []netip.Prefix

	globals model.Globals
	records map[model.ServiceName]*record
	// allocations are those that could be virtual IPs of the family; additional are the addresses of some of them, by their Service,
	// which need not exist.
	allocations map[netip.Addr]model.Allocation
	additional  map[model.ServiceName][]netip.Addr
	// clusters has the claims of spec.clusterIPs, outside those of load balancer and external IPs, and fronts the same with their ports.
	clusters, outside index[netip.Addr]
	fronts            index[front]
	nodePorts         index[portKey]
	// winners counts the Services that have an address at some port, allocated is Plan.Allocated.
	winners   map[netip.Addr]int
	allocated map[netip.Addr]struct{}
	disputed  map[*record]struct{}
	// evaluations counts the Services that were compiled, for tests of the cost.
	evaluations int
}

// New returns a Compiler that knows of nothing yet; its Plan is empty until the first Apply, also of no Changes.
func New(s model.Settings) *Compiler {
	return &Compiler{
		set:         s,
		records:     map[model.ServiceName]*record{},
		allocations: map[netip.Addr]model.Allocation{},
		additional:  map[model.ServiceName][]netip.Addr{},
		clusters:    index[netip.Addr]{},
		outside:     index[netip.Addr]{},
		fronts:      index[front]{},
		nodePorts:   index[portKey]{},
		winners:     map[netip.Addr]int{},
		allocated:   map[netip.Addr]struct{}{},
		disputed:    map[*record]struct{}{},
	}
}

// Compile returns the Plan for a State. Applying any history that ends in that State leads to the same.
func Compile(s model.Settings, st model.State) model.Plan {
	c := New(s)
	ch := model.Changes{
		Services:    make(map[model.ServiceName]*model.Service, len(st.Services)),
		Allocations: make(map[netip.Addr]*model.Allocation, len(st.Allocations)),
		Ranges:      &st.Ranges, Node: &st.Node, LocalAddrs: &st.LocalAddrs,
	}
	for n, x := range st.Services {
		ch.Services[n] = &x
	}
	for a, x := range st.Allocations {
		ch.Allocations[a] = &x
	}
	c.Apply(ch)
	return c.Plan()
}

// Apply takes in what changed and returns what that changes in the Plan. The first call returns the Globals in any case. The keys of the
// Changes' maps count, not the names inside of the values.
func (c *Compiler) Apply(ch model.Changes) model.Delta {
	w := &work{stale: map[*record]struct{}{}, touched: map[netip.Addr]struct{}{}}
	for n, s := range ch.Services {
		c.putService(w, n, s)
	}
	for a, x := range ch.Allocations {
		c.putAllocation(w, a, x)
	}
	c.putSurroundings(w, ch)
	for r := range w.stale {
		c.evaluate(w, r)
	}
	for a := range w.touched {
		c.reviewAllocated(w, a)
	}
	return w.delta
}

// work is one Apply.
type work struct {
	// stale are Services to be compiled, touched addresses whose allocation may have changed.
	stale   map[*record]struct{}
	touched map[netip.Addr]struct{}
	delta   model.Delta
}

func (w *work) mark(all []claim) {
	for _, c := range all {
		w.stale[c.by] = struct{}{}
	}
}

// putService takes in a Service, or that it is gone when s is nil. Services that share a claim are compiled with it only when claims
// change.
func (c *Compiler) putService(w *work, n model.ServiceName, s *model.Service) {
	r := c.records[n]
	if r == nil {
		if s == nil {
			return
		}
		r = &record{name: n}
	}
	w.stale[r] = struct{}{}
	var next claims
	if s != nil {
		next = claimsOf(s, c.set)
	}
	if r.service == nil || s == nil || !r.equal(next) {
		c.unlist(w, r)
		r.claims = next
		c.list(w, r, s != nil)
	}
	r.service = s
}

// unlist takes the claims of a Service out of the indexes and marks whom that may concern.
func (c *Compiler) unlist(w *work, r *record) {
	delete(c.records, r.name)
	c.eachClaim(r, func(a netip.Addr) { c.clusters.remove(a, claim{by: r}) },
		func(a netip.Addr) { c.outside.remove(a, claim{by: r}) },
		func(f front, k class) { c.fronts.remove(f, claim{r, k}) },
		func(p portKey) { c.nodePorts.remove(p, claim{by: r}) })
	c.markRivals(w, r)
}

// list puts the claims of a Service that exists into the indexes and marks whom that may concern.
func (c *Compiler) list(w *work, r *record, exists bool) {
	if !exists {
		return
	}
	c.records[r.name] = r
	c.eachClaim(r, func(a netip.Addr) { c.clusters.add(a, claim{by: r}) },
		func(a netip.Addr) { c.outside.add(a, claim{by: r}) },
		func(f front, k class) { c.fronts.add(f, claim{r, k}) },
		func(p portKey) { c.nodePorts.add(p, claim{by: r}) })
	c.markRivals(w, r)
}

func (c *Compiler) eachClaim(r *record, cluster, outside func(netip.Addr), at func(front, class), node func(portKey)) {
	for _, a := range r.cluster {
		cluster(a)
	}
	for a := range r.outside() {
		outside(a)
	}
	for f, k := range r.fronts() {
		at(f, k)
	}
	for p := range r.nodePorts() {
		node(p)
	}
}

// markRivals marks everybody who claims what the Service claims.
func (c *Compiler) markRivals(w *work, r *record) {
	for _, a := range c.addresses(r) {
		c.markHolders(w, a)
	}
	for f := range r.fronts() {
		w.mark(c.fronts[f])
	}
	for p := range r.nodePorts() {
		w.mark(c.nodePorts[p])
	}
}

// markHolders marks everybody to whom it matters who has the address as ClusterIP or additional address.
func (c *Compiler) markHolders(w *work, a netip.Addr) {
	w.mark(c.clusters[a])
	w.mark(c.outside[a])
	if r := c.additionalFor(a); r != nil {
		w.stale[r] = struct{}{}
	}
}

// putAllocation takes in an IPAddress, or that it is gone when x is nil.
func (c *Compiler) putAllocation(w *work, a netip.Addr, x *model.Allocation) {
	if whyNoVirtualIP(a, c.set.Family) != "" {
		return
	}
	c.markHolders(w, a)
	if old := c.allocations[a]; old.Additional {
		c.dropAdditional(old.Service, a)
	}
	delete(c.allocations, a)
	if x != nil {
		c.allocations[a] = *x
	}
	if x != nil && x.Additional {
		c.additional[x.Service] = sorted(append(c.additional[x.Service], a), netip.Addr.Compare)
	}
	c.markHolders(w, a)
	w.touched[a] = struct{}{}
}

func (c *Compiler) dropAdditional(n model.ServiceName, a netip.Addr) {
	left := slices.DeleteFunc(c.additional[n], func(o netip.Addr) bool { return o == a })
	if c.additional[n] = left; len(left) == 0 {
		delete(c.additional, n)
	}
}

// putSurroundings takes in the node, its addresses and the ServiceCIDRs.
func (c *Compiler) putSurroundings(w *work, ch model.Changes) {
	if ch.Node != nil {
		if !samePlace(c.node, *ch.Node) {
			c.markAll(w)
		}
		c.node = *ch.Node
	}
	if ch.LocalAddrs != nil {
		c.local = *ch.LocalAddrs
	}
	if ch.Ranges != nil {
		c.ranges = *ch.Ranges
	}
	next := globalsOf(c.set, c.node, c.local, c.ranges)
	if equalGlobals(c.globals, next) {
		return
	}
	if !slices.Equal(c.globals.Ranges, next.Ranges) {
		c.touchAll(w)
	}
	c.globals, w.delta.Globals = next, &next
}

// samePlace reports whether Services cannot tell the two apart.
func samePlace(a, b model.Node) bool {
	return a.Name == b.Name && a.Zone == b.Zone && slices.Equal(a.IPs, b.IPs)
}

func (c *Compiler) markAll(w *work) {
	for _, r := range c.records {
		w.stale[r] = struct{}{}
	}
}

// Plan returns the sum of all Deltas. It is the caller's; only values that never change are shared.
func (c *Compiler) Plan() model.Plan {
	p := model.Plan{
		Globals:   c.globals,
		Ports:     make(map[model.PortName]model.ServicePort, len(c.records)),
		Allocated: make(map[netip.Addr]struct{}, len(c.allocated)),
	}
	for _, r := range c.records {
		for _, x := range r.served {
			p.Ports[x.Name] = *x
		}
	}
	for a := range c.allocated {
		p.Allocated[a] = struct{}{}
	}
	return p
}

// Disputes returns the addresses that Services claim and do not get, as they are now, sorted by address and Service, once for each pair.
// An external or load balancer IP that a Service gets at some of its ports and not at others is among them.
func (c *Compiler) Disputes() []model.Dispute {
	var out []model.Dispute
	for r := range c.disputed {
		out = append(out, r.disputes...)
	}
	slices.SortFunc(out, func(a, b model.Dispute) int {
		if r := a.Addr.Compare(b.Addr); r != 0 {
			return r
		}
		return a.Loser.Compare(b.Loser)
	})
	return out
}

// Claimants returns the Services that claim the address, in whatever way and with success or not, sorted.
func (c *Compiler) Claimants(a netip.Addr) []model.ServiceName {
	var out []model.ServiceName
	for _, x := range slices.Concat(c.clusters[a], c.outside[a]) {
		out = append(out, x.by.name)
	}
	if r := c.additionalFor(a); r != nil {
		out = append(out, r.name)
	}
	return sorted(out, model.ServiceName.Compare)
}
