//go:build linux

package ipvs

import (
	"errors"
	"fmt"
	"net/netip"
	"slices"
	"syscall"

	"github.com/clusterip-operator/clusterip-operator/proxyagent/model"
)

// outcome is what comes of steps. The rest are taken even if one fails.
type outcome struct {
	// refused is what the kernel refuses of ports.
	refused []model.Refusal
	// stale is true where the kernel has something else than the table knows.
	stale bool
	// err is for all ports.
	err error
}

// again reports whether the steps have to be taken once more, in another way.
func (o outcome) again() bool { return o.err == nil && (o.stale || len(o.refused) > 0) }

// refuse notes that something failed that is about ports, or about an endpoint or address of them.
func (o *outcome) refuse(err error, at netip.AddrPort, owners []model.PortName) {
	if !errors.Is(err, model.ErrRefused) || len(owners) == 0 {
		o.err = errors.Join(o.err, err)
		return
	}
	for _, name := range owners {
		o.refused = append(o.refused, model.Refusal{Port: name, At: at, Why: err})
	}
}

// write writes steps to the kernel, also after one that fails, but none of a virtual server that is
// not there.
func (p *Proxier) write(o *outcome, steps []step) {
	for _, s := range steps {
		if s.action != addServer && p.table.have[s.front] == nil {
			continue // what one of another program has, the table does not know
		}
		err := p.kernel.do(s)
		unscheduled := errors.Is(err, syscall.ENOENT) && (s.action == addServer || s.action == setServer)
		if unscheduled && s.scheduler != p.table.standard {
			p.table.refuse(s.scheduler)
			s.scheduler = p.table.standard
			err = p.kernel.do(s)
			unscheduled = errors.Is(err, syscall.ENOENT)
		}
		p.changes++
		switch {
		case err == nil:
			p.table.done(s)
			p.drain(s)
		case unscheduled: // what all ports need
			o.err = errors.Join(o.err, err)
		case !p.compared && slices.ContainsFunc([]error{syscall.EEXIST, syscall.ENOENT, syscall.ESRCH}, func(e error) bool { return errors.Is(err, e) }):
			o.stale = true
		default:
			o.refuse(err, s.endpoint, p.owners(s.front))
		}
	}
}

// move gives addresses to our interface, or takes them.
func (p *Proxier) move(o *outcome, addrs []netip.Addr, come bool) {
	var bound []netip.Addr
	for _, a := range addrs {
		move := p.kernel.unbind
		if come {
			move = p.kernel.bind
		}
		p.changes++
		if err := move(a); err != nil {
			err = fmt.Errorf("giving %s to the interface %s, or taking it: %w", a, device, model.Refused(err))
			o.refuse(err, netip.AddrPortFrom(a, 0), p.claimants(func(f front) bool { return f.at.Addr() == a }))
			continue
		}
		model.Put(p.table.bound, a, true, come)
		if come {
			bound = append(bound, a)
		}
	}
	o.err = errors.Join(o.err, awaitLocal(bound))
}

// owners are the ports that need a virtual server: the one served there, or those of a mark.
func (p *Proxier) owners(f front) []model.PortName {
	if c := p.table.claimed(f); c.port != nil {
		return []model.PortName{c.port.Name}
	}
	names := p.claimants(func(vip front) bool { return vip.mark() == f && p.table.own[vip.at.Addr()] })
	if c := p.table.node[f]; c.port != nil {
		names = append(names, c.port.Name)
	}
	return names
}

// claimants are the ports that have some fronts at virtual IPs.
func (p *Proxier) claimants(has func(front) bool) (names []model.PortName) {
	for f, c := range p.table.virtual {
		if has(f) {
			names = append(names, c.port.Name)
		}
	}
	return names
}
