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
	cidrs := func(all ...string) (found []netip.Prefix) {
		for _, text := range all {
			found = append(found, netip.MustParsePrefix(text))
		}
		return found
	}
	for name, tc := range map[string]struct {
		change func(*conf)
		want   func(*model.Settings) // changes what the defaults say of a family
	}{
		"defaults":              {func(*conf) {}, func(*model.Settings) {}},
		"the other allocations": {func(c *conf) { c.Allocations = "enforce" }, func(s *model.Settings) { s.Allocations = model.Enforce }},
		"masquerading": {
			func(c *conf) { c.MasqueradeAll, c.MasqueradeBit = true, 0 },
			func(s *model.Settings) { s.MasqueradeAll, s.MasqueradeBit = true, 0 },
		},
		"networks of pods": {
			func(c *conf) { c.DetectLocal.ClusterCIDRs = []string{"fd00:244::/56", "10.244.0.0/16"} },
			func(s *model.Settings) {
				s.LocalSource.CIDR = netip.MustParsePrefix("fd00:244::/56")
				if s.Family == model.IPv4 {
					s.LocalSource.CIDR = netip.MustParsePrefix("10.244.0.0/16")
				}
			},
		},
		"a network of pods of one family": {
			func(c *conf) { c.DetectLocal.ClusterCIDRs = []string{"10.244.0.0/16"} },
			func(s *model.Settings) {
				if s.Family == model.IPv4 {
					s.LocalSource.CIDR = netip.MustParsePrefix("10.244.0.0/16")
				}
			},
		},
		"pods by the node": {
			func(c *conf) { c.DetectLocal.Mode = v1alpha1.DetectNodeCIDR }, func(s *model.Settings) { s.FromNode = true },
		},
		"pods by their bridge": {
			func(c *conf) {
				c.DetectLocal = v1alpha1.DetectLocal{Mode: v1alpha1.DetectBridgeInterface, BridgeInterface: "cni0"}
			},
			func(s *model.Settings) { s.LocalSource.Interface = "cni0" },
		},
		"pods by their interfaces": {
			func(c *conf) {
				c.DetectLocal = v1alpha1.DetectLocal{Mode: v1alpha1.DetectInterfaceNamePrefix, InterfaceNamePrefix: "cali"}
			},
			func(s *model.Settings) { s.LocalSource.InterfacePrefix = "cali" },
		},
		"pods not recognised": {func(c *conf) { c.DetectLocal.Mode = v1alpha1.DetectNone }, func(*model.Settings) {}},
		"node ports on the node's addresses": {
			func(c *conf) { c.NodePortAddresses = []string{"primary"} }, func(s *model.Settings) { s.NodePortPrimary = true },
		},
		"node ports in networks of one family, the other is free": {
			func(c *conf) { c.NodePortAddresses = []string{"192.0.2.0/24", "198.51.100.0/24"} },
			func(s *model.Settings) {
				if s.Family == model.IPv4 {
					s.NodePortCIDRs = cidrs("192.0.2.0/24", "198.51.100.0/24")
				}
			},
		},
		"node ports everywhere in one family": {
			func(c *conf) { c.NodePortAddresses = []string{"192.0.2.0/24", "0.0.0.0/0", "fd00::/64"} },
			func(s *model.Settings) {
				s.NodePortCIDRs = cidrs("fd00::/64")
				if s.Family == model.IPv4 {
					s.NodePortCIDRs = cidrs("192.0.2.0/24", "0.0.0.0/0")
				}
			},
		},
		"node ports not on localhost": {
			func(c *conf) { c.LocalhostNodePorts = false }, func(s *model.Settings) { s.LocalhostNodePorts = false },
		},
		"invalid packets pass": {func(c *conf) { c.DropInvalid = false }, func(s *model.Settings) { s.KeepInvalid = true }},
		"a liberal kernel knows no invalid packets": {
			func(c *conf) { c.Conntrack.TCPBeLiberal = true }, func(s *model.Settings) { s.KeepInvalid = true },
		},
		"no external IPs":      {func(c *conf) { c.AllowServiceExternalIPs = false }, func(s *model.Settings) { s.NoExternalIPs = true }},
		"beside another proxy": {func(c *conf) { c.ServiceProxyName = "x" }, func(s *model.Settings) { s.KeepUnallocated = true }},
	} {
		t.Run(name, func(t *testing.T) {
			c := v1alpha1.DefaultProxyAgent()
			tc.change(&c)
			if err := c.Validate(); len(err) > 0 {
				t.Fatal(err)
			}
			for _, f := range []model.Family{model.IPv4, model.IPv6} {
				want := model.Settings{Family: f, Allocations: model.Prefer, MasqueradeBit: 14, LocalhostNodePorts: f == model.IPv4}
				tc.want(&want)
				got, served := Settings(c, f)
				if diff := cmp.Diff(want, got, prefixes); diff != "" || !served {
					t.Errorf("%s: served %t (-want +got):\n%s", f, served, diff)
				}
			}
		})
	}
	for family, families := range map[model.Family][]string{model.IPv4: {"IPv6"}, model.IPv6: {"IPv4"}} {
		if _, served := Settings(v1alpha1.ProxyAgentConfiguration{IPFamilies: families}, family); served {
			t.Errorf("%s is served although only %v are asked for", family, families)
		}
	}
}
