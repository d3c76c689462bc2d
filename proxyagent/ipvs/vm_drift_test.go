//go:build linux && ipvs

package ipvs

import (
	"context"
	"errors"
	"net/netip"
	"testing"
	"time"

	"github.com/clusterip-operator/clusterip-operator/proxyagent/model"
)

// TestDrift has another program change what is ours, and has things that are not ours.
func TestDrift(t *testing.T) {
	each(t, func(w *fixture) {
		p := w.service("web", func(p *model.ServicePort) { p.ClusterIPs, p.NodePort = []netip.Addr{w.clusterIP(1)}, 30080 })
		vip, node := front{model.TCP, netip.AddrPortFrom(w.clusterIP(1), 80)}, front{model.TCP, netip.AddrPortFrom(w.Node.Addr(w.family), 443)}
		foreign := []step{{action: addServer, front: node, balancing: balancing{scheduler: model.RoundRobin}}, {action: addEndpoint, front: node, endpoint: p.Cluster[0], weight: 7}}
		w.steps(foreign...)
		w.sync(w.plan(p))
		stranger := netip.AddrPortFrom(w.Pod1.Addr(w.family), 8080)
		w.steps(step{action: removeEndpoint, front: vip, endpoint: p.Cluster[0]}, step{action: addEndpoint, front: vip, endpoint: stranger, weight: 5})
		w.onNode(func() error { return w.proxy.kernel.unbind(vip.at.Addr()) })
		if found := w.check(time.Now().Add(time.Hour)); len(found) != 3 {
			w.Errorf("found %q, want an address and two destinations", found)
		}
		if weights := w.weights(vip.at); weights[p.Cluster[0]] != 1 || weights[stranger] != 0 {
			w.Errorf("the weights are %v", weights)
		}
		w.reaches("after the repair", w.Pod1, vip.at, false, w.Pod2, w.RemotePod)
		w.open(Options{})
		w.sync(w.plan()) // the Service went while no agent ran
		var have observed
		w.onNode(func() (err error) {
			have, err = w.proxy.kernel.read(context.Background(), func(observed, front) bool { return true })
			return err
		})
		if len(have.servers) != 1 || have.servers[node] == nil || have.servers[node].weights[p.Cluster[0]] != 7 || len(have.bound) > 0 {
			w.Errorf("left over: %v, %v; want the virtual server of others alone", have.servers, have.bound)
		}
		w.sync(w.plan(p))
		w.onNode(func() error {
			did, err := Cleanup(context.Background(), CleanupOptions{Family: w.family})
			if again, problem := Cleanup(context.Background(), CleanupOptions{Family: w.family}); len(did) != 3 || len(again) != 0 || problem != nil {
				w.Errorf("cleanup: %q, then %q, %v", did, again, problem)
			}
			return err
		})
		w.onNode(func() (err error) {
			have.servers, err = w.proxy.kernel.servers()
			return err
		})
		if len(have.servers) != 1 || have.servers[node] == nil {
			w.Errorf("after cleanup there are %v; want the virtual server of others alone", have.servers)
		}
	})
}

func (w *fixture) steps(all ...step) {
	w.Helper()
	for _, s := range all {
		w.onNode(func() error { return w.proxy.kernel.do(s) })
	}
}

// TestAVirtualServerThatIsThereAlready was made by another program since the last comparison.
func TestAVirtualServerThatIsThereAlready(t *testing.T) {
	each(t, func(w *fixture) {
		w.sync(w.plan())
		at := netip.AddrPortFrom(w.clusterIP(1), 80)
		w.steps(step{action: addServer, front: front{model.TCP, at}, balancing: balancing{scheduler: model.LeastConnection}})
		p := w.service("web", func(p *model.ServicePort) { p.ClusterIPs = []netip.Addr{at.Addr()} })
		w.sync(w.plan(p))
		w.reaches("it is ours now", w.Pod1, at, false, w.Pod2, w.RemotePod)
	})
}

// TestWhatAKilledAgentLeaves is a virtual server whose address is gone already.
func TestWhatAKilledAgentLeaves(t *testing.T) {
	each(t, func(w *fixture) {
		vip := w.clusterIP(1)
		w.sync(w.plan(w.service("web", func(p *model.ServicePort) { p.ClusterIPs = []netip.Addr{vip} })))
		w.onNode(func() error { return w.proxy.kernel.unbind(vip) })
		w.open(Options{})
		w.sync(w.plan()) // the Service went while no agent ran
		w.onNode(func() error {
			left, err := w.proxy.kernel.servers()
			if len(left) > 0 {
				w.Errorf("left over: %v", left)
			}
			return err
		})
	})
}

// TestADumpBesideTheOtherFamily lists virtual servers while the other family's are taken away.
func TestADumpBesideTheOtherFamily(t *testing.T) {
	each(t, func(w *fixture) {
		const n = 300
		servers := func(at netip.Addr, action action) (steps []step) {
			for i := range n {
				steps = append(steps, step{action: action, front: front{model.TCP, netip.AddrPortFrom(at, uint16(1000+i))}, balancing: balancing{scheduler: model.RoundRobin}})
			}
			return steps
		}
		w.steps(servers(w.clusterIP(1), addServer)...)
		w.onNode(func() error {
			of := map[model.Family]model.Family{model.IPv4: model.IPv6, model.IPv6: model.IPv4}[w.family]
			other, err := open(of)
			if err != nil {
				return err
			}
			for _, s := range servers(w.Node.Addr(of), addServer) {
				err = errors.Join(err, other.do(s))
			}
			gone := make(chan error)
			go func() {
				var err error
				for _, s := range servers(w.Node.Addr(of), removeServer) {
					err = errors.Join(err, other.do(s))
				}
				gone <- err
			}()
			for {
				if have, err := w.proxy.kernel.servers(); err != nil || len(have) != n {
					w.Errorf("of %d virtual servers it read %d, %v", n, len(have), err)
				}
				select {
				case problem := <-gone:
					return errors.Join(err, problem)
				default:
				}
			}
		})
	})
}
