package compile

import (
	"net/netip"
	"reflect"
	"slices"

	"github.com/clusterip-operator/clusterip-operator/proxyagent/model"
)

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

// putService takes in a Service, or that it is gone when s is nil. Services that share a claim are
// compiled with it only when claims change.
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
		c.list(w, r, false)
		r.claims = next
		c.list(w, r, s != nil)
	}
	r.service = s
}

// list adds a Service and its claims to the indexes, or removes them, and marks affected Services.
func (c *Compiler) list(w *work, r *record, present bool) {
	model.Put(c.records, r.name, r, present)
	for _, a := range r.cluster {
		c.clusters.set(a, claim{by: r}, present)
	}
	for a := range r.outside() {
		c.outside.set(a, claim{by: r}, present)
	}
	for f, k := range r.fronts() {
		c.fronts.set(f, claim{r, k}, present)
	}
	for p := range r.nodePorts() {
		c.nodePorts.set(p, claim{by: r}, present)
	}
	c.markRivals(w, r)
}

// markRivals marks all Services that share a claim with this one.
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

// markHolders marks all Services that depend on which one is the holder of the address.
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
	if old := c.allocations[a]; old != nil && old.Additional {
		c.dropAdditional(old.Service, a)
	}
	model.Put(c.allocations, a, x, x != nil)
	model.Put(c.former, a, struct{}{}, x != nil && x.Former)
	if x != nil && x.Additional {
		c.additional[x.Service] = sorted(append(c.additional[x.Service], a), netip.Addr.Compare)
	}
	c.markHolders(w, a)
	w.touched[a] = struct{}{}
}

func (c *Compiler) dropAdditional(n model.ServiceName, a netip.Addr) {
	left := slices.DeleteFunc(c.additional[n], func(o netip.Addr) bool { return o == a })
	model.Put(c.additional, n, left, len(left) > 0)
}

// putSurroundings takes in the node, its addresses and the ServiceCIDRs.
func (c *Compiler) putSurroundings(w *work, ch model.Changes) {
	if ch.Node != nil {
		if before := c.node; before.Name != ch.Node.Name || before.Zone != ch.Node.Zone || !slices.Equal(before.IPs, ch.Node.IPs) {
			for _, r := range c.records {
				w.stale[r] = struct{}{}
			}
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
	if reflect.DeepEqual(c.globals, next) {
		return
	}
	if !slices.Equal(c.globals.Ranges, next.Ranges) {
		c.touchAll(w)
	}
	c.globals, w.delta.Globals = next, &next
}
