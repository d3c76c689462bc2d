package compile

import (
	"maps"
	"net/netip"
	"slices"

	"github.com/clusterip-operator/clusterip-operator/proxyagent/model"
)

// outcome is a Service as it is served now.
type outcome struct {
	// served are the ports, sorted by name.
	served []*model.ServicePort
	// won are the addresses of the Service, in claim order, those from outside once for each port.
	won []netip.Addr
	// disputes are the addresses that it claims and does not get, sorted.
	disputes []model.Dispute
}

// evaluate compiles one Service again and records what changed.
func (c *Compiler) evaluate(w *work, r *record) {
	c.evaluations++
	var next outcome
	if r.service != nil {
		next = c.outcomeOf(r)
	}
	w.replace(r.served, next.served)
	if !slices.Equal(r.won, next.won) {
		c.countWinners(w, r.won, -1)
		c.countWinners(w, next.won, 1)
	}
	r.outcome = next
	misread := r.service != nil && len(r.served) > 0 && (r.service.Balancing.HasIgnored() || c.closed(r))
	model.Put(c.misread, r, struct{}{}, misread)
	model.Put(c.disputed, r, struct{}{}, len(r.disputes) > 0)
}

// outcomeOf decides about all claims of a Service and compiles its ports.
func (c *Compiler) outcomeOf(r *record) outcome {
	var o outcome
	for _, a := range c.addresses(r) {
		o.note(r, a, c.decideCluster(r, a))
	}
	held, all := o.won, endpointsOf(r.service, c.set.Family)
	for i := range r.ports {
		if p := c.portOf(r, &r.ports[i], held, &o); hasFrontend(p) {
			fill(p, all.of(p.Name.Port, p.Name.Protocol), c.location())
			balance(p, all.of(p.Name.Port, p.Name.Protocol), r.service.Balancing)
			o.served = append(o.served, p)
		}
	}
	// Of an address the dispute of the first port is kept.
	slices.SortStableFunc(o.disputes, func(a, b model.Dispute) int { return a.Addr.Compare(b.Addr) })
	o.disputes = slices.CompactFunc(o.disputes, func(a, b model.Dispute) bool { return a.Addr == b.Addr })
	if r.service.Foreign { // it has its addresses, and the proxy that serves it reports what it lacks
		return outcome{won: o.won}
	}
	return o
}

// note records the decision about a claim, and reports whether the address is served.
func (o *outcome) note(r *record, a netip.Addr, v decision) bool {
	if v.served() {
		o.won = append(o.won, a)
	} else if d, ok := v.dispute(a, r); ok {
		o.disputes = append(o.disputes, d)
	}
	return v.served()
}

// portOf compiles the frontends of a port.
func (c *Compiler) portOf(r *record, p *port, held []netip.Addr, o *outcome) *model.ServicePort {
	s := r.service
	out := &model.ServicePort{
		Name:            model.PortName{Service: r.name, Port: p.Name, Protocol: p.Protocol},
		Port:            p.Port.Port,
		AffinitySeconds: s.AffinitySeconds,
		InternalLocal:   s.InternalLocal, ExternalLocal: s.ExternalLocal,
		HealthCheckNodePort: s.HealthCheckNodePort,
	}
	if p.firstNodePort && c.nodePorts.first(p.nodePort()) == r {
		out.NodePort = p.NodePort
	}
	if !p.firstPort {
		return out
	}
	out.ClusterIPs = slices.Clip(held)
	for _, a := range held {
		if _, former := c.former[a]; former {
			out.Former = append(out.Former, a)
		}
	}
	for a, k := range r.outside() {
		if !o.note(r, a, c.decideOutside(r, p.front(a))) {
			continue
		}
		if k == byStatus {
			out.LoadBalancerIPs = append(out.LoadBalancerIPs, a)
		} else {
			out.ExternalIPs = append(out.ExternalIPs, a)
		}
	}
	if len(out.LoadBalancerIPs) > 0 {
		out.SourceRanges = c.sourceRanges(r, out.LoadBalancerIPs)
	}
	return out
}

func hasFrontend(p *model.ServicePort) bool { return len(p.ClusterIPs) > 0 || p.HasExternal() }

func (c *Compiler) location() location { return location{node: c.node.Name, zone: c.node.Zone} }

// replace records the changes from one list of a Service's ports to another, both sorted by name.
func (w *work) replace(before, now []*model.ServicePort) {
	find := func(in []*model.ServicePort, p *model.ServicePort) *model.ServicePort {
		i, found := slices.BinarySearchFunc(in, p.Name, func(o *model.ServicePort, n model.PortName) int { return o.Name.Compare(n) })
		if !found {
			return nil
		}
		return in[i]
	}
	for _, p := range before {
		if find(now, p) == nil {
			w.port(p, nil)
		}
	}
	for _, p := range now {
		if old := find(before, p); old == nil || !equalPorts(old, p) {
			w.port(old, p)
		}
	}
}

// port records that a port changed; before is nil for a new port, now for a removed one.
func (w *work) port(before, now *model.ServicePort) {
	name := now
	if name == nil {
		name = before
	}
	if w.delta.Ports == nil {
		w.delta.Ports, w.delta.Before = map[model.PortName]*model.ServicePort{}, map[model.PortName]model.ServicePort{}
	}
	w.delta.Ports[name.Name] = now
	if before != nil {
		w.delta.Before[name.Name] = *before
	}
}

// countWinners adds to the number of Services that have each of the addresses.
func (c *Compiler) countWinners(w *work, addrs []netip.Addr, by int) {
	for _, a := range addrs {
		w.touched[a] = struct{}{}
		model.Count(c.winners, a, by)
	}
}

// touchAll marks every address in use: a change of the ranges may put it inside of one, or outside.
func (c *Compiler) touchAll(w *work) {
	for a := range c.allocations {
		w.touched[a] = struct{}{}
	}
	for a := range c.winners {
		w.touched[a] = struct{}{}
	}
}

// reviewAllocated records whether the address is allocated, if that changed.
func (c *Compiler) reviewAllocated(w *work, a netip.Addr) {
	_, named := c.allocations[a]
	now := (named || c.winners[a] > 0) && model.Inside(c.globals.Ranges, a)
	if _, before := c.allocated[a]; before == now {
		return
	}
	if w.delta.Allocated == nil {
		w.delta.Allocated = map[netip.Addr]bool{}
	}
	w.delta.Allocated[a] = now
	model.Put(c.allocated, a, struct{}{}, now)
}

func equalPorts(a, b *model.ServicePort) bool {
	return a.Name == b.Name && a.Port == b.Port && a.NodePort == b.NodePort && a.AffinitySeconds == b.AffinitySeconds &&
		a.HealthCheckNodePort == b.HealthCheckNodePort && a.Scheduler == b.Scheduler && maps.Equal(a.Weights, b.Weights) && a.Balanced == b.Balanced &&
		a.InternalLocal == b.InternalLocal && a.ExternalLocal == b.ExternalLocal && a.HasEndpoints == b.HasEndpoints &&
		slices.Equal(a.ClusterIPs, b.ClusterIPs) && slices.Equal(a.Former, b.Former) && slices.Equal(a.ExternalIPs, b.ExternalIPs) &&
		slices.Equal(a.LoadBalancerIPs, b.LoadBalancerIPs) && slices.Equal(a.SourceRanges, b.SourceRanges) &&
		slices.Equal(a.Cluster, b.Cluster) && slices.Equal(a.Local, b.Local) && slices.Equal(a.Hairpin, b.Hairpin) &&
		slices.Equal(a.Serving, b.Serving)
}
