//go:build linux

package nftables

import (
	"crypto/sha256"
	"encoding/binary"
	"fmt"
	"io"
	"net"
	"net/netip"
	"os/exec"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/google/nftables"
	"github.com/mdlayher/netlink"
	"golang.org/x/sys/unix"

	"github.com/clusterip-operator/clusterip-operator/proxyagent/model"
	"github.com/clusterip-operator/clusterip-operator/proxyagent/nfnetlink"
	"github.com/clusterip-operator/clusterip-operator/proxyagent/nftables/tables"
	"github.com/clusterip-operator/clusterip-operator/test/framework/network"
)

// manyWithAffinity is a plan with n Services of three endpoints each.
func manyWithAffinity(d model.Delta, n int) model.Delta {
	vip, e := stickyPort(d).ClusterIPs[0], stickyPort(d).Cluster[0]
	many := model.Delta{Globals: d.Globals, Ports: map[model.PortName]*model.ServicePort{}, Allocated: map[netip.Addr]bool{}}
	for i := range n {
		vip = vip.Next()
		name := model.PortName{Service: model.ServiceName{Namespace: "default", Name: strconv.Itoa(i)}, Protocol: model.TCP}
		p := &model.ServicePort{Name: name, ClusterIPs: []netip.Addr{vip}, Port: 80, AffinitySeconds: 10800, HasEndpoints: true}
		for range 3 {
			e = netip.AddrPortFrom(e.Addr().Next(), e.Port())
			p.Cluster = append(p.Cluster, e)
		}
		many.Ports[name], many.Allocated[vip] = p, true
	}
	return many
}

// BenchmarkAffinity measures the first Sync of an agent, and that of the next agent, which finds
// the table.
func BenchmarkAffinity(b *testing.B) {
	network.NeedIsolation(b)
	for _, n := range []int{1000, 3000, 10000} {
		b.Run(fmt.Sprint(n), func(b *testing.B) {
			for b.Loop() {
				d := manyWithAffinity(plan(model.IPv4), n)
				for _, unit := range []string{"cold-s", "restart-s"} {
					p, err := New(model.IPv4, nfnetlink.NewGenerations(), 0)
					if err != nil {
						b.Fatal(err)
					}
					start := time.Now()
					if _, err := p.Sync(b.Context(), d); err != nil {
						b.Fatal(err)
					}
					b.ReportMetric(time.Since(start).Seconds(), unit)
				}
				if _, err := Cleanup(model.IPv4, false, false); err != nil {
					b.Fatal(err)
				}
			}
		})
	}
}

func TestThousandsOfPortsWithSessionAffinity(t *testing.T) {
	each(t, func(t *testing.T, p *Proxier, d model.Delta) {
		if d.Globals.Family == model.IPv4 { // the socket knows no family
			syncOne(t, p, manyWithAffinity(d, 3000))
		}
	})
}

// remembered is how many clients there are.
func remembered(t *testing.T, p *Proxier) (n int) {
	t.Helper()
	if err := p.kernel.list(t.Context(), "clients", func() { n = 0 }, func(element) { n++ }); err != nil {
		t.Fatal(err)
	}
	return n
}

// on gives the namespace n addresses, from one on.
func on(t *testing.T, first string, n int) (all []netip.Addr) {
	t.Helper()
	var batch strings.Builder
	a := netip.MustParseAddr(first)
	for range n {
		fmt.Fprintf(&batch, "address add %v dev lo%s\n", a, withoutDAD(a))
		all, a = append(all, a), a.Next()
	}
	c := exec.Command("ip", "-batch", "-")
	c.Stdin = strings.NewReader(batch.String())
	if out, err := c.CombinedOutput(); err != nil {
		t.Fatalf("ip -batch: %v: %s", err, out)
	}
	t.Cleanup(func() { _ = exec.Command("ip", "address", "flush", "dev", "lo", "scope", "global").Run() })
	return all
}

// served is a port with session affinity and six endpoints, each of which answers its address, and
// ten clients.
func served(t *testing.T, d model.Delta) (port model.ServicePort, sources []netip.Addr) {
	t.Helper()
	link(t, d.Globals.Family)
	first, client := "10.244.9.1", "198.51.100.1"
	if d.Globals.Family == model.IPv6 {
		first, client = "fd00:244:9::1", "2001:db8:9::1"
	}
	port = *stickyPort(d)
	port.Name.Protocol, port.AffinitySeconds, port.Cluster, port.Local, port.Hairpin = model.TCP, 3600, nil, nil, nil
	for _, a := range on(t, first, 6) {
		l, err := net.Listen("tcp", netip.AddrPortFrom(a, 8080).String())
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { _ = l.Close() })
		go func() {
			for c, err := l.Accept(); err == nil; c, err = l.Accept() {
				_, _ = io.WriteString(c, c.LocalAddr().String())
				_ = c.Close()
			}
		}()
		port.Cluster = append(port.Cluster, netip.AddrPortFrom(a, 8080))
	}
	return port, on(t, client, 10)
}

func only(d model.Delta, ports ...model.ServicePort) model.Delta {
	few := model.Delta{Globals: d.Globals, Ports: map[model.PortName]*model.ServicePort{}, Allocated: d.Allocated}
	for _, p := range ports {
		few.Ports[p.Name] = &p
	}
	return few
}

// dial returns the endpoint that a client gets.
func dial(t *testing.T, from, to netip.Addr, port uint16) netip.AddrPort {
	t.Helper()
	c, err := (&net.Dialer{Timeout: 2 * time.Second, LocalAddr: net.TCPAddrFromAddrPort(netip.AddrPortFrom(from, 0))}).Dial("tcp", netip.AddrPortFrom(to, port).String())
	if err != nil {
		t.Fatalf("%s to %s: %v", from, to, err)
	}
	defer func() { _ = c.Close() }()
	_ = c.SetDeadline(time.Now().Add(10 * time.Second))
	b, err := io.ReadAll(c)
	e, wrong := netip.ParseAddrPort(string(b))
	if err != nil || wrong != nil {
		t.Error(err, wrong)
	}
	return e
}

// TestAClientKeepsItsEndpoint at all fronts of a port: its node port also at an address of the node
// that is the load balancer IP of another Service, whose port is another one.
func TestAClientKeepsItsEndpoint(t *testing.T) {
	each(t, func(t *testing.T, p *Proxier, d model.Delta) {
		port, sources := served(t, d)
		node := sources[9]
		other := *d.Ports[model.PortName{Service: model.ServiceName{Namespace: "default", Name: "a"}, Protocol: model.TCP}]
		other.LoadBalancerIPs, other.NodePort = []netip.Addr{node}, 0
		port.ExternalIPs = []netip.Addr{port.LoadBalancerIPs[0].Next()}
		syncOne(t, p, only(d, port, other))
		fronts := []netip.AddrPort{
			netip.AddrPortFrom(port.ClusterIPs[0], port.Port), netip.AddrPortFrom(port.ExternalIPs[0], port.Port), netip.AddrPortFrom(port.LoadBalancerIPs[0], port.Port),
			netip.AddrPortFrom(sources[8], port.NodePort), netip.AddrPortFrom(node, port.NodePort),
		}
		reached := map[netip.AddrPort]bool{}
		for i, first := range fronts { // by which a client comes first; that one alone, and then all
			client := sources[i]
			had := dial(t, client, first.Addr(), first.Port())
			reached[had] = true
			for _, to := range slices.Concat(slices.Repeat([]netip.AddrPort{first}, 8), fronts) {
				if got := dial(t, client, to.Addr(), to.Port()); got != had {
					t.Fatalf("%s leads %s to %s, it had %s by %s", to, client, got, had, first)
				}
			}
		}
		if n := remembered(t, p); n != 5 || len(reached) < 2 {
			t.Errorf("%d of 5 clients are remembered, for %v", n, reached)
		}
	})
}

// TestAFasterConnectionOfTheClient is remembered between the rules by which this one is not known
// yet, and the one that remembers it: here those before are taken away. It gets the same endpoint.
func TestAFasterConnectionOfTheClient(t *testing.T) {
	each(t, func(t *testing.T, p *Proxier, d model.Delta) {
		port, sources := served(t, d)
		syncOne(t, p, only(d, port))
		rememberMany(t, p, port, sources[0], 1, port.Cluster[0])
		h, chain := familyName(d.Globals.Family), "pick-6-for-3600s"
		before := regexp.MustCompile("@kept.*# handle ([0-9]+)").FindAllStringSubmatch(ruleset(t, "-a", "list", "chain", h, table, chain), -1)
		for _, rule := range before {
			ruleset(t, "delete", "rule", h, table, chain, "handle", rule[1])
		}
		for range 8 {
			if got := dial(t, sources[0], port.ClusterIPs[0], port.Port); got != port.Cluster[0] {
				t.Fatalf("got %s, want %s", got, port.Cluster[0])
			}
		}
	})
}

// numberOf is the number of a port with session affinity, for clients that may have any endpoint.
func numberOf(name model.PortName) string {
	sum := sha256.Sum256([]byte(name.String()))
	return string(sum[:8]) + "\x00\x00\x00\x00"
}

// rememberMany has clients of a port keep an endpoint, from one client on.
func rememberMany(t *testing.T, p *Proxier, port model.ServicePort, first netip.Addr, n int, e netip.AddrPort) {
	t.Helper()
	destination := string(e.Addr().AsSlice()) + string(binary.BigEndian.AppendUint16(nil, e.Port())) + "\x00\x00"
	tx := batch{kernel: p.kernel}
	var all []nftables.SetElement
	for range n {
		all = append(all, nftables.SetElement{Key: []byte(string(first.AsSlice()) + numberOf(port.Name)), Val: []byte(numberOf(port.Name)[8:] + destination), Timeout: time.Hour})
		first = first.Next()
	}
	tx.send(map[tables.Set][]nftables.SetElement{tables.Clients: all}, tx.conn.SetAddElements)
	tx.flush()
	if tx.err != nil {
		t.Fatal(tx.err)
	}
}

// TestAnEndpointThatGoesHasNoClients has 50,000 of them before: after the Sync none gets it, and
// each has another one for good. Clients of other endpoints stay.
func TestAnEndpointThatGoesHasNoClients(t *testing.T) {
	each(t, func(t *testing.T, p *Proxier, d model.Delta) {
		port, sources := served(t, d)
		syncOne(t, p, only(d, port))
		gone, stays := port.Cluster[0], port.Cluster[1]
		rememberMany(t, p, port, sources[1], 50000, gone)
		rememberMany(t, p, port, sources[0], 1, stays)
		if got := dial(t, sources[1], port.ClusterIPs[0], port.Port); got != gone {
			t.Fatalf("got %s before, want %s", got, gone)
		}
		less := port
		less.Cluster = port.Cluster[1:]
		syncOne(t, p, model.Delta{Ports: map[model.PortName]*model.ServicePort{port.Name: &less}})
		if got := dial(t, sources[0], port.ClusterIPs[0], port.Port); got != stays {
			t.Errorf("a client of another endpoint got %s, want %s", got, stays)
		}
		for _, client := range sources[1:] {
			first := dial(t, client, port.ClusterIPs[0], port.Port)
			for range 4 {
				if got := dial(t, client, port.ClusterIPs[0], port.Port); got == gone || got != first {
					t.Errorf("%s got %s and then %s; %s is gone", client, first, got, gone)
				}
			}
		}
		// Back again it has none of the clients that chose another one.
		syncOne(t, p, model.Delta{Ports: map[model.PortName]*model.ServicePort{port.Name: &port}})
		if got := dial(t, sources[1], port.ClusterIPs[0], port.Port); got == gone {
			t.Errorf("a client that had another endpoint got %s", got)
		}
	})
}

// TestOnePortDoesNotTakeTheRoomOfAll has a port that got as many new clients as it may: those after
// them are served, and not remembered.
func TestOnePortDoesNotTakeTheRoomOfAll(t *testing.T) {
	each(t, func(t *testing.T, p *Proxier, d model.Delta) {
		port, sources := served(t, d)
		other := port
		other.Name.Service.Name, other.ClusterIPs, other.LoadBalancerIPs, other.NodePort = "other", []netip.Addr{port.ClusterIPs[0].Next()}, nil, 0
		syncOne(t, p, only(d, port, other))
		h := familyName(d.Globals.Family)
		n := []byte(numberOf(port.Name))
		number := func(b []byte) string { return fmt.Sprintf("0x%08x", binary.NativeEndian.Uint32(b)) }
		ruleset(t, "add", "element", h, table, "newcomers", fmt.Sprintf("{ %s . %s . %s limit rate 1/week burst 3 packets timeout 1h }", number(n[:4]), number(n[4:8]), number(n[8:])))
		for _, client := range sources {
			dial(t, client, port.ClusterIPs[0], port.Port)
		}
		if n := remembered(t, p); n != 3 {
			t.Errorf("%d clients are remembered, want 3", n)
		}
		for _, client := range sources {
			dial(t, client, other.ClusterIPs[0], other.Port)
		}
		if n := remembered(t, p); n != 3+len(sources) {
			t.Errorf("%d clients are remembered, want all of the other port and 3", n)
		}
	})
}

// typeOfValue is the user data that nft 1.1.3 gives a set of names of interfaces (`type ifname`).
// Version 1.0.6 has no function that reads such a type, and calls it.
var typeOfValue = []byte{
	0, 4, 1, 0, 0, 0, // the byte order of the key
	3, 14, // the type of the key:
	0, 4, 4, 0, 0, 0, // it is that of a value
	1, 6, 0, 4, 41, 0, 0, 0, // which is the name of an interface
}

// foreignSet adds a table with such a set. The library does not know this user data, so here are
// its messages: https://git.netfilter.org/libnftnl/tree/include/libnftnl/udata.h.
func foreignSet(t *testing.T, p *Proxier) {
	t.Helper()
	const name = "others"
	family := byte(p.kernel.table.Family)
	message := func(kind uint16, flags netlink.HeaderFlags, family byte, resource byte, attrs nfnetlink.Attrs) netlink.Message {
		return netlink.Message{Header: netlink.Header{Type: netlink.HeaderType(kind), Flags: netlink.Request | flags}, Data: append([]byte{family, unix.NFNETLINK_V0, 0, resource}, attrs...)}
	}
	const nft = unix.NFNL_SUBSYS_NFTABLES
	_, err := p.kernel.socket.SendMessages([]netlink.Message{
		message(unix.NFNL_MSG_BATCH_BEGIN, 0, 0, nft, nil),
		message(nft<<8|unix.NFT_MSG_NEWTABLE, netlink.Create, family, 0, nfnetlink.Attrs(nil).PutString(unix.NFTA_TABLE_NAME, name)),
		message(nft<<8|unix.NFT_MSG_NEWSET, netlink.Create|netlink.Acknowledge, family, 0, nfnetlink.Attrs(nil).PutString(unix.NFTA_SET_TABLE, name).PutString(unix.NFTA_SET_NAME, "types").
			Put(unix.NFTA_SET_FLAGS, 0, 0, 0, 0).Put(unix.NFTA_SET_KEY_TYPE, 0, 0, 0, 41).Put(unix.NFTA_SET_KEY_LEN, 0, 0, 0, unix.IFNAMSIZ).Put(unix.NFTA_SET_ID, 0, 0, 0, 1).
			Put(unix.NFTA_SET_USERDATA, typeOfValue...)),
		message(unix.NFNL_MSG_BATCH_END, 0, 0, nft, nil),
	})
	if err == nil {
		_, err = p.kernel.socket.Receive()
	}
	if err != nil {
		t.Fatal(err)
	}
}

// TestBesideASetThatNftCannotRead has session affinity beside a set of another program; and no
// program of this node can be run.
func TestBesideASetThatNftCannotRead(t *testing.T) {
	each(t, func(t *testing.T, p *Proxier, d model.Delta) {
		foreignSet(t, p)
		version, _ := exec.Command("nft", "--version").Output()
		if out, err := exec.Command("nft", "list", "ruleset").CombinedOutput(); err == nil && strings.Contains(string(version), " v1.0.") {
			t.Errorf("%s can read it: %s", version, out)
		}
		t.Setenv("PATH", t.TempDir())
		syncOne(t, p, d)
	})
}

// TestAffinityOutlastsARepair has everything flushed twice, by another program: what clients had is
// gone with the map, and what they get then is theirs again.
func TestAffinityOutlastsARepair(t *testing.T) {
	each(t, func(t *testing.T, p *Proxier, d model.Delta) {
		port, sources := served(t, d)
		syncOne(t, p, only(d, port))
		for range 2 {
			ruleset(t, "flush", "ruleset")
			if found, err := p.Check(t.Context(), later()); err != nil || len(found) == 0 {
				t.Fatalf("found %q, %v", found, err)
			}
			for _, client := range sources[:3] {
				first := dial(t, client, port.ClusterIPs[0], port.Port)
				for range 8 {
					if got := dial(t, client, port.ClusterIPs[0], port.Port); got != first {
						t.Fatalf("%s got %s and then %s", client, first, got)
					}
				}
			}
			agree(t, p)
		}
	})
}

// TestWhatTheVersionBeforeLeft are maps and chains of each port, as written before one map had all
// clients: a map leads to a chain, a chain looks into a map.
func TestWhatTheVersionBeforeLeft(t *testing.T) {
	each(t, func(t *testing.T, p *Proxier, d model.Delta) {
		syncOne(t, p, d)
		want := ruleset(t, "--stateless", "list", "tables")
		h, a := "ip", "10.96.0.2"
		if d.Globals.Family == model.IPv6 {
			h, a = "ip6", "fd00:96::2"
		}
		kind := map[string]string{"ip": "ipv4_addr", "ip6": "ipv6_addr"}[h]
		for _, command := range []string{
			"add map FAMILY TABLE clients-ABC { type KIND : KIND; flags dynamic,timeout; size 65536; }", "add chain FAMILY TABLE remember-60-ABC",
			"add rule FAMILY TABLE remember-60-ABC update @clients-ABC { FAMILY saddr timeout 60s : FAMILY daddr } return",
			"add map FAMILY TABLE sticky { type KIND : verdict; }", "add element FAMILY TABLE sticky { VIP : goto remember-60-ABC }",
			"add chain FAMILY TABLE remember-input { type filter hook input priority 10; }", "add rule FAMILY TABLE remember-input ct state new ct original FAMILY daddr vmap @sticky",
		} {
			command = strings.NewReplacer("FAMILY", h, "TABLE", table, "KIND", kind, "VIP", a).Replace(command)
			ruleset(t, strings.Fields(command)...)
		}
		next, err := New(d.Globals.Family, nfnetlink.NewGenerations(), 0)
		if err != nil {
			t.Fatal(err)
		}
		syncOne(t, next, d)
		if text := ruleset(t, "list", "ruleset"); strings.Contains(text, "ABC") || strings.Contains(text, "sticky") || ruleset(t, "--stateless", "list", "tables") != want {
			t.Errorf("left: %s", text)
		}
	})
}
