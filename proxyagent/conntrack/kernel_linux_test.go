package conntrack

import (
	"context"
	"errors"
	"fmt"
	"net"
	"net/netip"
	"os"
	"os/exec"
	"runtime"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"
	"github.com/vishvananda/netlink/nl"
	"golang.org/x/sys/unix"

	"github.com/clusterip-operator/clusterip-operator/proxyagent/model"
	"github.com/clusterip-operator/clusterip-operator/proxyagent/nfnetlink"
)

// inside marks the process that has its own network namespace.
const inside = "CONNTRACK_TEST_INSIDE"

// TestMain runs all tests in a fresh network namespace, where they cannot reach the flows and rules of the machine. It ends with the
// process.
func TestMain(m *testing.M) {
	if os.Getuid() == 0 && os.Getenv(inside) == "" {
		runtime.LockOSThread()
		err := unix.Unshare(unix.CLONE_NEWNET)
		if err == nil {
			err = unix.Exec("/proc/self/exe", os.Args, append(os.Environ(), inside+"=1"))
		}
		fmt.Fprintln(os.Stderr, "running the tests in a network namespace:", err)
		os.Exit(1)
	}
	os.Exit(m.Run())
}

// site has the addresses of a test in one family. All but the virtual IPs are addresses of the loopback interface.
type site struct {
	family           model.Family
	iptables         string
	client, node     netip.Addr
	a, b             netip.AddrPort
	vip, other, lone netip.AddrPort
	nodePort         netip.AddrPort
	ranges           netip.Prefix
}

var sites = []site{
	{
		family: model.IPv4, iptables: "iptables-nft", client: netip.MustParseAddr("10.244.0.9"), node: netip.MustParseAddr("192.0.2.1"),
		a: netip.MustParseAddrPort("10.244.0.2:5353"), b: netip.MustParseAddrPort("10.244.0.3:5353"),
		vip: netip.MustParseAddrPort("10.96.0.10:53"), other: netip.MustParseAddrPort("10.96.0.11:53"),
		lone: netip.MustParseAddrPort("10.96.0.12:53"), nodePort: netip.MustParseAddrPort("192.0.2.1:30053"),
		ranges: netip.MustParsePrefix("10.96.0.0/16"),
	},
	{
		family: model.IPv6, iptables: "ip6tables-nft", client: netip.MustParseAddr("fd00:244::9"), node: netip.MustParseAddr("2001:db8::1"),
		a: netip.MustParseAddrPort("[fd00:244::2]:5353"), b: netip.MustParseAddrPort("[fd00:244::3]:5353"),
		vip: netip.MustParseAddrPort("[fd00:96::10]:53"), other: netip.MustParseAddrPort("[fd00:96::11]:53"),
		lone: netip.MustParseAddrPort("[fd00:96::12]:53"), nodePort: netip.MustParseAddrPort("[2001:db8::1]:30053"),
		ranges: netip.MustParsePrefix("fd00:96::/64"),
	},
}

// forEachSite prepares the namespace again for each family.
func forEachSite(t *testing.T, test func(*testing.T, site)) {
	needNamespace(t)
	for _, s := range sites {
		t.Run(s.family.String(), func(t *testing.T) {
			s.set(t)
			test(t, s)
		})
	}
}

func needNamespace(t testing.TB) {
	t.Helper()
	if os.Getenv(inside) == "" {
		t.Skip("network namespaces and connection tracking need root")
	}
}

// set gives the loopback interface all addresses, and the virtual IPs a route into a veth pair: without a route no packet reaches the rules.
func (s site) set(t *testing.T) {
	t.Helper()
	run(t, "ip", "link", "set", "lo", "up")
	for _, addr := range []netip.Addr{s.client, s.node, s.a.Addr(), s.b.Addr()} {
		run(t, "ip", "addr", "replace", netip.PrefixFrom(addr, addr.BitLen()).String(), "dev", "lo", "nodad")
	}
	if _, err := net.InterfaceByName("veth-a"); err != nil {
		run(t, "ip", "link", "add", "veth-a", "type", "veth", "peer", "name", "veth-b")
	}
	for _, side := range []string{"veth-a", "veth-b"} {
		run(t, "ip", "link", "set", side, "arp", "off", "up")
	}
	run(t, "ip", "route", "replace", s.ranges.String(), "dev", "veth-a")
	t.Cleanup(func() {
		run(t, s.iptables, "-t", "nat", "-F")
		run(t, "conntrack", "-F")
	})
	// The kernel tracks nothing before a rule asks for it.
	run(t, s.iptables, "-t", "nat", "-A", "POSTROUTING", "-m", "conntrack", "--ctstate", "NEW", "-j", "RETURN")
}

func run(t testing.TB, name string, args ...string) string {
	t.Helper()
	out, err := exec.Command(name, args...).CombinedOutput()
	if err != nil {
		t.Fatalf("%s %s: %v\n%s", name, strings.Join(args, " "), err, out)
	}
	return string(out)
}

// rule makes the rules send a destination to an endpoint, or nowhere; they are replaced as the agent does it.
func (s site) rule(t *testing.T, destination, endpoint netip.AddrPort) {
	t.Helper()
	match := []string{"-d", destination.Addr().String(), "-p", "udp", "--dport", fmt.Sprint(destination.Port())}
	for line := range strings.SplitSeq(run(t, s.iptables, "-t", "nat", "-S", "OUTPUT"), "\n") {
		if strings.Contains(line, destination.Addr().String()+"/") {
			run(t, s.iptables, append([]string{"-t", "nat", "-D"}, strings.Fields(line)[1:]...)...)
		}
	}
	if endpoint.IsValid() {
		add := append([]string{"-t", "nat", "-A", "OUTPUT"}, match...)
		run(t, s.iptables, append(add, "-j", "DNAT", "--to-destination", endpoint.String())...)
	}
}

// serve answers every packet to an endpoint with the endpoint's address.
func serve(t *testing.T, endpoint netip.AddrPort) {
	t.Helper()
	conn, err := net.ListenUDP("udp", net.UDPAddrFromAddrPort(endpoint))
	must(t, err)
	t.Cleanup(func() { must(t, conn.Close()) })
	go func() {
		for buffer := make([]byte, 16); ; {
			_, from, err := conn.ReadFromUDPAddrPort(buffer)
			if err != nil {
				return
			}
			_, _ = conn.WriteToUDPAddrPort([]byte(endpoint.String()), from) // Who does not get it says so.
		}
	}()
}

// caller is a UDP client that keeps its source port.
type caller struct {
	conn *net.UDPConn
	to   netip.AddrPort
}

func (s site) caller(t *testing.T, to netip.AddrPort) caller {
	t.Helper()
	conn, err := net.ListenUDP("udp", net.UDPAddrFromAddrPort(netip.AddrPortFrom(s.client, 0)))
	must(t, err)
	t.Cleanup(func() { must(t, conn.Close()) })
	return caller{conn, to}
}

// ask returns who answers in time, or the empty string.
func (c caller) ask(t *testing.T, timeout time.Duration) string {
	t.Helper()
	_, err := c.conn.WriteToUDPAddrPort([]byte("who?"), c.to)
	must(t, err)
	must(t, c.conn.SetReadDeadline(time.Now().Add(timeout)))
	buffer := make([]byte, 128)
	n, _, err := c.conn.ReadFromUDPAddrPort(buffer)
	if err != nil {
		return ""
	}
	return string(buffer[:n])
}

func (c caller) want(t *testing.T, who string) {
	t.Helper()
	timeout := 10 * time.Second
	if who == "" {
		timeout = 200 * time.Millisecond // no answer and a late answer look the same
	}
	if got := c.ask(t, timeout); got != who {
		t.Errorf("a packet to %v was answered by %q, want %q", c.to, got, who)
	}
}

// port is a Service port at the virtual IP and node port of a site.
func (s site) port(cluster ...netip.AddrPort) model.ServicePort {
	slices.SortFunc(cluster, netip.AddrPort.Compare)
	return model.ServicePort{
		Name: portName("dns", model.UDP), ClusterIPs: []netip.Addr{s.vip.Addr()}, Port: s.vip.Port(), NodePort: s.nodePort.Port(),
		Cluster: cluster, Serving: cluster, HasEndpoints: len(cluster) > 0,
	}
}

func (s site) globals() model.Globals { return model.Globals{Family: s.family, NodePortAny: true} }

func (s site) plan(ports ...model.ServicePort) model.Plan { return planOf(s.globals(), ports...) }

// reconcile goes from one Plan to another.
func reconcile(t *testing.T, r *Reconciler, before, after model.Plan) {
	t.Helper()
	_, err := r.Reconcile(t.Context(), after.Globals, between(before, after))
	must(t, err)
}

// TestClientsFollowTheRules talks through rules of iptables. Each client keeps its port all the time, as a resolver does:
//
//  1. before the Service exists, a client at its virtual IP and one at its node port get no answer
//  2. the Service comes, with an endpoint: both are answered
//  3. another endpoint takes its place: both are answered by that, as they are not before the flows are cut
//  4. a client of somebody else, a connection over TCP and a flow in another zone stay all the time
//  5. scaled to zero: no flow is left to the endpoint
//  6. an endpoint again, and the Service is deleted: no flow is left
func TestClientsFollowTheRules(t *testing.T) {
	forEachSite(t, func(t *testing.T, s site) {
		serve(t, s.a)
		serve(t, s.b)
		none, onA, onB := s.plan(), s.plan(s.port(s.a)), s.plan(s.port(s.b))
		empty := s.plan(s.port())
		r := New(s.family, Kernel())
		_, err := r.Start(t.Context(), none)
		must(t, err)

		vip, node, other := s.caller(t, s.vip), s.caller(t, s.nodePort), s.caller(t, s.other)
		vip.want(t, "")
		node.want(t, "")
		s.rule(t, s.other, s.a)
		other.want(t, s.a.String())
		s.insert(t, "tcp", s.vip, s.a, 1000, "-w", "0")
		s.insert(t, "udp", s.other, s.a, 1001, "-w", "7")
		bystanders := func() {
			t.Helper()
			if got := strings.Count(s.list(t, "tcp"), "sport=1000 "); got != 1 {
				t.Errorf("there are %d connections over TCP", got)
			}
			if got := strings.Count(s.list(t, "udp"), "sport=1001 "); got != 1 {
				t.Errorf("there are %d flows in the other zone", got)
			}
			other.want(t, s.a.String())
		}

		s.rule(t, s.vip, s.a)
		s.rule(t, s.nodePort, s.a)
		vip.want(t, "")
		reconcile(t, r, none, onA)
		vip.want(t, s.a.String())
		node.want(t, s.a.String())
		bystanders()

		s.rule(t, s.vip, s.b)
		s.rule(t, s.nodePort, s.b)
		vip.want(t, s.a.String()) // Still.
		reconcile(t, r, onA, onB)
		vip.want(t, s.b.String())
		node.want(t, s.b.String())
		bystanders()

		s.rule(t, s.vip, netip.AddrPort{})
		s.rule(t, s.nodePort, netip.AddrPort{})
		reconcile(t, r, onB, empty)
		vip.want(t, "")
		node.want(t, "")
		s.wantNoneTo(t, s.b)
		bystanders()

		s.rule(t, s.vip, s.b)
		s.rule(t, s.nodePort, s.b)
		reconcile(t, r, empty, onB)
		vip.want(t, s.b.String())
		s.rule(t, s.vip, netip.AddrPort{})
		s.rule(t, s.nodePort, netip.AddrPort{})
		reconcile(t, r, onB, none)
		vip.want(t, "")
		s.wantNoneTo(t, s.b)
		bystanders()
	})
}

// list returns the flows of a protocol in words.
func (s site) list(t *testing.T, protocol string) string {
	t.Helper()
	return run(t, "conntrack", "-L", "-f", strings.ToLower(s.family.String()), "-p", protocol, "-o", "extended")
}

func (s site) wantNoneTo(t *testing.T, endpoint netip.AddrPort) {
	t.Helper()
	for line := range strings.SplitSeq(s.list(t, "udp"), "\n") {
		if strings.Contains(line, "src="+endpoint.Addr().String()+" ") {
			t.Errorf("a flow is left: %s", line)
		}
	}
}

// insert makes a flow by hand.
func (s site) insert(t *testing.T, protocol string, destination, endpoint netip.AddrPort, sport uint16, more ...string) {
	t.Helper()
	args := []string{
		"-I", "-p", protocol, "-t", "1000", "-u", "SEEN_REPLY",
		"-s", s.client.String(), "-d", destination.Addr().String(), "--sport", fmt.Sprint(sport), "--dport", fmt.Sprint(destination.Port()),
		"-r", endpoint.Addr().String(), "-q", s.client.String(),
		"--reply-port-src", fmt.Sprint(endpoint.Port()), "--reply-port-dst", fmt.Sprint(sport),
	}
	if protocol == "tcp" {
		args = append(args, "--state", "ESTABLISHED")
	}
	run(t, "conntrack", append(args, more...)...)
}

// TestStartKeepsValidFlows starts on a table as a former agent left it.
func TestStartKeepsValidFlows(t *testing.T) {
	forEachSite(t, func(t *testing.T, s site) {
		keep := map[uint16][2]netip.AddrPort{
			2001: {s.vip, s.a}, 2002: {s.nodePort, s.a}, 2003: {s.other, s.other}, 2004: {s.a, s.a}, 2005: {s.nodePort, s.nodePort},
		}
		cut := map[uint16][2]netip.AddrPort{
			3001: {s.vip, s.b}, 3002: {s.nodePort, s.b}, 3003: {s.lone, s.a}, 3004: {s.vip, s.vip}, 3005: {netip.AddrPortFrom(s.vip.Addr(), 54), s.a},
		}
		for _, flows := range []map[uint16][2]netip.AddrPort{keep, cut} {
			for sport, way := range flows {
				s.insert(t, "udp", way[0], way[1], sport)
			}
		}
		s.insert(t, "tcp", s.lone, s.a, 2006)
		plan := s.plan(s.port(s.a))
		plan.Globals.Ranges = []netip.Prefix{s.ranges}
		plan.Allocated = map[netip.Addr]struct{}{s.vip.Addr(): {}}
		deleted, err := New(s.family, Kernel()).Start(t.Context(), plan)
		if err != nil || deleted != len(cut) {
			t.Errorf("deleted %d, %v, want %d", deleted, err, len(cut))
		}
		want := slices.Collect(func(yield func(uint16) bool) {
			for sport := range keep {
				yield(sport)
			}
		})
		if diff := cmp.Diff(want, s.sports(t), cmpopts.SortSlices(func(a, b uint16) bool { return a < b })); diff != "" {
			t.Errorf("ports of clients whose flows are left (-want +got):\n%s", diff)
		}
		if !strings.Contains(s.list(t, "tcp"), "sport=2006 ") {
			t.Error("a connection over TCP is gone")
		}
	})
}

// sports returns the clients' ports of all UDP flows.
func (s site) sports(t *testing.T) []uint16 {
	t.Helper()
	var all []uint16
	flows, err := Kernel().Flows(t.Context(), s.family, func(Flow) bool { return true })
	must(t, err)
	for _, f := range flows {
		all = append(all, f.Source.Port())
	}
	return all
}

// TestFlowsAreReadWhole compares what is read with what was made by hand.
func TestFlowsAreReadWhole(t *testing.T) {
	forEachSite(t, func(t *testing.T, s site) {
		s.insert(t, "udp", s.vip, s.a, 1000, "-w", "7")
		s.insert(t, "udp", s.other, s.other, 1001, "--orig-zone", "5")
		s.insert(t, "tcp", s.vip, s.a, 1002)
		source := func(port uint16) netip.AddrPort { return netip.AddrPortFrom(s.client, port) }
		want := []Flow{
			{Source: source(1000), Destination: s.vip, ReplySource: s.a, ReplyDestination: source(1000), Answered: true, Zone: 7},
			{Source: source(1001), Destination: s.other, ReplySource: s.other, ReplyDestination: source(1001), Answered: true, SourceZone: 5},
		}
		got, err := Kernel().Flows(t.Context(), s.family, func(Flow) bool { return true })
		must(t, err)
		for i := range got {
			if got[i].ID == 0 {
				t.Errorf("%v has no ID", got[i])
			}
			got[i].ID = 0
		}
		byPort := cmpopts.SortSlices(func(a, b Flow) bool { return a.Source.Port() < b.Source.Port() })
		if diff := cmp.Diff(want, got, byPort, cmpopts.EquateComparable(Flow{})); diff != "" {
			t.Errorf("flows (-want +got):\n%s", diff)
		}
	})
}

// TestDeletionIsExact has flows that differ in one thing only.
func TestDeletionIsExact(t *testing.T) {
	forEachSite(t, func(t *testing.T, s site) {
		table := Kernel()
		s.insert(t, "udp", s.vip, s.a, 1000)
		s.insert(t, "udp", s.vip, s.a, 1000, "-w", "7")
		s.insert(t, "udp", s.vip, s.b, 1000, "--orig-zone", "5")
		s.insert(t, "udp", s.vip, s.a, 1001)
		s.insert(t, "tcp", s.vip, s.a, 1000)
		flows, err := table.Flows(t.Context(), s.family, func(Flow) bool { return true })
		must(t, err)
		if len(flows) != 4 {
			t.Fatalf("there are %d flows: %v", len(flows), flows)
		}
		for i, f := range flows {
			other := f
			other.ID++
			if there, err := table.Delete(t.Context(), other); there || err != nil {
				t.Errorf("deleted %v by another's ID: %v", f, err)
			}
			if there, err := table.Delete(t.Context(), f); !there || err != nil {
				t.Errorf("did not delete %v: %v", f, err)
			}
			if there, err := table.Delete(t.Context(), f); there || err != nil {
				t.Errorf("deleted %v twice: %v", f, err)
			}
			left, err := table.Flows(t.Context(), s.family, func(Flow) bool { return true })
			must(t, err)
			if len(left) != len(flows)-1-i || slices.Contains(left, f) {
				t.Errorf("after %v was deleted there are %v", f, left)
			}
		}
		if !strings.Contains(s.list(t, "tcp"), "sport=1000 ") {
			t.Error("the connection over TCP is gone")
		}
	})
}

// TestTheKernelSortsOutUDP counts the answers to a dump: other protocols must not even be sent.
func TestTheKernelSortsOutUDP(t *testing.T) {
	forEachSite(t, func(t *testing.T, s site) {
		for port := range uint16(20) {
			s.insert(t, "tcp", s.vip, s.a, 1000+port)
		}
		s.insert(t, "udp", s.vip, s.a, 1000)
		conn, err := nfnetlink.Open()
		must(t, err)
		defer conn.Close()
		answers := 0
		must(t, conn.Dump(nfnetlink.Request{
			Subsystem: unix.NFNL_SUBSYS_CTNETLINK, Command: nl.IPCTNL_MSG_CT_GET, Family: addressFamily(s.family), Attrs: onlyUDP(),
		}, func(nfnetlink.Attrs) { answers++ }))
		if answers != 1 {
			t.Errorf("%d answers", answers)
		}
	})
}

func TestLocalAddrs(t *testing.T) {
	forEachSite(t, func(t *testing.T, s site) {
		local, err := Kernel().LocalAddrs(t.Context(), s.family)
		must(t, err)
		for _, addr := range []netip.Addr{s.client, s.node, s.a.Addr()} {
			if !slices.Contains(local, addr) {
				t.Errorf("%v is missing in %v", addr, local)
			}
		}
		if slices.ContainsFunc(local, func(a netip.Addr) bool { return model.FamilyOf(a) != s.family || a == s.vip.Addr() }) {
			t.Errorf("too many: %v", local)
		}
	})
}

func TestCancelledBeforeTheKernelIsAsked(t *testing.T) {
	needNamespace(t)
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	table := Kernel()
	_, flows := table.Flows(ctx, model.IPv4, func(Flow) bool { return true })
	_, deletion := table.Delete(ctx, to(front, a))
	_, local := table.LocalAddrs(ctx, model.IPv4)
	for what, err := range map[string]error{"Flows": flows, "Delete": deletion, "LocalAddrs": local} {
		if !errors.Is(err, context.Canceled) {
			t.Errorf("%s: %v", what, err)
		}
	}
}
