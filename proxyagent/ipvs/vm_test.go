//go:build linux && ipvs

// These tests need a kernel with IPVS: `make test-ipvs` runs them in a virtual machine that has one. Real packets go between network namespaces; the plan is fed in.
package ipvs

import (
	"context"
	"errors"
	"net"
	"net/netip"
	"testing"
	"time"

	"github.com/clusterip-operator/clusterip-operator/proxyagent/model"
	"github.com/clusterip-operator/clusterip-operator/proxyagent/nfnetlink"
	"github.com/clusterip-operator/clusterip-operator/proxyagent/nftables"
	"github.com/clusterip-operator/clusterip-operator/proxyagent/sysctl"
	"github.com/clusterip-operator/clusterip-operator/test/framework/network"
)

// world is a network whose node serves a plan.
type world struct {
	*network.Topology
	*testing.T
	family model.Family
	proxy  *Proxier
	spoke  *nftables.Proxier
}

// each runs a test for both families.
func each(t *testing.T, run func(w *world)) {
	for _, f := range network.Families {
		t.Run(f.String(), func(t *testing.T) {
			topology, err := network.New(t.Context())
			if err != nil {
				t.Fatal(err)
			}
			t.Cleanup(func() {
				if err := topology.Close(); err != nil {
					t.Error(err)
				}
			})
			w := &world{Topology: topology, T: t, family: f}
			w.open(Options{})
			run(w)
		})
	}
}

// onNode runs something in the namespace of the node.
func (w *world) onNode(what func() error) {
	w.Helper()
	if err := w.Node.Do(what); err != nil {
		w.Fatal(err)
	}
}

// open starts a proxy, as after a restart if there was one.
func (w *world) open(o Options) {
	w.Helper()
	w.onNode(func() (err error) {
		if w.spoke, err = nftables.New(w.family, nfnetlink.NewGenerations(), 0); err != nil {
			return err
		}
		o.Family, o.Spoke = w.family, w.spoke
		if err := Usable(model.RoundRobin, "/proc/sys"); err != nil {
			return err
		}
		w.proxy, err = New(o)
		return errors.Join(err, sysctl.Kernel("/proc/sys").Apply(sysctl.Want{IPVS: true}))
	})
}

func (w *world) globals() *model.Globals {
	return &model.Globals{
		Family: w.family, MasqueradeBit: 14, LocalSource: model.LocalSource{CIDR: network.PodCIDR(w.family)}, NodePortAny: true, Ranges: []netip.Prefix{w.services()},
	}
}

// services is the ServiceCIDR.
func (w *world) services() netip.Prefix {
	if w.family == model.IPv6 {
		return netip.MustParsePrefix("fd00:96::/112")
	}
	return netip.MustParsePrefix("10.96.0.0/16")
}

func (w *world) clusterIP(i int) netip.Addr {
	a := w.services().Addr()
	for range i {
		a = a.Next()
	}
	return a
}

// service is a port 80 with endpoints in Pod2 and RemotePod, at port 8080.
func (w *world) service(name string, change func(*model.ServicePort)) *model.ServicePort {
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
func (w *world) plan(ports ...*model.ServicePort) model.Delta {
	d := model.Delta{Globals: w.globals(), Ports: map[model.PortName]*model.ServicePort{}, Allocated: map[netip.Addr]bool{}}
	for _, p := range ports {
		d.Ports[p.Name] = p
		for _, a := range p.ClusterIPs {
			d.Allocated[a] = true
		}
	}
	return d
}

func (w *world) sync(deltas ...model.Delta) {
	w.Helper()
	w.onNode(func() error {
		_, err := w.proxy.Sync(context.Background(), deltas...)
		return err
	})
}

func (w *world) check(now time.Time) (found []string) {
	w.Helper()
	w.onNode(func() (err error) {
		found, err = w.proxy.Check(context.Background(), now)
		return err
	})
	return found
}

func (w *world) dial(from *network.Namespace, p network.Probe) network.Result {
	return from.Dial(p)
}

// reaches wants connections to reach each of some endpoints, and nothing else, and be masqueraded or not.
func (w *world) reaches(what string, from *network.Namespace, to netip.AddrPort, masqueraded bool, endpoints ...*network.Namespace) {
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
func (w *world) ends(what string, from *network.Namespace, to netip.AddrPort, outcome network.Outcome) {
	w.Helper()
	p := network.Probe{To: to}
	p.Timeout = 3 * network.TimeoutFor(p, outcome)
	if r := w.dial(from, p); r.Outcome != outcome {
		w.Errorf("%s: from %s to %s: %s, want %s", what, from.Host(), to, r, outcome)
	}
}

func TestClusterIP(t *testing.T) {
	each(t, func(w *world) {
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

func dialAndKeep(w *world, from *network.Namespace, to netip.AddrPort) net.Conn {
	w.Helper()
	conn, err := from.DialContext(context.Background(), "tcp", to.String())
	if err != nil {
		w.Fatal(err)
	}
	w.Cleanup(func() { _ = conn.Close() })
	return conn
}
