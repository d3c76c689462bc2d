//go:build linux

package tables

import (
	"maps"
	"reflect"
	"slices"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/google/nftables/expr"

	"github.com/clusterip-operator/clusterip-operator/proxyagent/model"
	"github.com/clusterip-operator/clusterip-operator/test/framework/plans"
)

// TestGrownIsAsFromTheBeginning: random changes lead to what would have been written at once.
func TestGrownIsAsFromTheBeginning(t *testing.T) {
	for _, f := range []model.Family{model.IPv4, model.IPv6} {
		random := plans.New(1, f)
		grown, chains := NewTable(f), map[string]Chain{}
		d := plans.Whole(random.Plan)
		for range 40 {
			for _, name := range slices.SortedFunc(maps.Keys(d.Ports), model.PortName.Compare) {
				d.Ports[name] = scheduled(random, d.Ports[name])
			}
			grown.Apply(d)
			fresh := NewTable(f)
			fresh.Apply(model.Delta{Globals: &random.Plan.Globals, Ports: maps.Clone(grown.ports), Allocated: plans.Whole(random.Plan).Allocated})
			if want, got := maps.Collect(fresh.All()), maps.Collect(grown.All()); !maps.Equal(want, got) {
				t.Fatalf("elements (-at once +grown):\n%s", cmp.Diff(want, got))
			}
			atOnce, _ := fresh.differing()
			write, remove := grown.differing()
			maps.Copy(chains, write)
			for _, name := range remove {
				delete(chains, name)
			}
			settle(grown)
			if !reflect.DeepEqual(atOnce, chains) {
				t.Fatal("chains differ")
			}
			if !maps.Equal(notEmpty(fresh.prints), notEmpty(grown.prints)) {
				t.Fatal("fingerprints differ")
			}
			d = random.Step(4)
		}
	}
}

// scheduled has a port ask for a scheduler, and one of its endpoints weigh something.
func scheduled(r *plans.Random, p *model.ServicePort) *model.ServicePort {
	if p == nil {
		return nil
	}
	same := *p
	same.Scheduler = []model.Scheduler{"", model.RoundRobin, model.WeightedRoundRobin, model.SourceHashing, model.LeastConnection}[r.IntN(5)]
	if len(p.Cluster) > 0 {
		same.Weights = model.Weights{p.Cluster[0]: uint8(r.IntN(4))}
	}
	return &same
}

func notEmpty(prints map[Bucket]uint64) map[Bucket]uint64 {
	maps.DeleteFunc(prints, func(_ Bucket, sum uint64) bool { return sum == 0 })
	return prints
}

// TestBalanced translates only what clients on this node send to fronts whose policy is Local.
func TestBalanced(t *testing.T) {
	for _, f := range []model.Family{model.IPv4, model.IPv6} {
		random, table := plans.New(2, f), NewTable(f)
		random.Step(100)
		d := plans.Whole(random.Plan)
		d.Globals.Balanced = true
		for _, port := range d.Ports {
			port.Balanced = true
		}
		table.Apply(d)
		for r := range table.routes {
			translates := slices.ContainsFunc(table.layout().route(r), func(r Rule) bool {
				return slices.ContainsFunc(r, func(e expr.Any) bool { _, nat := e.(*expr.NAT); return nat })
			})
			if translates != r.through {
				t.Errorf("%s translates: %t", r.name(), translates)
			}
		}
	}
}

// TestConstantsAreAsLongAsNftReads has rules of which nft 1.1.3 lists each constant as a field of a
// key: it aborts at one of more than 8 bytes, for 1.0.6 there is no limit. hack/matrix.sh runs it.
func TestConstantsAreAsLongAsNftReads(t *testing.T) {
	for _, f := range []model.Family{model.IPv4, model.IPv6} {
		number := load(f).numbered(place{}, true)
		for _, e := range and(number, known(f, true), known(f, false), hidden(f, true)) {
			if c, ok := e.(*expr.Immediate); ok && len(c.Data) > 8 {
				t.Errorf("%s: a constant of %d bytes in register %d", f, len(c.Data), c.Register)
			}
		}
	}
}
