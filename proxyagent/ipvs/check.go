//go:build linux

package ipvs

import (
	"context"
	"errors"
	"fmt"
	"net/netip"
	"slices"
	"time"

	"github.com/clusterip-operator/clusterip-operator/proxyagent/model"
)

const (
	// drainPeriod is how often endpoints that drain are looked at.
	drainPeriod = 5 * time.Second
	// ownPeriod is how often the addresses of the node are read.
	ownPeriod = 10 * time.Second
)

// Check repairs and lists changes by other programs, follows the addresses of the node, and takes
// drained endpoints away. IPVS does not report changes: everything is compared once in a period.
func (p *Proxier) Check(ctx context.Context, now time.Time) ([]string, error) {
	found, err := p.check(ctx, now)
	more, problem := p.Rules.Check(ctx, now)
	return append(found, more...), errors.Join(err, problem)
}

func (p *Proxier) check(ctx context.Context, now time.Time) (found []string, err error) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if !p.known {
		return nil, nil
	}
	if len(p.draining) > 0 && now.Sub(p.drainAt) >= drainPeriod {
		p.drainAt = now
		err = p.removeDrained(ctx, now)
	}
	if now.Sub(p.ownAt) >= ownPeriod {
		p.ownAt = now
		err = errors.Join(err, p.follow(ctx))
	}
	if err == nil && p.withheld.Due(now, p.FullCheck) {
		err = p.admitAgain(ctx, now)
	}
	if err == nil && p.pace.DueAfter(false, now, p.FullCheck) {
		return p.repair(ctx, now)
	}
	return nil, err
}

// admitAgain tries what is withheld: the node may have got other routes or modules meanwhile.
func (p *Proxier) admitAgain(ctx context.Context, now time.Time) error {
	start := time.Now()
	d := p.withheld.Release(p.withheld.Wanted())
	p.table.Apply(d)
	err := p.program(ctx, p.handOn(d))
	p.withheld.Tried(now, time.Since(start))
	return err
}

// removeDrained takes away endpoints without connections, and those whose time is up.
func (p *Proxier) removeDrained(ctx context.Context, now time.Time) error {
	p.writes++
	p.compared = false
	var o outcome
	for f, since := range p.draining {
		all, err := p.kernel.destinations(f)
		if err != nil {
			o.err = errors.Join(o.err, err)
			continue
		}
		busy := map[netip.AddrPort]bool{}
		for _, d := range all {
			busy[netip.AddrPortFrom(d.Address, d.Port)] = d.ActiveConnections+d.InactiveConnections > 0
		}
		var steps []step
		for e, at := range since {
			if !busy[e] || now.Sub(at) >= p.Drain {
				steps = append(steps, step{action: removeEndpoint, front: f, endpoint: e})
			}
		}
		p.write(&o, steps)
		_, clear := decide(f, p.table.wanted(f), p.table.have[f])
		p.write(&o, clear)
	}
	if o.again() {
		return p.program(ctx)
	}
	p.known = o.err == nil
	return o.err
}

func (p *Proxier) follow(ctx context.Context) error {
	have, err := p.kernel.addresses()
	if err != nil || !p.table.SetOwn(have.own) {
		return err
	}
	return p.program(ctx, model.Delta{Globals: p.globals()})
}

// repair compares with the kernel, which it reads without mu, and undoes other programs' changes.
func (p *Proxier) repair(ctx context.Context, now time.Time) (found []string, err error) {
	start, writes := time.Now(), p.writes
	p.table.retryUnavailable(unloaded())
	ours := p.ours() // of what is wanted now
	p.mu.Unlock()
	err = p.kernel.ensureLink()
	have, problem := p.kernel.read(ctx, ours)
	p.mu.Lock()
	p.pace = p.pace.After(now, time.Since(start))
	err = errors.Join(err, problem)
	if err != nil || p.writes != writes {
		return nil, err
	}
	anyway, _ := p.table.steps() // for a scheduler that may be there by now
	p.takeUp(have)
	build, clear := p.table.steps()
	found = differences(slices.DeleteFunc(build, func(s step) bool { return slices.Contains(anyway, s) }), clear)
	come, gone := p.table.addresses()
	for _, a := range slices.Concat(come, gone) {
		found = append(found, fmt.Sprintf("address %s of %s", a, device))
	}
	return found, p.program(ctx)
}

func (p *Proxier) compare(ctx context.Context) error {
	start := time.Now()
	if err := p.kernel.ensureLink(); err != nil {
		return err
	}
	have, err := p.kernel.read(ctx, p.ours())
	if err != nil {
		return err
	}
	p.takeUp(have)
	p.known, p.ownAt = true, start
	p.pace = p.pace.After(start, time.Since(start))
	return nil
}

// ours returns what tells which virtual servers are ours. It may be called without mu.
func (p *Proxier) ours() func(observed, front) bool {
	wanted := map[front]bool{}
	for f := range p.table.virtual {
		wanted[f] = true
	}
	for m := range p.table.node {
		for _, a := range p.table.nodes {
			wanted[front{m.protocol, netip.AddrPortFrom(a, m.at.Port())}] = true
		}
	}
	ranges := p.table.globals.Ranges
	return func(t observed, f front) bool {
		a := f.at.Addr()
		// An agent killed while removing a Service can leave a virtual server whose address is gone.
		left := model.Inside(ranges, a) && !model.Inside(p.Exclude, a) && !t.others[a]
		return wanted[f] || left || t.ours(f, p.Exclude)
	}
}

// ours reports whether a virtual server is ours, whatever the Plan.
func (t observed) ours(f front, exclude []netip.Prefix) bool {
	a := f.at.Addr()
	if model.Inside(exclude, a) {
		return false
	}
	return f.isMark() || t.bound[a] || t.servers[f.mark()] != nil && slices.Contains(t.own, a)
}

// takeUp has the table know what the kernel has. Endpoints not wanted, of weight 0, go on to drain.
func (p *Proxier) takeUp(have observed) {
	p.table.forget()
	p.table.bound = have.bound
	for f, s := range have.servers {
		if s.weights != nil {
			p.table.have[f] = s
		}
	}
	p.table.SetOwn(have.own)
	p.table.touchAll()
	before := p.draining
	p.draining = map[front]map[netip.AddrPort]time.Time{}
	for f, s := range p.table.have {
		for e, weight := range s.weights {
			if weight != 0 {
				continue
			}
			p.drain(step{action: setWeight, front: f, endpoint: e})
			if at, known := before[f][e]; known && p.draining[f] != nil {
				p.draining[f][e] = at
			}
		}
	}
}
