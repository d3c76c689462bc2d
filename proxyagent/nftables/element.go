//go:build linux

package nftables

import (
	"crypto/sha256"
	"encoding/binary"
	"fmt"
	"hash/maphash"
	"net/netip"
	"strings"

	"github.com/clusterip-operator/clusterip-operator/proxyagent/model"
)

// set is the name of a map or set of ours.
type set string

// Maps and sets that always exist. A front is virtual IP, protocol and port; a node port has no IP.
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
	allocated  set = "allocated"  // addresses of the ServiceCIDRs that a Service or an IPAddress has
	firewalled set = "firewalled" // fronts with source ranges
	sources    set = "sources"    // length, front, source range of that length
	balanced   set = "balanced"   // fronts whose endpoints IPVS chooses
	hairpin    set = "hairpin"    // source and front of an endpoint that meets itself

	affinity     set = "affinity"      // front of a port with session affinity : number of the port
	nodeAffinity set = "node-affinity" // the same for node ports
	kept         set = "kept"          // number of a port with session affinity, endpoint that its clients may keep
)

// These maps lead to chains of one port, and to those with session affinity, for whose time-out a
// number has no room. All other maps lead to the number of a route, and that to its chain: for each
// element with a chain that comes, the kernel goes through all of them in a table.
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

// Sets that packets write into. They exist once a port has session affinity, because the kernel
// makes room for all their elements at once: 16 MiB for clients.
const (
	clients   set = "clients"   // client, number of the port : endpoint
	newcomers set = "newcomers" // number of the port, with the rate at which it may get new clients
)

// kind is what the values of a set are.
type kind int

const (
	member   kind = iota // none
	verdict              // a chain to go to, or drop
	endpoint             // address and port
	routed               // the number of a route
	identity             // the number of a port but its last field, after a field that nothing reads
	client               // address and port, after the last field of the number of a port
)

// types are the fields of values; rule.go says why two kinds have one more.
var types = map[kind]string{endpoint: "AS", routed: "I", identity: "III", client: "IAS"}

// schema is what a set holds: A stands for an address of the family, P for a protocol, S for a
// port, I for an index, III for the number of a port. most is how much fits; 0: no limit.
type schema struct {
	key  string
	kind kind
	most uint32
}

var schemas = map[set]schema{
	fronts: {key: "APS", kind: verdict}, picked: {key: "APSI", kind: endpoint}, local: {key: "APSI", kind: endpoint},
	anywhere: {key: "APS", kind: verdict}, unserved: {key: "APS", kind: verdict},
	nodeFronts: {key: "PS", kind: verdict}, nodePicked: {key: "PSI", kind: endpoint}, nodeLocal: {key: "PSI", kind: endpoint},
	nodeAnywhere: {key: "PS", kind: verdict}, nodeUnserved: {key: "PS", kind: verdict},
	frontRoutes: {key: "APS", kind: routed}, anywhereRoutes: {key: "APS", kind: routed},
	nodeFrontRoutes: {key: "PS", kind: routed}, nodeAnywhereRoutes: {key: "PS", kind: routed},
	routes: {key: "I", kind: verdict}, through: {key: "I", kind: verdict},
	vips: {key: "A"}, active: {key: "A"}, allocated: {key: "A"}, firewalled: {key: "APS"},
	balanced: {key: "APS"}, sources: {key: "IAPSA"}, hairpin: {key: "AAPS"},
	affinity: {key: "APS", kind: identity}, nodeAffinity: {key: "PS", kind: identity}, kept: {key: "IIIAS"},
}

// remembering are the sets that packets write into. What they hold is not compared.
var remembering = map[set]schema{clients: {key: "AIII", kind: client, most: 1 << 20}, newcomers: {key: "III", most: 1 << 16}}

// key is an element without its value, in the kernel's bytes: each field fills up four of them.
type key struct {
	set set
	of  string
}

// seed is of this process: what it prints means nothing elsewhere.
var seed = maphash.MakeSeed()

// print is a fingerprint of an element. Sets are compared by their sums, without copies of either.
func print(of, value string) uint64 {
	return maphash.Comparable(seed, [...]string{of, value})
}

// addr, service, and index are fields of keys and values.
func addr(a netip.Addr) string { return string(a.AsSlice()) }

func service(p model.Protocol, port uint16) string {
	return string([]byte{byte(p), 0, 0, 0}) + padded(port)
}

func padded(port uint16) string { return string(binary.BigEndian.AppendUint16(nil, port)) + "\x00\x00" }

func index(i int) string { return string(binary.NativeEndian.AppendUint32(nil, uint32(i))) }

func destination(e netip.AddrPort) string { return addr(e.Addr()) + padded(e.Port()) }

// numberOf is the number of a port with session affinity, one for clients that may have any
// endpoint, one for those on this node. As a digest it is stable over restarts.
func numberOf(name model.PortName, onlyLocal bool) string {
	sum := sha256.Sum256([]byte(name.String()))
	return string(sum[:8]) + string(localField(onlyLocal))
}

func localField(onlyLocal bool) []byte {
	if onlyLocal {
		return number32(1)
	}
	return number32(0)
}

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
	switch kind := schemas[k.set].kind; kind {
	case member:
	case verdict:
		text += " : " + value
	case routed:
		text += " : " + routeOf(value).name()
	default:
		text += " : " + spell(f, types[kind], value)
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
