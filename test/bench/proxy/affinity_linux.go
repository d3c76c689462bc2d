package proxy

import (
	"context"
	"fmt"
	"net/netip"

	"github.com/clusterip-operator/clusterip-operator/proxyagent/model"
	"github.com/clusterip-operator/clusterip-operator/test/framework/network"
)

// stickyEndpoints are those of the Service with affinity: one in each pod of every stand, with the servers of the network, which say who
// they are.
func stickyEndpoints(f model.Family) []netip.AddrPort {
	var all []netip.AddrPort
	for _, pod := range []string{"10.180.1.11", "10.180.1.12"} {
		all = append(all, netip.AddrPortFrom(netip.MustParseAddr(pod), network.Ports[0]))
	}
	if f == model.IPv6 {
		panic("affinity is measured with IPv4 alone")
	}
	return all
}

// affinity has many clients connect twice, one after the other, and counts those who come to the same endpoint again.
func (b *bench) affinity(_ context.Context, s *stand) error {
	if !b.sticky.IsValid() {
		return nil
	}
	first, err := b.visit(s)
	if err != nil {
		return err
	}
	second, err := b.visit(s)
	if err != nil {
		return err
	}
	s.Clients = b.Clients
	for i := range first {
		if first[i] == second[i] {
			s.Kept++
		}
	}
	return nil
}

// visit returns where each client came to.
func (b *bench) visit(s *stand) (endpoints []netip.AddrPort, err error) {
	for i := range b.Clients {
		from := netip.AddrPortFrom(s.bed.Client.Extra(b.family, i+1), 0)
		result := s.bed.Client.Dial(network.Probe{To: b.sticky, Source: from})
		if result.Err != nil {
			return nil, fmt.Errorf("%s: connecting to the Service with affinity: %w", s.who.Name, result.Err)
		}
		endpoints = append(endpoints, result.Endpoint)
	}
	return endpoints, nil
}
