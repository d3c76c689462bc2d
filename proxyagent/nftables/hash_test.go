//go:build linux

package nftables

import (
	"fmt"
	"slices"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/clusterip-operator/clusterip-operator/proxyagent/model"
	"github.com/clusterip-operator/clusterip-operator/proxyagent/nftables/tables"
)

// TestWithoutHashClientsAreServed has a kernel that refuses a hash, as one without the module does:
// the ports that ask for it are served at random until it is there.
func TestWithoutHashClientsAreServed(t *testing.T) {
	each(t, func(t *testing.T, p *Proxier, d model.Delta) {
		asked := 0
		p.tryHash = func() error {
			asked++
			return fmt.Errorf("%w: no such file or directory", model.ErrRefused)
		}
		d = scheduled(d)
		syncOne(t, p, d)
		lacks := func(s ...model.Scheduler) (all []model.Degradation) {
			for name, port := range d.Ports {
				if slices.Contains(s, port.Scheduler) {
					all = append(all, model.Degradation{Port: name, Reason: model.SchedulerUnavailable})
				}
			}
			slices.SortFunc(all, func(a, b model.Degradation) int { return a.Port.Compare(b.Port) })
			return all
		}
		if diff := cmp.Diff(lacks(model.SourceHashing, model.MaglevHashing, model.LeastConnection), p.Degraded()); diff != "" {
			t.Errorf("degraded (-want +got):\n%s", diff)
		}
		if chain := chainWith(p, "by-source"); chain != "" || asked == 0 {
			t.Errorf("there is the chain %q; it was asked %d times", chain, asked)
		}
		p.tryHash = func() error { return nil }
		if _, err := p.Check(t.Context(), later().Add(p.fullCheck)); err != nil {
			t.Fatal(err)
		}
		agree(t, p)
		if diff := cmp.Diff(lacks(model.LeastConnection), p.Degraded()); diff != "" || chainWith(p, "by-source") == "" {
			t.Errorf("degraded although it could be served (-want +got):\n%s", diff)
		}
		fresh := tables.NewTable(d.Globals.Family)
		fresh.Apply(d)
		if diff := cmp.Diff(fresh.Degraded(), p.table.Degraded()); diff != "" {
			t.Error(diff)
		}
	})
}

func TestTheKernelHasAHash(t *testing.T) {
	each(t, func(t *testing.T, p *Proxier, d model.Delta) {
		if err := p.tryHash(); err != nil {
			t.Error(err)
		}
		if left := ruleset(t, "list", "tables"); left != "" {
			t.Errorf("left: %s", left)
		}
	})
}
