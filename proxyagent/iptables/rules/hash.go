package rules

import (
	"fmt"
	"hash/fnv"
	"math"
	"net/netip"
	"slices"
	"strings"

	"github.com/clusterip-operator/clusterip-operator/proxyagent/model"
)

// hashed writes the chain name, and those below it, that send a client always to the same endpoint: each has as large a part of all hashes as its weight says. Many endpoints are spread over
// chains of as many each.
//
// The hash is computed by a program for xt_bpf. The roads not taken: xt_cluster hashes of an IPv6 address its first 32 bits alone, so that all pods of a
// cluster would meet the same endpoint (and it knows 32 endpoints at most); xt_u32 does not hash; HMARK replaces the whole packet mark, which others use too.
func (c choice) hashed(name string, able []netip.AddrPort) {
	parts := weightsOf(able, c.weights)
	h := hash{family: c.family, seed: digest32(c.port), of: sum(parts)}
	if len(able) <= sideBySide {
		c.chains[name] = h.rules(c.ways(able), parts, 0)
		return
	}
	size := int(math.Ceil(math.Sqrt(float64(len(able)))))
	var groups []way
	var groupParts []int
	for own := range slices.Chunk(able, size) {
		group, first := c.free(name, fmt.Sprint("group ", len(groups))), len(groups)*size
		ownParts := parts[first : first+len(own)]
		c.chains[group] = h.rules(c.ways(own), ownParts, sum(groupParts))
		groups, groupParts = append(groups, toChain(group)), append(groupParts, sum(ownParts))
	}
	c.chains[name] = h.rules(groups, groupParts, 0)
}

// hash is a function of source addresses, with values below of. Another seed gives other values: without, a client would meet the same of n endpoints
// of every Service. It does not depend on the node.
type hash struct {
	family model.Family
	seed   uint32
	of     int
}

// rules take each way with a part of the hashes, the first of which begins with from. The last needs no match.
func (h hash) rules(ways []way, parts []int, from int) []string {
	var rules []string
	for i, way := range ways {
		match := ""
		if i < len(ways)-1 {
			match = h.match(from, from+parts[i])
		}
		rules = append(rules, way(match))
		from += parts[i]
	}
	return rules
}

// Instructions of classic BPF (linux/filter.h), as iptables-save prints them: code, jumps if true and if false, and a number. A is the accumulator, X the other register.
const (
	loadNumber  = "0 0 0 %d"   // A = number
	loadWord    = "32 0 0 %d"  // A = the word of the packet at number
	copyToX     = "7 0 0 0"    // X = A
	multiply    = "36 0 0 %d"  // A *= number
	shift       = "116 0 0 %d" // A >>= number
	xorX        = "172 0 0 0"  // A ^= X
	modulo      = "148 0 0 %d" // A %= number
	unlessFrom  = "53 0 %d %d" // skips so many instructions if A < number
	unlessBelow = "53 %d 0 %d" // skips so many instructions if A >= number
	result      = "6 0 0 %d"   // the packet matches, or with zero does not
)

// match matches clients whose hash is from one value on, and below another.
func (h hash) match(from, below int) string {
	program := append(h.program(),
		fmt.Sprintf(unlessFrom, 2, from), fmt.Sprintf(unlessBelow, 1, below), fmt.Sprintf(result, 1), fmt.Sprintf(result, 0))
	return fmt.Sprintf("-m bpf --bytecode \"%d,%s\" ", len(program), strings.Join(program, ","))
}

// program leaves the hash of a packet in A. The packet begins with its IP header; in the table nat it is the first of a connection, and has the client's source address. Each word of
// that is mixed in by a multiplication, and the end mixes high bits into low ones (as in MurmurHash3).
func (h hash) program() []string {
	at, end := 12, 16
	if h.family == model.IPv6 {
		at, end = 8, 24
	}
	program := []string{fmt.Sprintf(loadNumber, h.seed)}
	for ; at < end; at += 4 {
		program = append(program, copyToX, fmt.Sprintf(loadWord, at), xorX, fmt.Sprintf(multiply, 0x85ebca6b))
	}
	for _, step := range []struct{ shift, factor uint32 }{{16, 0x85ebca6b}, {13, 0xc2b2ae35}, {16, 1}} {
		program = append(program, copyToX, fmt.Sprintf(shift, step.shift), xorX, fmt.Sprintf(multiply, step.factor))
	}
	return append(program, fmt.Sprintf(modulo, h.of))
}

func digest32(of ...any) uint32 {
	h := fnv.New32a()
	_, _ = fmt.Fprintln(h, of...)
	return h.Sum32()
}
