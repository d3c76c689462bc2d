package trace

import (
	"fmt"
	"net/netip"
	"strings"
	"testing"

	"github.com/clusterip-operator/clusterip-operator/proxyagent/model"
)

// TestWhatConnectDoesIsSaid reads the words of an agent, which are those of package socketlb.
func TestWhatConnectDoesIsSaid(t *testing.T) {
	const dump = `Service default/web, IPv4:

Elements of default/web/TCP in nftables, table clusterip-proxyagent:
  fronts: 10.96.0.10 . tcp . 80 : pick-1
At connect()%s:
  10.96.0.10:80: translated, by chance, 7 connections so far, to 10.244.0.1:8080
  10.96.0.11:80: left to rules: connections to a former address are counted
`
	attached := fmt.Sprintf(dump, ", scope pods, attached to /sys/fs/cgroup/kubepods.slice")
	if got := translated(attached, netip.MustParseAddrPort("10.96.0.10:80")); !strings.Contains(got, "scope pods") || !strings.Contains(got, "to 10.244.0.1:8080") {
		t.Errorf("it says %q", got)
	}
	for _, dst := range []string{"10.96.0.10:81", "10.96.0.11:80", "10.96.0.1:80"} {
		if got := translated(attached, netip.MustParseAddrPort(dst)); got != "" {
			t.Errorf("of %s it says %q", dst, got)
		}
	}
	idle := fmt.Sprintf(dump, " nothing is translated, although scope pods is configured: there is no cgroup. Otherwise it would be")
	if got := translated(idle, netip.MustParseAddrPort("10.96.0.10:80")); got != "" {
		t.Errorf("where nothing is attached it says %q", got)
	}
}

// TestNoAgentHasToRun to trace a packet.
func TestNoAgentHasToRun(t *testing.T) {
	p := packet{protocol: model.TCP, dst: netip.MustParseAddrPort("10.96.0.10:80")}
	for _, agent := range []string{"", "127.0.0.1:1", "no address"} {
		if got := p.atConnect(t.Context(), agent); got != "" {
			t.Errorf("without an agent at %q it says %q", agent, got)
		}
	}
}
