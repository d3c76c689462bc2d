package compile

import (
	"cmp"
	"net/netip"
	"slices"

	"github.com/clusterip-operator/clusterip-operator/proxyagent/model"
)

// Compiler compiles changes for one family. Make one with New; its methods must not run at the same
// time. It keeps references to what it was given, and never changes what it has returned.
//
// Apply costs the endpoints of the Services that changed and, where claims change, those of all
// Services that claim one of the same addresses or ports. Only a Node with another name, zone or
// address costs all Services. Plan and Disputes cost what they return, Explain one Service.
type Compiler struct {
	set  model.Settings
	node model.Node
	// local and ranges are as the API server and the node said them.
	local  []netip.Addr
	ranges []netip.Prefix

	globals model.Globals
	records map[model.ServiceName]*record
	// allocations are those that could be virtual IPs of the family; additional are the addresses of
	// some of them, by their Service, which need not exist.
	allocations map[netip.Addr]*model.Allocation
	additional  map[model.ServiceName][]netip.Addr
	// former are the keys of those allocations that are former addresses.
	former map[netip.Addr]struct{}
	// clusters has spec.clusterIPs, outside the load balancer and external IPs, fronts these by port.
	clusters, outside index[netip.Addr]
	fronts            index[front]
	nodePorts         index[portKey]
	// winners counts the Services that have an address, from outside once for each port; allocated is
	// Plan.Allocated.
	winners   map[netip.Addr]int
	allocated map[netip.Addr]struct{}
	disputed  map[*record]struct{}
	// misread has Services that are served though some of what they ask for cannot be read, or used.
	misread map[*record]struct{}
	// evaluations counts the Services that were compiled, for tests of the cost.
	evaluations int
}

// New returns a Compiler that knows of nothing yet. Its Plan is empty until the first Apply, even
// one of no Changes.
func New(s model.Settings) *Compiler {
	return &Compiler{
		set:         s,
		records:     map[model.ServiceName]*record{},
		allocations: map[netip.Addr]*model.Allocation{},
		additional:  map[model.ServiceName][]netip.Addr{},
		former:      map[netip.Addr]struct{}{},
		clusters:    index[netip.Addr]{},
		outside:     index[netip.Addr]{},
		fronts:      index[front]{},
		nodePorts:   index[portKey]{},
		winners:     map[netip.Addr]int{},
		allocated:   map[netip.Addr]struct{}{},
		disputed:    map[*record]struct{}{},
		misread:     map[*record]struct{}{},
	}
}

// Apply takes in what changed and returns what that changes in the Plan. The first call always
// returns the Globals. The keys of the Changes' maps count, not the names inside of the values.
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

// Disputes returns the addresses that Services claim and do not get, as they are now, sorted by
// address and Service, once for each pair. An external or load balancer IP that a Service gets at
// only some of its ports is among them.
func (c *Compiler) Disputes() []model.Dispute {
	var out []model.Dispute
	for r := range c.disputed {
		out = append(out, r.disputes...)
	}
	slices.SortFunc(out, func(a, b model.Dispute) int { return cmp.Or(a.Addr.Compare(b.Addr), a.Loser.Compare(b.Loser)) })
	return out
}

// Degraded returns what ports do without because their Services ask for it in words that cannot be
// read, sorted by port.
func (c *Compiler) Degraded() (all []model.Degradation) {
	for r := range c.misread {
		for _, p := range r.served {
			if len(p.LoadBalancerIPs) > 0 && c.closed(r) {
				all = append(all, model.Degradation{Port: p.Name, Reason: model.SourcesUnusable})
			}
			if !r.service.Balancing.HasIgnored() {
				continue
			}
			for _, reason := range r.service.Balancing.Ignored {
				all = append(all, model.Degradation{Port: p.Name, Reason: reason})
			}
		}
	}
	slices.SortFunc(all, model.Degradation.Compare)
	return all
}

// Former returns the former addresses that still serve their Services, unsorted. It costs them all.
func (c *Compiler) Former() (served []netip.Addr) {
	for a := range c.former {
		if r := c.records[c.allocations[a].Service]; r != nil && !r.service.Foreign && c.holder(a) == r {
			served = append(served, a)
		}
	}
	return served
}

// Claimants returns the Services that claim the address in any way, with success or not, sorted.
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
