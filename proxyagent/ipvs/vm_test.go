//go:build linux && ipvs

// `make test-ipvs` runs these tests in a virtual machine whose kernel has IPVS. Real packets go
// between network namespaces; the plan is fed in.
package ipvs

import (
	"context"
	"errors"
	"fmt"
	"net/netip"
	"testing"
	"time"

	"github.com/clusterip-operator/clusterip-operator/proxyagent/model"
	"github.com/clusterip-operator/clusterip-operator/proxyagent/nfnetlink"
	"github.com/clusterip-operator/clusterip-operator/proxyagent/nftables"
	"github.com/clusterip-operator/clusterip-operator/proxyagent/sysctl"
	"github.com/clusterip-operator/clusterip-operator/test/framework/network"
)

// fixture is a network whose node serves a plan.
type fixture struct {
	*network.Topology
	*testing.T
	family model.Family
	proxy  *Proxier
	rules  *nftables.Proxier
}

// each runs a test for both families.
func each(t *testing.T, run func(w *fixture)) {
	for _, f := range network.Families {
		t.Run(f.String(), func(t *testing.T) {
			w := &fixture{Topology: network.Lend(t), T: t, family: f}
			w.open(Options{})
			run(w)
		})
	}
}

// onNode runs something in the namespace of the node.
func (w *fixture) onNode(what func() error) {
	w.Helper()
	if err := w.Node.Do(what); err != nil {
		w.Fatal(err)
	}
}

// open starts a proxy, as after a restart if there was one.
func (w *fixture) open(o Options) {
	w.Helper()
	w.onNode(func() (err error) {
		if w.rules, err = nftables.New(w.family, nfnetlink.NewGenerations(), 0); err != nil {
			return err
		}
		o.Family, o.Rules = w.family, w.rules
		if err := Usable(model.RoundRobin, "/proc/sys"); err != nil {
			return err
		}
		w.proxy, err = New(o)
		return errors.Join(err, sysctl.Kernel("/proc/sys").Apply(sysctl.Want{IPVS: true}))
	})
}

func (w *fixture) globals() *model.Globals {
	return &model.Globals{
		Family: w.family, MasqueradeBit: 14, LocalSource: model.LocalSource{CIDR: network.PodCIDR(w.family)}, NodePortAny: true, Ranges: []netip.Prefix{w.services()},
	}
}

// services is the ServiceCIDR.
func (w *fixture) services() netip.Prefix {
	if w.family == model.IPv6 {
		return netip.MustParsePrefix("fd00:96::/112")
	}
	return netip.MustParsePrefix("10.96.0.0/16")
}

func (w *fixture) clusterIP(i int) netip.Addr {
	a := w.services().Addr()
	for range i {
		a = a.Next()
	}
	return a
}

// service is a port 80 with endpoints in Pod2 and RemotePod, at port 8080.
func (w *fixture) service(name string, change func(*model.ServicePort)) *model.ServicePort {
	local, remote := netip.AddrPortFrom(w.Pod2.Addr(w.family), 8080), netip.AddrPortFrom(w.RemotePod.Addr(w.family), 8080)
	p := &model.ServicePort{
		Name: model.PortName{Service: model.ServiceName{Namespace: "default", Name: name}, Protocol: model.TCP}, Port: 80, HasEndpoints: true,
		Cluster: []netip.AddrPort{local, remote}, Local: []netip.AddrPort{local}, Hairpin: []netip.AddrPort{local},
	}
	if change != nil {
		change(p)
	}
	return p
}

// plan makes a Delta of ports.
func (w *fixture) plan(ports ...*model.ServicePort) model.Delta {
	d := model.Delta{Globals: w.globals(), Ports: map[model.PortName]*model.ServicePort{}, Allocated: map[netip.Addr]bool{}}
	for _, p := range ports {
		d.Ports[p.Name] = p
		for _, a := range p.ClusterIPs {
			d.Allocated[a] = true
		}
	}
	return d
}

func (w *fixture) sync(deltas ...model.Delta) {
	w.Helper()
	w.onNode(func() error {
		_, err := w.proxy.Sync(context.Background(), deltas...)
		return err
	})
}

func (w *fixture) check(now time.Time) (found []string) {
	w.Helper()
	w.onNode(func() (err error) {
		found, err = w.proxy.Check(context.Background(), now)
		return err
	})
	return found
}

func (w *fixture) dial(from *network.Namespace, p network.Probe) network.Result {
	return from.Dial(p)
}

// reaches wants connections to reach just these endpoints, and be masqueraded or not.
func (w *fixture) reaches(what string, from *network.Namespace, to netip.AddrPort, masqueraded bool, endpoints ...*network.Namespace) {
	w.Helper()
	missing := map[string]bool{}
	for _, e := range endpoints {
		missing[e.Host()] = true
	}
	wanted := len(missing)
	for i := 0; i < 4*wanted || i < 40*wanted && len(missing) > 0; i++ {
		r := w.dial(from, network.Probe{To: to, Timeout: 5 * time.Second})
		known := false
		for _, e := range endpoints {
			known = known || e.Host() == r.Server
		}
		if !known || r.Masqueraded() != masqueraded {
			w.Errorf("%s: from %s to %s: %s, masqueraded: %t, want %t", what, from.Host(), to, r, r.Masqueraded(), masqueraded)
			return
		}
		delete(missing, r.Server)
	}
	if len(missing) > 0 {
		w.Errorf("%s: from %s to %s: never reached %v", what, from.Host(), to, missing)
	}
}

// ends wants a connection to end otherwise.
func (w *fixture) ends(what string, from *network.Namespace, to netip.AddrPort, outcome network.Outcome) {
	w.Helper()
	p := network.Probe{To: to}
	p.Timeout = network.DefaultTimeout // which a refusal takes none of
	if outcome == network.Dropped {
		p.Timeout = network.TimeoutFor(p, outcome)
	}
	if r := w.dial(from, p); r.Outcome != outcome {
		w.Errorf("%s: from %s to %s: %s, want %s", what, from.Host(), to, r, outcome)
	}
}

func TestClusterIP(t *testing.T) {
	each(t, func(w *fixture) {
		p := w.service("web", func(p *model.ServicePort) { p.ClusterIPs = []netip.Addr{w.clusterIP(1)} })
		none := w.service("none", func(p *model.ServicePort) {
			p.ClusterIPs, p.Cluster, p.Local, p.Hairpin, p.HasEndpoints = []netip.Addr{w.clusterIP(2)}, nil, nil, nil, false
		})
		local := w.service("local", func(p *model.ServicePort) { p.ClusterIPs, p.InternalLocal = []netip.Addr{w.clusterIP(3)}, true })
		absent := w.service("absent", func(p *model.ServicePort) {
			p.ClusterIPs, p.InternalLocal, p.Local = []netip.Addr{w.clusterIP(4)}, true, nil
		})
		w.sync(w.plan(p, none, local, absent))
		vip := netip.AddrPortFrom(w.clusterIP(1), 80)
		w.reaches("pod", w.Pod1, vip, false, w.Pod2, w.RemotePod)
		w.reaches("node", w.Node, vip, true, w.Pod2, w.RemotePod)
		w.reaches("client", w.Client, vip, true, w.Pod2, w.RemotePod)
		w.reaches("iTP Local", w.Pod1, netip.AddrPortFrom(w.clusterIP(3), 80), false, w.Pod2)
		for _, from := range []*network.Namespace{w.Pod1, w.Node, w.Client} {
			w.ends("no endpoints", from, netip.AddrPortFrom(w.clusterIP(2), 80), network.Refused)
			w.ends("none on this node", from, netip.AddrPortFrom(w.clusterIP(4), 80), network.Dropped)
			w.ends("a port on which the node listens", from, netip.AddrPortFrom(w.clusterIP(1), 8080), network.Refused)
			w.ends("a port on which the node listens, without endpoints", from, netip.AddrPortFrom(w.clusterIP(2), 8081), network.Refused)
			w.ends("unallocated", from, netip.AddrPortFrom(w.clusterIP(99), 80), network.Dropped)
		}
		alone := *p
		alone.Cluster = p.Cluster[:1]
		w.sync(w.plan(&alone))
		w.reaches("hairpin", w.Pod2, vip, true, w.Pod2)
	})
}

// TestAVirtualIPIsLocalAtOnce wants Sync to return only when packets to the address stay here.
func TestAVirtualIPIsLocalAtOnce(t *testing.T) {
	each(t, func(w *fixture) {
		w.onNode(func() error {
			for i := range 300 {
				a := w.clusterIP(1 + i)
				var o outcome
				w.proxy.move(&o, []netip.Addr{a}, true)
				if o.err != nil || len(o.refused) > 0 {
					return fmt.Errorf("%w, %v", o.err, o.refused)
				}
				if !isLocal(a) {
					return fmt.Errorf("%s, address %d, is not local", a, i)
				}
			}
			return nil
		})
	})
}

// TestOutside is for node ports, external and load balancer IPs, with both policies.
func TestOutside(t *testing.T) {
	each(t, func(w *fixture) {
		external, balancer, limited := network.VirtualAddr(w.family, 1), network.VirtualAddr(w.family, 2), network.VirtualAddr(w.family, 3)
		anywhere := w.service("anywhere", func(p *model.ServicePort) {
			p.ExternalIPs, p.LoadBalancerIPs, p.NodePort = []netip.Addr{external}, []netip.Addr{balancer}, 30080
		})
		local := w.service("local", func(p *model.ServicePort) {
			p.ExternalIPs, p.Port, p.NodePort, p.ExternalLocal = []netip.Addr{external}, 81, 30081, true
		})
		client := netip.PrefixFrom(w.Client.Addr(w.family), w.family.Bits())
		ranges := w.service("ranges", func(p *model.ServicePort) {
			p.LoadBalancerIPs, p.SourceRanges = []netip.Addr{limited}, []netip.Prefix{client}
		})
		none := w.service("none", func(p *model.ServicePort) {
			p.NodePort, p.Cluster, p.Local, p.Hairpin, p.HasEndpoints = 30082, nil, nil, nil, false
		})
		own := w.service("own", func(p *model.ServicePort) { p.ExternalIPs, p.Port = []netip.Addr{w.Node.Addr(w.family)}, 83 })
		w.sync(w.plan(anywhere, local, ranges, none, own))
		node := func(port uint16) netip.AddrPort { return netip.AddrPortFrom(w.Node.Addr(w.family), port) }
		for _, from := range []*network.Namespace{w.Client, w.Pod1, w.Node} {
			w.reaches("external IP", from, netip.AddrPortFrom(external, 80), true, w.Pod2, w.RemotePod)
			w.reaches("load balancer IP", from, netip.AddrPortFrom(balancer, 80), true, w.Pod2, w.RemotePod)
			w.reaches("node port", from, node(30080), true, w.Pod2, w.RemotePod)
			w.reaches("node port at another address", from, netip.AddrPortFrom(network.AltNodeAddr(w.family), 30080), true, w.Pod2, w.RemotePod)
			w.reaches("an address of the node as external IP", from, node(83), true, w.Pod2, w.RemotePod)
			w.ends("no endpoints", from, node(30082), network.Refused)
			w.ends("another port of an external IP", from, netip.AddrPortFrom(external, 8080), network.Refused)
			if r := w.dial(from, network.Probe{To: node(8080)}); r.Outcome != network.Connected {
				w.Errorf("the node's own sockets: from %s: %s", from.Host(), r)
			}
		}
		for _, to := range []netip.AddrPort{netip.AddrPortFrom(external, 81), node(30081)} {
			w.reaches("policy Local, from outside", w.Client, to, false, w.Pod2)
			w.reaches("policy Local, a pod of this node", w.Pod1, to, false, w.Pod2, w.RemotePod)
			w.reaches("policy Local, the node", w.Node, to, true, w.Pod2, w.RemotePod)
		}
		w.reaches("in the source ranges", w.Client, netip.AddrPortFrom(limited, 80), true, w.Pod2, w.RemotePod)
		w.ends("not in the source ranges", w.Pod1, netip.AddrPortFrom(limited, 80), network.Dropped)
		w.ends("not in the source ranges", w.Node, netip.AddrPortFrom(limited, 80), network.Dropped)
	})
}

// TestAffinity has one client keep its endpoint, and one without affinity have all in turn.
func TestAffinity(t *testing.T) {
	each(t, func(w *fixture) {
		sticky := w.service("sticky", func(p *model.ServicePort) { p.ClusterIPs, p.AffinitySeconds = []netip.Addr{w.clusterIP(1)}, 600 })
		udp := w.service("udp", func(p *model.ServicePort) { p.ClusterIPs, p.Name.Protocol = []netip.Addr{w.clusterIP(2)}, model.UDP })
		turn := w.service("turn", func(p *model.ServicePort) { p.ClusterIPs, p.NodePort = []netip.Addr{w.clusterIP(3)}, 30080 })
		hash := w.service("hash", func(p *model.ServicePort) {
			p.ClusterIPs, p.Scheduler = []netip.Addr{w.clusterIP(4)}, model.SourceHashing
		})
		weighted := w.service("weighted", func(p *model.ServicePort) {
			p.ClusterIPs, p.Scheduler, p.Weights = []netip.Addr{w.clusterIP(5)}, model.WeightedRoundRobin, model.Weights{p.Cluster[0]: 3}
		})
		random := w.service("random", func(p *model.ServicePort) { p.ClusterIPs, p.Scheduler = []netip.Addr{w.clusterIP(6)}, model.Random })
		w.sync(w.plan(sticky, udp, turn, hash, weighted, random))
		count := func(i int, protocol model.Protocol, times int) map[string]int {
			got := map[string]int{}
			for range times {
				got[w.dial(w.Pod1, network.Probe{To: netip.AddrPortFrom(w.clusterIP(i), 80), Protocol: protocol, Timeout: 5 * time.Second}).Server]++
			}
			return got
		}
		for _, i := range []int{1, 4} {
			if got := count(i, model.TCP, 12); len(got) != 1 || got[""] > 0 {
				w.Errorf("Service %d has endpoints %v for one client, want one", i, got)
			}
		}
		if got := count(2, model.UDP, 12); len(got) != 2 || got[""] > 0 {
			w.Errorf("UDP reached %v", got)
		}
		for i, want := range map[int]int{3: 6, 5: 9, 6: 6} {
			if got := count(i, model.TCP, 12); got[w.Pod2.Host()] != want || got[w.RemotePod.Host()] != 12-want {
				w.Errorf("Service %d: reached %v, want %d of 12 at %s", i, got, want, w.Pod2.Host())
			}
		}
		w.dial(w.Client, network.Probe{To: netip.AddrPortFrom(w.Node.Addr(w.family), 30080), Timeout: 5 * time.Second})
		w.counts(turn, 13)
		w.counts(weighted, 12)
		w.proxy.mu.Lock() // as a Sync does
		_, err := w.proxy.Connections()
		w.proxy.mu.Unlock()
		if err == nil {
			w.Error("connections are counted while a Sync is under way")
		}
		if got := w.proxy.Degraded(); len(got) != 1 || got[0] != (model.Degradation{Port: random.Name, Reason: model.SchedulerUnavailable}) {
			w.Errorf("degraded: %v", got)
		}
	})
}

// weights are those that the kernel has, by ways of its own.
func (w *fixture) weights(at netip.AddrPort) (weights map[netip.AddrPort]int) {
	w.Helper()
	w.onNode(func() (err error) {
		weights, err = w.proxy.kernel.weights(front{model.TCP, at})
		return err
	})
	return weights
}

// counts wants so many connections to a Service, of which the kernel tells every two seconds.
func (w *fixture) counts(p *model.ServicePort, want uint64) {
	w.Helper()
	var all map[model.ServiceName]uint64
	for deadline := time.Now().Add(30 * time.Second); all[p.Name.Service] < want && time.Now().Before(deadline); time.Sleep(100 * time.Millisecond) {
		w.onNode(func() (err error) {
			all, err = w.proxy.Connections()
			return err
		})
	}
	if all[p.Name.Service] != want {
		w.Errorf("the kernel counts connections %v, want %d to %s", all, want, p.Name)
	}
}
