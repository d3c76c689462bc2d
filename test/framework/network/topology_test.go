//go:build linux

package network_test

import (
	"fmt"
	"net/netip"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/clusterip-operator/clusterip-operator/proxyagent/model"
	"github.com/clusterip-operator/clusterip-operator/test/framework/network"
)

func newTopology(t *testing.T) *network.Topology {
	t.Helper()
	if os.Getuid() != 0 {
		t.Skip("namespaces need root")
	}
	topology, err := network.New(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := topology.Close(); err != nil {
			t.Error(err)
		}
	})
	return topology
}

func TestEverybodyReachesEverybody(t *testing.T) {
	topology := newTopology(t)
	for _, f := range network.Families {
		for _, protocol := range model.Protocols {
			for _, from := range topology.Namespaces() {
				for _, to := range []*network.Namespace{topology.Node, topology.Remote, topology.Pod1, topology.Pod2, topology.RemotePod} {
					t.Run(fmt.Sprintf("%s %s from %s to %s", f, protocol, from.Host(), to.Host()), func(t *testing.T) {
						target := netip.AddrPortFrom(to.Addr(f), 8081)
						got := from.Dial(network.Probe{Protocol: protocol, To: target})
						if got.Outcome != network.Connected || got.Server != to.Host() || got.Endpoint != target || got.Source != got.Client {
							t.Errorf("got %s", got)
						}
					})
				}
			}
		}
	}
}

func TestOutcomes(t *testing.T) {
	topology := newTopology(t)
	for _, f := range network.Families {
		for _, protocol := range model.Protocols {
			for name, tc := range map[string]struct {
				from *network.Namespace
				to   netip.AddrPort
				want network.Outcome
			}{
				"a port without a server refuses":       {topology.Client, netip.AddrPortFrom(topology.Pod1.Addr(f), 9), network.Refused},
				"a virtual address drops from outside":  {topology.Client, netip.AddrPortFrom(network.VirtualAddr(f, 7), 80), network.Dropped},
				"a virtual address drops from a pod":    {topology.Pod1, netip.AddrPortFrom(network.VirtualAddr(f, 7), 80), network.Dropped},
				"a virtual address drops from the node": {topology.Node, netip.AddrPortFrom(network.VirtualAddr(f, 7), 80), network.Dropped},
				"the further address of a pod answers":  {topology.Client, netip.AddrPortFrom(topology.Pod2.Extra(f, 30), 8080), network.Connected},
				"so does that of a remote pod":          {topology.Pod1, netip.AddrPortFrom(topology.RemotePod.Extra(f, 1), 8080), network.Connected},
				"and the second address of the node":    {topology.Client, netip.AddrPortFrom(network.AltNodeAddr(f), 8080), network.Connected},
				"and the node itself at its loopback":   {topology.Node, netip.AddrPortFrom(network.Loopback(f), 8080), network.Connected},
			} {
				t.Run(fmt.Sprintf("%s over %s %s", name, f, protocol), func(t *testing.T) {
					t.Parallel()
					probe := network.Probe{Protocol: protocol, To: tc.to}
					if tc.want == network.Dropped { // any other outcome is known at once
						probe.Timeout = network.TimeoutFor(probe, tc.want)
					}
					got := tc.from.Dial(probe)
					if got.Outcome != tc.want || (got.Err == nil) != (tc.want == network.Connected) {
						t.Errorf("got %s, want %s", got, tc.want)
					}
				})
			}
		}
	}
}

func TestAConnectionThatStays(t *testing.T) {
	topology := newTopology(t)
	conn, result := topology.Client.Connect(network.Probe{To: netip.AddrPortFrom(topology.Pod1.Addr(model.IPv4), 8080)})
	if conn == nil {
		t.Fatal(result)
	}
	for range 3 {
		if err := conn.Echo(time.Second); err != nil {
			t.Fatal(err)
		}
	}
	if _, err := topology.Node.Run(t.Context(), "ip", "link", "set", "pod1", "down"); err != nil {
		t.Fatal(err)
	}
	if err := conn.Echo(200 * time.Millisecond); err == nil {
		t.Error("there was an echo without a cable")
	}
	if err := conn.Close(); err != nil {
		t.Error(err)
	}
}

func TestForwardLeadsOutside(t *testing.T) {
	topology, other := newTopology(t), newTopology(t)
	if _, err := topology.Client.Listen("tcp4", "127.0.0.1:7777"); err != nil {
		t.Fatal(err)
	}
	address, err := other.Node.Forward("127.0.0.1:1")
	if err != nil {
		t.Fatal(err)
	}
	conn, err := other.Node.DialContext(t.Context(), "tcp4", address)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := conn.Read(make([]byte, 1)); err == nil {
		t.Error("somebody answered where nobody listens")
	}
	if got := topology.Node.Dial(network.Probe{To: netip.MustParseAddrPort(address)}); got.Outcome != network.Refused {
		t.Errorf("the forwarder of one Topology is in another: %s", got)
	}
}

func TestRawPacketsArrive(t *testing.T) {
	topology := newTopology(t)
	server, err := topology.Node.Serve(model.UDP, 9000)
	if err != nil {
		t.Fatal(err)
	}
	from, to := netip.AddrPortFrom(topology.Client.Addr(model.IPv4), 4000), netip.AddrPortFrom(topology.Node.Addr(model.IPv4), 9000)
	if err := topology.Client.SendRaw("eth0", topology.Node, "eth0", network.UDPPacket(from, to, "hello")); err != nil {
		t.Fatal(err)
	}
	for deadline := time.Now().Add(2 * time.Second); server.Seen() == 0; time.Sleep(time.Millisecond) {
		if time.Now().After(deadline) {
			t.Fatal("it did not")
		}
	}
}

func TestCloseLeavesNothing(t *testing.T) {
	topology := newTopology(t)
	name := topology.Node.Name()
	if err := topology.Close(); err != nil {
		t.Fatal(err)
	}
	id := strings.TrimSuffix(name, "-node")
	if left, err := filepath.Glob("/run/netns/" + id + "*"); err != nil || len(left) > 0 {
		t.Errorf("left: %q (%v)", left, err)
	}
}

func TestNewRemovesWhatTheDeadLeft(t *testing.T) {
	first := newTopology(t)
	dead := "/run/netns/cipo-999999999-beef-node" // above the highest possible process id
	if err := os.WriteFile(dead, nil, 0o600); err != nil {
		t.Fatal(err)
	}
	newTopology(t)
	if _, err := os.Stat(dead); !os.IsNotExist(err) {
		t.Errorf("it is there: %v", err)
	}
	if _, err := os.Stat("/run/netns/" + first.Node.Name()); err != nil {
		t.Errorf("that of the living has gone: %v", err)
	}
}
