package rules

import (
	"fmt"
	"net/netip"
	"strings"

	"github.com/clusterip-operator/clusterip-operator/proxyagent/model"
)

// Prefix begins the name of every chain and of every set of ours.
const Prefix = "CIPA-"

// The chains that exist always, but for the last of nat. Chain names have at most 28 characters.
const (
	chainServices    = Prefix + "SERVICES"
	chainVIPs        = Prefix + "VIPS"
	chainNodePorts   = Prefix + "NODEPORTS"
	chainPostrouting = Prefix + "POSTROUTING"
	chainMasquerade  = Prefix + "MASQUERADE"
	chainTry         = Prefix + "TRY" // for a moment, while the port of a refused rule is looked for

	chainInput       = Prefix + "INPUT"
	chainForward     = Prefix + "FORWARD"
	chainOutput      = Prefix + "OUTPUT"
	chainNew         = Prefix + "NEW"
	chainVIPFilter   = Prefix + "VIP-FILTER"
	chainPortsFilter = Prefix + "NODEPORT-FILTER"
)

// The roles of chains that belong to one ServicePort.
const (
	roleCluster  = "S" // picks one of all endpoints
	roleLocal    = "L" // picks one of the endpoints on this node
	roleExternal = "X" // traffic from outside: which of the two, and masquerade or not
	roleEndpoint = "E" // one endpoint of a port with affinity: remember the client, then DNAT
)

// portChain names the chain of a ServicePort in a role. A digest makes it a pure function of the
// port's name: nothing has to be stored over a restart, and no text of tenants gets into a rule.
func portChain(role string, name model.PortName) string {
	return Prefix + role + "-" + model.Digest(name.String())
}

// endpointChain names the chain of one endpoint of a port with affinity.
func endpointChain(name model.PortName, endpoint netip.AddrPort) string {
	return Prefix + roleEndpoint + "-" + model.Digest(name.String()+" "+endpoint.String())
}

// affinitySet names the set of the clients that stay with one endpoint of a port.
func affinitySet(family model.Family, name model.PortName, endpoint netip.AddrPort) string {
	return SetPrefix(family) + "A-" + model.Digest(name.String()+" "+endpoint.String())
}

// SetPrefix begins the names of the sets of one family: sets of both share one space of names.
func SetPrefix(family model.Family) string { return fmt.Sprintf("%s%d-", Prefix, family) }

// lower is how iptables spells a protocol.
func lower(p model.Protocol) string { return strings.ToLower(p.String()) }
