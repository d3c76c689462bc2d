//go:build linux

package nftables

import (
	"encoding/binary"
	"fmt"
	"hash/maphash"
	"net/netip"
	"strings"

	"github.com/clusterip-operator/clusterip-operator/proxyagent/model"
)

// set is the name of a map or set of ours.
type set string

// The maps and sets that exist always. A front is a virtual IP with protocol and port, a node port has protocol and port.
const (
	fronts   set = "fronts"    // front : chain
	picked   set = "endpoints" // front, index : endpoint of traffic that may go anywhere
	local    set = "local"     // front, index : endpoint on this node
	anywhere set = "anywhere"  // front whose policy is Local : chain for clients on this node
	unserved set = "unserved"  // front without an endpoint that may be used : refuse, or drop

	nodeFronts   set = "node-fronts" // the same for node ports
	nodePicked   set = "node-endpoints"
	nodeLocal    set = "node-local"
	nodeAnywhere set = "node-anywhere"
	nodeUnserved set = "node-unserved"

	active     set = "active"     // ClusterIPs: a port that nothing else decided about is refused
	vips       set = "vips"       // all other virtual IPs
	allocated  set = "allocated"  // addresses of the ServiceCIDRs that somebody has
	firewalled set = "firewalled" // fronts with source ranges
	allowed    set = "allowed"    // front, source range
	balanced   set = "balanced"   // fronts whose endpoints IPVS chooses
	hairpin    set = "hairpin"    // source and front of an endpoint that meets itself

	sticky set = "sticky" // virtual IP with session affinity : chain that remembers clients
)

// These lead to chains of their own ports. All others lead to the number of a route, and that to
// its chain: for each element with a chain that comes, the kernel goes through all of them in a
// table.
const (
	frontRoutes        = fronts + routesOf
	anywhereRoutes     = anywhere + routesOf
	nodeFrontRoutes    = nodeFronts + routesOf
	nodeAnywhereRoutes = nodeAnywhere + routesOf

	routesOf set = "-routes"

	routes set = "routes" // route : chain
	// through is the same for clients on this node whose packets come from such a chain. The kernel
	// would take one map for both for a loop.
	through set = "through-routes"
)

// nodeSticky has the node ports with session affinity, a map for each protocol : chain that remembers clients.
var nodeSticky = map[model.Protocol]set{model.TCP: "node-sticky-tcp", model.UDP: "node-sticky-udp", model.SCTP: "node-sticky-sctp"}

// kind is what the values of a set are.
type kind int

const (
	member   kind = iota // none
	verdict              // a chain to go to, or drop
	endpoint             // address and port
	number               // of a route
)

// schema is what a set holds: A stands for an address of the family, P for a protocol, S for a port, I for an index.
type schema struct {
	key  string
	kind kind
}

var schemas = map[set]schema{
	fronts: {"APS", verdict}, picked: {"APSI", endpoint}, local: {"APSI", endpoint}, anywhere: {"APS", verdict}, unserved: {"APS", verdict},
	nodeFronts: {"PS", verdict}, nodePicked: {"PSI", endpoint}, nodeLocal: {"PSI", endpoint}, nodeAnywhere: {"PS", verdict}, nodeUnserved: {"PS", verdict},
	frontRoutes: {"APS", number}, anywhereRoutes: {"APS", number}, nodeFrontRoutes: {"PS", number}, nodeAnywhereRoutes: {"PS", number}, routes: {"I", verdict}, through: {"I", verdict},
	vips: {"A", member}, active: {"A", member}, allocated: {"A", member}, firewalled: {"APS", member}, balanced: {"APS", member}, allowed: {"APSA", member}, hairpin: {"AAPS", member},
	sticky: {"A", verdict}, nodeSticky[model.TCP]: {"S", verdict}, nodeSticky[model.UDP]: {"S", verdict}, nodeSticky[model.SCTP]: {"S", verdict},
}

// key is an element without its value, in the bytes of the kernel: each field fills up four of them. to is the end of an interval, empty without.
type key struct {
	set    set
	of, to string
}

// seed is of this process: what it prints means nothing elsewhere.
var seed = maphash.MakeSeed()

// print is a fingerprint of an element. Those of a set are added up, so that two sets are compared without keeping a copy of either.
func print(of, to, value string) uint64 {
	return maphash.Comparable(seed, [...]string{of, to, value})
}

// addr, service, and index are fields of keys and values.
func addr(a netip.Addr) string { return string(a.AsSlice()) }

func service(p model.Protocol, port uint16) string {
	return string([]byte{byte(p), 0, 0, 0}) + padded(port)
}

func padded(port uint16) string { return single(port) + "\x00\x00" }

// single is a port that is a key alone.
func single(port uint16) string { return string(binary.BigEndian.AppendUint16(nil, port)) }

func index(i int) string { return string(binary.NativeEndian.AppendUint32(nil, uint32(i))) }

func destination(e netip.AddrPort) string { return addr(e.Addr()) + padded(e.Port()) }

// last is the last address of a prefix.
func last(p netip.Prefix) netip.Addr {
	b := p.Masked().Addr().AsSlice()
	for i := p.Bits(); i < len(b)*8; i++ {
		b[i/8] |= 1 << (7 - i%8)
	}
	a, _ := netip.AddrFromSlice(b)
	return a
}

// describe spells an element as nft does.
func describe(f model.Family, k key, value string) string {
	text := fmt.Sprintf("%s: %s", k.set, spell(f, schemas[k.set].key, k.of))
	if k.to != "" {
		text += " to " + spell(f, schemas[k.set].key, k.to)
	}
	switch schemas[k.set].kind {
	case verdict:
		text += " : " + value
	case endpoint:
		text += " : " + spell(f, "AS", value)
	case number:
		text += " : " + routeOf(value).name()
	}
	return text
}

func spell(f model.Family, fields, b string) string {
	var words []string
	for _, field := range fields {
		size := 4
		if field == 'A' {
			size = f.Bits() / 8
		}
		part := []byte(b[:min(size, len(b))])
		b = b[len(part):]
		switch field {
		case 'A':
			a, _ := netip.AddrFromSlice(part)
			words = append(words, a.String())
		case 'P':
			words = append(words, strings.ToLower(model.Protocol(part[0]).String()))
		case 'S':
			words = append(words, fmt.Sprint(binary.BigEndian.Uint16(part)))
		case 'I':
			words = append(words, fmt.Sprint(binary.NativeEndian.Uint32(part)))
		}
	}
	return strings.Join(words, " . ")
}
