package config

import (
	"net/netip"
	"slices"

	"github.com/clusterip-operator/clusterip-operator/api/config/v1alpha1"
	"github.com/clusterip-operator/clusterip-operator/proxyagent/model"
)

// Settings returns what a valid configuration says for one family, and whether the family is to be served at all.
func Settings(c v1alpha1.ProxyAgentConfiguration, family model.Family) (model.Settings, bool) {
	s := model.Settings{
		Family:             family,
		Allocations:        model.AllocationMode(c.Allocations),
		MasqueradeAll:      c.IPTables.MasqueradeAll,
		MasqueradeBit:      c.IPTables.MasqueradeBit,
		LocalSource:        localSource(c.DetectLocal, family),
		FromNode:           c.DetectLocal.Mode == v1alpha1.DetectNodeCIDR,
		LocalhostNodePorts: family == model.IPv4 && c.IPTables.LocalhostNodePorts,
		KeepInvalid:        !c.IPTables.DropInvalid || c.Conntrack.TCPBeLiberal,
		NoExternalIPs:      !c.AllowServiceExternalIPs,
		KeepUnallocated:    !c.DropsUnallocated(),
	}
	s.NodePortPrimary = slices.Contains(c.NodePortAddresses, "primary")
	s.NodePortCIDRs = nodePortCIDRs(c.NodePortAddresses, family)
	return s, len(c.IPFamilies) == 0 || slices.Contains(c.IPFamilies, family.String())
}

func localSource(d v1alpha1.DetectLocal, family model.Family) model.LocalSource {
	switch d.Mode {
	case v1alpha1.DetectClusterCIDR:
		if cidrs := ofFamily(d.ClusterCIDRs, family); len(cidrs) > 0 {
			return model.LocalSource{CIDR: cidrs[0]}
		}
	case v1alpha1.DetectBridgeInterface:
		return model.LocalSource{Interface: d.BridgeInterface}
	case v1alpha1.DetectInterfaceNamePrefix:
		return model.LocalSource{InterfacePrefix: d.InterfaceNamePrefix}
	}
	return model.LocalSource{}
}

// nodePortCIDRs is empty, which means any address, also when one of them is the whole of the family.
func nodePortCIDRs(addresses []string, family model.Family) []netip.Prefix {
	cidrs := ofFamily(addresses, family)
	if slices.ContainsFunc(cidrs, func(p netip.Prefix) bool { return p.Bits() == 0 }) {
		return nil
	}
	return cidrs
}

// ofFamily returns the CIDRs of one family and leaves out what is none.
func ofFamily(texts []string, family model.Family) (cidrs []netip.Prefix) {
	for _, text := range texts {
		if p, err := netip.ParsePrefix(text); err == nil && model.FamilyOf(p.Addr()) == family {
			cidrs = append(cidrs, p)
		}
	}
	return cidrs
}
