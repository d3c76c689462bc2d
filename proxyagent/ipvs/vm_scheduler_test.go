//go:build linux && ipvs

package ipvs

import (
	"fmt"
	"net/netip"
	"testing"
	"time"

	"github.com/clusterip-operator/clusterip-operator/proxyagent/model"
	"github.com/clusterip-operator/clusterip-operator/test/framework/network"
)

// endpointsAt are so many endpoints, in turn on this node and on the other one.
func (w *fixture) endpointsAt(n int) (all []netip.AddrPort) {
	for i := range n {
		pod := []*network.Namespace{w.Pod2, w.RemotePod}[i%2]
		all = append(all, netip.AddrPortFrom(pod.Extra(w.family, 1+i/2), 8080))
	}
	return all
}

// held are the open connections that IPVS has to each endpoint.
func (w *fixture) held(at netip.AddrPort) map[netip.AddrPort]int {
	w.Helper()
	held := map[netip.AddrPort]int{}
	w.onNode(func() error {
		all, err := w.proxy.kernel.destinations(front{model.TCP, at})
		for _, d := range all {
			held[netip.AddrPortFrom(d.Address, d.Port)] = int(d.ActiveConnections)
		}
		return err
	})
	return held
}

// TestSchedulersByPackets holds connections and looks where those that come later go.
func TestSchedulersByPackets(t *testing.T) {
	cases := []struct {
		scheduler model.Scheduler
		weights   []uint8 // of endpoints; nil: all are alike
		first     int     // connections while there is the first endpoint alone
		later     int     // when all are there
		want      []int   // held by each endpoint in the end
	}{
		{scheduler: model.LeastConnection, first: 3, later: 6, want: []int{3, 3, 3}},
		{scheduler: model.WeightedLeastConnection, weights: []uint8{1, 3}, later: 8, want: []int{2, 6}},
		{scheduler: model.NeverQueue, weights: []uint8{1, 3}, later: 2, want: []int{1, 1}}, // each is idle once: sed has the faster one take both
		{scheduler: model.NeverQueue, weights: []uint8{1, 3}, later: 6, want: []int{1, 5}}, // none is idle after two: wlc has 2 and 4
		{scheduler: model.ShortestExpectedDelay, weights: []uint8{1, 3}, later: 2, want: []int{0, 2}},
		{scheduler: model.DestinationHashing, first: 0, later: 5, want: []int{5, 0, 0}}, // all at one of them, whichever
		// All go to the last one until it holds more than its weight and another one is idle.
		{scheduler: model.LocalityLeastConnection, first: 2, later: 4, want: []int{2, 4}},
		{scheduler: model.LocalityLeastConnectionReplicas, first: 1, later: 1, want: []int{2, 0}},
		{scheduler: model.LocalityLeastConnectionReplicas, first: 2, later: 4, want: []int{3, 3}}, // both, once there are both
	}
	each(t, func(w *fixture) {
		for i, tc := range cases {
			all := w.endpointsAt(len(tc.want))
			p := w.service(fmt.Sprint(tc.scheduler, i), func(p *model.ServicePort) {
				p.ClusterIPs, p.Scheduler, p.Cluster, p.Local, p.Hairpin = []netip.Addr{w.clusterIP(1 + i)}, tc.scheduler, all[:1], nil, nil
				for n, weight := range tc.weights {
					if p.Weights == nil {
						p.Weights = model.Weights{}
					}
					p.Weights[all[n]] = weight
				}
			})
			vip := netip.AddrPortFrom(w.clusterIP(1+i), 80)
			w.sync(w.plan(p))
			for range tc.first {
				w.keep(vip)
			}
			whole := *p
			whole.Cluster = all
			w.sync(w.plan(&whole))
			for range tc.later {
				w.keep(vip)
			}
			got := w.held(vip)
			if tc.scheduler == model.DestinationHashing {
				if len(got) != len(all) || most(got) != tc.later {
					w.Errorf("dh: %v, want all at one endpoint", got)
				}
				continue
			}
			for n, e := range all {
				if got[e] != tc.want[n] {
					w.Errorf("%s: endpoint %d holds %d of %v, want %v", p.Name, n, got[e], got, tc.want)
				}
			}
		}
		if got := w.proxy.Degraded(); len(got) > 0 {
			w.Errorf("degraded: %v", got)
		}
	})
}

func most(counts map[netip.AddrPort]int) (n int) {
	for _, c := range counts {
		n = max(n, c)
	}
	return n
}

// TestMaglevHashing has clients keep endpoints; when one of n goes, at most 2/n of clients move.
func TestMaglevHashing(t *testing.T) {
	const clients, n = 60, 6
	each(t, func(w *fixture) {
		all := w.endpointsAt(n)
		p := w.service("web", func(p *model.ServicePort) {
			p.ClusterIPs, p.Scheduler, p.Cluster, p.Local, p.Hairpin = []netip.Addr{w.clusterIP(1)}, model.MaglevHashing, all, nil, nil
		})
		w.sync(w.plan(p))
		reached := func() (at []netip.AddrPort) {
			for i := range clients {
				r := w.dial(w.Client, network.Probe{
					To: netip.AddrPortFrom(w.clusterIP(1), 80), Source: netip.AddrPortFrom(w.Client.Extra(w.family, 3000+i), 0), Timeout: 10 * time.Second,
				})
				if r.Outcome != network.Connected {
					w.Fatalf("client %d: %s", i, r)
				}
				at = append(at, r.Endpoint)
			}
			return at
		}
		before, again := reached(), reached()
		fewer := *p
		fewer.Cluster = append(append([]netip.AddrPort{}, all[:2]...), all[3:]...)
		w.sync(w.plan(&fewer))
		moved, after := 0, reached()
		for i := range clients {
			if before[i] != again[i] {
				w.Errorf("client %d got to %s and then to %s", i, before[i], again[i])
			}
			if after[i] == all[2] {
				w.Errorf("client %d still gets to the one that goes", i)
			}
			if after[i] != before[i] {
				moved++
			}
		}
		if moved == 0 || moved > 2*clients/n {
			w.Errorf("%d of %d clients moved", moved, clients)
		}
	})
}
