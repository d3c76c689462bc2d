//go:build linux

package tables

import (
	"crypto/sha256"
	"encoding/binary"
	"fmt"
	"hash/maphash"
	"net/netip"
	"strings"

	"github.com/clusterip-operator/clusterip-operator/proxyagent/model"
)

// Set is the name of a map or set of ours.
type Set string

// Maps and sets that always exist. A front is virtual IP, protocol and port; a node port has no IP.
const (
	fronts   Set = "fronts"    // front : chain
	picked   Set = "endpoints" // front, index : endpoint of traffic that may go anywhere
	local    Set = "local"     // front, index : endpoint on this node
	anywhere Set = "anywhere"  // front whose policy is Local : chain for clients on this node
	unserved Set = "unserved"  // front without an endpoint that may be used : refuse, or drop

	nodeFronts   Set = "node-fronts" // the same for node ports
	nodePicked   Set = "node-endpoints"
	nodeLocal    Set = "node-local"
	nodeAnywhere Set = "node-anywhere"
	nodeUnserved Set = "node-unserved"

	active     Set = "active"     // ClusterIPs: a port that nothing else decided about is refused
	vips       Set = "vips"       // all other virtual IPs
	allocated  Set = "allocated"  // addresses of the ServiceCIDRs that a Service or an IPAddress has
	firewalled Set = "firewalled" // fronts with source ranges
	sources    Set = "sources"    // length, front, source range of that length
	balanced   Set = "balanced"   // fronts whose endpoints IPVS chooses
	hairpin    Set = "hairpin"    // source and front of an endpoint that meets itself

	affinity     Set = "affinity"      // front of a port with session affinity : number of the port
	nodeAffinity Set = "node-affinity" // the same for node ports
	kept         Set = "kept"          // number of a port with session affinity, endpoint that its clients may keep
)

// These maps lead to chains of one port, and to those with session affinity, for whose time-out a
// number has no room. All other maps lead to the number of a route, and that to its chain: for each
// element with a chain that comes, the kernel goes through all of them in a table.
const (
	frontRoutes        = fronts + routesOf
	anywhereRoutes     = anywhere + routesOf
	nodeFrontRoutes    = nodeFronts + routesOf
	nodeAnywhereRoutes = nodeAnywhere + routesOf

	routesOf Set = "-routes"

	routes Set = "routes" // route : chain
	// through is the same for clients on this node whose packets come from such a chain. The kernel
	// would take one map for both for a loop.
	through Set = "through-routes"
)

// Sets that packets write into. They exist once a port has session affinity, because the kernel
// makes room for all their elements at once: 16 MiB for clients.
const (
	Clients   Set = "clients"   // client, number of the port : endpoint
	Newcomers Set = "newcomers" // number of the port, with the rate at which it may get new clients
)

// Kind is what the values of a set are.
type Kind int

// The kinds; package nftables tells the first two from the rest.
const (
	Member     Kind = iota // none
	Verdict                // a chain to go to, or drop
	endpoint               // address and port
	routed                 // the number of a route
	identity               // the number of a port but its last field, after a field that nothing reads
	remembered             // address and port, after the last field of the number of a port
)

// Types are the fields of values; rule.go says why two kinds have one more.
var Types = map[Kind]string{endpoint: "AS", routed: "I", identity: "III", remembered: "IAS"}

// Schema is what a set holds: A stands for an address of the family, P for a protocol, S for a
// port, I for an index, III for the number of a port. Most is how much fits; 0: no limit.
type Schema struct {
	Key  string
	Kind Kind
	Most uint32
}

// Schemas are those of all sets but Remembering.
var Schemas = map[Set]Schema{
	fronts: {Key: "APS", Kind: Verdict}, picked: {Key: "APSI", Kind: endpoint}, local: {Key: "APSI", Kind: endpoint},
	anywhere: {Key: "APS", Kind: Verdict}, unserved: {Key: "APS", Kind: Verdict},
	nodeFronts: {Key: "PS", Kind: Verdict}, nodePicked: {Key: "PSI", Kind: endpoint}, nodeLocal: {Key: "PSI", Kind: endpoint},
	nodeAnywhere: {Key: "PS", Kind: Verdict}, nodeUnserved: {Key: "PS", Kind: Verdict},
	frontRoutes: {Key: "APS", Kind: routed}, anywhereRoutes: {Key: "APS", Kind: routed},
	nodeFrontRoutes: {Key: "PS", Kind: routed}, nodeAnywhereRoutes: {Key: "PS", Kind: routed},
	routes: {Key: "I", Kind: Verdict}, through: {Key: "I", Kind: Verdict},
	vips: {Key: "A"}, active: {Key: "A"}, allocated: {Key: "A"}, firewalled: {Key: "APS"},
	balanced: {Key: "APS"}, sources: {Key: "IAPSA"}, hairpin: {Key: "AAPS"},
	affinity: {Key: "APS", Kind: identity}, nodeAffinity: {Key: "PS", Kind: identity}, kept: {Key: "IIIAS"},
}

// Remembering are the sets that packets write into. What they hold is not compared.
var Remembering = map[Set]Schema{Clients: {Key: "AIII", Kind: remembered, Most: 1 << 20}, Newcomers: {Key: "III", Most: 1 << 16}}

// Key is an element without its value, in the kernel's bytes: each field fills up four of them.
type Key struct {
	Set Set
	Of  string
}

// seed is of this process: what it prints means nothing elsewhere.
var seed = maphash.MakeSeed()

// Print is a fingerprint of an element. Sets are compared by their sums, without copies of either.
func Print(of, value string) uint64 { return maphash.Comparable(seed, [...]string{of, value}) }

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

// Served are the maps that lead a front to endpoints.
var Served = []Set{fronts, frontRoutes, nodeFronts, nodeFrontRoutes}

// PortAt is the port with a front, which is the key of an element: address, protocol and port or,
// for a node port, without address.
func PortAt(of string) model.ServicePort {
	const service = 8 // bytes of protocol and port
	if len(of) < service {
		return model.ServicePort{}
	}
	vip, _ := netip.AddrFromSlice([]byte(of[:len(of)-service]))
	rest := of[len(of)-service:]
	return model.PortAt(model.Protocol(rest[0]), netip.AddrPortFrom(vip, binary.BigEndian.Uint16([]byte(rest[4:]))))
}

// Describe spells an element as nft does.
func (k Key) Describe(f model.Family, value string) string {
	schema := Schemas[k.Set]
	text := fmt.Sprintf("%s: %s", k.Set, spell(f, schema.Key, k.Of))
	switch schema.Kind {
	case Member:
	case Verdict:
		text += " : " + value
	case routed:
		text += " : " + routeOf(value).name()
	default:
		text += " : " + spell(f, Types[schema.Kind], value)
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
