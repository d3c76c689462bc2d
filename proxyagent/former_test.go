package proxyagent

import (
	"net/netip"
	"testing"
	"time"

	"github.com/clusterip-operator/clusterip-operator/proxyagent/model"
)

// keep makes addresses former ones of a Service; without a Service it takes them away.
func (s *fakeSource) keep(n model.ServiceName, addresses ...string) {
	s.change(func(c *model.Changes) {
		if c.Allocations == nil {
			c.Allocations = map[netip.Addr]*model.Allocation{}
		}
		for _, text := range addresses {
			addr := netip.MustParseAddr(text)
			c.Allocations[addr] = nil
			if n != (model.ServiceName{}) {
				c.Allocations[addr] = &model.Allocation{Addr: addr, Service: n, Additional: true, Former: true}
			}
		}
	})
}

// TestConnectionsToFormerAddressesAreCounted every five seconds, but only while there are such.
func TestConnectionsToFormerAddressesAreCounted(t *testing.T) {
	runAgent(t, Options{Families: both()}, func(s *fixture) {
		dual := web("web", "10.96.0.1", "10.244.0.1")
		dual.ClusterIPs = append(dual.ClusterIPs, netip.MustParseAddr("fd00::1"))
		s.source.put(dual)
		s.run(true)
		s.until(5 * time.Second)
		s.expect("count former counted", "5s counted at 5s map[] <nil>", "5s IPv4 former 0 with 0", "5s IPv6 former 0 with 0")
		s.source.keep(dual.Name, "10.96.0.7", "10.96.0.8", "fd00::9")
		s.source.keep(named("gone"), "10.96.0.20")
		s.until(10 * time.Second)
		s.expect("count former counted", "10s counted at 10s map[10.96.0.7:7 10.96.0.8:8 fd00::9:9] <nil>",
			"10s IPv4 count 2", "10s IPv4 former 2 with 15", "10s IPv6 count 1", "10s IPv6 former 1 with 9")
		s.source.keep(model.ServiceName{}, "10.96.0.7", "10.96.0.8", "fd00::9")
		s.until(15 * time.Second)
		s.expect("count former counted", "15s counted at 15s map[] <nil>", "15s IPv4 former 0 with 0", "15s IPv6 former 0 with 0")
	})
}

// TestCountingThatFailsOrTakesLong is told, and repeated: after ten times its duration, if longer.
func TestCountingThatFailsOrTakesLong(t *testing.T) {
	runAgent(t, Options{}, func(s *fixture) {
		s.source.put(web("web", "10.96.0.1", "10.244.0.1"))
		s.source.keep(named("web"), "10.96.0.7")
		s.connections[model.IPv4].fail, s.connections[model.IPv4].took = []error{errKernel}, time.Second
		s.run(true)
		s.until(30 * time.Second)
		s.expect("count former counted", "5s IPv4 count 1",
			"6s counted at 5s map[] counting the connections to former addresses of IPv4: the kernel is out of sorts",
			"16s IPv4 count 1", "17s counted at 16s map[10.96.0.7:7] <nil>", "17s IPv4 former 1 with 7",
			"27s IPv4 count 1", "28s counted at 27s map[10.96.0.7:7] <nil>", "28s IPv4 former 1 with 7")
	})
}

// TestNothingIsToldBeforeThereAreRules: it would be that no former address is served.
func TestNothingIsToldBeforeThereAreRules(t *testing.T) {
	runAgent(t, Options{}, func(s *fixture) {
		s.source.put(web("web", "10.96.0.1", "10.244.0.1"))
		s.source.keep(named("web"), "10.96.0.7")
		s.source.slow = 7 * time.Second
		s.run(true)
		s.until(14 * time.Second)
		s.expect("count former counted", "10s counted at 10s map[10.96.0.7:7] <nil>", "10s IPv4 count 1", "10s IPv4 former 1 with 7")
	})
}
