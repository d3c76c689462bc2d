package iptables

import (
	"fmt"
	"maps"
	"math/rand/v2"
	"net/netip"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/clusterip-operator/clusterip-operator/proxyagent/model"
)

// chainMap collects what a tree emits, as the kernel would have it.
type chainMap map[string][]string

func (m chainMap) emit(t *tree) {
	t.Emit(func(chain string, rules []string) { m[chain] = rules }, func(chain string) { delete(m, chain) })
}

// lookup follows the rules from the root as a packet to addr does, and returns the rules of the key that it ends at, and the number of chains
// on the way.
func (m chainMap) lookup(t *testing.T, addr netip.Addr) (found []string, depth int) {
	t.Helper()
	for chain := chainVIPs; chain != ""; depth++ {
		rules, there := m[chain]
		if !there {
			t.Fatalf("a rule leads to the chain %s, which does not exist", chain)
		}
		chain = ""
		for _, rule := range rules {
			prefix, target, ok := strings.Cut(strings.TrimPrefix(rule, "-d "), " ")
			if !ok || !netip.MustParsePrefix(prefix).Contains(addr) {
				continue
			}
			if next, leads := strings.CutPrefix(target, "-g "+prefixOfTree); leads {
				chain = prefixOfTree + next
				break
			}
			found = append(found, rule)
		}
	}
	return found, depth
}

const prefixOfTree = "CIPA-T-"

// rulesFor makes n rules of an address.
func rulesFor(a netip.Addr, n int) []string {
	var rules []string
	for i := range n {
		rules = append(rules, fmt.Sprintf("-d %s -p tcp --dport %d -g CIPA-S", single(a), i+1))
	}
	return rules
}

func newVIPTree(f model.Family) *tree { return newTree(f.Bits(), treeChain, matchVIP) }

// someAddr draws from pools that make dense, sparse and nested sets.
func someAddr(r *rand.Rand, f model.Family) netip.Addr {
	bytes := netip.MustParseAddr("10.96.0.0").AsSlice()
	if f == model.IPv6 {
		bytes = netip.MustParseAddr("fd00:10:96::").AsSlice()
	}
	last := len(bytes) - 1
	switch r.IntN(4) {
	case 0: // dense
		bytes[last] = byte(r.IntN(64))
	case 1: // a whole range
		bytes[last-1], bytes[last] = byte(r.IntN(256)), byte(r.IntN(256))
	case 2: // anywhere
		for i := range bytes {
			bytes[i] = byte(r.IntN(256))
		}
	default: // many nested prefixes
		bit := r.IntN(len(bytes) * 8)
		bytes[bit/8] ^= 1 << (bit % 8)
	}
	a, _ := netip.AddrFromSlice(bytes)
	return a
}

// TestTreeIsAFunctionOfItsKeys holds the chains after random histories against those of a tree that was built at once, and looks every key up.
func TestTreeIsAFunctionOfItsKeys(t *testing.T) {
	seeds := uint64(10)
	if testing.Short() {
		seeds = 3
	}
	for _, family := range []model.Family{model.IPv4, model.IPv6} {
		for seed := range seeds {
			t.Run(fmt.Sprintf("%s/%d", family, seed), func(t *testing.T) {
				r := rand.New(rand.NewPCG(seed, 4))
				grown, chains, want := newVIPTree(family), chainMap{}, map[netip.Addr][]string{}
				for range 40 {
					for range r.IntN(60) {
						a := someAddr(r, family)
						if r.IntN(3) == 0 && len(want) > 0 {
							a = slices.SortedFunc(maps.Keys(want), netip.Addr.Compare)[r.IntN(len(want))]
						}
						rules := rulesFor(a, []int{0, 0, 1, 1, 2, 3, 12}[r.IntN(7)])
						grown.Set(string(a.AsSlice()), rules)
						if want[a] = rules; len(rules) == 0 {
							delete(want, a)
						}
					}
					chains.emit(grown)
					checkTree(t, family, want, chains)
				}
			})
		}
	}
}

func checkTree(t *testing.T, family model.Family, want map[netip.Addr][]string, chains chainMap) {
	t.Helper()
	built, fresh := newVIPTree(family), chainMap{}
	for a, rules := range want {
		built.Set(string(a.AsSlice()), rules)
	}
	fresh.emit(built)
	if diff := cmp.Diff(fresh, chains); diff != "" {
		t.Fatalf("the chains differ from those of a tree built at once (-built +grown):\n%s", diff)
	}
	for a, rules := range want {
		found, depth := chains.lookup(t, a)
		if diff := cmp.Diff(rules, found); diff != "" {
			t.Fatalf("looking up %s (-want +found):\n%s", a, diff)
		}
		if depth > 1+maxDepth+1 {
			t.Fatalf("%s is %d chains deep, the kernel's limit needs at most %d", a, depth, 1+maxDepth+1)
		}
		next := a.Next()
		if _, there := want[next]; !there && next.IsValid() {
			if found, _ := chains.lookup(t, next); len(found) > 0 {
				t.Fatalf("looking up %s, which is not there, found %q", next, found)
			}
		}
	}
}

// TestTreeChangesFewChains pins what the arrival of one address costs among ten thousand.
func TestTreeChangesFewChains(t *testing.T) {
	tree, chains := newVIPTree(model.IPv4), chainMap{}
	a := netip.MustParseAddr("10.96.0.1")
	for range 10000 {
		tree.Set(string(a.AsSlice()), rulesFor(a, 2))
		a = a.Next()
	}
	chains.emit(tree)
	before := maps.Clone(chains)
	tree.Set(string(a.AsSlice()), rulesFor(a, 2))
	touched := 0
	tree.Emit(func(chain string, rules []string) {
		if !slices.Equal(before[chain], rules) {
			touched++
		}
	}, func(string) { touched++ })
	if touched > 3 {
		t.Errorf("one address more touched %d chains, want at most its leaf, its parent and a new chain", touched)
	}
	if len(chains) > 10000/bucketSize*3/2 {
		t.Errorf("10,000 addresses side by side make %d chains", len(chains))
	}
}

// TestNodePortTree pins the matches of ranges of ports; the shape of trees is tested above.
func TestNodePortTree(t *testing.T) {
	tree, chains := NewRuleset(model.IPv4).nodePortTree(model.UDP), chainMap{}
	rule := func(port int) string { return fmt.Sprintf("-p udp --dport %d -g CIPA-X", port) }
	rules := func(first, last int) (all []string) {
		for port := first; port <= last; port++ {
			all = append(all, rule(port))
		}
		return all
	}
	for port := 30010; port <= 30027; port++ {
		tree.Set(portKey(uint16(port)), []string{rule(port)})
	}
	tree.Set(portKey(65535), []string{rule(65535)})
	chains.emit(tree)
	want := chainMap{
		"CIPA-N-UDP":         {"-p udp --dport 29952:30207 -g CIPA-N-UDP-7500-8", rule(65535)},
		"CIPA-N-UDP-7500-8":  {"-p udp --dport 30000:30015 -g CIPA-N-UDP-7530-12", "-p udp --dport 30016:30031 -g CIPA-N-UDP-7540-12"},
		"CIPA-N-UDP-7530-12": rules(30010, 30015),
		"CIPA-N-UDP-7540-12": rules(30016, 30027),
	}
	if diff := cmp.Diff(want, chains); diff != "" {
		t.Errorf("chains (-want +got):\n%s", diff)
	}
}
