//go:build linux

package nftables

import (
	"context"
	"encoding/binary"
	"net/netip"

	"github.com/clusterip-operator/clusterip-operator/proxyagent/model"
)

// Served lists, once, the fronts of UDP and SCTP that the table led to endpoints when the first
// Sync began: the flows to those that no Service has any more are stale.
func (p *Proxier) Served() []model.ServicePort {
	p.mu.Lock()
	defer p.mu.Unlock()
	served := p.served
	p.served = nil
	return served
}

// readServed reads the fronts of an earlier agent.
func (k *kernel) readServed(ctx context.Context) (all []model.ServicePort, err error) {
	for _, s := range []set{fronts, frontRoutes, nodeFronts, nodeFrontRoutes} {
		others := len(all)
		err = k.list(ctx, string(s), func() { all = all[:others] }, func(e element) {
			if port := portAt(e.of); port.Name.Protocol == model.UDP || port.Name.Protocol == model.SCTP {
				all = append(all, port)
			}
		})
		if err != nil {
			return nil, err
		}
	}
	return all, nil
}

// portAt is the port with a front, which is the key of an element: address, protocol and port or,
// for a node port, without address.
func portAt(of string) model.ServicePort {
	const service = 8 // bytes of protocol and port
	if len(of) < service {
		return model.ServicePort{}
	}
	vip, _ := netip.AddrFromSlice([]byte(of[:len(of)-service]))
	rest := of[len(of)-service:]
	return model.PortAt(model.Protocol(rest[0]), netip.AddrPortFrom(vip, binary.BigEndian.Uint16([]byte(rest[4:]))))
}
