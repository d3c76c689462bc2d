package iptables

import (
	"context"
	"errors"
	"time"

	"github.com/clusterip-operator/clusterip-operator/proxyagent/model"
)

// isolate is for rules that were refused twice, the second time after the kernel had been read. One refused rule keeps all others of its table from
// being written. It finds the ports that the refused rules belong to and programs everything else; clients of those ports are rejected, as if they
// had no endpoint. What serves until then goes on. It fails when the refused rule is no port's.
func (p *Proxier) isolate(ctx context.Context) error {
	refused, err := p.find(ctx, p.suspects)
	if err != nil {
		return err
	}
	if len(refused) > 0 {
		p.withheldAt = time.Now()
	}
	p.rules.Withhold(refused...)
	return p.sync(ctx)
}

// find returns those of some ports whose rules are refused. It halves them until it knows.
func (p *Proxier) find(ctx context.Context, names []model.PortName) (refused []model.PortName, err error) {
	if len(names) == 0 {
		return nil, nil
	}
	err = p.try(ctx, names...)
	if !errors.Is(err, errRefused) {
		return nil, err
	}
	if len(names) == 1 {
		return p.confirm(ctx, names[0])
	}
	for _, half := range [][]model.PortName{names[:len(names)/2], names[len(names)/2:]} {
		more, err := p.find(ctx, half)
		if err != nil {
			return nil, err
		}
		refused = append(refused, more...)
	}
	return refused, nil
}

// confirm tries a port once more, after one attempt without any rule: whatever fails for another reason, fails then too, or not any more.
func (p *Proxier) confirm(ctx context.Context, name model.PortName) ([]model.PortName, error) {
	if err := p.try(ctx); err != nil {
		return nil, err
	}
	err := p.try(ctx, name)
	if errors.Is(err, errRefused) {
		return []model.PortName{name}, nil
	}
	return nil, err
}

// try writes the rules of ports so that it shows whether they are refused.
func (p *Proxier) try(ctx context.Context, names ...model.PortName) error {
	trial, after := p.rules.Trial(names...)
	if err := p.write(ctx, trial); err != nil {
		return err
	}
	return p.write(ctx, after)
}

// apply takes a Delta in. The next Check tries what a port that is withheld is now.
func (p *Proxier) apply(d model.Delta) {
	if p.rules.Apply(d) {
		p.withheldAt = time.Time{}
	}
}

// admitAgain tries the ports that are withheld once in a while, and after they changed: the kernel may have got the module that their rules need.
func (p *Proxier) admitAgain(ctx context.Context, now time.Time) error {
	if now.Sub(p.withheldAt) < p.options.FullCheck {
		return nil
	}
	names := p.rules.Release()
	if len(names) == 0 {
		return nil
	}
	p.withheldAt = now
	err := p.sync(ctx) // which makes their sets too
	if !errors.Is(err, errRefused) {
		return err
	}
	refused, err := p.find(ctx, names)
	if err != nil {
		p.rules.Withhold(names...)
		return err
	}
	p.rules.Withhold(refused...)
	return p.sync(ctx)
}
