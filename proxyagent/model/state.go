package model

import (
	"cmp"
	"maps"
	"net/netip"
	"slices"
	"time"
)

// Service is a Service with its endpoints, of both families, as far as a node cares; not a headless
// or ExternalName one. Its addresses are valid and not mapped; the order in slices means nothing.
type Service struct {
	Name ServiceName
	// Created is the creation time: of two Services with equal rights the older one wins.
	Created time.Time
	// ClusterIPs are spec.clusterIPs.
	ClusterIPs []netip.Addr
	// ExternalIPs are spec.externalIPs.
	ExternalIPs []netip.Addr
	// LoadBalancerIPs are the ingress IPs of status.loadBalancer whose ipMode is VIP or not set.
	LoadBalancerIPs []netip.Addr
	// SourceRanges are spec.loadBalancerSourceRanges, sorted and merged, of each family at most one
	// more than [MaxSources].
	SourceRanges []netip.Prefix
	// SourcesLost is true where some of them cannot be read.
	SourcesLost bool
	// InternalLocal is internalTrafficPolicy: Local, ExternalLocal externalTrafficPolicy: Local.
	InternalLocal, ExternalLocal bool
	// AffinitySeconds is the time-out of sessionAffinity: ClientIP, zero without affinity.
	AffinitySeconds int
	// HealthCheckNodePort is that of a load balancer with ExternalLocal; zero for other Services.
	HealthCheckNodePort uint16
	// Balancing is nil for a Service that asks for none: the mode's default chooses among equals.
	Balancing *Balancing
	Ports     []Port
	// Held is true for a Service without virtual IPs for a moment, while its ClusterIPs are exchanged:
	// its endpoints are current, the rest is as before. It yields to every other Service.
	Held bool
	// Foreign is true for a Service that another proxy serves. It has no endpoints here, and is
	// known only so that its addresses are not served for another Service.
	Foreign bool
	// Endpoints are those of all EndpointSlices, of both families; two may have the same address.
	Endpoints []Endpoint
}

// Port is one port of a Service. NodePort is zero when it has none.
type Port struct {
	Name     string
	Protocol Protocol
	Port     uint16
	NodePort uint16
}

// Endpoint is one address and port of an EndpointSlice, of the Service port with Port and Protocol.
// A cluster has hundreds of thousands.
type Endpoint struct {
	Port string
	Addr netip.AddrPort
	// Node is the node's name, empty when the slice does not say.
	Node string
	// Hints are the topology hints, nil without.
	Hints    *Hints
	Protocol Protocol
	// Ready, Serving and Terminating are the conditions; if not set, the API's true, true and false.
	Ready, Serving, Terminating bool
	// Weight counts where the Balancing of the Service says so: from 0 to MaxWeight.
	Weight uint8
}

// Hints are where an endpoint should be used. They are shared and not changed.
type Hints struct{ Zones, Nodes []string }

// ForZones are the zones, none of nil.
func (h *Hints) ForZones() []string {
	if h == nil {
		return nil
	}
	return h.Zones
}

// ForNodes are the nodes, none of nil.
func (h *Hints) ForNodes() []string {
	if h == nil {
		return nil
	}
	return h.Nodes
}

// Same reports whether both say the same.
func (h *Hints) Same(o *Hints) bool {
	return slices.Equal(h.ForZones(), o.ForZones()) && slices.Equal(h.ForNodes(), o.ForNodes())
}

// Node is the agent's own. The zero Node is one that the API server does not know (yet).
type Node struct {
	Name string
	// Zone is the label topology.kubernetes.io/zone.
	Zone string
	// IPs are status.addresses of type InternalIP, then ExternalIP, in their order.
	IPs []netip.Addr
	// PodCIDRs are spec.podCIDRs.
	PodCIDRs []netip.Prefix
	// Leaving: the Node is deleted, or the autoscaler tainted it. Load balancers should turn away.
	Leaving bool
}

// Allocation is an IPAddress object.
type Allocation struct {
	Addr netip.Addr
	// Service is its parent, zero when that is something else than a Service.
	Service ServiceName
	// Additional is true for IPAddresses kept for a Service beside its ClusterIPs, by the operator
	// (its managed-by label) or as former ones: they are further virtual IPs of that Service.
	Additional bool
	// Former: the Service gives the address up, or did, and a finalizer keeps it while clients use it;
	// or the Service is a second one that keeps it for these clients.
	Former bool
}

// State is all that the API server said, at one moment.
type State struct {
	Services    map[ServiceName]Service
	Allocations map[netip.Addr]Allocation
	// Ranges are the CIDRs of all ServiceCIDRs that are not being deleted.
	Ranges []netip.Prefix
	Node   Node
	// LocalAddrs are the addresses of the node's interfaces.
	LocalAddrs []netip.Addr
}

// Changes is what became different since the last Changes. The zero value says that nothing did.
type Changes struct {
	// Services holds every Service that may have changed, whole; nil for one that is gone.
	Services map[ServiceName]*Service
	// Allocations holds every IPAddress that may have changed; nil for one that is gone.
	Allocations map[netip.Addr]*Allocation
	// Ranges, Node and LocalAddrs are nil when they are as before.
	Ranges     *[]netip.Prefix
	Node       *Node
	LocalAddrs *[]netip.Addr
	// Triggers are the moments at which the pods behind changed EndpointSlices changed (annotation
	// endpoints.kubernetes.io/last-change-trigger-time), for the programming latency.
	Triggers []time.Time
	// ServiceEvents and EndpointEvents count the events behind these Changes.
	ServiceEvents, EndpointEvents int
}

// And returns both, of which next came later. Neither is changed.
func (c Changes) And(next Changes) Changes {
	return Changes{
		Services: merged(c.Services, next.Services), Allocations: merged(c.Allocations, next.Allocations),
		Ranges: cmp.Or(next.Ranges, c.Ranges), Node: cmp.Or(next.Node, c.Node), LocalAddrs: cmp.Or(next.LocalAddrs, c.LocalAddrs),
		Triggers:      slices.Concat(c.Triggers, next.Triggers),
		ServiceEvents: c.ServiceEvents + next.ServiceEvents, EndpointEvents: c.EndpointEvents + next.EndpointEvents,
	}
}

// merged returns the entries of both, those of next where both have one.
func merged[K comparable, V any](before, next map[K]V) map[K]V {
	if len(before) == 0 {
		return next
	}
	if len(next) == 0 {
		return before
	}
	all := maps.Clone(before)
	maps.Copy(all, next)
	return all
}

// Empty reports whether nothing became different.
func (c Changes) Empty() bool {
	return len(c.Services) == 0 && len(c.Allocations) == 0 && c.Ranges == nil && c.Node == nil && c.LocalAddrs == nil
}
