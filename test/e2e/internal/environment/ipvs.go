package environment

import (
	"errors"
	"net/netip"

	"github.com/cloudflare/ipvs"
	"github.com/cloudflare/ipvs/netmask"
	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"

	"github.com/clusterip-operator/clusterip-operator/proxyagent/model"
	"github.com/clusterip-operator/clusterip-operator/test/framework/network"
)

// PlantVirtualServers makes foreign virtual servers in IPVS, for a node address and a free one.
func (s *Environment) PlantVirtualServers() {
	GinkgoHelper()
	s.Expect(s.Node.Do(func() error {
		client, err := ipvs.New()
		if err != nil {
			return err
		}
		for i, f := range network.Families {
			for _, at := range foreign(f) {
				server := ipvs.Service{
					Address: at, Port: 4443, Protocol: ipvs.TCP, Family: []ipvs.AddressFamily{ipvs.INET, ipvs.INET6}[i], Scheduler: "wlc", Netmask: netmask.MaskFrom(f.Bits(), f.Bits()),
				}
				endpoint := ipvs.Destination{Address: s.Pod2.Addr(f), Port: 8080, Family: server.Family, FwdMethod: ipvs.Masquerade, Weight: 7}
				if err = errors.Join(err, client.CreateService(server), client.CreateDestination(server, endpoint)); err != nil {
					return err
				}
			}
		}
		return nil
	})).To(Succeed())
}

// foreign are the addresses of those of one family.
func foreign(f model.Family) []netip.Addr {
	return []netip.Addr{network.AltNodeAddr(f), network.VirtualAddr(f, 99)}
}

// ForeignRanges are these addresses, for a proxy that has to be told.
func ForeignRanges() (all []string) {
	for _, f := range network.Families {
		for _, a := range foreign(f) {
			all = append(all, netip.PrefixFrom(a, f.Bits()).String())
		}
	}
	return all
}
