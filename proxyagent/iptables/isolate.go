package iptables

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/clusterip-operator/clusterip-operator/proxyagent/ipset"
	"github.com/clusterip-operator/clusterip-operator/proxyagent/model"
)

// isolate is for rules that are refused. One refused rule keeps all other rules of its table from
// being written. It finds the ports of the refused rules and programs everything else. Clients of
// those ports are rejected, as without endpoints; what serves until then goes on. It fails when the
// refused rule is no port's.
func (p *Proxier) isolate(ctx context.Context) error {
	refused, err := model.Bisect(p.withheld.Suspects(p.rules.Ports()), func(some ...model.PortName) error { return p.try(ctx, some...) })
	if err != nil {
		return fmt.Errorf("looking for ports whose rules are refused: %w", err)
	}
	p.withhold(refused)
	return p.sync(ctx)
}

// try writes the rules of ports so that it shows whether they are refused.
func (p *Proxier) try(ctx context.Context, names ...model.PortName) error {
	trial, after := p.rules.Trial(names...)
	if err := p.write(ctx, trial); err != nil {
		return err
	}
	return p.write(ctx, after)
}

// blame withholds the ports that need sets or members which the kernel refuses. It fails where no
// port does.
func (p *Proxier) blame(sets map[ipset.Set]error, members map[ipset.Change]error) error {
	owners := p.rules.Owners(p.withheld.Suspects(p.rules.Ports()), sets, members)
	p.withhold(owners)
	if len(owners) == 0 {
		return fmt.Errorf("no port that changed needs what is refused: %v %v", sets, members)
	}
	return nil
}

func (p *Proxier) withhold(refused map[model.PortName]error) {
	p.rules.Apply(p.withheld.WithholdAll(time.Now(), p.rules.Ports(), refused))
}

// admitAgain tries the ports that are withheld: the kernel may have got the module that their rules
// need.
func (p *Proxier) admitAgain(ctx context.Context, now time.Time) error {
	if !p.withheld.Due(now, p.options.FullCheck) {
		return nil
	}
	start := time.Now()
	p.rules.Apply(p.withheld.Release(p.withheld.Wanted()))
	err := p.sync(ctx) // which makes their sets too
	if errors.Is(err, model.ErrRefused) {
		err = p.isolate(ctx)
	}
	p.withheld.Tried(now, time.Since(start))
	return err
}
