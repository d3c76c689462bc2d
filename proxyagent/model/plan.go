package model

import (
	"cmp"
	"fmt"
	"net/netip"
	"strings"
)

// Plan is what a node does for one family. It is a pure function of [Settings] and [State].
type Plan struct {
	Globals Globals
	// Ports are all Service ports that have at least one virtual IP or node port in the family.
	Ports map[PortName]ServicePort
	// Allocated are the addresses in Globals.Ranges that a Service or an IPAddress has, served or not.
	Allocated map[netip.Addr]struct{}
}

// Globals is the part of a Plan that is not about one Service.
type Globals struct {
	Family        Family
	MasqueradeAll bool
	MasqueradeBit int
	LocalSource   LocalSource
	// NodePortAny serves node ports at every local address; otherwise only NodePortAddrs do, sorted.
	NodePortAny   bool
	NodePortAddrs []netip.Addr
	// LocalhostNodePorts serves them at 127.0.0.0/8 also; only together with NodePortAny.
	LocalhostNodePorts bool
	KeepInvalid        bool
	// Balanced is true where IPVS chooses endpoints: virtual IPs are addresses of the node then,
	// beside NodeAddrs, which it has anyway. A compiler sets neither.
	Balanced  bool
	NodeAddrs []netip.Addr
	// Ranges are the ServiceCIDRs of the family, sorted. New traffic to their addresses that are not
	// in Plan.Allocated is dropped. Empty when nothing shall be dropped.
	Ranges []netip.Prefix
}

// ServicePort is one port of a Service as it is served. All slices are sorted, have no duplicates,
// and hold only what this port won: a Plan has each address and port once.
type ServicePort struct {
	Name PortName
	// ClusterIPs are for traffic from inside: spec.clusterIPs and additional addresses.
	ClusterIPs []netip.Addr
	// Former are those of ClusterIPs that the Service gives up: their connections are counted.
	Former []netip.Addr
	// ExternalIPs and LoadBalancerIPs are for traffic from outside.
	ExternalIPs, LoadBalancerIPs []netip.Addr
	// SourceRanges may use LoadBalancerIPs. None is inside of another; empty: all sources may.
	SourceRanges []netip.Prefix
	Port         uint16
	// NodePort is zero when there is none, or when another Service has it.
	NodePort uint16
	// HealthCheckNodePort of the Service: load balancers may reach it. Zero without.
	HealthCheckNodePort uint16
	// InternalLocal and ExternalLocal are the traffic policies.
	InternalLocal, ExternalLocal bool
	// Balanced is true where IPVS chooses endpoints: rules mark and refuse, and do not translate,
	// except for clients on this node of a front whose policy is Local. A compiler leaves it false.
	Balanced bool
	// HasEndpoints is true when any endpoint in the cluster could serve, even if policy forbids it.
	HasEndpoints bool
	// AffinitySeconds is how long after a new connection a client keeps its endpoint; 0: no affinity.
	AffinitySeconds int
	// Cluster are the endpoints for traffic that may go anywhere, Local those on this node, each with
	// its fallback to serving ones that terminate (KEP-1669). Empty if no traffic policy asks for it.
	Cluster, Local []netip.AddrPort
	// Hairpin are those in Cluster or Local on this node, or an unknown one: they may meet themselves.
	Hairpin []netip.AddrPort
	// Scheduler chooses between endpoints, by their Weights if there are any and it knows weights.
	Scheduler Scheduler
	Weights   Weights
	// Serving are the endpoints that serve, ready or not, anywhere: an existing flow to one of them
	// may go on. Only for UDP, whose flows have no end of their own, and SCTP, whose clients keep
	// their source port; nil for TCP.
	Serving []netip.AddrPort
}

// HasExternal reports whether the port is served to the outside.
func (p ServicePort) HasExternal() bool {
	return p.NodePort != 0 || len(p.ExternalIPs) > 0 || len(p.LoadBalancerIPs) > 0
}

// Delta is the difference between two Plans. The zero value says that there is none.
type Delta struct {
	// Globals is nil when they are as before.
	Globals *Globals
	// Ports holds the ports that changed, whole; nil for one that is gone.
	Ports map[PortName]*ServicePort
	// Before holds what those ports were before, if they were there.
	Before map[PortName]ServicePort
	// Allocated holds the addresses that are allocated now (true) or no longer (false).
	Allocated map[netip.Addr]bool
}

// Empty reports whether the two Plans are equal.
func (d Delta) Empty() bool { return d.Globals == nil && len(d.Ports) == 0 && len(d.Allocated) == 0 }

// Dispute is an address that a Service claims and does not get.
type Dispute struct {
	Addr  netip.Addr
	Loser ServiceName
	// Winner has the address; zero when no Service has it, which is possible with [Enforce].
	Winner ServiceName
	// Reason is a constant word for events and metrics.
	Reason DisputeReason
}

// DisputeReason is why a Service does not get an address.
type DisputeReason string

const (
	// AllocatedToOther means that the IPAddress names the winner.
	AllocatedToOther DisputeReason = "AllocatedToOtherService"
	// ClaimedByOlder means that nothing decides but age.
	ClaimedByOlder DisputeReason = "ClaimedByOlderService"
	// NotAllocated means with Enforce, or of a held Service, that no IPAddress names the Service.
	NotAllocated DisputeReason = "NotAllocated"
	// ClusterIPOfOther means that an external or load balancer IP is another Service's ClusterIP.
	ClusterIPOfOther DisputeReason = "ClusterIPOfOtherService"
)

// Unserved returns the port as if it had no endpoint: clients are refused, whatever rules it had.
func (p ServicePort) Unserved() *ServicePort {
	p.Cluster, p.Local, p.Hairpin, p.SourceRanges = nil, nil, nil, nil
	p.HasEndpoints, p.AffinitySeconds, p.Scheduler, p.Weights = false, 0, "", nil
	return &p
}

// MaxSources is how many source ranges a Service may have in a family, each of them counted at each
// of its load balancer IPs and ports. So many members it takes in the kernel's sets, and while they
// are written no other Service changes. Measured on Linux 6.18, 1,024 take 10 ms, with nftables and
// with ipset; of ranges whose lengths are no multiples of four, nftables takes up to eight members
// each, in proportion 80 ms in all. A Service with more is closed: with some of its ranges it would
// keep clients out by chance, and without them it would be open.
const MaxSources = 1024

// Degradation is what a port does without on this node, or a table that the agent cannot read.
type Degradation struct {
	Port PortName
	// Table is empty for a port. A Degradation of a table has no port: it concerns the node.
	Table  string
	Reason DegradationReason
	// Detail is the error, for the log, where there is one.
	Detail string
}

// Compare orders by port, then by reason.
func (d Degradation) Compare(o Degradation) int {
	return cmp.Or(d.Port.Compare(o.Port), cmp.Compare(d.Reason, o.Reason))
}

// DegradationReason is what a port does without, and why: a constant word for events and metrics.
type DegradationReason string

const (
	// RulesRefused means that the kernel or the rule-writing program refuses it; clients are rejected.
	RulesRefused DegradationReason = "RulesRefused"
	// PartRefused means that the kernel refuses an endpoint or address; the rest is served.
	PartRefused DegradationReason = "PartRefused"
	// AffinityTooDear means that session affinity for so many endpoints would take more than a node
	// has for it, or for one namespace. Every connection gets any endpoint.
	AffinityTooDear DegradationReason = "SessionAffinityTooDear"
	// SchedulerUnavailable means that the node's mode lacks the scheduler that the Service asks for.
	SchedulerUnavailable DegradationReason = "SchedulerUnavailable"
	// SchedulerTooDear means that its schedulers and weights take more than a node has for a Service.
	SchedulerTooDear DegradationReason = "SchedulerTooDear"
	// SchedulerInvalid means that the Service asks for a scheduler that does not exist.
	SchedulerInvalid DegradationReason = "SchedulerInvalid"
	// TableUnreadable means that another program wrote a rule that iptables cannot show.
	TableUnreadable DegradationReason = "TableUnreadable"
	// WeightsInvalid means that the annotation with weights cannot be read.
	WeightsInvalid DegradationReason = "EndpointWeightsInvalid"
	// WeightsNotAllowed means that weights depend on Nodes, which the agent may not follow.
	WeightsNotAllowed DegradationReason = "EndpointWeightsNotAllowed"
	// SourcesUnusable means that source ranges of the Service cannot be read, or are more than
	// [MaxSources]. Clients of its load balancer IPs are dropped.
	SourcesUnusable DegradationReason = "SourceRangesUnusable"
)

// DegradationReasons are all of them, the worst first.
var DegradationReasons = []DegradationReason{TableUnreadable, RulesRefused, PartRefused, SourcesUnusable, AffinityTooDear, SchedulerUnavailable, SchedulerTooDear, SchedulerInvalid, WeightsInvalid, WeightsNotAllowed}

// Everywhere reports whether all nodes, or all of one mode, do without it. What one node lacks,
// such as the module of a scheduler, is for its admin, who has a metric and a log.
func (r DegradationReason) Everywhere() bool {
	return r != RulesRefused && r != PartRefused && r != TableUnreadable
}

// String says what the port does without, or what the table is.
func (r DegradationReason) String() string {
	switch r {
	case TableUnreadable:
		return "iptables cannot show it, because another program has written a rule into it that only nft can show: what is changed of the agent's chains there is not repaired. Look for it with nft list ruleset, and move it to a table of its own"
	case RulesRefused:
		return "not served: the kernel refuses its rules, the agent's log has the error; clients are rejected"
	case PartRefused:
		return "without some of its endpoints or addresses: the kernel refuses them, the agent's log has the error"
	case SourcesUnusable:
		return fmt.Sprintf("not served at load balancer IPs, whose clients are dropped: source ranges cannot be read, or are too many: once merged, "+
			"their number times those of load balancer IPs and ports is %d at most", MaxSources)
	case AffinityTooDear:
		return "without session affinity: it has too many endpoints for it, or its namespace or the node has with those of other ports"
	case SchedulerUnavailable:
		return fmt.Sprintf("without its scheduler: the mode of this node does not have it (nftables has %s; ipvs has %s); connections go to any endpoint",
			listed(modeSchedulers[NFTables]), listed(modeSchedulers[IPVS]))
	case SchedulerTooDear:
		return "without its scheduler: with the weights of so many endpoints it would take too much of this node; connections go to any endpoint"
	case SchedulerInvalid:
		return fmt.Sprintf("the annotation for its scheduler has to be one of %s; it is served as without one", listed(Schedulers))
	case WeightsInvalid:
		return fmt.Sprintf("the annotation for weights of endpoints has to be \"cores\", or label=value:weight, with commas between several and weights from 0 to %d; all endpoints weigh 1", MaxWeight)
	case WeightsNotAllowed:
		return "without its weights of endpoints, which are to follow cores or labels of nodes: an admin has to allow that (followNodes: true in the configuration of the agents, " +
			"or --follow-nodes); all endpoints weigh 1. Zones count without it"
	default:
		return string(r)
	}
}

// listed are schedulers in words.
func listed(all []Scheduler) string {
	return strings.ReplaceAll(strings.Trim(fmt.Sprint(all), "[]"), " ", ", ")
}

// AllocationMode is the effect of IPAddress objects.
type AllocationMode string

const (
	// Prefer serves a virtual IP for the Service that its IPAddress names. If that names none of the
	// Services that claim it, the oldest one is served.
	Prefer AllocationMode = "prefer"
	// Enforce serves a virtual IP only for the Service that its IPAddress names.
	Enforce AllocationMode = "enforce"
	// Ignore serves ClusterIPs for the oldest claimant. Only additional addresses follow IPAddresses.
	Ignore AllocationMode = "ignore"
)

// Settings are what an admin chose for one family. They do not change while the agent runs.
type Settings struct {
	Family      Family
	Allocations AllocationMode
	// MasqueradeAll gives all traffic to ClusterIPs the node's address.
	MasqueradeAll bool
	// MasqueradeBit is the bit of the packet mark, from 0 to 31, for "give it the node's address".
	MasqueradeBit int
	// LocalSource tells the traffic of local pods; FromNode takes its CIDR from the node's podCIDRs.
	LocalSource LocalSource
	FromNode    bool
	// NodePortCIDRs restricts NodePorts to local addresses inside of them, NodePortPrimary to the
	// node's own IPs, and both to either; none: any local address.
	NodePortCIDRs   []netip.Prefix
	NodePortPrimary bool
	// LocalhostNodePorts lets NodePorts answer on 127.0.0.0/8; never on ::1.
	LocalhostNodePorts bool
	// KeepInvalid keeps packets of invalid connection-tracking state, which are dropped otherwise.
	KeepInvalid bool
	// NoExternalIPs ignores spec.externalIPs.
	NoExternalIPs bool
	// KeepUnallocated does not drop traffic to addresses in ServiceCIDRs that no Service has.
	KeepUnallocated bool
}

// LocalSource recognises traffic of pods on this node. At most one field is set; the zero value
// recognises none, and then nothing is treated as local.
type LocalSource struct {
	CIDR netip.Prefix
	// Interface is the name of a bridge, InterfacePrefix how the names of all pod interfaces begin.
	Interface, InterfacePrefix string
}
