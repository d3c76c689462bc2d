//go:build linux

package iptables

import (
	"context"
	"fmt"
	"net"
	"net/netip"
	"os"
	"testing"
	"time"

	"github.com/clusterip-operator/clusterip-operator/proxyagent/model"
	"github.com/clusterip-operator/clusterip-operator/test/framework/network"
	"github.com/clusterip-operator/clusterip-operator/test/framework/plans"
)

// router is the network namespace of the test, between a client and an endpoint in their own, with
// a chain FORWARD that drops by policy, as with docker and ufw.
type router struct {
	t        *testing.T
	family   model.Family
	client   network.Netns
	node     netip.Addr     // at which the client reaches it
	endpoint netip.AddrPort // which gets datagrams and never answers
	got      chan netip.AddrPort
}

func newRouter(t *testing.T, p *Proxier) router {
	t.Helper()
	f := p.options.Family
	r := router{t: t, family: f, node: plans.Address(f, 6, 1), endpoint: plans.Endpoints(f, 1)[0], got: make(chan netip.AddrPort, 1000)}
	r.client = r.beside("client", r.node, plans.Address(f, 6, 2))
	server := r.beside("server", plans.Address(f, 9, 1), r.endpoint.Addr())
	must(t, os.WriteFile(map[model.Family]string{
		model.IPv4: "/proc/sys/net/ipv4/ip_forward", model.IPv6: "/proc/sys/net/ipv6/conf/all/forwarding",
	}[f], []byte("1"), 0o644))
	iptables(t, p, "-P", "FORWARD", "DROP")
	t.Cleanup(func() { iptables(t, p, "-P", "FORWARD", "ACCEPT") })

	var conn *net.UDPConn
	must(t, server.Do(func() (err error) {
		conn, err = net.ListenUDP("udp", net.UDPAddrFromAddrPort(r.endpoint))
		return err
	}))
	t.Cleanup(func() { _ = conn.Close() })
	go func() {
		for b := make([]byte, 64); ; {
			_, from, err := conn.ReadFromUDPAddrPort(b)
			if err != nil {
				return
			}
			r.got <- from
		}
	}()
	return r
}

// beside makes a namespace whose only way out is the router.
func (r router) beside(name string, here, there netip.Addr) network.Netns {
	r.t.Helper()
	other, err := network.NewNetns(name)
	must(r.t, err)
	r.t.Cleanup(func() {
		must(r.t, network.Netns{}.IP(context.Background(), "link del "+name))
		must(r.t, other.Close())
	})
	alone := r.family.Bits()
	must(r.t, network.Netns{}.IP(r.t.Context(), "link set lo up", "link add "+name+" type veth peer name eth0 netns "+other.Path(), "link set "+name+" up",
		fmt.Sprintf("addr add %s/%d dev %s nodad", here, alone, name), fmt.Sprintf("route add %s/%d dev %s", there, alone, name)))
	must(r.t, other.IP(r.t.Context(), "link set eth0 up", fmt.Sprintf("addr add %s/%d dev eth0 nodad", there, alone),
		fmt.Sprintf("route add %s/%d dev eth0", here, alone), fmt.Sprintf("route add default via %s dev eth0", here)))
	return other
}

// send sends datagrams of one flow from the client.
func (r router) send(n int, to netip.AddrPort) {
	r.t.Helper()
	must(r.t, r.client.Do(func() error {
		conn, err := net.DialUDP("udp", nil, net.UDPAddrFromAddrPort(to))
		if err != nil {
			return err
		}
		defer func() { _ = conn.Close() }()
		for range n {
			if _, err := conn.Write([]byte("a line of a log")); err != nil {
				return err
			}
		}
		return nil
	}))
}

// TestOneWayUDPPassesADroppingForward sends flows that no endpoint answers, as to syslog or statsd:
// every datagram arrives, by each front, and not the first one alone. What another program
// translates is left to the policy.
func TestOneWayUDPPassesADroppingForward(t *testing.T) {
	each(t, func(t *testing.T, p *Proxier) {
		f := p.options.Family
		r := newRouter(t, p)
		port := mended(f, 1)
		port.Name.Protocol, port.NodePort, port.Cluster = model.UDP, 30514, []netip.AddrPort{r.endpoint}
		port.LoadBalancerIPs, port.ExternalIPs = []netip.Addr{plans.Address(f, 7, 2)}, []netip.Addr{plans.Address(f, 7, 3)}
		d := change(port)
		d.Globals = &model.Globals{Family: f, MasqueradeBit: 14, NodePortAny: true, LocalSource: model.LocalSource{InterfacePrefix: "pod"}}
		syncOne(t, p, d)
		agree(t, p)

		foreign := netip.AddrPortFrom(plans.Address(f, 7, 4), 514)
		iptables(t, p, "-t", "nat", "-A", "PREROUTING", "-d", foreign.Addr().String(), "-p", "udp", "-j", "DNAT", "--to-destination", r.endpoint.String())
		t.Cleanup(func() { iptables(t, p, "-t", "nat", "-F", "PREROUTING") })
		r.send(10, foreign)
		const all = 10
		for front, to := range map[string]netip.AddrPort{
			"ClusterIP": netip.AddrPortFrom(port.ClusterIPs[0], port.Port), "load balancer IP": netip.AddrPortFrom(port.LoadBalancerIPs[0], port.Port),
			"external IP": netip.AddrPortFrom(port.ExternalIPs[0], port.Port), "node port": netip.AddrPortFrom(r.node, port.NodePort),
		} {
			r.send(all, to)
			for got := range all {
				select {
				case from := <-r.got:
					if from.Addr() == plans.Address(f, 6, 2) {
						t.Errorf("%s: a datagram keeps its source: it is none of ours", front)
					}
				case <-time.After(20 * time.Second):
					t.Fatalf("%s: %d of %d datagrams arrived", front, got, all)
				}
			}
		}
		if n := len(r.got); n > 0 {
			t.Errorf("%d datagrams arrived that were not sent to the Service", n)
		}
	})
}
