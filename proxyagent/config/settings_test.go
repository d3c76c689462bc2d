package config

import (
	"net/netip"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"

	"github.com/clusterip-operator/clusterip-operator/api/config/v1alpha1"
	"github.com/clusterip-operator/clusterip-operator/proxyagent/model"
)

var prefixes = cmp.Options{cmpopts.EquateComparable(netip.Prefix{}), cmpopts.EquateEmpty()}

func TestSettings(t *testing.T) {
	type conf = v1alpha1.ProxyAgentConfiguration
	prefix := netip.MustParsePrefix
	// base is what the defaults say of a family.
	base := func(f model.Family) model.Settings {
		return model.Settings{Family: f, Allocations: model.Prefer, MasqueradeBit: 14, LocalhostNodePorts: f == model.IPv4}
	}
	for name, tc := range map[string]struct {
		change       func(*conf)
		want4, want6 func(*model.Settings)
		not4, not6   bool
	}{
		"defaults": {},
		"one family": {
			change: func(c *conf) { c.IPFamilies = []string{"IPv6"} },
			not4:   true,
		},
		"both families by name": {
			change: func(c *conf) { c.IPFamilies = []string{"IPv4", "IPv6"} },
		},
		"the other allocations": {
			change: func(c *conf) { c.Allocations = "enforce" },
			want4:  func(s *model.Settings) { s.Allocations = model.Enforce },
			want6:  func(s *model.Settings) { s.Allocations = model.Enforce },
		},
		"masquerading": {
			change: func(c *conf) { c.IPTables.MasqueradeAll, c.IPTables.MasqueradeBit = true, 0 },
			want4:  func(s *model.Settings) { s.MasqueradeAll, s.MasqueradeBit = true, 0 },
			want6:  func(s *model.Settings) { s.MasqueradeAll, s.MasqueradeBit = true, 0 },
		},
		"networks of pods": {
			change: func(c *conf) { c.DetectLocal.ClusterCIDRs = []string{"fd00:244::/56", "10.244.0.0/16"} },
			want4:  func(s *model.Settings) { s.LocalSource.CIDR = prefix("10.244.0.0/16") },
			want6:  func(s *model.Settings) { s.LocalSource.CIDR = prefix("fd00:244::/56") },
		},
		"a network of pods of one family": {
			change: func(c *conf) { c.DetectLocal.ClusterCIDRs = []string{"10.244.0.0/16"} },
			want4:  func(s *model.Settings) { s.LocalSource.CIDR = prefix("10.244.0.0/16") },
		},
		"pods by the node": {
			change: func(c *conf) { c.DetectLocal.Mode = v1alpha1.DetectNodeCIDR },
			want4:  func(s *model.Settings) { s.FromNode = true },
			want6:  func(s *model.Settings) { s.FromNode = true },
		},
		"pods by their bridge": {
			change: func(c *conf) {
				c.DetectLocal = v1alpha1.DetectLocal{Mode: v1alpha1.DetectBridgeInterface, BridgeInterface: "cni0"}
			},
			want4: func(s *model.Settings) { s.LocalSource.Interface = "cni0" },
			want6: func(s *model.Settings) { s.LocalSource.Interface = "cni0" },
		},
		"pods by their interfaces": {
			change: func(c *conf) {
				c.DetectLocal = v1alpha1.DetectLocal{Mode: v1alpha1.DetectInterfaceNamePrefix, InterfaceNamePrefix: "cali"}
			},
			want4: func(s *model.Settings) { s.LocalSource.InterfacePrefix = "cali" },
			want6: func(s *model.Settings) { s.LocalSource.InterfacePrefix = "cali" },
		},
		"pods not recognised": {
			change: func(c *conf) { c.DetectLocal.Mode = v1alpha1.DetectNone },
		},
		"node ports on the node's addresses": {
			change: func(c *conf) { c.NodePortAddresses = []string{"primary"} },
			want4:  func(s *model.Settings) { s.NodePortPrimary = true },
			want6:  func(s *model.Settings) { s.NodePortPrimary = true },
		},
		"node ports in a network of one family, the other is free": {
			change: func(c *conf) { c.NodePortAddresses = []string{"192.0.2.0/24", "198.51.100.0/24"} },
			want4: func(s *model.Settings) {
				s.NodePortCIDRs = []netip.Prefix{prefix("192.0.2.0/24"), prefix("198.51.100.0/24")}
			},
		},
		"node ports everywhere in one family": {
			change: func(c *conf) { c.NodePortAddresses = []string{"192.0.2.0/24", "0.0.0.0/0", "fd00::/64"} },
			want6:  func(s *model.Settings) { s.NodePortCIDRs = []netip.Prefix{prefix("fd00::/64")} },
		},
		"node ports not on localhost": {
			change: func(c *conf) { c.IPTables.LocalhostNodePorts = false },
			want4:  func(s *model.Settings) { s.LocalhostNodePorts = false },
		},
		"invalid packets pass": {
			change: func(c *conf) { c.IPTables.DropInvalid = false },
			want4:  func(s *model.Settings) { s.KeepInvalid = true },
			want6:  func(s *model.Settings) { s.KeepInvalid = true },
		},
		"a liberal kernel knows no invalid packets": {
			change: func(c *conf) { c.Conntrack.TCPBeLiberal = true },
			want4:  func(s *model.Settings) { s.KeepInvalid = true },
			want6:  func(s *model.Settings) { s.KeepInvalid = true },
		},
		"no external IPs": {
			change: func(c *conf) { c.AllowServiceExternalIPs = false },
			want4:  func(s *model.Settings) { s.NoExternalIPs = true },
			want6:  func(s *model.Settings) { s.NoExternalIPs = true },
		},
		"beside another proxy": {
			change: func(c *conf) { c.ServiceProxyName = "x" },
			want4:  func(s *model.Settings) { s.KeepUnallocated = true },
			want6:  func(s *model.Settings) { s.KeepUnallocated = true },
		},
	} {
		t.Run(name, func(t *testing.T) {
			c := Default()
			if tc.change != nil {
				tc.change(&c)
			}
			if err := Validate(c); err != nil {
				t.Fatal(err)
			}
			compare(t, c, base(model.IPv4), tc.want4, !tc.not4)
			compare(t, c, base(model.IPv6), tc.want6, !tc.not6)
		})
	}
}

func compare(t *testing.T, c v1alpha1.ProxyAgentConfiguration, want model.Settings, change func(*model.Settings), wantServed bool) {
	t.Helper()
	if change != nil {
		change(&want)
	}
	got, served := Settings(c, want.Family)
	if diff := cmp.Diff(want, got, prefixes); diff != "" {
		t.Errorf("%s (-want +got):\n%s", want.Family, diff)
	}
	if served != wantServed {
		t.Errorf("%s is served: %t", want.Family, served)
	}
}
