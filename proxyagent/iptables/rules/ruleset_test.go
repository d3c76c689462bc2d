package rules

import (
	"fmt"
	"maps"
	"net/netip"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"

	"github.com/clusterip-operator/clusterip-operator/proxyagent/ipset"
	"github.com/clusterip-operator/clusterip-operator/proxyagent/model"
	"github.com/clusterip-operator/clusterip-operator/test/framework/plans"
)

// TestRulesetIsAFunctionOfThePlan compares what a history leads to with what its last Plan gives.
func TestRulesetIsAFunctionOfThePlan(t *testing.T) {
	seeds := uint64(6)
	if testing.Short() {
		seeds = 2
	}
	for _, family := range []model.Family{model.IPv4, model.IPv6} {
		for seed := range seeds {
			t.Run(fmt.Sprintf("%s/%d", family, seed), func(t *testing.T) {
				p := plans.New(seed, family)
				r := NewRuleset(family)
				r.Apply(scheduled(plans.Whole(p.Plan)))
				kernel := newKernelState()
				kernel.take(r)
				for range 15 {
					r.Apply(scheduled(p.Step(1 + p.IntN(20))))
					kernel.take(r)
					fresh := NewRuleset(family)
					fresh.Apply(scheduled(plans.Whole(p.Plan)))
					expectDegraded(t, fresh, r)
					compareKernelState(t, fresh, kernel)
					checkTargets(t, fresh)
				}
			})
		}
	}
}

// scheduled has the ports of a Delta ask for schedulers by their numbers, with weights by the
// addresses of their endpoints.
func scheduled(d model.Delta) model.Delta {
	all := []model.Scheduler{"", model.RoundRobin, model.WeightedRoundRobin, model.SourceHashing, model.MaglevHashing}
	for _, p := range d.Ports {
		if p == nil {
			continue
		}
		p.Scheduler, p.Weights = all[int(p.Port)%len(all)], model.Weights{}
		for _, e := range slices.Concat(p.Cluster, p.Local) {
			p.Weights[e] = e.Addr().AsSlice()[e.Addr().BitLen()/8-1] % 4
		}
	}
	return d
}

func expectDegraded(t *testing.T, want, got *Ruleset) {
	t.Helper()
	if diff := cmp.Diff(want.Degraded(), got.Degraded()); diff != "" {
		t.Fatalf("degraded (-at once +grown):\n%s", diff)
	}
}

// TestAServiceCIDRWritesNoRulesOfPorts because they do not depend on ranges.
func TestAServiceCIDRWritesNoRulesOfPorts(t *testing.T) {
	for _, family := range []model.Family{model.IPv4, model.IPv6} {
		p := plans.New(1, family)
		for range 20 {
			p.Step(50)
		}
		r, kernel := NewRuleset(family), newKernelState()
		r.Apply(plans.Whole(p.Plan))
		kernel.take(r)
		g := p.Plan.Globals
		g.Ranges = append(slices.Clone(g.Ranges), netip.PrefixFrom(plans.Address(family, 7, 0), family.Bits()-16).Masked())
		r.Apply(model.Delta{Globals: &g})
		for c := range r.dirty {
			if c.name != chainNew {
				t.Errorf("%v: another ServiceCIDR writes the chain %s", family, c.name)
			}
		}
		if len(r.dirty) != 1 || len(r.chains[chain{filter, chainNew}]) > 19 {
			t.Errorf("%v: another ServiceCIDR writes %d chains", family, len(r.dirty))
		}
	}
}

// kernelState is the state of the kernel after only the changes were written.
type kernelState struct {
	chains  map[chain][]string
	members map[setName]map[ipset.Entry]bool
	sets    map[string]bool
}

func newKernelState() *kernelState {
	b := &kernelState{chains: map[chain][]string{}, members: map[setName]map[ipset.Entry]bool{}, sets: map[string]bool{}}
	for _, s := range setKinds {
		b.members[s.name] = map[ipset.Entry]bool{}
	}
	return b
}

// take plays a sync that succeeds.
func (b *kernelState) take(r *Ruleset) {
	for c := range r.dirty {
		if rules, wanted := r.chains[c]; wanted {
			b.chains[c] = rules
		} else {
			delete(b.chains, c)
		}
	}
	for set, entries := range r.changed {
		for e := range entries {
			if r.members[set][e] > 0 {
				b.members[set][e] = true
			} else {
				delete(b.members[set], e)
			}
		}
		clear(entries)
	}
	for s := range r.newSets {
		b.sets[s] = true
	}
	for s := range r.oldSets {
		delete(b.sets, s)
	}
	clear(r.dirty)
	clear(r.newSets)
	clear(r.oldSets)
}

func compareKernelState(t *testing.T, fresh *Ruleset, kernel *kernelState) {
	t.Helper()
	options := []cmp.Option{cmp.AllowUnexported(chain{}), cmpopts.EquateEmpty(), cmpopts.EquateComparable(ipset.Entry{})}
	if diff := cmp.Diff(fresh.chains, kernel.chains, options...); diff != "" {
		t.Fatalf("chains differ (-at once +grown):\n%s", diff)
	}
	for _, s := range setKinds {
		want := map[ipset.Entry]bool{}
		for e := range fresh.members[s.name] {
			want[e] = true
		}
		if !maps.Equal(want, kernel.members[s.name]) {
			t.Fatalf("members of %s: %v at once, %v grown", s.name, want, kernel.members[s.name])
		}
	}
	for s := range fresh.affinity {
		if !kernel.sets[s] {
			t.Fatalf("the set %s is missing", s)
		}
	}
	if len(fresh.affinity) != len(kernel.sets) {
		t.Fatalf("%d sets of clients at once, %d grown", len(fresh.affinity), len(kernel.sets))
	}
}

// checkTargets follows every jump and goto, and every name of a set.
func checkTargets(t *testing.T, r *Ruleset) {
	t.Helper()
	reached := map[chain]bool{}
	for _, j := range jumps {
		reached[chain{j.table, strings.TrimPrefix(j.body, "-j ")}] = true
	}
	sets := map[string]bool{}
	for _, s := range setKinds {
		sets[s.name.of(r.family)] = true
	}
	for c, rules := range r.chains {
		if len(c.name) > 28 {
			t.Fatalf("the name of the chain %s is too long", c.name)
		}
		for _, rule := range rules {
			words := strings.Fields(rule)
			for i, w := range words[:len(words)-1] {
				switch next := words[i+1]; {
				case (w == "-j" || w == "-g") && strings.HasPrefix(next, Prefix):
					to := chain{c.table, next}
					reached[to] = true
					if _, there := r.chains[to]; !there {
						t.Fatalf("%s leads to %s, which does not exist: %s", c.name, next, rule)
					}
				case w == "--match-set" || w == "--add-set":
					if _, affine := r.affinity[next]; !affine && !sets[next] {
						t.Fatalf("%s asks the set %s, which does not exist", c.name, next)
					}
				}
			}
		}
	}
	for c := range r.chains {
		static := c.name == chainVIPs || c.name == chainNodePorts || c.name == chainPortsFilter || c.name == chainMasquerade
		if !reached[c] && !static {
			t.Fatalf("nothing leads to the chain %s", c.name)
		}
	}
}
