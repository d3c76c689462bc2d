package compile

import (
	"slices"

	"github.com/clusterip-operator/clusterip-operator/proxyagent/model"
)

// equalPorts reports whether the two are served alike.
func equalPorts(a, b *model.ServicePort) bool {
	return a.Name == b.Name && a.Port == b.Port && a.NodePort == b.NodePort && a.AffinitySeconds == b.AffinitySeconds &&
		a.HealthCheckNodePort == b.HealthCheckNodePort &&
		a.InternalLocal == b.InternalLocal && a.ExternalLocal == b.ExternalLocal && a.HasEndpoints == b.HasEndpoints &&
		slices.Equal(a.ClusterIPs, b.ClusterIPs) && slices.Equal(a.ExternalIPs, b.ExternalIPs) &&
		slices.Equal(a.LoadBalancerIPs, b.LoadBalancerIPs) && slices.Equal(a.SourceRanges, b.SourceRanges) &&
		slices.Equal(a.Cluster, b.Cluster) && slices.Equal(a.Local, b.Local) && slices.Equal(a.Hairpin, b.Hairpin) &&
		slices.Equal(a.Serving, b.Serving)
}

// equalGlobals reports whether the two mean the same.
func equalGlobals(a, b model.Globals) bool {
	return a.Family == b.Family && a.MasqueradeAll == b.MasqueradeAll && a.MasqueradeBit == b.MasqueradeBit &&
		a.LocalSource == b.LocalSource && a.NodePortAny == b.NodePortAny && a.LocalhostNodePorts == b.LocalhostNodePorts &&
		a.KeepInvalid == b.KeepInvalid && slices.Equal(a.NodePortAddrs, b.NodePortAddrs) && slices.Equal(a.Ranges, b.Ranges)
}
