//go:build linux

package network

import (
	"net/netip"
	"testing"

	"github.com/clusterip-operator/clusterip-operator/proxyagent/model"
)

func TestAddresses(t *testing.T) {
	for name, tc := range map[string]struct{ got, want string }{
		"the first virtual one":      {VirtualAddr(model.IPv4, 1).String(), "198.19.0.1"},
		"one that carries":           {VirtualAddr(model.IPv4, 256).String(), "198.19.1.0"},
		"one of IPv6":                {VirtualAddr(model.IPv6, 65000).String(), "2001:db8:19::fde8"},
		"a further one of a pod":     {(&Namespace{host: hostPod2}).Extra(model.IPv4, 30).String(), "10.180.1.94"},
		"a further one of a pod, v6": {(&Namespace{host: hostPod2}).Extra(model.IPv6, 30).String(), "fd00:180:0:1::2:1e"},
	} {
		if tc.got != tc.want {
			t.Errorf("%s: got %s, want %s", name, tc.got, tc.want)
		}
	}
}

func TestNodeAddresses(t *testing.T) {
	for address, want := range map[string]bool{
		"192.0.2.10": true, "198.51.100.10": true, "172.30.0.10": true, "10.180.1.1": true, "2001:db8:2::10": true, "fd00:180:0:1::1": true,
		"192.0.2.100": false, "10.180.1.11": false, "10.180.2.1": false, "::1": false,
	} {
		if got := IsNodeAddr(netip.MustParseAddr(address)); got != want {
			t.Errorf("%s: got %t, want %t", address, got, want)
		}
	}
}

// TestNobodySharesAddresses looks after the tables: no range may contain an address of another host.
func TestNobodySharesAddresses(t *testing.T) {
	for _, a := range hosts {
		for _, b := range hosts {
			for i := range 2 {
				if a.ranges[i] == "" {
					continue
				}
				ours := netip.MustParsePrefix(a.ranges[i])
				if ours.Contains(netip.MustParseAddr(b.main[i])) {
					t.Errorf("%s has %s of %s", a.ranges[i], b.main[i], b.name)
				}
				if b.ranges[i] != "" && a.name != b.name && ours.Overlaps(netip.MustParsePrefix(b.ranges[i])) {
					t.Errorf("%s of %s overlaps %s of %s", a.ranges[i], a.name, b.ranges[i], b.name)
				}
			}
		}
	}
}

func TestTimeouts(t *testing.T) {
	v4, v6 := netip.MustParseAddrPort("192.0.2.1:1"), netip.MustParseAddrPort("[2001:db8::1]:1")
	for name, tc := range map[string]struct {
		probe    Probe
		expected Outcome
		secondly bool
	}{
		"IPv4":               {Probe{To: v4}, Refused, false},
		"IPv6 waits":         {Probe{To: v6}, Refused, true},
		"IPv6 waits in vain": {Probe{To: v6, Protocol: model.TCP}, Dropped, true},
		"IPv6 UDP":           {Probe{To: v6, Protocol: model.UDP}, Dropped, false},
	} {
		if got := TimeoutFor(tc.probe, tc.expected) > DropTimeout; got != tc.secondly {
			t.Errorf("%s: got %t", name, got)
		}
	}
}
