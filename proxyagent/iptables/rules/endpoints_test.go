package rules

import (
	"fmt"
	"math"
	"net/netip"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/clusterip-operator/clusterip-operator/proxyagent/model"
	"github.com/clusterip-operator/clusterip-operator/test/framework/plans"
)

// walker computes where packets that enter a chain end: it follows every way with its probability.
type walker struct {
	t      *testing.T
	chains map[string][]string
	// in are the sets that the client is a member of.
	in map[string]bool
	// ends are the probabilities of the endpoints, added are those of being remembered in a set.
	ends, added map[string]float64
}

// walk enters a chain with a probability. Goto does not return: at a chain's end is no endpoint.
func (w walker) walk(name string, p float64) {
	rules, there := w.chains[name]
	if !there {
		w.t.Fatalf("a rule leads to the chain %s, which does not exist", name)
	}
	w.rules(rules, p)
}

func (w walker) rules(rules []string, p float64) {
	for _, rule := range rules {
		taken := p * w.chance(rule)
		if taken == 0 {
			continue
		}
		f := strings.Fields(rule)
		switch target := f[slices.IndexFunc(f, func(s string) bool { return s == "-j" || s == "-g" })+1]; target {
		case "SET":
			w.added[after(f, "--add-set")] += taken
			continue
		case "DNAT":
			w.ends[after(f, "--to-destination")] += taken
		default:
			w.walk(target, taken)
		}
		p -= taken
	}
	if p > 1e-9 {
		w.ends["nowhere"] += p
	}
}

// chance is the probability with which a rule matches.
func (w walker) chance(rule string) float64 {
	f := strings.Fields(rule)
	if set := after(f, "--match-set"); set != "" && !w.in[set] {
		return 0
	}
	probability := after(f, "--probability")
	if probability == "" {
		return 1
	}
	p, err := strconv.ParseFloat(probability, 64)
	if err != nil {
		w.t.Fatal(err)
	}
	return p
}

// after returns the word behind another.
func after(words []string, option string) string {
	if i := slices.Index(words, option); i >= 0 && i+1 < len(words) {
		return words[i+1]
	}
	return ""
}

func newWalker(t *testing.T, chains map[string][]string) walker {
	return walker{t: t, chains: chains, in: map[string]bool{}, ends: map[string]float64{}, added: map[string]float64{}}
}

// pick writes the chains that choose one of the endpoints, by weights if there are any.
func pick(f model.Family, endpoints []netip.AddrPort, affinity int, weights ...uint8) (start string, chains map[string][]string) {
	c := choice{port: plans.Name(), affinity: affinity, family: f, chains: map[string][]string{}}
	if len(weights) > 0 {
		c.weights = weigh(endpoints, weights...)
	}
	start = portChain(roleCluster, c.port)
	c.write(start, endpoints)
	return start, c.chains
}

// TestEachEndpointHasTheSameProbability of a client without session affinity so far.
func TestEachEndpointHasTheSameProbability(t *testing.T) {
	for _, family := range []model.Family{model.IPv4, model.IPv6} {
		for _, affinity := range []int{0, 60} {
			for _, n := range []int{1, 2, 3, 7, 8, 9, 10, 16, 17, 40, 100, 1000} { // around all thresholds
				endpoints := plans.Endpoints(family, n)
				start, chains := pick(family, endpoints, affinity)
				w := newWalker(t, chains)
				w.walk(start, 1)
				fair(t, fmt.Sprintf("%s, affinity %d, %d endpoints", family, affinity, n), w.ends, endpoints)
				for name, rules := range chains {
					if len(name) > 28 || affinity == 0 && len(rules) > 2*fullRules {
						t.Errorf("of %d endpoints the chain %s has %d rules", n, name, len(rules))
					}
				}
				if affinity > 0 && len(w.added) != n {
					t.Errorf("%d of %d endpoints remember their clients", len(w.added), n)
				}
			}
		}
	}
}

// fair compares with 1/n, to the digits that the rules have.
func fair(t *testing.T, what string, ends map[string]float64, endpoints []netip.AddrPort) {
	t.Helper()
	for _, e := range endpoints {
		if off := math.Abs(ends[e.String()]*float64(len(endpoints)) - 1); off > 1e-6 {
			t.Errorf("%s: %s gets %v of the clients", what, e, ends[e.String()])
		}
	}
	if len(ends) != len(endpoints) {
		t.Errorf("%s: there are %d ends", what, len(ends))
	}
}

// TestARememberedClientStays with its endpoint, and its timeout begins again.
func TestARememberedClientStays(t *testing.T) {
	for _, n := range []int{1, 2, 8, 9, 40, 1000} {
		endpoints := plans.Endpoints(model.IPv4, n)
		start, chains := pick(model.IPv4, endpoints, 60)
		for _, e := range []netip.AddrPort{endpoints[0], endpoints[n/2], endpoints[n-1]} {
			w := newWalker(t, chains)
			set := affinitySet(model.IPv4, plans.Name(), e)
			w.in[set] = true
			w.walk(start, 1)
			if w.ends[e.String()] != 1 || len(w.ends) != 1 || w.added[set] != 1 {
				t.Errorf("of %d endpoints a client of %s gets %v, and is remembered in %v", n, e, w.ends, w.added)
			}
		}
	}
}

// TestOneEndpointMoreChangesFewChains pins the cost: one chain on each level, and no other rule.
func TestOneEndpointMoreChangesFewChains(t *testing.T) {
	for n, most := range map[int]int{5: 1, 100: 2, 1000: 3} {
		endpoints := plans.Endpoints(model.IPv4, n+1)
		_, before := pick(model.IPv4, endpoints[:n], 0)
		_, now := pick(model.IPv4, endpoints, 0)
		changed := 0
		for name := range now {
			if !slices.Equal(before[name], now[name]) {
				changed++
			}
		}
		if changed == 0 || changed > most {
			t.Errorf("the %dth endpoint changed %d chains of %d, want at most %d", n+1, changed, len(now), most)
		}
	}
}

// TestChainsOfEndpointsHaveNamesOfTheirOwn also where digests agree.
func TestChainsOfEndpointsHaveNamesOfTheirOwn(t *testing.T) {
	c := choice{chains: map[string][]string{}}
	first := c.free("CIPA-S", "3")
	c.chains[first] = nil
	if second := c.free("CIPA-S", "3"); second == first {
		t.Errorf("two chains are called %s", first)
	}
}
