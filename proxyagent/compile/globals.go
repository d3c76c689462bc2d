package compile

import (
	"net/netip"
	"slices"

	"github.com/clusterip-operator/clusterip-operator/proxyagent/model"
)

// globalsOf returns what is not about one Service.
func globalsOf(set model.Settings, node model.Node, local []netip.Addr, ranges []netip.Prefix) model.Globals {
	g := model.Globals{
		Family:        set.Family,
		MasqueradeAll: set.MasqueradeAll,
		MasqueradeBit: set.MasqueradeBit,
		LocalSource:   localSource(set, node),
		NodePortAny:   anyNodePort(set),
		KeepInvalid:   set.KeepInvalid,
	}
	g.LocalhostNodePorts = g.NodePortAny && loopbackNodePorts(set)
	if !g.NodePortAny {
		g.NodePortAddrs = nodePortAddrs(set, node, local)
	}
	if !set.KeepUnallocated {
		g.Ranges = serviceRanges(set.Family, ranges, func(r netip.Prefix) bool { return shared(r, g.LocalSource.CIDR, node, local) })
	}
	return g
}

// localSource is the test for local pods: none with a CIDR of the other family, or no CIDR (yet).
func localSource(set model.Settings, node model.Node) model.LocalSource {
	if !set.FromNode {
		if cidr := set.LocalSource.CIDR; cidr != (netip.Prefix{}) && !ofFamily(set.Family, cidr) {
			return model.LocalSource{}
		}
		return set.LocalSource
	}
	i := slices.IndexFunc(node.PodCIDRs, func(p netip.Prefix) bool { return ofFamily(set.Family, p) })
	if i < 0 {
		return model.LocalSource{}
	}
	return model.LocalSource{CIDR: node.PodCIDRs[i].Masked()}
}

// anyNodePort reports whether node ports are served at every local address: when no CIDR of this
// family restricts them, or one has length zero. As in kube-proxy, which warns at start, CIDRs of
// the other family do not count (NewNodePortAddresses puts 0.0.0.0/0 or ::/0 where there are none).
// A node restricted to its own address, and without one, has no node ports; kube-proxy takes any.
func anyNodePort(set model.Settings) bool {
	mine := 0
	for _, p := range set.NodePortCIDRs {
		if ofFamily(set.Family, p) {
			mine++
			if p.Bits() == 0 {
				return true
			}
		}
	}
	return mine == 0 && !set.NodePortPrimary
}

// nodePortAddrs returns the addresses that restricted node ports are served at, sorted.
func nodePortAddrs(set model.Settings, node model.Node, local []netip.Addr) []netip.Addr {
	var out []netip.Addr
	var primary netip.Addr
	if set.NodePortPrimary {
		primary = nodeAddr(set.Family, node)
	}
	for _, a := range append(slices.Clone(local), primary) {
		a = a.WithZone("") // a rule matches an address, of whatever interface
		if model.FamilyOf(a) != set.Family || a.Is4In6() || a.IsUnspecified() || a.IsMulticast() || a.IsLoopback() && !loopbackNodePorts(set) {
			continue
		}
		if a == primary || model.Inside(set.NodePortCIDRs, a) {
			out = append(out, a)
		}
	}
	return sorted(out, netip.Addr.Compare)
}

// loopbackNodePorts reports whether loopback may have node ports: never ::1, which is not routed.
func loopbackNodePorts(set model.Settings) bool {
	return set.LocalhostNodePorts && set.Family == model.IPv4
}

// serviceRanges returns the ServiceCIDRs of the family, sorted and without duplicates. It leaves
// out one that is shared, and one of length zero: dropping what goes to its unallocated addresses
// would cut the node off from everything.
func serviceRanges(f model.Family, ranges []netip.Prefix, shared func(netip.Prefix) bool) []netip.Prefix {
	var out []netip.Prefix
	for _, p := range ranges {
		if ofFamily(f, p) && p.Bits() > 0 && !shared(p.Masked()) {
			out = append(out, p.Masked())
		}
	}
	return sorted(out, netip.Prefix.Compare)
}

// shared reports whether a ServiceCIDR overlaps with networks of nodes or pods. Allocations do not
// say which machines have addresses there: dropping the rest would cut off some that worked before.
func shared(r, pods netip.Prefix, node model.Node, local []netip.Addr) bool {
	inside := func(a netip.Addr) bool { return r.Contains(a.WithZone("")) }
	return slices.ContainsFunc(node.IPs, inside) || slices.ContainsFunc(local, inside) ||
		slices.ContainsFunc(node.PodCIDRs, r.Overlaps) || pods.IsValid() && r.Overlaps(pods)
}

// sourceRanges returns the sources that may use load balancer IPs of a Service; nil for all, which
// is also what a Service means that names no range of this family, or one of length zero. Where a
// range contains the node, the IPs themselves may: a load balancer often puts them on an interface
// of the node, and connections from the node to them then carry them as their source. Where ranges
// cannot be used it is an address that no packet has as its source.
func (c *Compiler) sourceRanges(r *record, vips []netip.Addr) []netip.Prefix {
	if c.closed(r) {
		return []netip.Prefix{model.Single(c.set.Family.Unspecified())}
	}
	var out []netip.Prefix
	for _, p := range r.service.SourceRanges {
		switch {
		case !p.IsValid() || model.FamilyOf(p.Addr()) != c.set.Family:
		case p.Bits() == 0:
			return nil
		default:
			out = append(out, p.Masked())
		}
	}
	if model.Inside(out, nodeAddr(c.set.Family, c.node)) {
		for _, a := range vips {
			if !model.Inside(out, a) { // the kernel's sets have no ranges that overlap
				out = append(out, model.Single(a))
			}
		}
	}
	return sorted(out, netip.Prefix.Compare)
}

// closed reports whether the source ranges of a Service cannot be used.
func (c *Compiler) closed(r *record) bool {
	ranges := 0
	for _, p := range r.service.SourceRanges {
		if p.IsValid() && model.FamilyOf(p.Addr()) == c.set.Family {
			ranges++
		}
	}
	return ranges == 0 && r.service.SourcesLost || ranges*len(r.loadBalancer)*len(r.ports) > model.MaxSources
}

// nodeAddr is the node's first address of the family, as in kube-proxy, or invalid for none.
func nodeAddr(f model.Family, node model.Node) netip.Addr {
	i := slices.IndexFunc(node.IPs, func(a netip.Addr) bool { return model.FamilyOf(a) == f && !a.Is4In6() })
	if i < 0 {
		return netip.Addr{}
	}
	return node.IPs[i]
}

func ofFamily(f model.Family, p netip.Prefix) bool {
	return p.IsValid() && model.FamilyOf(p.Addr()) == f && !p.Addr().Is4In6()
}
