package network

import (
	"net/netip"

	"github.com/clusterip-operator/clusterip-operator/proxyagent/model"
)

// Families are both of them, for loops.
var Families = []model.Family{model.IPv4, model.IPv6}

// host is where a namespace is: its main addresses, and the ranges of its further addresses.
type host struct {
	name         string
	main, ranges [2]string // IPv4, IPv6
}

// The hosts of every Topology. Node is listed with its primary addresses.
var (
	hostNode      = host{name: "node", main: [2]string{"192.0.2.10", "2001:db8:2::10"}}
	hostClient    = host{"client", [2]string{"192.0.2.100", "2001:db8:2::100"}, [2]string{"198.18.0.0/16", "2001:db8:18::/64"}}
	hostPod1      = host{"pod1", [2]string{"10.180.1.11", "fd00:180:0:1::11"}, [2]string{"10.180.1.32/27", "fd00:180:0:1::1:0/112"}}
	hostPod2      = host{"pod2", [2]string{"10.180.1.12", "fd00:180:0:1::12"}, [2]string{"10.180.1.64/27", "fd00:180:0:1::2:0/112"}}
	hostRemote    = host{name: "remote", main: [2]string{"172.30.0.20", "fd00:30::20"}}
	hostRemotePod = host{"remote-pod", [2]string{"10.180.2.11", "fd00:180:0:2::11"}, [2]string{"10.180.2.32/27", "fd00:180:0:2::1:0/112"}}
)

// Addresses of the node beside the primary ones; podGateway is each pod's gateway, the node too.
var (
	nodeAlt       = [2]string{"198.51.100.10", "2001:db8:51::10"}
	nodeCluster   = [2]string{"172.30.0.10", "fd00:30::10"}
	clientAlt     = [2]string{"198.51.100.100", "2001:db8:51::100"}
	podGateway    = [2]string{"10.180.1.1", "fd00:180:0:1::1"}
	remoteGateway = [2]string{"10.180.2.1", "fd00:180:0:2::1"}
)

// Ranges of every Topology.
var (
	clusterCIDR = [2]string{"10.180.0.0/16", "fd00:180::/48"}
	podCIDR     = [2]string{"10.180.1.0/24", "fd00:180:0:1::/64"}
	remoteCIDR  = [2]string{"10.180.2.0/24", "fd00:180:0:2::/64"}
	virtual     = [2]string{"198.19.0.0/16", "2001:db8:19::/64"}
)

func index(f model.Family) int {
	if f == model.IPv6 {
		return 1
	}
	return 0
}

func pick(pair [2]string, f model.Family) netip.Addr { return netip.MustParseAddr(pair[index(f)]) }

func pickRange(pair [2]string, f model.Family) netip.Prefix {
	return netip.MustParsePrefix(pair[index(f)])
}

// ClusterCIDR returns the range of all pods, local and remote.
func ClusterCIDR(f model.Family) netip.Prefix { return pickRange(clusterCIDR, f) }

// PodCIDR returns the range of the pods on the node.
func PodCIDR(f model.Family) netip.Prefix { return pickRange(podCIDR, f) }

// VirtualAddr returns the i-th address, from 1 to 65,000, of a range that no host has, for load
// balancers and external IPs. The client sends its packets to the node, the node to its gateway.
func VirtualAddr(f model.Family, i int) netip.Addr { return nth(pickRange(virtual, f).Addr(), i) }

// AltNodeAddr returns the node's second address, on another interface.
func AltNodeAddr(f model.Family) netip.Addr { return pick(nodeAlt, f) }

// Loopback returns 127.0.0.1 or ::1.
func Loopback(f model.Family) netip.Addr {
	if f == model.IPv6 {
		return netip.IPv6Loopback()
	}
	return netip.AddrFrom4([4]byte{127, 0, 0, 1})
}

// IsNodeAddr reports whether an address is the node's: a server's peer after masquerading.
func IsNodeAddr(a netip.Addr) bool {
	for _, pair := range [][2]string{hostNode.main, nodeAlt, nodeCluster, podGateway} {
		if a == netip.MustParseAddr(pair[0]) || a == netip.MustParseAddr(pair[1]) {
			return true
		}
	}
	return false
}

// nth counts i addresses on, in the last 16 bits of an address.
func nth(a netip.Addr, i int) netip.Addr {
	b := a.AsSlice()
	low := int(b[len(b)-2])<<8 + int(b[len(b)-1]) + i
	b[len(b)-2], b[len(b)-1] = byte(low>>8), byte(low)
	sum, _ := netip.AddrFromSlice(b)
	return sum
}
