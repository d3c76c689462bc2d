//go:build linux

package nftables

import (
	"fmt"
	"maps"
	"net"
	"net/netip"
	"os/exec"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/clusterip-operator/clusterip-operator/proxyagent/model"
	"github.com/clusterip-operator/clusterip-operator/proxyagent/nfnetlink"
	"github.com/clusterip-operator/clusterip-operator/proxyagent/nftables/tables"
	"github.com/clusterip-operator/clusterip-operator/test/framework/network"
)

func TestMain(m *testing.M) { network.Isolate(m) }

// The table, and chains of it.
const table, chainServices, chainNew, chainRefuse, chainForward = tables.Name, "services", "new-connections", "refuse", tables.ChainForward

func plan(f model.Family) model.Delta {
	a := func(v4, v6 string) netip.Addr {
		if f == model.IPv6 {
			return netip.MustParseAddr(v6)
		}
		return netip.MustParseAddr(v4)
	}
	ranges, source, beside := netip.MustParsePrefix("10.96.0.0/16"), netip.MustParsePrefix("198.51.100.0/24"), netip.MustParsePrefix("198.51.101.0/28")
	if f == model.IPv6 {
		ranges, source, beside = netip.MustParsePrefix("fd00:96::/112"), netip.MustParsePrefix("2001:db8::/64"), netip.MustParsePrefix("2001:db8:0:1::/68")
	}
	all := []netip.AddrPort{netip.AddrPortFrom(a("10.244.1.3", "fd00:244::3"), 8080), netip.AddrPortFrom(a("10.244.2.3", "fd00:244::4"), 8080)}
	d := model.Delta{
		Globals:   &model.Globals{Family: f, MasqueradeBit: 14, LocalSource: model.LocalSource{InterfacePrefix: "veth"}, NodePortAny: true, LocalhostNodePorts: true, Ranges: []netip.Prefix{ranges}},
		Ports:     map[model.PortName]*model.ServicePort{},
		Allocated: map[netip.Addr]bool{},
	}
	for i, change := range []func(*model.ServicePort){
		func(p *model.ServicePort) {},
		func(p *model.ServicePort) { p.AffinitySeconds = 60 },
		func(p *model.ServicePort) { p.ExternalLocal, p.AffinitySeconds = true, 90 },
		func(p *model.ServicePort) { p.ExternalLocal, p.Local = true, nil },
		func(p *model.ServicePort) { p.InternalLocal = true },
		func(p *model.ServicePort) { p.Cluster, p.Local, p.HasEndpoints = nil, nil, false },
		func(p *model.ServicePort) {
			p.SourceRanges, p.HealthCheckNodePort = []netip.Prefix{source, beside}, 32000
		},
	} {
		vip := a("10.96.0.1", "fd00:96::1")
		for range i {
			vip = vip.Next()
		}
		name := model.PortName{Service: model.ServiceName{Namespace: "default", Name: string(rune('a' + i))}, Protocol: model.Protocols[i%3]}
		p := &model.ServicePort{
			Name: name, ClusterIPs: []netip.Addr{vip}, Port: 80, NodePort: uint16(30000 + i), HasEndpoints: true, Cluster: all, Local: all[:1], Hairpin: all[:1],
			LoadBalancerIPs: []netip.Addr{vip.Next().Next().Next().Next().Next().Next().Next().Next()},
		}
		change(p)
		d.Ports[name], d.Allocated[vip] = p, true
	}
	return d
}

// each runs a test for both families in a kernel without rules.
func each(t *testing.T, run func(t *testing.T, p *Proxier, d model.Delta)) {
	network.NeedIsolation(t)
	for _, f := range []model.Family{model.IPv4, model.IPv6} {
		t.Run(f.String(), func(t *testing.T) {
			ruleset(t, "flush", "ruleset") // also what a test leaves that is not run by each
			t.Cleanup(func() { ruleset(t, "flush", "ruleset") })
			p, err := New(f, nfnetlink.NewGenerations(), 0)
			if err != nil {
				t.Fatal(err)
			}
			run(t, p, plan(f))
		})
	}
}

var minutes int

// later is a minute after the last time: a comparison is due, if anything hints at a change.
func later() time.Time {
	minutes++
	return time.Now().Add(time.Duration(minutes) * time.Minute)
}

func ruleset(t *testing.T, args ...string) string {
	t.Helper()
	out, err := exec.Command("nft", args...).CombinedOutput()
	if err != nil {
		t.Fatalf("nft %v: %v: %s", args, err, out)
	}
	return string(out)
}

func syncOne(t *testing.T, p *Proxier, d ...model.Delta) {
	t.Helper()
	if _, err := p.Sync(t.Context(), d...); err != nil {
		t.Fatal(err)
	}
	agree(t, p)
}

// elements reads those of all sets.
func elements(t *testing.T, p *Proxier) map[tables.Key]string {
	t.Helper()
	all := map[tables.Key]string{}
	for name := range tables.Schemas {
		have, err := p.kernel.elements(t.Context(), name, func(tables.Bucket) bool { return true }, nil)
		if err != nil {
			t.Fatal(err)
		}
		maps.Copy(all, have)
	}
	return all
}

// words are all elements, as nft spells them.
func words(t *testing.T, p *Proxier) (all []string) {
	t.Helper()
	for k, value := range elements(t, p) {
		all = append(all, k.Describe(p.table.Globals().Family, value))
	}
	return all
}

// bare reports whether the table has nothing of any port.
func bare(p *Proxier) bool {
	g, empty := p.table.Globals(), tables.NewTable(p.table.Globals().Family)
	empty.Apply(model.Delta{Globals: &g})
	return maps.Equal(p.table.Chains(), empty.Chains()) && !p.table.Remembers()
}

func agree(t *testing.T, p *Proxier) {
	t.Helper()
	for range 2 { // writes what was left for later, also by the first of the two
		if _, err := p.Check(t.Context(), later()); err != nil {
			t.Fatal(err)
		}
	}
	have := elements(t, p)
	if total, _ := p.Counts(); total[table] != len(have) {
		t.Errorf("%v elements are counted, there are %d", total, len(have))
	}
	if diff := cmp.Diff(maps.Collect(p.table.All()), have); diff != "" {
		t.Fatalf("the kernel differs (-want +have):\n%s", diff)
	}
	if found, err := p.Check(t.Context(), later()); err != nil || len(found) > 0 {
		t.Fatalf("without drift it repaired %q, %v", found, err)
	}
}

func TestTheKernelHasWhatThePlanWants(t *testing.T) {
	each(t, func(t *testing.T, p *Proxier, d model.Delta) {
		syncOne(t, p, d)
		ruleset(t, "list", "ruleset") // the program can read it
		for name := range d.Ports {
			syncOne(t, p, model.Delta{Ports: map[model.PortName]*model.ServicePort{name: nil}})
		}
		if left := maps.Collect(p.table.All()); !bare(p) || len(left) != len(d.Allocated) {
			t.Errorf("left: %v, %v", left, p.table.Chains())
		}
	})
}

// TestARestartChangesNothing starts an agent on what another one left, with remembered clients.
func TestARestartChangesNothing(t *testing.T) {
	each(t, func(t *testing.T, p *Proxier, d model.Delta) {
		syncOne(t, p, d)
		before := ruleset(t, "--stateless", "list", "ruleset")
		next, err := New(p.table.Globals().Family, nfnetlink.NewGenerations(), 0)
		if err != nil {
			t.Fatal(err)
		}
		syncOne(t, next, d)
		if diff := cmp.Diff(before, ruleset(t, "--stateless", "list", "ruleset")); diff != "" {
			t.Errorf("a restart changes (-before +after):\n%s", diff)
		}
	})
}

func TestDriftIsRepaired(t *testing.T) {
	each(t, func(t *testing.T, p *Proxier, d model.Delta) {
		syncOne(t, p, d)
		h := familyName(d.Globals.Family)
		first := map[model.Family]string{model.IPv4: "10.96.0.1", model.IPv6: "fd00:96::1"}[p.table.Globals().Family]
		for name, damage := range map[string][]string{
			"a chain flushed":   {"flush", "chain", h, table, chainServices},
			"a table flushed":   {"flush", "table", h, table},
			"everything gone":   {"flush", "ruleset"},
			"a map flushed":     {"flush", "map", h, table, "fronts"},
			"a rule added":      {"insert", "rule", h, table, chainServices, "drop"},
			"a chain added":     {"add", "chain", h, table, "foreign"},
			"a policy changed":  {"add", "chain", h, table, chainForward, "{", "policy", "drop", ";", "}"},
			"a table asleep":    {"add", "table", h, table, "{", "flags", "dormant", ";", "}"},
			"a set added":       {"add", "set", h, table, "foreign", "{", "type", "inet_service", ";", "}"},
			"an element gone":   {"delete", "element", h, table, "active", "{", first, "}"},
			"an element added":  {"add", "element", h, table, "allocated", "{", strings.Replace(first, "96", "99", 1), "}"},
			"an element turned": {"add", "element", h, table, "active", "{", strings.Replace(first, "96", "99", 1), "}"},
		} {
			ruleset(t, damage...)
			if found, err := p.Check(t.Context(), later()); err != nil || len(found) == 0 {
				t.Errorf("%s: found %q, %v", name, found, err)
			}
			agree(t, p)
		}
		ruleset(t, "add", "table", "inet", "others")
		if found, err := p.Check(t.Context(), later()); err != nil || len(found) > 0 {
			t.Errorf("a table of others: found %q, %v", found, err)
		}
	})
}

// refusedPort has a time-out that no kernel can count.
func refusedPort(d model.Delta) *model.ServicePort {
	p := *stickyPort(d)
	p.AffinitySeconds = 1e10
	return &p
}

// TestARefusedPortIsAlone fails no Sync, and is tried again when it changes.
func TestARefusedPortIsAlone(t *testing.T) {
	each(t, func(t *testing.T, p *Proxier, d model.Delta) {
		good, bad := d.Ports[refusedPort(d).Name], refusedPort(d)
		d.Ports[bad.Name] = bad
		syncOne(t, p, d)
		want := []model.Degradation{{Port: bad.Name, Reason: model.RulesRefused, Detail: "refused: numerical result out of range"}}
		if diff := cmp.Diff(want, p.Degraded()); diff != "" {
			t.Error(diff)
		}
		first := bad.ClusterIPs[0]
		have, refused, served := words(t, p), fmt.Sprintf("unserved: %s . udp . 80 : refuse", first), fmt.Sprintf("fronts-routes: %s . tcp . 80 : pick-2", first.Prev())
		if !slices.Contains(have, refused) || !slices.Contains(have, served) {
			t.Errorf("its clients have to be refused, those of others served: %v", have)
		}
		syncOne(t, p, model.Delta{Ports: map[model.PortName]*model.ServicePort{bad.Name: bad}}) // fails no Sync
		syncOne(t, p, model.Delta{Ports: map[model.PortName]*model.ServicePort{bad.Name: good}})
		if _, err := p.Check(t.Context(), later()); err != nil || len(p.Degraded()) > 0 {
			t.Errorf("degraded although it could be served: %v, %v", p.Degraded(), err)
		}
		agree(t, p)
	})
}

// stickyPort is the port with session affinity of plan.
func stickyPort(d model.Delta) *model.ServicePort {
	return d.Ports[model.PortName{Service: model.ServiceName{Namespace: "default", Name: "b"}, Protocol: model.UDP}]
}

// familyName is how nft spells a family.
func familyName(f model.Family) string {
	if f == model.IPv6 {
		return "ip6"
	}
	return "ip"
}

// withoutDAD has an IPv6 address be there at once.
func withoutDAD(a netip.Addr) string {
	if a.Is6() {
		return " nodad"
	}
	return ""
}

// link gives the namespace an address, which it returns, and a way to elsewhere without an answer.
func link(t *testing.T, f model.Family) netip.Addr {
	t.Helper()
	node, all, bits := netip.MustParseAddr("192.0.2.1"), "0.0.0.0/0", 24
	if f == model.IPv6 {
		node, all, bits = netip.MustParseAddr("2001:db8::1"), "::/0", 64
	}
	for _, command := range []string{
		"link set lo up", "link add node type veth peer name unused", "link set unused up", "link set node up",
		fmt.Sprintf("address add %v/%d dev node%s", node, bits, withoutDAD(node)), fmt.Sprintf("route add %s dev node", all),
		fmt.Sprintf("neighbour replace %v lladdr 02:00:00:00:00:02 dev node nud permanent", node.Next()),
	} {
		if out, err := exec.Command("ip", strings.Fields(command)...).CombinedOutput(); err != nil {
			t.Fatalf("ip %s: %v: %s", command, err, out)
		}
	}
	t.Cleanup(func() { _ = exec.Command("ip", "link", "delete", "node").Run() })
	return node
}

// TestUntrackedPacketsDoNotReachLoopback: a packet from elsewhere to 127.0.0.1 has no status.
func TestUntrackedPacketsDoNotReachLoopback(t *testing.T) {
	each(t, func(t *testing.T, p *Proxier, d model.Delta) {
		if d.Globals.Family == model.IPv6 {
			return // there is no route_localnet
		}
		elsewhere := link(t, d.Globals.Family)
		syncOne(t, p, d)
		ruleset(t, "add", "table", "ip", "raw")
		ruleset(t, "add", "chain", "ip", "raw", "out", "{ type filter hook output priority raw; }")
		ruleset(t, "add", "rule", "ip", "raw", "out", "notrack")
		ruleset(t, "add", "chain", "ip", "raw", "in", "{ type filter hook prerouting priority raw; }")
		ruleset(t, "add", "rule", "ip", "raw", "in", "notrack")
		at, err := net.ListenUDP("udp", net.UDPAddrFromAddrPort(netip.MustParseAddrPort("127.0.0.1:0")))
		if err != nil {
			t.Fatal(err)
		}
		defer func() { _ = at.Close() }()
		to := at.LocalAddr().(*net.UDPAddr)
		for _, from := range []string{elsewhere.String(), "127.0.0.1"} { // in this order: what arrives first is the second one
			c, err := net.DialUDP("udp", net.UDPAddrFromAddrPort(netip.AddrPortFrom(netip.MustParseAddr(from), 0)), to)
			if err != nil {
				t.Fatal(err)
			}
			if _, err := c.Write([]byte(from)); err != nil {
				t.Fatal(err)
			}
			_ = c.Close()
		}
		_ = at.SetReadDeadline(time.Now().Add(10 * time.Second))
		b := make([]byte, 100)
		if n, _, err := at.ReadFromUDP(b); err != nil || string(b[:n]) != "127.0.0.1" {
			t.Errorf("got a packet of %q, %v", b[:n], err)
		}
	})
}

// TestATableOfAnotherVersionIsReplaced has sets in the way whose types the kernel does not change.
func TestATableOfAnotherVersionIsReplaced(t *testing.T) {
	each(t, func(t *testing.T, p *Proxier, d model.Delta) {
		h := familyName(d.Globals.Family)
		ruleset(t, "add", "table", h, table)
		ruleset(t, "add", "set", h, table, "fronts", "{", "type", "inet_service", ";", "}")
		syncOne(t, p, d)
		if len(p.Degraded()) > 0 {
			t.Errorf("%v", p.Degraded())
		}
	})
}

// TestAPortThatIsRefusedTwiceStaysWhatItIs: another is refused too, then both are served again.
func TestAPortThatIsRefusedTwiceStaysWhatItIs(t *testing.T) {
	each(t, func(t *testing.T, p *Proxier, d model.Delta) {
		first := refusedPort(d)
		d.Ports[first.Name] = first
		syncOne(t, p, d)
		second := *d.Ports[model.PortName{Service: model.ServiceName{Namespace: "default", Name: "c"}, Protocol: model.SCTP}]
		second.AffinitySeconds = 1e10
		syncOne(t, p, model.Delta{Ports: map[model.PortName]*model.ServicePort{second.Name: &second}})
		if len(p.Degraded()) != 2 || p.withheld.Wanted()[first.Name] != first {
			t.Errorf("degraded: %v; the first is %v, want %v", p.Degraded(), p.withheld.Wanted()[first.Name], first)
		}
	})
}

// TestWhatOthersTookAwayIsNotTakenAwayAgain flushes everything, or makes an old table with a chain
// more, before chains go; a refused port does not keep the table from being replaced.
func TestWhatOthersTookAwayIsNotTakenAwayAgain(t *testing.T) {
	each(t, func(t *testing.T, p *Proxier, d model.Delta) {
		syncOne(t, p, d)
		ruleset(t, "flush", "ruleset")
		change := model.Delta{Ports: map[model.PortName]*model.ServicePort{}}
		for name, port := range d.Ports {
			plain := *port
			plain.AffinitySeconds = 0
			change.Ports[name] = &plain
		}
		syncOne(t, p, change)
	})
	each(t, func(t *testing.T, p *Proxier, d model.Delta) {
		h := familyName(d.Globals.Family)
		ruleset(t, "add", "table", h, table)
		ruleset(t, "add", "set", h, table, "fronts", "{", "type", "inet_service", ";", "}")
		ruleset(t, "add", "chain", h, table, "old")
		d.Ports[refusedPort(d).Name] = refusedPort(d)
		syncOne(t, p, d)
		if len(p.Degraded()) != 1 {
			t.Errorf("%v", p.Degraded())
		}
	})
}

func TestInvalidPacketsAreCounted(t *testing.T) {
	each(t, func(t *testing.T, p *Proxier, d model.Delta) {
		syncOne(t, p, d)
		ruleset(t, "add", "rule", familyName(d.Globals.Family), table, chainForward, "counter", "packets", "7", "bytes", "9")
		if n := p.InvalidDropped(); n != 7 {
			t.Errorf("%d packets, want 7", n)
		}
	})
}

// TestAChangeOfGlobalsWritesFewChains has a ServiceCIDR come, and an address for node ports.
func TestAChangeOfGlobalsWritesFewChains(t *testing.T) {
	each(t, func(t *testing.T, p *Proxier, d model.Delta) {
		syncOne(t, p, d)
		before := maps.Clone(p.handles)
		g, another := *d.Globals, netip.MustParsePrefix("10.97.0.0/16")
		if g.Family == model.IPv6 {
			another = netip.MustParsePrefix("fd00:97::/112")
		}
		g.Ranges = append(slices.Clone(g.Ranges), another)
		syncOne(t, p, model.Delta{Globals: &g})
		for name, handles := range p.handles {
			if handles != before[name] && name != chainNew {
				t.Errorf("the chain %s is written too", name)
			}
		}
		if p.handles[chainNew] == before[chainNew] {
			t.Error("the range did not come")
		}
	})
}

func TestDescribe(t *testing.T) {
	each(t, func(t *testing.T, p *Proxier, d model.Delta) {
		syncOne(t, p, d)
		name := model.PortName{Service: model.ServiceName{Namespace: "default", Name: "a"}, Protocol: model.TCP}
		got := strings.Join(p.Describe(name), "\n")
		for _, want := range map[model.Family][]string{
			model.IPv4: {"  fronts-routes: 10.96.0.1 . tcp . 80 : pick-2", "  endpoints: 10.96.0.1 . tcp . 80 . 1 : 10.244.2.3 . 8080", "  node-fronts-routes: tcp . 30000 : pick-node-outside-2", "  active: 10.96.0.1"},
			model.IPv6: {"  fronts-routes: fd00:96::1 . tcp . 80 : pick-2", "  hairpin: fd00:244::3 . fd00:244::3 . tcp . 8080"},
		}[p.table.Globals().Family] {
			if !strings.Contains(got+"\n", want+"\n") {
				t.Errorf("%q is missing in\n%s", want, got)
			}
		}
	})
}

func TestCleanupTakesOursAlone(t *testing.T) {
	each(t, func(t *testing.T, p *Proxier, d model.Delta) {
		f := p.table.Globals().Family
		if err := Usable(f); err != nil {
			t.Fatal(err)
		}
		syncOne(t, p, d)
		ruleset(t, "add", "table", "ip", "others")
		for i, dry := range []bool{true, false, false} {
			if did, err := Cleanup(f, false, dry); err != nil || len(did) != []int{1, 1, 0}[i] {
				t.Errorf("cleanup %d: %q, %v", i, did, err)
			}
		}
		if left := ruleset(t, "list", "tables"); left != "table ip others\n" {
			t.Errorf("left: %s", left)
		}
	})
}

// TestBalanced has IPVS choose endpoints: served fronts pass to it, and the agent's own ports.
func TestBalanced(t *testing.T) {
	each(t, func(t *testing.T, p *Proxier, d model.Delta) {
		d.Globals.Balanced, d.Globals.NodeAddrs = true, []netip.Addr{netip.MustParseAddr("192.0.2.10")}
		if d.Globals.Family == model.IPv6 {
			d.Globals.NodeAddrs = []netip.Addr{netip.MustParseAddr("2001:db8::10")}
		}
		for _, port := range d.Ports {
			port.Balanced = true
		}
		syncOne(t, p, d)
		have := words(t, p)
		passes := func(vip netip.Addr, protocol model.Protocol, port uint16) bool {
			return slices.Contains(have, fmt.Sprintf("balanced: %s . %s . %d", vip, strings.ToLower(protocol.String()), port))
		}
		for _, port := range d.Ports {
			for _, vip := range port.ClusterIPs {
				if there := passes(vip, port.Name.Protocol, port.Port); there != (port.Fronts()[0].Fate == model.Serve) {
					t.Errorf("%s at %s passes to IPVS: %t", port.Name, vip, there)
				}
			}
			for _, vip := range port.LoadBalancerIPs {
				if there := passes(vip, model.TCP, port.HealthCheckNodePort); there != (port.HealthCheckNodePort > 0) {
					t.Errorf("the health check node port of %s at %s passes to the agent: %t", port.Name, vip, there)
				}
			}
		}
	})
}

// TestServed reads what an earlier agent served, once.
func TestServed(t *testing.T) {
	each(t, func(t *testing.T, p *Proxier, d model.Delta) {
		syncOne(t, p, d)
		if served := p.Served(); len(served) > 0 {
			t.Errorf("before the first agent: %v", served)
		}
		next, err := New(p.table.Globals().Family, nfnetlink.NewGenerations(), 0)
		if err != nil {
			t.Fatal(err)
		}
		syncOne(t, next, model.Delta{Globals: d.Globals})
		want, got := map[string]bool{}, map[string]bool{}
		for name, port := range d.Ports {
			if name.Protocol == model.TCP || len(port.Cluster)+len(port.Local) == 0 {
				continue
			}
			for _, vip := range slices.Concat(port.ClusterIPs, port.ExternalIPs, port.LoadBalancerIPs) {
				want[fmt.Sprint(name.Protocol, vip, port.Port)] = true
			}
			if port.NodePort > 0 {
				want[fmt.Sprint(name.Protocol, "node", port.NodePort)] = true
			}
		}
		for _, port := range next.Served() {
			for _, vip := range port.LoadBalancerIPs {
				got[fmt.Sprint(port.Name.Protocol, vip, port.Port)] = true
			}
			if port.NodePort > 0 {
				got[fmt.Sprint(port.Name.Protocol, "node", port.NodePort)] = true
			}
		}
		if len(want) == 0 || !maps.Equal(got, want) {
			t.Errorf("served: %v, want %v", got, want)
		}
		if again := next.Served(); len(again) > 0 {
			t.Errorf("asked again: %v", again)
		}
	})
}
