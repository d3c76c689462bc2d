//go:build linux

package nftables

import (
	"errors"
	"maps"
	"net/netip"
	"time"

	"github.com/clusterip-operator/clusterip-operator/proxyagent/model"
)

// withoutHash stands for sh and mh if the kernel has no module nft_hash. As all schedulers that
// nftables lacks, it is served at random, which SchedulerUnavailable says.
const withoutHash model.Scheduler = "without nft_hash"

// servable are ports as this kernel can serve them. The kernel is asked for its hash when the first
// port needs that.
func (p *Proxier) servable(ports map[model.PortName]*model.ServicePort) map[model.PortName]*model.ServicePort {
	other := map[model.PortName]*model.ServicePort{}
	for name, port := range ports {
		delete(p.unhashed, name)
		if port == nil || !port.Scheduler.Hashes() || p.canHash(time.Now()) {
			continue
		}
		as := *port
		as.Scheduler = withoutHash
		p.unhashed[name], other[name] = port, &as
	}
	if len(other) == 0 {
		return ports
	}
	all := maps.Clone(ports) // it is shared
	maps.Copy(all, other)
	return all
}

// canHash asks the kernel once in a while until it can: the module may be loaded later.
func (p *Proxier) canHash(now time.Time) bool {
	if p.hash || !p.hashAt.IsZero() && now.Sub(p.hashAt) < p.fullCheck {
		return p.hash
	}
	err := p.generations.Write(func() (int, error) { return 1, p.tryHash() })
	if errors.Is(err, model.ErrRefused) {
		p.hashAt = now
		return false
	}
	p.hash = err == nil
	return true // any other failure will have the write fail, too
}

// hashAgain has ports that ask for a hash wait to be written once the kernel has it.
func (p *Proxier) hashAgain(now time.Time) {
	if len(p.unhashed) > 0 && p.canHash(now) {
		p.apply(model.Delta{Ports: maps.Clone(p.unhashed)})
	}
}

// tryHash has the kernel look at a chain with a hash.
func tryHash(f model.Family) error {
	a := netip.AddrPortFrom(f.Unspecified(), 1)
	return try(model.Globals{Family: f}, &model.ServicePort{
		Name: model.PortName{Protocol: model.TCP}, Port: 1, ClusterIPs: []netip.Addr{a.Addr()}, HasEndpoints: true,
		Cluster: []netip.AddrPort{a, a}, Scheduler: model.SourceHashing,
	})
}
