package rules

import (
	"regexp"
	"slices"
	"testing"

	"github.com/clusterip-operator/clusterip-operator/proxyagent/model"
	"github.com/clusterip-operator/clusterip-operator/test/framework/plans"
)

// harmless is what a rule may consist of.
var harmless = regexp.MustCompile(`^([A-Za-z0-9 .,:/!+\[\]-]|--bytecode "[0-9 ,]+")+$`)

// FuzzRender renders random ports with names that no API server accepts: rules are harmless,
// targets and sets exist, and removed ports leave nothing.
func FuzzRender(f *testing.F) {
	f.Add(uint64(1), uint8(4), "default", "web", "http")
	f.Add(uint64(2), uint8(6), "a\n-A CIPA-SERVICES -j ACCEPT", "\"x\" -j DROP", "COMMIT\n*nat")
	f.Add(uint64(3), uint8(4), "", "", "")
	f.Add(uint64(4), uint8(6), "\x00", "../../etc", "$(reboot)")
	f.Fuzz(func(t *testing.T, seed uint64, bits uint8, namespace, name, port string) {
		family := model.IPv4
		if bits&2 != 0 {
			family = model.IPv6
		}
		p := plans.New(seed, family)
		p.Names = [3]string{namespace, name, port}
		r := NewRuleset(family)
		r.Apply(scheduled(plans.Whole(p.Plan)))
		for range 3 {
			r.Apply(scheduled(p.Step(1 + p.IntN(6))))
			checkHarmless(t, r)
			checkTargets(t, r)
		}
		nothing := model.Delta{Ports: map[model.PortName]*model.ServicePort{}}
		for name := range p.Plan.Ports {
			nothing.Ports[name] = nil
		}
		r.Apply(nothing)
		if len(r.without) > 0 {
			t.Fatalf("without ports %v do without", r.without)
		}
		for c := range r.chains {
			if c.name != chainVIPs && regexp.MustCompile(`^CIPA-([SLXET]-|N-)`).MatchString(c.name) {
				t.Fatalf("without ports there is the chain %s", c.name)
			}
		}
		if len(r.affinity) > 0 {
			t.Fatalf("without ports there are the sets %v", r.affinity)
		}
		for set, members := range r.members {
			if set != setAllocated && len(members) > 0 {
				t.Fatalf("without ports %s has the members %v", set, members)
			}
		}
	})
}

func checkHarmless(t *testing.T, r *Ruleset) {
	t.Helper()
	for c, rules := range r.chains {
		if !harmless.MatchString(c.name) {
			t.Fatalf("the name of the chain %q", c.name)
		}
		if i := slices.IndexFunc(rules, func(rule string) bool { return !harmless.MatchString(rule) }); i >= 0 {
			t.Fatalf("the rule %q of %s", rules[i], c.name)
		}
	}
	for set := range r.affinity {
		if !harmless.MatchString(set) || len(set) > 31 {
			t.Fatalf("the name of the set %q", set)
		}
	}
}
