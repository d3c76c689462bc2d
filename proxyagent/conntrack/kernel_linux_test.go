package conntrack

import (
	"context"
	"errors"
	"fmt"
	"net/netip"
	"os/exec"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"

	"github.com/clusterip-operator/clusterip-operator/proxyagent/model"
	"github.com/clusterip-operator/clusterip-operator/test/framework/network"
)

func TestMain(m *testing.M) { network.Isolate(m) }

// site has a test's addresses in one family. test/e2e/flows (113 to 120) has what clients see.
type site struct {
	family           model.Family
	client           netip.Addr
	a, b, vip, other netip.AddrPort
}

// forEachSite begins with no flows in each family.
func forEachSite(t *testing.T, test func(*testing.T, site, Table)) {
	network.NeedIsolation(t)
	endpoint := netip.MustParseAddrPort
	for _, s := range []site{
		{
			family: model.IPv4, client: netip.MustParseAddr("10.244.0.9"), a: endpoint("10.244.0.2:5353"), b: endpoint("10.244.0.3:5353"),
			vip: endpoint("10.96.0.10:53"), other: endpoint("10.96.0.11:53"),
		},
		{
			family: model.IPv6, client: netip.MustParseAddr("fd00:244::9"), a: endpoint("[fd00:244::2]:5353"), b: endpoint("[fd00:244::3]:5353"),
			vip: endpoint("[fd00:96::10]:53"), other: endpoint("[fd00:96::11]:53"),
		},
	} {
		t.Run(s.family.String(), func(t *testing.T) {
			t.Cleanup(func() { run(t, "conntrack", "-F") })
			table, err := Open()
			must(t, err)
			test(t, s, table)
		})
	}
}

func run(t testing.TB, name string, args ...string) string {
	t.Helper()
	out, err := exec.Command(name, args...).CombinedOutput()
	if err != nil {
		t.Fatalf("%s %s: %v\n%s", name, strings.Join(args, " "), err, out)
	}
	return string(out)
}

// insert makes a flow by hand.
func (s site) insert(t *testing.T, protocol string, destination, endpoint netip.AddrPort, sport uint16, more ...string) {
	t.Helper()
	args := []string{
		"-I", "-p", protocol, "-t", "1000",
		"-s", s.client.String(), "-d", destination.Addr().String(), "--sport", fmt.Sprint(sport), "--dport", fmt.Sprint(destination.Port()),
		"-r", endpoint.Addr().String(), "-q", s.client.String(),
		"--reply-port-src", fmt.Sprint(endpoint.Port()), "--reply-port-dst", fmt.Sprint(sport),
	}
	if !slices.Contains(more, "SYN_SENT") {
		args = append(args, "-u", "SEEN_REPLY")
	}
	if protocol == "tcp" && !slices.Contains(more, "--state") {
		args = append(args, "--state", "ESTABLISHED")
	}
	run(t, "conntrack", append(args, more...)...)
}

// flows are those of all protocols.
func (s site) flows(t *testing.T, table Table) (all []Flow, err error) {
	for _, p := range model.Protocols {
		some, problem := table.Flows(t.Context(), Query{Family: s.family, Protocol: p}, func(Flow) bool { return true })
		all, err = append(all, some...), errors.Join(err, problem)
	}
	return all, err
}

// TestQueries looks at what the kernel itself leaves out.
func TestQueries(t *testing.T) {
	forEachSite(t, func(t *testing.T, s site, table Table) {
		s.insert(t, "udp", s.vip, s.a, 1000)
		s.insert(t, "udp", netip.AddrPortFrom(s.vip.Addr(), 54), s.a, 1001)
		s.insert(t, "udp", s.other, s.a, 1002)
		s.insert(t, "tcp", s.vip, s.a, 1003)
		s.insert(t, "tcp", s.vip, s.b, 1004, "--state", "SYN_SENT")
		s.insert(t, "tcp", s.other, s.b, 1005, "--state", "SYN_SENT")
		for q, want := range map[Query][]uint16{
			{Protocol: model.UDP}:                                                           {1000, 1001, 1002},
			{Protocol: model.UDP, Addr: s.vip.Addr()}:                                       {1000, 1001},
			{Protocol: model.UDP, Port: s.vip.Port()}:                                       {1000, 1002},
			{Protocol: model.UDP, Addr: s.vip.Addr(), Port: s.vip.Port()}:                   {1000},
			{Protocol: model.SCTP}:                                                          nil,
			{Protocol: model.TCP, Unanswered: true}:                                         {1004, 1005},
			{Protocol: model.TCP, Addr: s.vip.Addr(), Port: s.vip.Port(), Unanswered: true}: {1004},
			{Protocol: model.TCP, Addr: s.other.Addr(), Port: s.other.Port()}:               {1005},
		} {
			q.Family = s.family
			var got []uint16
			must(t, table.(Kernel).dump(q, func(f Flow) { got = append(got, f.Source.Port()) }))
			if s.family == model.IPv6 && q.Addr.IsValid() { // what goes to other addresses comes, too
				got = slices.DeleteFunc(got, func(port uint16) bool { return !slices.Contains(want, port) })
			}
			slices.Sort(got)
			if !slices.Equal(got, want) {
				t.Errorf("%+v: got those from %v, want %v", q, got, want)
			}
		}
	})
}

// TestFlowsAreReadWhole compares what is read with what was made by hand.
func TestFlowsAreReadWhole(t *testing.T) {
	forEachSite(t, func(t *testing.T, s site, table Table) {
		s.insert(t, "udp", s.vip, s.a, 1000, "-w", "7")
		s.insert(t, "udp", s.other, s.other, 1001, "--orig-zone", "5")
		s.insert(t, "tcp", s.vip, s.a, 1002)
		source := func(port uint16) netip.AddrPort { return netip.AddrPortFrom(s.client, port) }
		s.insert(t, "sctp", s.vip, s.b, 1003, "--state", "ESTABLISHED", "--orig-vtag", "1", "--reply-vtag", "2")
		s.insert(t, "sctp", s.vip, s.vip, 1004, "--state", "COOKIE_WAIT", "--orig-vtag", "1", "--reply-vtag", "2")
		want := []Flow{
			{Protocol: model.SCTP, Source: source(1004), Destination: s.vip, ReplySource: s.vip},
			{Protocol: model.UDP, Source: source(1000), Destination: s.vip, ReplySource: s.a, Answered: true, Zone: 7},
			{Protocol: model.UDP, Source: source(1001), Destination: s.other, ReplySource: s.other, Answered: true, SourceZone: 5},
			{Protocol: model.TCP, Source: source(1002), Destination: s.vip, ReplySource: s.a, Answered: true},
			{Protocol: model.SCTP, Source: source(1003), Destination: s.vip, ReplySource: s.b, Answered: true},
		}
		got, err := s.flows(t, table)
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
	forEachSite(t, func(t *testing.T, s site, table Table) {
		s.insert(t, "udp", s.vip, s.a, 1000)
		s.insert(t, "udp", s.vip, s.a, 1000, "-w", "7")
		s.insert(t, "udp", s.vip, s.b, 1000, "--orig-zone", "5")
		s.insert(t, "udp", s.vip, s.a, 1001)
		s.insert(t, "tcp", s.vip, s.a, 1000)
		s.insert(t, "sctp", s.vip, s.a, 1000, "--state", "ESTABLISHED", "--orig-vtag", "1", "--reply-vtag", "2")
		flows, err := s.flows(t, table)
		must(t, err)
		if len(flows) != 6 {
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
			left, err := s.flows(t, table)
			must(t, err)
			if len(left) != len(flows)-1-i || slices.Contains(left, f) {
				t.Errorf("after %v was deleted there are %v", f, left)
			}
		}
	})
}

// TestConnectionsAreCounted has TCP connections in all states, and flows of other protocols.
func TestConnectionsAreCounted(t *testing.T) {
	forEachSite(t, func(t *testing.T, s site, _ Table) {
		for i, state := range []string{"SYN_SENT", "SYN_RECV", "ESTABLISHED", "FIN_WAIT", "CLOSE_WAIT", "LAST_ACK", "TIME_WAIT", "CLOSE"} {
			s.insert(t, "tcp", s.vip, s.a, uint16(1000+i), "--state", state)
		}
		s.insert(t, "tcp", netip.AddrPortFrom(s.vip.Addr(), 443), s.b, 1000, "-w", "7")
		s.insert(t, "udp", s.vip, s.a, 1000)
		s.insert(t, "sctp", s.vip, s.a, 1000, "--state", "ESTABLISHED", "--orig-vtag", "1", "--reply-vtag", "2")
		s.insert(t, "tcp", s.other, s.a, 2000)
		s.insert(t, "tcp", s.a, s.a, 2001)
		counter, err := Open()
		must(t, err)
		unused := s.other.Addr().Next()
		got := map[netip.Addr]int{s.vip.Addr(): 100, s.other.Addr(): 0, unused: 100}
		must(t, counter.Count(t.Context(), got))
		want := map[netip.Addr]int{s.vip.Addr(): 5 + 1 + 1 + 1, s.other.Addr(): 1, unused: 0}
		if diff := cmp.Diff(want, got, cmpopts.EquateComparable(netip.Addr{})); diff != "" {
			t.Errorf("connections (-want +got):\n%s", diff)
		}
		ended, end := context.WithCancel(t.Context())
		end()
		if err := counter.Count(ended, got); !errors.Is(err, context.Canceled) {
			t.Errorf("after the end: %v", err)
		}
	})
}

func TestLocalAddrs(t *testing.T) {
	forEachSite(t, func(t *testing.T, s site, table Table) {
		run(t, "ip", "link", "set", "lo", "up")
		run(t, "ip", "addr", "replace", netip.PrefixFrom(s.client, s.client.BitLen()).String(), "dev", "lo", "nodad")
		local, err := table.LocalAddrs()
		must(t, err)
		if !slices.Contains(local, s.client) || slices.Contains(local, s.vip.Addr()) {
			t.Errorf("got %v", local)
		}
	})
}
