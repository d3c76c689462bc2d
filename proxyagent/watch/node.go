package watch

import (
	"net/netip"
	"slices"

	corev1 "k8s.io/api/core/v1"

	"github.com/clusterip-operator/clusterip-operator/proxyagent/model"
)

// autoscalerTaint is what the cluster autoscaler puts on a node that it is about to remove, with any effect.
const autoscalerTaint = "ToBeDeletedByClusterAutoscaler"

// node is what is kept of the own Node.
type node struct {
	head
	model model.Node
}

// same reports whether two Nodes are the same to the agent; nil is one that does not exist. Heartbeats and conditions are no part.
func (n *node) same(o *node) bool {
	if n == nil || o == nil {
		return n == o
	}
	a, b := &n.model, &o.model
	return a.Name == b.Name && a.Zone == b.Zone && a.Leaving == b.Leaving && slices.Equal(a.IPs, b.IPs) && slices.Equal(a.PodCIDRs, b.PodCIDRs)
}

func convertNode(in *corev1.Node) (*node, junk) {
	var j junk
	return &node{head: headOf(in), model: model.Node{
		Name:     in.Name,
		Zone:     in.Labels[corev1.LabelTopologyZone],
		IPs:      nodeIPs(in, &j),
		PodCIDRs: parsePrefixes("podCIDR", podCIDRs(in), &j),
		Leaving:  leaving(in),
	}}, j
}

// nodeIPs puts the internal addresses first; otherwise the order is the kubelet's, who puts its primary one first.
func nodeIPs(in *corev1.Node, j *junk) []netip.Addr {
	var texts []string
	for _, kind := range []corev1.NodeAddressType{corev1.NodeInternalIP, corev1.NodeExternalIP} {
		for _, a := range in.Status.Addresses {
			if a.Type == kind {
				texts = append(texts, a.Address)
			}
		}
	}
	return parseAddrs("address", texts, j)
}

func podCIDRs(in *corev1.Node) []string {
	if len(in.Spec.PodCIDRs) == 0 && in.Spec.PodCIDR != "" {
		return []string{in.Spec.PodCIDR}
	}
	return in.Spec.PodCIDRs
}

func leaving(in *corev1.Node) bool {
	return in.DeletionTimestamp != nil || slices.ContainsFunc(in.Spec.Taints, func(t corev1.Taint) bool { return t.Key == autoscalerTaint })
}
