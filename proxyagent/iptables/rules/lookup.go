package rules

import (
	"encoding/binary"
	"fmt"
	"net/netip"

	"github.com/clusterip-operator/clusterip-operator/proxyagent/model"
)

// lookup is the chains that lead from a destination to the rules of a port: one lookup for virtual
// IPs, by address, protocol and port, and one for node ports, by protocol and port.
type lookup struct {
	tree
	root    string // its first chain, which exists also without keys
	below   string // begins the names of its other chains
	address int    // bits of the address in a key
}

func newLookup(root, below string, address int) *lookup {
	l := &lookup{root: root, below: below, address: address}
	// No rule matches the first bits of a protocol.
	l.matches = func(bits int) bool { return bits <= address || bits >= address+8 }
	return l
}

// lookupKey is the key of a port of a virtual IP, or of a node port if the address is the zero one.
func lookupKey(vip netip.Addr, p model.Protocol, port uint16) string {
	return string(binary.BigEndian.AppendUint16(append(vip.AsSlice(), byte(p)), port))
}

// emit calls set and remove with the chains that may have changed since the last call.
func (l *lookup) emit(set func(chain string, rules []string), remove func(chain string)) {
	l.Emit(func(n *node) {
		var rules []string
		for _, e := range n.entries {
			if e.level == 0 {
				rules = append(rules, e.rules...)
			} else {
				rules = append(rules, l.match(e)+" -g "+l.chain(e))
			}
		}
		set(l.chain(n), rules)
	}, func(n *node) { remove(l.chain(n)) })
}

// chain names the chain of a node by its prefix in hexadecimal, or a digest if that is too long.
func (l *lookup) chain(n *node) string {
	switch {
	case n.bits == 0:
		return l.root
	case l.address > 32:
		return fmt.Sprintf("%s%s-%d", l.below, model.Digest(n.key), n.bits)
	default:
		return fmt.Sprintf("%s%X-%d", l.below, n.key[:(n.bits+7)/8], n.bits)
	}
}

// match matches packets to the prefix of a node.
func (l *lookup) match(n *node) string {
	address, service := n.key[:l.address/8], n.key[l.address/8:]
	vip, _ := netip.AddrFromSlice([]byte(address))
	if n.bits <= l.address {
		return "-d " + netip.PrefixFrom(vip, n.bits).String()
	}
	match := "-p " + lower(model.Protocol(service[0]))
	if bits := n.bits - l.address - 8; bits > 0 {
		first := binary.BigEndian.Uint16([]byte(service[1:]))
		match += fmt.Sprintf(" --dport %d:%d", first, first|(1<<(16-bits)-1))
	}
	if l.address > 0 {
		match = fmt.Sprintf("-d %s %s", model.Single(vip), match)
	}
	return match
}
