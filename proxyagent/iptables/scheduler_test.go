//go:build linux

package iptables

import (
	"context"
	"fmt"
	"net"
	"net/netip"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/clusterip-operator/clusterip-operator/proxyagent/model"
	"github.com/clusterip-operator/clusterip-operator/test/framework/network"
	"github.com/clusterip-operator/clusterip-operator/test/framework/plans"
)

// wire is a client in a network namespace of its own, and endpoints that serve in that of the test.
type wire struct {
	t      *testing.T
	client network.Netns
	family model.Family
	node   netip.Addr
}

// clients is how many addresses the client has, beginning with that behind the node's.
const clients = 20

// sourcePort is one that no connection had before: connection tracking would take it for an old one.
var sourcePort = 10000

func newWire(t *testing.T, f model.Family, endpoints int) wire {
	t.Helper()
	client, err := network.NewNetns("client")
	must(t, err)
	w := wire{t: t, client: client, family: f, node: plans.Address(f, 6, 1)}
	onLink, alone := f.Bits()-8, f.Bits()
	here := []string{
		"link set lo up", "link add clients type veth peer name eth0 netns " + client.Path(), "link set clients up",
		fmt.Sprintf("addr add %s/%d dev clients nodad", w.node, onLink),
		fmt.Sprintf("route add %s/%d dev clients", plans.Address(f, 7, 0), onLink),
	}
	for _, e := range plans.Endpoints(f, endpoints) {
		here = append(here, fmt.Sprintf("addr add %s/%d dev clients nodad", e.Addr(), alone))
	}
	there := []string{"link set eth0 up"}
	for i := range clients {
		there = append(there, fmt.Sprintf("addr add %s/%d dev eth0 nodad", w.from(i), onLink))
	}
	t.Cleanup(func() {
		must(t, network.Netns{}.IP(context.Background(), "link del clients"))
		must(t, client.Close())
	})
	must(t, network.Netns{}.IP(t.Context(), here...))
	must(t, client.IP(t.Context(), append(there, fmt.Sprintf("route add default via %s dev eth0", w.node))...))
	for _, e := range plans.Endpoints(f, endpoints) {
		w.serve(e)
	}
	return w
}

// from is an address of the client.
func (w wire) from(i int) netip.Addr { return plans.Address(w.family, 6, 2+i) }

// serve answers each datagram with the endpoint that got it.
func (w wire) serve(e netip.AddrPort) {
	w.t.Helper()
	conn, err := net.ListenUDP("udp", net.UDPAddrFromAddrPort(e))
	must(w.t, err)
	w.t.Cleanup(func() { _ = conn.Close() })
	go func() {
		for b := make([]byte, 64); ; {
			_, peer, err := conn.ReadFromUDPAddrPort(b)
			if err != nil {
				return
			}
			_, _ = conn.WriteToUDPAddrPort([]byte(e.String()), peer)
		}
	}()
}

// connect returns the endpoint that serves a new connection. From the node's own address it starts on the node.
func (w wire) connect(from netip.Addr, to netip.AddrPort) (endpoint string) {
	w.t.Helper()
	sourcePort++
	ask := func() error {
		conn, err := net.DialUDP("udp", net.UDPAddrFromAddrPort(netip.AddrPortFrom(from, uint16(sourcePort))), net.UDPAddrFromAddrPort(to))
		if err != nil {
			return err
		}
		defer func() { _ = conn.Close() }()
		_ = conn.SetDeadline(time.Now().Add(time.Minute))
		if _, err := conn.Write([]byte("who?")); err != nil {
			return err
		}
		b := make([]byte, 64)
		n, err := conn.Read(b)
		endpoint = string(b[:n])
		return err
	}
	do := w.client.Do
	if from == w.node {
		do = network.Netns{}.Do
	}
	must(w.t, do(ask))
	return endpoint
}

// scheduledPort is one of the n-th virtual IP with a node port.
func scheduledPort(f model.Family, n int, s model.Scheduler, endpoints int, weights ...uint8) model.ServicePort {
	p := mended(f, n)
	p.Name.Protocol, p.NodePort = model.UDP, uint16(30000+n)
	p.Scheduler, p.Cluster, p.Weights = s, plans.Endpoints(f, endpoints), model.Weights{}
	for i, weight := range weights {
		p.Weights[p.Cluster[i]] = weight
	}
	return p
}

func served(f model.Family) *model.Globals {
	return &model.Globals{Family: f, MasqueradeBit: 14, NodePortAny: true}
}

// ways are the addresses by which a port is reached.
func (w wire) ways(p model.ServicePort) []netip.AddrPort {
	return []netip.AddrPort{netip.AddrPortFrom(p.ClusterIPs[0], p.Port), netip.AddrPortFrom(w.node, p.NodePort)}
}

// counts connects from everywhere, by all ways in turn, and returns how often each endpoint was met.
func (w wire) counts(p model.ServicePort, connections int) map[string]int {
	w.t.Helper()
	met := map[string]int{}
	for i := range connections {
		from := w.from(i % clients)
		if i%3 == 0 {
			from = w.node
		}
		met[w.connect(from, w.ways(p)[i%2])]++
	}
	return met
}

// TestSchedulersOnTheWire has real connections to the virtual IP and the node port, from outside and from the node, choose endpoints, and what was
// written is read back.
func TestSchedulersOnTheWire(t *testing.T) {
	each(t, func(t *testing.T, p *Proxier) {
		f := p.options.Family
		w := newWire(t, f, 40)
		turns, many := scheduledPort(f, 1, model.RoundRobin, 3, 1, 9), scheduledPort(f, 2, model.RoundRobin, 40)
		weighted, hashed := scheduledPort(f, 3, model.WeightedRoundRobin, 4, 6, 2, 0, 4), scheduledPort(f, 4, model.SourceHashing, 40)
		random := scheduledPort(f, 5, model.Random, 3, 0, 1, 0)
		all := change(turns, many, weighted, hashed, random)
		all.Globals = served(f)
		syncOne(t, p, all)
		expectNoDrift(t, p, all)

		for port, want := range map[*model.ServicePort][]int{&turns: {2, 2, 2}, &weighted: {6, 2, 0, 4}, &random: {0, 12, 0}} {
			met := w.counts(*port, total(want))
			for i, e := range port.Cluster {
				if met[e.String()] != want[i] {
					t.Errorf("%s with weights %v: connections went to %v, want %d to %s", port.Scheduler, port.Weights, met, want[i], e)
				}
			}
		}
		if met := w.counts(many, 40); len(met) != 40 {
			t.Errorf("40 connections went to %d of 40 endpoints: %v", len(met), met)
		}
		expectStable(t, w, hashed)
	})
}

func total(each []int) (all int) {
	for _, n := range each {
		all += n
	}
	return all
}

// expectNoDrift demands that the rules as iptables-save prints them are those that were written, and that a restart writes nothing.
func expectNoDrift(t *testing.T, p *Proxier, all model.Delta) {
	t.Helper()
	agree(t, p)
	if got := p.Degraded(); len(got) > 0 {
		t.Errorf("degraded: %v", got)
	}
	if found, err := p.Check(t.Context(), time.Now().Add(time.Hour)); len(found) > 0 || err != nil {
		t.Errorf("the drift %q was repaired (%v)", found, err)
	}
	again := newProxier(t, p.options.Mode, p.options.Family)
	if syncOne(t, again, all); len(again.written) > 0 {
		t.Errorf("a restart wrote %v", again.written)
	}
}

// expectStable demands that each client meets one endpoint, by all ways, also after the rules were written again, and that not all meet the same.
func expectStable(t *testing.T, w wire, p model.ServicePort) {
	t.Helper()
	used := map[string]bool{}
	for i := range clients + 1 {
		from := w.node
		if i < clients {
			from = w.from(i)
		}
		met := map[string]bool{}
		for _, to := range slices.Concat(w.ways(p), w.ways(p)) {
			endpoint := w.connect(from, to)
			met[endpoint], used[endpoint] = true, true
		}
		if len(met) != 1 {
			t.Errorf("the client %s met %v", from, met)
		}
	}
	if len(used) < 8 { // of 40: by chance it would be 16
		t.Errorf("%d clients met %v alone", clients, used)
	}
}

// TestAnotherServiceKeepsTheRound with iptables-nft: what is written of another Service does not touch the rules that count. With iptables-legacy every change begins all counts
// anew, so rounds have to begin elsewhere: with a connection after each change, no endpoint may get them all.
func TestAnotherServiceKeepsTheRound(t *testing.T) {
	each(t, func(t *testing.T, p *Proxier) {
		f := p.options.Family
		w := newWire(t, f, 3)
		turns := scheduledPort(f, 1, model.RoundRobin, 3)
		d := change(turns)
		d.Globals = served(f)
		syncOne(t, p, d)
		met := map[string]int{}
		const connections = 24
		for i := range connections {
			met[w.connect(w.from(i%clients), w.ways(turns)[i%2])]++
			syncOne(t, p, change(scheduledPort(f, 2, model.Random, 1+i%3)))
		}
		agree(t, p)
		for _, e := range turns.Cluster {
			n := met[e.String()]
			if p.options.Mode == NFT && n != connections/3 || n == 0 {
				t.Errorf("of %d connections, each after a change of another Service, %d went to %s", connections, n, e)
			}
		}
	})
}

// TestAKernelWithoutHashes is found out once, by a port that needs them. The port is served at random, and has its scheduler after a restart with another kernel.
func TestAKernelWithoutHashes(t *testing.T) {
	each(t, func(t *testing.T, p *Proxier) {
		f := p.options.Family
		plain, hashed := mended(f, 1), scheduledPort(f, 2, model.SourceHashing, 5)
		first := change(plain)
		first.Globals = served(f)
		syncOne(t, p, first)
		restore, fail := script(t, p, p.run.restore, "exit 2")
		p.run.restore = restore
		fail(1)
		syncOne(t, p, change(hashed))
		expect := func(want ...model.Degradation) {
			t.Helper()
			agree(t, p)
			if got := p.Degraded(); !slices.Equal(got, want) {
				t.Errorf("degraded: %v, want %v", got, want)
			}
			text := strings.Join(p.Describe(hashed.Name), "\n")
			if !strings.Contains(text, "DNAT") || strings.Contains(text, "-m bpf") == (len(want) > 0) || strings.Contains(text, "without its scheduler") != (len(want) > 0) {
				t.Errorf("described as\n%s", text)
			}
		}
		without := model.Degradation{Port: hashed.Name, Reason: model.SchedulerUnavailable}
		expect(without)
		hashed.Cluster = hashed.Cluster[1:]
		syncOne(t, p, change(hashed)) // does not ask again
		expect(without)

		p = newProxier(t, p.options.Mode, f)
		p.run.restore = restore
		fail(2) // no rule can be written at all: that says nothing about the kernel
		both := change(plain, hashed)
		both.Globals = served(f)
		syncWith(t, p, both, "asking whether the kernel can hash")
		syncOne(t, p, model.Delta{})
		expect()
	})
}
