package rules

import (
	"fmt"
	"math/rand/v2"
	"net/netip"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/clusterip-operator/clusterip-operator/proxyagent/model"
)

// What a packet passes at most to a port, and what one port's change writes at most, for any keys.
const (
	mostPassed  = 200
	mostWritten = 400
)

// place is a port of a virtual IP, or of the node if the address is the zero one.
type place struct {
	vip      netip.Addr
	protocol model.Protocol
	port     uint16
}

func tcp(vip netip.Addr) place { return place{vip, model.TCP, 80} }

// rules are as many as the port of a Service with three endpoints has.
func (p place) rules() []string {
	match := fmt.Sprintf("-p %s --dport %d ", lower(p.protocol), p.port)
	if p.vip.IsValid() {
		match = "-d " + model.Single(p.vip).String() + " " + match
	}
	return []string{match + "-j A", match + "-j B", match + "-j C"}
}

// kernelChains is what a lookup emits, as the kernel would have it.
type kernelChains struct {
	*lookup
	chains  map[string][]string
	written int // rules of chains that were set, as a sync writes them
}

// newKernelChains is for virtual IPs of a family, or for node ports without one.
func newKernelChains(f model.Family) *kernelChains {
	k := &kernelChains{lookup: NewRuleset(f).vips, chains: map[string][]string{}}
	if f == 0 {
		k.lookup = NewRuleset(f).nodePorts
	}
	return k
}

func (k *kernelChains) put(p place, rules []string) {
	k.Set(lookupKey(p.vip, p.protocol, p.port), rules)
}

func (k *kernelChains) emit() {
	k.written = 0
	k.lookup.emit(func(chain string, rules []string) {
		if old, there := k.chains[chain]; !there || !slices.Equal(old, rules) {
			k.chains[chain] = rules
			k.written += len(rules)
		}
	}, func(chain string) { delete(k.chains, chain) })
}

// matches evaluates the matches of a rule on a packet to a place.
func (p place) matches(t *testing.T, rule string) bool {
	words := strings.Fields(rule)
	for i := 0; i+2 < len(words); i += 2 {
		ok := false
		switch value := words[i+1]; words[i] {
		case "-d":
			ok = netip.MustParsePrefix(value).Contains(p.vip)
		case "-p":
			ok = value == lower(p.protocol)
		case "--dport":
			var first, last uint16
			if n, _ := fmt.Sscanf(value, "%d:%d", &first, &last); n == 1 {
				last = first
			}
			ok = first <= p.port && p.port <= last
		case "-j", "-g":
			return true
		default:
			t.Fatalf("the rule %q", rule)
		}
		if !ok {
			return false
		}
	}
	return true
}

// find follows the rules from the root as a packet does. It returns the rules where it ends, how
// many rules it was compared with up to the first of those, and how many chains it saw.
func (k *kernelChains) find(t *testing.T, p place) (found []string, passed, depth int) {
	t.Helper()
	for chain := k.root; chain != ""; depth++ {
		rules, there := k.chains[chain]
		if !there {
			t.Fatalf("a rule leads to the chain %s, which does not exist", chain)
		}
		chain = ""
		for _, rule := range rules {
			if len(found) == 0 {
				passed++
			}
			if !p.matches(t, rule) {
				continue
			}
			_, target, leads := strings.Cut(rule, " -g ")
			if leads {
				chain = target
				break
			}
			found = append(found, rule)
		}
	}
	return found, passed, depth
}

// checkTree compares chains after a history with those of a tree built at once, and looks keys up.
func checkTree(t *testing.T, family model.Family, want map[place][]string, grown *kernelChains) {
	t.Helper()
	built := newKernelChains(family)
	for p, rules := range want {
		built.put(p, rules)
	}
	built.emit()
	if diff := cmp.Diff(built.chains, grown.chains); diff != "" {
		t.Fatalf("the chains differ from those of a tree built at once (-built +grown):\n%s", diff)
	}
	for p, rules := range want {
		found, passed, depth := grown.find(t, p)
		if diff := cmp.Diff(rules, found); diff != "" {
			t.Fatalf("looking up %v (-want +found):\n%s", p, diff)
		}
		if depth > 1+highestLevel || passed > mostPassed {
			t.Fatalf("%v is %d chains deep, behind %d rules; want at most %d and %d", p, depth, passed, 1+highestLevel, mostPassed)
		}
		for _, other := range []place{{p.vip.Next(), p.protocol, p.port}, {p.vip, p.protocol, p.port + 1}} {
			if _, there := want[other]; !there && (other.vip.IsValid() || other.vip == p.vip) {
				if found, _, _ := grown.find(t, other); len(found) > 0 {
					t.Fatalf("looking up %v, which is not there, found %q", other, found)
				}
			}
		}
	}
}

// FuzzTree reads keys that part where the fuzzer wants, with up to three rules, and syncs each.
func FuzzTree(f *testing.F) {
	for seed := range byte(8) {
		data := make([]byte, 4<<(seed+1))
		_, _ = rand.NewChaCha8([32]byte{seed}).Read(data) // never fails
		f.Add(seed, data)
	}
	firsts := map[model.Family]string{0: "0.0.0.0", model.IPv4: "10.96.0.0", model.IPv6: "fd00:10:96::"}
	f.Fuzz(func(t *testing.T, kind byte, data []byte) {
		family := []model.Family{0, model.IPv4, model.IPv6}[kind%3]
		first := netip.MustParseAddr(firsts[family])
		k, want, known := newKernelChains(family), map[place][]string{}, []place{}
		for words := range slices.Chunk(data, 4) {
			a := first.AsSlice()
			word := append(slices.Clone(words), 0, 0, 0)
			a[int(word[0])%len(a)] ^= word[1]
			a[len(a)-1] ^= word[2] & 15
			vip, _ := netip.AddrFromSlice(a)
			p := place{vip, model.Protocols[int(word[3])%3], uint16(word[3]) << 4}
			if family == 0 {
				p.vip, p.port = netip.Addr{}, uint16(word[0])<<8|uint16(word[2])
			}
			known = append(known, p)
			if word[0] > 127 {
				p = known[int(word[1])%len(known)]
			}
			rules := p.rules()[:word[2]>>6]
			want[p] = rules
			if len(rules) == 0 {
				delete(want, p)
			}
			k.put(p, rules)
			k.emit()
			if k.written > mostWritten {
				t.Fatalf("%v with %d rules made a sync write %d", p, len(rules), k.written)
			}
		}
		k.emit()
		checkTree(t, family, want, k)
	})
}

// hostile are virtual IPs that once made, or by which a tenant may try to make, lists of chains:
// some of a prefix, ports of an address, a branch at each bit, below it nearly what fills a chain.
var hostile = []string{
	"10000 10.96.0.0/12, 10.0.0.5/32, 3.120.0.9/32",
	"30000 10.96.0.0/12, 10.0.0.5/32, 3.120.0.9/32",
	"4000 34.118.224.0/20, 34.1.2.3/32, 35.1.2.3/32, 32.9.9.9/32, 34.118.1.1/32",
	"10000 fd00:10:96::/112, 2001:db8::1/128, fe00::1/128, fd10::1/128, fd01::1/128",
	"3000 fd00:10:96::/64",
	"8000 10.96.0.0/16, 2000 172.30.0.0/18, 200 203.0.113.0/24, ports 203.0.113.7/32",
	"2000 10.96.0.0/16, branches 10.96.0.0/28",
	"fd00:10:96::/128, branches fd00:10:96::/112",
}

// places reads one of them.
func places(r *rand.Rand, text string) (all []place) {
	for part := range strings.SplitSeq(text, ", ") {
		what, cidr, found := strings.Cut(part, " ")
		if !found {
			what, cidr = "1", part
		}
		p := netip.MustParsePrefix(cidr)
		switch what {
		case "ports":
			for port := uint16(1); port < 60000; port += uint16(1 + r.IntN(60)) {
				all = append(all, place{p.Addr(), model.Protocols[r.IntN(2)], port})
			}
		case "branches":
			for bit := range p.Bits() - 4 {
				a := flip(p.Addr(), bit)
				for range 3 {
					a = a.Next()
					all = append(all, tcp(a))
				}
			}
		default:
			n, _ := strconv.Atoi(what)
			for drawn := map[netip.Addr]bool{}; len(drawn) < n; {
				a := p.Addr()
				for bit := p.Bits(); bit < a.BitLen(); bit++ {
					if r.IntN(2) == 0 {
						a = flip(a, bit)
					}
				}
				if !drawn[a] {
					drawn[a], all = true, append(all, tcp(a))
				}
			}
		}
	}
	return all
}

// flip changes one bit of an address.
func flip(a netip.Addr, bit int) netip.Addr {
	b := a.AsSlice()
	b[bit/8] ^= 0x80 >> (bit % 8)
	a, _ = netip.AddrFromSlice(b)
	return a
}

// TestHostileAddressesMakeNoLists bounds what a packet passes and what a change writes.
func TestHostileAddressesMakeNoLists(t *testing.T) {
	for _, text := range hostile {
		t.Run(text, func(t *testing.T) {
			all := places(rand.New(rand.NewPCG(7, 7)), text)
			k := newKernelChains(model.FamilyOf(all[0].vip))
			for _, p := range all {
				k.put(p, p.rules())
			}
			k.emit()
			rules := k.written
			slices.Reverse(all) // the chosen ones first
			sum, worst, deepest, some := 0, 0, 0, all[:min(len(all), 3000)]
			for _, p := range some {
				_, passed, depth := k.find(t, p)
				sum, worst, deepest = sum+passed, max(worst, passed), max(deepest, depth)
			}
			most := 0
			for _, p := range some[:min(len(some), 400)] {
				for _, n := range []int{0, 1, 2, 3} {
					k.put(p, p.rules()[:n])
					k.emit()
					most = max(most, k.written)
				}
			}
			mean := float64(sum) / float64(len(some))
			t.Logf("%d keys, %d chains, %d rules: a packet passes %.1f, at most %d, in %d chains; a change writes at most %d",
				len(all), len(k.chains), rules, mean, worst, deepest, most)
			if mean > 45 || worst > mostPassed || most > mostWritten {
				t.Errorf("want a mean of at most 45, at most %d rules passed, and %d written", mostPassed, mostWritten)
			}
		})
	}
}
