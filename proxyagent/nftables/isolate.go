//go:build linux

package nftables

import (
	"context"
	"fmt"
	"maps"
	"slices"
	"time"

	"github.com/clusterip-operator/clusterip-operator/proxyagent/model"
)

// isolate is for a table that is refused. Ports whose chains or elements the kernel refuses are
// withheld, and the rest is written. If it refuses none, the table itself is in the way, with a set
// of another version of this program, say: then it is made anew.
func (p *Proxier) isolate(ctx context.Context, now time.Time) error {
	refused, err := p.find(p.table.Ports(), p.withheld.Suspects(p.table.Ports()))
	if err != nil {
		return fmt.Errorf("looking for ports that are refused: %w", err)
	}
	p.anew = len(refused) == 0
	p.table.Apply(p.withheld.WithholdAll(now, p.table.Ports(), refused))
	return p.sync(ctx, now)
}

// find returns those of some ports that the kernel refuses.
func (p *Proxier) find(ports map[model.PortName]*model.ServicePort, names []model.PortName) (map[model.PortName]error, error) {
	return model.Bisect(names, func(names ...model.PortName) error {
		var some []*model.ServicePort
		for _, name := range names {
			some = append(some, ports[name])
		}
		return p.generations.Write(func() (int, error) { return 1, try(p.table.Globals(), some...) })
	})
}

// admitAgain has ports that are withheld wait to be written, if the kernel takes them by now.
func (p *Proxier) admitAgain(now time.Time) error {
	if !p.withheld.Due(now, p.fullCheck) {
		return nil
	}
	start, wanted := time.Now(), p.withheld.Wanted()
	refused, err := p.find(wanted, slices.Collect(maps.Keys(wanted)))
	p.withheld.Tried(now, time.Since(start))
	if err != nil {
		return err
	}
	for name := range refused {
		delete(wanted, name)
	}
	p.table.Apply(p.withheld.Release(wanted))
	return nil
}
