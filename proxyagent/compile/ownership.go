package compile

import (
	"net/netip"
	"slices"

	"github.com/clusterip-operator/clusterip-operator/proxyagent/model"
)

// record is what the compiler knows about one Service. In an index its claims do not change.
type record struct {
	name    model.ServiceName
	service *model.Service
	claims
	outcome
}

// hasCluster reports whether the address is one of spec.clusterIPs.
func (r *record) hasCluster(a netip.Addr) bool { return model.Has(r.cluster, a) }

// decision is whether a Service gets an address. The zero decision is that it has it.
type decision struct {
	// reason is why not, winner the Service that has the address instead, zero for none.
	reason model.DisputeReason
	winner model.ServiceName
	// already: the Service claims the address as ClusterIP or additional address too; no dispute.
	already bool
}

func (v decision) served() bool { return v.reason == "" && !v.already }

// dispute returns the decision as a Dispute; false if the address is served.
func (v decision) dispute(a netip.Addr, loser *record) (model.Dispute, bool) {
	return model.Dispute{Addr: a, Loser: loser.name, Winner: v.winner, Reason: v.reason}, v.reason != ""
}

// Which Service has an address is decided in this order.
//
//	a Service claims it as ClusterIP, or an IPAddress gives it to a Service as an additional address:
//	    one has it, at all ports; other Services' load balancer and external IPs lose (CVE-2020-8554)
//	an IPAddress gives it to a Service that does not claim it, or not yet:
//	    load balancer and external IPs of other Services lose, too, unless IPAddresses are ignored
//	otherwise, for each port and protocol by itself:
//	    a load balancer IP goes before an external IP, then the oldest Service wins
//
// Services of other proxies claim as all do. What they win is not served here.
//
// A held Service yields to all other Services, node ports included. It has a ClusterIP only as long
// as the IPAddress names it, whatever the mode: without one the address may belong to another
// Service by now, also to one that is not seen here.

// holder returns the Service that has the address as ClusterIP or additional address, or nil.
func (c *Compiler) holder(a netip.Addr) *record {
	named, oldest := c.named(a), c.clusters.first(a)
	if oldest != nil && oldest.held {
		oldest = nil
	}
	switch {
	case c.set.Allocations == model.Enforce:
		return named
	case c.set.Allocations == model.Ignore && oldest != nil:
		return oldest
	case named != nil:
		return named
	default:
		return oldest
	}
}

// named returns the Service that the IPAddress names, if that Service claims the address or the
// IPAddress claims it for the Service. A held Service whose address another Service claims is about
// to lose its IPAddress, unless that is one that is kept.
func (c *Compiler) named(a netip.Addr) *record {
	allocation := c.allocations[a]
	if allocation == nil {
		return nil
	}
	r := c.records[allocation.Service]
	if r != nil && (allocation.Additional || r.hasCluster(a) && (!r.held || c.clusters.first(a) == r)) {
		return r
	}
	return nil
}

// given returns the Service to which an IPAddress gives the address, whether that Service claims it
// or not, or is known at all; zero for none.
func (c *Compiler) given(a netip.Addr) model.ServiceName {
	allocation := c.allocations[a]
	if allocation == nil || c.set.Allocations == model.Ignore && !allocation.Additional {
		return model.ServiceName{}
	}
	return allocation.Service
}

// additionalFor returns the Service to which an IPAddress gives an additional address, or nil.
func (c *Compiler) additionalFor(a netip.Addr) *record {
	if allocation := c.allocations[a]; allocation != nil && allocation.Additional {
		return c.records[allocation.Service]
	}
	return nil
}

// decideCluster decides whether a Service gets an address as ClusterIP or additional address.
func (c *Compiler) decideCluster(r *record, a netip.Addr) decision {
	switch winner := c.holder(a); {
	case winner == r:
		return decision{}
	case winner == nil:
		return decision{reason: model.NotAllocated}
	case !r.hasCluster(a):
		// Where IPAddresses are ignored, another Service can win an additional address, as ClusterIP.
		return decision{reason: model.ClusterIPOfOther, winner: winner.name}
	case c.set.Allocations != model.Ignore && winner == c.named(a):
		return decision{reason: model.AllocatedToOther, winner: winner.name}
	default:
		return decision{reason: model.ClaimedByOlder, winner: winner.name}
	}
}

// decideOutside returns whether a Service gets a load balancer or external IP at one port.
func (c *Compiler) decideOutside(r *record, f front) decision {
	given, holder, winner := c.given(f.addr), c.holder(f.addr), c.fronts.first(f)
	switch {
	case r.hasCluster(f.addr), c.additionalFor(f.addr) == r:
		return decision{already: true}
	case holder != nil:
		return decision{reason: model.ClusterIPOfOther, winner: holder.name}
	case len(c.clusters[f.addr]) > 0: // none of the Services that claim it gets it
		return decision{reason: model.ClusterIPOfOther}
	case given == r.name || given == model.ServiceName{} && winner == r:
		return decision{}
	case given != model.ServiceName{}:
		return decision{reason: model.ClusterIPOfOther, winner: given}
	default:
		return decision{reason: model.ClaimedByOlder, winner: winner.name}
	}
}

// addresses returns the Service's ClusterIPs and additional addresses, sorted, without duplicates.
func (c *Compiler) addresses(r *record) []netip.Addr {
	extra := c.additional[r.name]
	if len(extra) == 0 {
		return r.cluster
	}
	return sorted(slices.Concat(r.cluster, extra), netip.Addr.Compare)
}
