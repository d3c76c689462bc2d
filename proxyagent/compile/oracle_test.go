package compile

import (
	"net/netip"
	"slices"
	"strings"

	"github.com/clusterip-operator/clusterip-operator/proxyagent/model"
)

// oracle answers the questions of the package slowly and without any index: every answer looks at everything.
type oracle struct {
	set model.Settings
	st  model.State
}

// plan is what Compile should return, and disputes what Disputes should.
func (o oracle) plan() (model.Plan, []model.Dispute) {
	p := model.Plan{
		Globals:   globalsOf(o.set, o.st.Node, o.st.LocalAddrs, o.st.Ranges), // has tables of its own
		Ports:     map[model.PortName]model.ServicePort{},
		Allocated: map[netip.Addr]struct{}{},
	}
	b := &books{have: map[netip.Addr]struct{}{}, lost: map[netip.Addr]map[model.ServiceName]model.Dispute{}}
	for a := range o.st.Allocations {
		b.have[a] = struct{}{}
	}
	for n := range o.st.Services {
		for _, a := range o.everyAddress() {
			if won, d := o.holds(n, a); won {
				b.have[a] = struct{}{}
			} else if d.Reason != "" {
				b.lose(d)
			}
		}
		for _, port := range o.ports(n) {
			if s := o.port(n, port, b); len(s.ClusterIPs) > 0 || s.HasExternal() {
				p.Ports[s.Name] = s
			}
		}
	}
	for a := range b.have {
		if slices.ContainsFunc(p.Globals.Ranges, func(r netip.Prefix) bool { return r.Contains(a) }) && o.usable(a) {
			p.Allocated[a] = struct{}{}
		}
	}
	var disputes []model.Dispute
	for _, byLoser := range b.lost {
		for _, d := range byLoser {
			disputes = append(disputes, d)
		}
	}
	slices.SortFunc(disputes, func(a, b model.Dispute) int {
		if a.Addr != b.Addr {
			return a.Addr.Compare(b.Addr)
		}
		return strings.Compare(a.Loser.String(), b.Loser.String())
	})
	return p, disputes
}

// books are the addresses that somebody has, and those that somebody wants and has not.
type books struct {
	have map[netip.Addr]struct{}
	lost map[netip.Addr]map[model.ServiceName]model.Dispute
}

func (b *books) lose(d model.Dispute) {
	if b.lost[d.Addr] == nil {
		b.lost[d.Addr] = map[model.ServiceName]model.Dispute{}
	}
	if _, before := b.lost[d.Addr][d.Loser]; !before {
		b.lost[d.Addr][d.Loser] = d
	}
}

func (o oracle) usable(a netip.Addr) bool {
	return a.IsValid() && !a.Is4In6() && a.Zone() == "" && model.FamilyOf(a) == o.set.Family && !a.IsLoopback() && !a.IsUnspecified() &&
		!a.IsMulticast() &&
		a.String() != "255.255.255.255"
}

func (o oracle) everyAddress() []netip.Addr {
	all := map[netip.Addr]struct{}{}
	for _, s := range o.st.Services {
		for _, a := range slices.Concat(s.ClusterIPs, s.LoadBalancerIPs, s.ExternalIPs) {
			all[a] = struct{}{}
		}
	}
	for a := range o.st.Allocations {
		all[a] = struct{}{}
	}
	var out []netip.Addr
	for a := range all {
		if o.usable(a) {
			out = append(out, a)
		}
	}
	slices.SortFunc(out, netip.Addr.Compare)
	return out
}

// older orders Services by their rights.
func (o oracle) older(a, b model.ServiceName) int {
	x, y := o.st.Services[a], o.st.Services[b]
	if !x.Created.Equal(y.Created) {
		return x.Created.Compare(y.Created)
	}
	return strings.Compare(a.String(), b.String())
}

func (o oracle) bySpec(a netip.Addr) []model.ServiceName {
	var out []model.ServiceName
	for n, s := range o.st.Services {
		if slices.Contains(s.ClusterIPs, a) {
			out = append(out, n)
		}
	}
	slices.SortFunc(out, o.older)
	return out
}

func (o oracle) extra(a netip.Addr) (model.ServiceName, bool) {
	x, ok := o.st.Allocations[a]
	_, exists := o.st.Services[x.Service]
	return x.Service, ok && x.Additional && exists
}

// owner returns who has the address as ClusterIP or additional address, and whether anybody claims it so.
func (o oracle) owner(a netip.Addr) (owner model.ServiceName, named, claimed bool) {
	spec := o.bySpec(a)
	extra, isExtra := o.extra(a)
	if len(spec) == 0 && !isExtra {
		return model.ServiceName{}, false, false
	}
	if o.set.Allocations == model.Ignore {
		if len(spec) > 0 {
			return spec[0], false, true
		}
		return extra, false, true
	}
	if isExtra {
		return extra, true, true
	}
	if x, ok := o.st.Allocations[a]; ok && slices.Contains(spec, x.Service) {
		return x.Service, true, true
	}
	if o.set.Allocations == model.Enforce {
		return model.ServiceName{}, false, true
	}
	return spec[0], false, true
}

// holds reports whether the Service has the address so, and if it wants it, why not.
func (o oracle) holds(n model.ServiceName, a netip.Addr) (bool, model.Dispute) {
	extra, isExtra := o.extra(a)
	inSpec := slices.Contains(o.bySpec(a), n)
	if !inSpec && (!isExtra || extra != n) {
		return false, model.Dispute{}
	}
	owner, named, _ := o.owner(a)
	d := model.Dispute{Addr: a, Loser: n, Winner: owner}
	switch {
	case owner == n:
		return true, d
	case owner == model.ServiceName{}:
		d.Reason = model.NotAllocated
	case named:
		d.Reason = model.AllocatedToOther
	case !inSpec:
		d.Reason = model.ClusterIPOfOther
	default:
		d.Reason = model.ClaimedByOlder
	}
	return false, d
}

// ports returns the ports of a Service that make sense, sorted.
func (o oracle) ports(n model.ServiceName) []model.Port {
	var out []model.Port
	for _, p := range o.st.Services[n].Ports {
		if p.Port != 0 && (p.Protocol == model.TCP || p.Protocol == model.UDP || p.Protocol == model.SCTP) {
			out = append(out, p)
		}
	}
	slices.SortFunc(out, func(a, b model.Port) int {
		if c := strings.Compare(a.Name, b.Name); c != 0 {
			return c
		}
		return (int(a.Protocol)-int(b.Protocol))<<40 + (int(a.Port)-int(b.Port))<<20 + int(a.NodePort) - int(b.NodePort)
	})
	return slices.CompactFunc(out, func(a, b model.Port) bool { return a.Name == b.Name && a.Protocol == b.Protocol })
}

func (o oracle) inFamily(n model.ServiceName) bool {
	return slices.ContainsFunc(o.st.Services[n].ClusterIPs, o.usable)
}

// outside says in which class a Service claims the address for traffic from outside: 1 load balancer, 2 external, 0 not.
func (o oracle) outside(n model.ServiceName, a netip.Addr) int {
	s := o.st.Services[n]
	switch {
	case !o.inFamily(n):
		return 0
	case slices.Contains(s.LoadBalancerIPs, a):
		return 1
	case slices.Contains(s.ExternalIPs, a) && !o.set.NoExternalIPs:
		return 2
	default:
		return 0
	}
}

// front returns the Service with the best rights to the address and port from outside.
func (o oracle) front(a netip.Addr, p model.Port) model.ServiceName {
	var all []model.ServiceName
	for n := range o.st.Services {
		if o.outside(n, a) > 0 && slices.ContainsFunc(o.ports(n), func(x model.Port) bool {
			return x.Port == p.Port &&
				x.Protocol == p.Protocol
		}) {
			all = append(all, n)
		}
	}
	return slices.MinFunc(all, func(x, y model.ServiceName) int {
		if c := o.outside(x, a) - o.outside(y, a); c != 0 {
			return c
		}
		return o.older(x, y)
	})
}

func (o oracle) nodePort(p model.Port) model.ServiceName {
	var all []model.ServiceName
	for n := range o.st.Services {
		if o.inFamily(n) && slices.ContainsFunc(o.ports(n), func(x model.Port) bool {
			return x.NodePort == p.NodePort &&
				x.Protocol == p.Protocol
		}) {
			all = append(all, n)
		}
	}
	return slices.MinFunc(all, o.older)
}

func (o oracle) port(n model.ServiceName, p model.Port, b *books) model.ServicePort {
	s := o.st.Services[n]
	out := model.ServicePort{
		Name: model.PortName{Service: n, Port: p.Name, Protocol: p.Protocol}, Port: p.Port,
		AffinitySeconds: s.AffinitySeconds, InternalLocal: s.InternalLocal, ExternalLocal: s.ExternalLocal,
		HealthCheckNodePort: s.HealthCheckNodePort,
	}
	mine := o.ports(n)
	firstPort := slices.IndexFunc(mine, func(x model.Port) bool { return x.Port == p.Port && x.Protocol == p.Protocol })
	firstNodePort := slices.IndexFunc(mine, func(x model.Port) bool { return x.NodePort == p.NodePort && x.Protocol == p.Protocol })
	if p.NodePort != 0 && o.inFamily(n) && mine[firstNodePort] == p && o.nodePort(p) == n {
		out.NodePort = p.NodePort
	}
	if mine[firstPort] == p {
		for _, a := range o.everyAddress() {
			o.frontend(&out, n, a, p, b)
		}
	}
	if len(out.LoadBalancerIPs) > 0 {
		out.SourceRanges = sourceRanges(o.set.Family, &s, out.LoadBalancerIPs, o.st.Node.IPs) // has tables of its own
	}
	o.fill(&out, s)
	return out
}

func (o oracle) frontend(out *model.ServicePort, n model.ServiceName, a netip.Addr, p model.Port, b *books) {
	owner, _, claimed := o.owner(a)
	won, d := o.holds(n, a)
	class := o.outside(n, a)
	switch {
	case won:
		out.ClusterIPs = append(out.ClusterIPs, a)
	case d.Reason != "" || class == 0:
	case claimed:
		b.lose(model.Dispute{Addr: a, Loser: n, Winner: owner, Reason: model.ClusterIPOfOther})
	case o.front(a, p) != n:
		b.lose(model.Dispute{Addr: a, Loser: n, Winner: o.front(a, p), Reason: model.ClaimedByOlder})
	case class == 1:
		out.LoadBalancerIPs = append(out.LoadBalancerIPs, a)
		b.have[a] = struct{}{}
	default:
		out.ExternalIPs = append(out.ExternalIPs, a)
		b.have[a] = struct{}{}
	}
}

// fill computes the endpoint sets straight from their definition.
func (o oracle) fill(out *model.ServicePort, s model.Service) {
	best := map[netip.AddrPort]model.Endpoint{}
	for _, e := range s.Endpoints {
		if e.Port != out.Name.Port || e.Protocol != out.Name.Protocol || !o.usable(e.Addr.Addr()) || e.Addr.Addr().IsLinkLocalUnicast() ||
			e.Addr.Port() == 0 {
			continue
		}
		if other, ok := best[e.Addr]; !ok || comparePreference(&e, &other) < 0 { // has a table of its own
			best[e.Addr] = e
		}
	}
	all := make([]model.Endpoint, 0, len(best))
	for _, e := range best {
		all = append(all, e)
	}
	slices.SortFunc(all, func(a, b model.Endpoint) int { return a.Addr.Compare(b.Addr) })

	node, zone := o.st.Node.Name, o.st.Node.Zone
	where := func(tests ...func(model.Endpoint) bool) (found []model.Endpoint) {
		for _, e := range all {
			if !slices.ContainsFunc(tests, func(test func(model.Endpoint) bool) bool { return !test(e) }) {
				found = append(found, e)
			}
		}
		return found
	}
	ready := func(e model.Endpoint) bool { return e.Ready }
	ending := func(e model.Endpoint) bool { return e.Serving && e.Terminating }
	local := func(e model.Endpoint) bool { return node != "" && e.Node == node }
	forNode := func(e model.Endpoint) bool { return node != "" && slices.Contains(e.Nodes, node) }
	forZone := func(e model.Endpoint) bool { return zone != "" && slices.Contains(e.Zones, zone) }
	hinted := func(e model.Endpoint) bool { return len(e.Nodes) > 0 }
	zoned := func(e model.Endpoint) bool { return len(e.Zones) > 0 }

	cluster := where(ready)
	switch total := len(cluster); {
	case total == 0:
		cluster = where(ending)
	case len(where(ready, hinted)) == total && len(where(ready, forNode)) > 0:
		cluster = where(ready, forNode)
	case len(where(ready, zoned)) == total && len(where(ready, forZone)) > 0:
		cluster = where(ready, forZone)
	}
	here := where(ready, local)
	if len(here) == 0 {
		here = where(ending, local)
	}
	out.HasEndpoints = len(where(ready))+len(where(ending)) > 0
	if out.Name.Protocol == model.UDP {
		for _, e := range where(func(e model.Endpoint) bool { return e.Serving }) {
			out.Serving = append(out.Serving, e.Addr)
		}
	}
	hairpin := map[netip.AddrPort]bool{}
	collect := func(asked bool, set []model.Endpoint) (found []netip.AddrPort) {
		for _, e := range set {
			if asked {
				found = append(found, e.Addr)
				hairpin[e.Addr] = hairpin[e.Addr] || e.Node == "" || local(e)
			}
		}
		return found
	}
	out.Cluster = collect(!out.InternalLocal || out.HasExternal(), cluster)
	out.Local = collect(out.InternalLocal || out.ExternalLocal && out.HasExternal(), here)
	for _, e := range all {
		if hairpin[e.Addr] {
			out.Hairpin = append(out.Hairpin, e.Addr)
		}
	}
}
