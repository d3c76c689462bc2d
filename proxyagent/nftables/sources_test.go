//go:build linux

package nftables

import (
	"errors"
	"net"
	"net/netip"
	"syscall"
	"testing"

	"github.com/clusterip-operator/clusterip-operator/proxyagent/model"
)

// TestSourceRanges has ranges of every length, each with the client in it, and in the one beside
// it. The ranges of another Service do not count.
func TestSourceRanges(t *testing.T) {
	each(t, func(t *testing.T, p *Proxier, d model.Delta) {
		port, clients := served(t, d)
		port.Name.Protocol, port.AffinitySeconds = model.UDP, 0
		client, other := clients[4], port
		other.Name.Service.Name, other.NodePort, other.ClusterIPs = "other", 0, nil
		other.LoadBalancerIPs = []netip.Addr{port.LoadBalancerIPs[0].Next()}
		for bits := 1; bits <= client.BitLen(); bits++ {
			inside := netip.PrefixFrom(client, bits).Masked()
			port.SourceRanges, other.SourceRanges = []netip.Prefix{inside}, []netip.Prefix{beside(inside)}
			syncOne(t, p, only(d, port, other))
			if err := send(client, port); err != nil {
				t.Errorf("%s in %s: %v", client, inside, err)
			}
			if err := send(client, other); !errors.Is(err, syscall.EPERM) {
				t.Errorf("%s in %s: %v", client, beside(inside), err)
			}
		}
		ruleset(t, "list", "ruleset") // the program can read it
	})
}

// beside is the prefix that differs in its last bit.
func beside(p netip.Prefix) netip.Prefix {
	b := p.Addr().AsSlice()
	b[(p.Bits()-1)/8] ^= 0x80 >> ((p.Bits() - 1) % 8)
	a, _ := netip.AddrFromSlice(b)
	return netip.PrefixFrom(a, p.Bits())
}

// send sends a datagram to the load balancer IP of a port. The error is EPERM where rules drop it.
func send(from netip.Addr, to model.ServicePort) error {
	front := netip.AddrPortFrom(to.LoadBalancerIPs[0], to.Port)
	conn, err := net.DialUDP("udp",
		net.UDPAddrFromAddrPort(netip.AddrPortFrom(from, 0)), net.UDPAddrFromAddrPort(front))
	if err != nil {
		return err
	}
	defer func() { _ = conn.Close() }()
	_, err = conn.Write([]byte("?"))
	return err
}
