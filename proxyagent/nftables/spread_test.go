//go:build linux

package nftables

import (
	"maps"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"

	"github.com/clusterip-operator/clusterip-operator/proxyagent/model"
	"github.com/clusterip-operator/clusterip-operator/proxyagent/nftables/tables"
)

// scheduled has ports of a plan ask for schedulers in turn, those with endpoints on this node too.
func scheduled(d model.Delta) model.Delta {
	all := []model.Scheduler{model.RoundRobin, model.SourceHashing, model.MaglevHashing, model.WeightedRoundRobin, model.LeastConnection, "", model.RoundRobin}
	for i, name := range slices.SortedFunc(maps.Keys(d.Ports), model.PortName.Compare) {
		p := *d.Ports[name]
		p.Scheduler = all[i]
		if len(p.Cluster) > 0 {
			p.Weights = model.Weights{p.Cluster[0]: 3}
		}
		d.Ports[name] = &p
	}
	return d
}

func TestSchedulersInTheKernel(t *testing.T) {
	each(t, func(t *testing.T, p *Proxier, d model.Delta) {
		lc := model.PortName{Service: model.ServiceName{Namespace: "default", Name: "e"}, Protocol: model.UDP}
		syncOne(t, p, scheduled(d))
		ruleset(t, "list", "ruleset") // the program can read it
		if diff := cmp.Diff([]model.Degradation{{Port: lc, Reason: model.SchedulerUnavailable}}, p.Degraded()); diff != "" {
			t.Errorf("degraded (-want +got):\n%s", diff)
		}
		if text := strings.Join(p.Describe(lc), "\n"); !strings.Contains(text, model.SchedulerUnavailable.String()) {
			t.Error(text)
		}
		before := ruleset(t, "--stateless", "list", "ruleset")
		ruleset(t, "flush", "chain", familyName(d.Globals.Family), table, chainWith(p, "in-turn"))
		if found, err := p.Check(t.Context(), later()); err != nil || len(found) != 1 {
			t.Errorf("found %q, %v", found, err)
		}
		if diff := cmp.Diff(before, ruleset(t, "--stateless", "list", "ruleset"), cmpopts.AcyclicTransformer("sorted", sortedLines)); diff != "" {
			t.Errorf("repaired (-before +after):\n%s", diff)
		}
		for name := range d.Ports {
			syncOne(t, p, model.Delta{Ports: map[model.PortName]*model.ServicePort{name: nil}})
		}
		if !bare(p) || len(p.Degraded()) > 0 {
			t.Errorf("left: %v, %v", p.table.Chains(), p.Degraded())
		}
	})
}

func sortedLines(text string) []string { return slices.Sorted(strings.SplitSeq(text, "\n")) }

// chainWith returns a chain whose name has a word.
func chainWith(p *Proxier, word string) string {
	for name := range p.table.Chains() {
		if strings.HasPrefix(name, "pick") && strings.Contains(name, word) {
			return name
		}
	}
	return ""
}

func TestDescribeASpread(t *testing.T) {
	d := plan(model.IPv4)
	p := &Proxier{table: tables.NewTable(model.IPv4)}
	p.table.Apply(scheduled(d))
	name := model.PortName{Service: model.ServiceName{Namespace: "default", Name: "c"}, Protocol: model.SCTP}
	lines := p.Describe(name)
	if text := strings.Join(lines, "\n"); !strings.Contains(text, "traffic to any endpoint: the index of 2048 is a hash of the client's address;") ||
		!strings.Contains(text, "for 10.244.1.3:8080") || len(lines) > 20 {
		t.Errorf("%d lines:\n%s", len(lines), text[:min(len(text), 3000)])
	}
}
