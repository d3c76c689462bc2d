package main

import (
	"cmp"
	"slices"
	"strings"

	"github.com/onsi/ginkgo/v2/types"
)

// reasons say why specs with a label are not for that cluster.
var reasons = map[string]string{
	"Disruptive":                     "logs in to the node by SSH",
	"Feature:LoadBalancer":           "needs load balancers of a cloud",
	"Feature:Ingress":                "needs an ingress controller",
	"Feature:KubeProxyNFAcct":        "looks for a counter of kube-proxy",
	"Feature:Networking-DNS":         "needs a network outside",
	"Feature:Networking-IPv4":        "needs a network outside",
	"Feature:Networking-IPv6":        "needs a network outside",
	"Feature:Networking-Performance": "measures the network between nodes, not the proxy",
	"Feature:Performance-DNS":        "measures the DNS server",
	"Feature:PerformanceDNS":         "measures the DNS server",
	"Feature:SCTPConnectivity":       "needs SCTP in the kernel",
	"Feature:LocalhostNodePorts":     "needs a gate of kube-proxy that is off, or a registry of images",
	"Feature:NetworkPolicy":          "needs a network plugin with NetworkPolicy",
}

// unsuitable is why, by its labels, a spec is not for test/e2e/signetwork; one spec has no label.
func unsuitable(s types.SpecReport) string {
	if strings.Contains(s.FullText(), "should forward PTR records lookup to upstream nameserver") {
		return "needs a network outside"
	}
	for _, label := range s.Labels() {
		if why := reasons[label]; why != "" {
			return why
		}
	}
	return ""
}

// sorted are the specs of sig-network by their names.
func sorted(all types.SpecReports) types.SpecReports {
	specs := slices.DeleteFunc(all.WithLeafNodeType(types.NodeTypeIt), func(s types.SpecReport) bool { return !strings.HasPrefix(s.FullText(), "[sig-network]") })
	slices.SortFunc(specs, func(a, b types.SpecReport) int { return cmp.Compare(name(a), name(b)) })
	return specs
}
