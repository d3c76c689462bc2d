package model

import "net/netip"

// AllocationMode says what IPAddress objects mean for what is served.
type AllocationMode string

const (
	// Prefer serves a virtual IP for the Service that its IPAddress names. Where none of the Services that claim it is named, the
	// oldest one is served.
	Prefer AllocationMode = "prefer"
	// Enforce serves a virtual IP only for the Service that its IPAddress names.
	Enforce AllocationMode = "enforce"
	// Ignore serves ClusterIPs without a look at IPAddresses; the oldest claimant wins. Additional addresses are served all the same.
	Ignore AllocationMode = "ignore"
)

// Settings are what an admin chose for one family. They do not change while the agent runs.
type Settings struct {
	Family      Family
	Allocations AllocationMode
	// MasqueradeAll gives all traffic to ClusterIPs the node's address.
	MasqueradeAll bool
	// MasqueradeBit is the bit of the packet mark, from 0 to 31, that stands for "give it the node's address".
	MasqueradeBit int
	// LocalSource tells the traffic of local pods; FromNode takes its CIDR from the node's podCIDRs.
	LocalSource LocalSource
	FromNode    bool
	// NodePortCIDRs restricts NodePorts to local addresses inside of them; empty: any local address. NodePortPrimary restricts them to
	// the node's own IPs instead.
	NodePortCIDRs   []netip.Prefix
	NodePortPrimary bool
	// LocalhostNodePorts lets NodePorts answer on 127.0.0.0/8; never on ::1.
	LocalhostNodePorts bool
	// KeepInvalid keeps packets of invalid connection-tracking state, which are dropped otherwise.
	KeepInvalid bool
	// NoExternalIPs ignores spec.externalIPs.
	NoExternalIPs bool
	// KeepUnallocated lets traffic pass that goes to addresses inside of ServiceCIDRs which nobody has; it is dropped otherwise.
	KeepUnallocated bool
}

// LocalSource tells traffic of pods on this node from other traffic. At most one field is set; the zero value cannot tell, and then
// nothing is treated as local.
type LocalSource struct {
	CIDR netip.Prefix
	// Interface is the name of a bridge, InterfacePrefix the beginning of the names of all pod interfaces.
	Interface, InterfacePrefix string
}

// Known reports whether local pods can be told from others.
func (l LocalSource) Known() bool { return l != LocalSource{} }
