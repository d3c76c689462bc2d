//go:build linux

package iptables

import (
	"context"
	"fmt"
	"net/netip"
	"testing"

	"github.com/clusterip-operator/clusterip-operator/proxyagent/model"
)

// large is a Plan of n Services with three endpoints each.
func large(n int) model.Delta {
	g := model.Globals{Family: model.IPv4, MasqueradeBit: 14, NodePortAny: true, LocalSource: model.LocalSource{CIDR: netip.MustParsePrefix("10.200.0.0/13")},
		Ranges: []netip.Prefix{netip.MustParsePrefix("10.96.0.0/12")}}
	d := model.Delta{Globals: &g, Ports: map[model.PortName]*model.ServicePort{}, Allocated: map[netip.Addr]bool{}}
	vip, endpoint := netip.MustParseAddr("10.96.0.1"), netip.MustParseAddr("10.200.0.1")
	for i := range n {
		name := model.PortName{Service: model.ServiceName{Namespace: "ns", Name: fmt.Sprint("svc-", i)}, Port: "http", Protocol: model.TCP}
		p := &model.ServicePort{Name: name, ClusterIPs: []netip.Addr{vip}, Port: 80, HasEndpoints: true}
		for range 3 {
			p.Cluster = append(p.Cluster, netip.AddrPortFrom(endpoint, 8080))
			endpoint = endpoint.Next()
		}
		d.Ports[name], d.Allocated[vip] = p, true
		vip = vip.Next()
	}
	return d
}

// BenchmarkSync measures a first sync and one that changes the endpoints of one Service, on the real kernel.
func BenchmarkSync(b *testing.B) {
	for _, mode := range []Mode{NFT, Legacy} {
		for _, n := range []int{1000, 10000} {
			b.Run(fmt.Sprintf("%s/%d/cold", mode, n), func(b *testing.B) {
				for b.Loop() {
					b.StopTimer()
					d := large(n)
					t := &testing.T{}
					p := newProxier(t, mode, model.IPv4)
					b.StartTimer()
					if _, err := p.Sync(context.Background(), d); err != nil {
						b.Fatal(err)
					}
					b.StopTimer()
					clean(t, p)
					b.StartTimer()
				}
			})
			b.Run(fmt.Sprintf("%s/%d/change", mode, n), func(b *testing.B) {
				d := large(n)
				t := &testing.T{}
				p := newProxier(t, mode, model.IPv4)
				if _, err := p.Sync(context.Background(), d); err != nil {
					b.Fatal(err)
				}
				name := model.PortName{Service: model.ServiceName{Namespace: "ns", Name: "svc-77"}, Port: "http", Protocol: model.TCP}
				port, all := *d.Ports[name], d.Ports[name].Cluster
				for i := 0; b.Loop(); i++ {
					next := port
					next.Cluster = all[:2+i%2]
					if _, err := p.Sync(context.Background(), model.Delta{Ports: map[model.PortName]*model.ServicePort{name: &next}}); err != nil {
						b.Fatal(err)
					}
				}
				clean(t, p)
			})
		}
	}
}
