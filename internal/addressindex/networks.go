package addressindex

import (
	"cmp"
	"net/netip"
	"slices"

	corev1 "k8s.io/api/core/v1"
)

// Network is a range in use by something else than Services.
type Network struct {
	// Owner names the owner, for messages: "node worker-1", "network corporate".
	Owner  string
	Prefix netip.Prefix
}

// Overlaps returns the networks that meet any of the prefixes, by owner: pod CIDRs and addresses of
// nodes, and those declared as used by something else.
func (ix *Index) Overlaps(prefixes []netip.Prefix, declared []Network) []Network {
	ix.mu.RLock()
	defer ix.mu.RUnlock()
	all := slices.Clone(declared)
	for name, networks := range ix.nodes {
		for _, n := range networks {
			all = append(all, Network{Owner: "node " + name, Prefix: n})
		}
	}
	all = slices.DeleteFunc(all, func(n Network) bool { return !slices.ContainsFunc(prefixes, n.Prefix.Overlaps) })
	slices.SortFunc(all, func(a, b Network) int { return cmp.Compare(a.Owner+a.Prefix.String(), b.Owner+b.Prefix.String()) })
	return all
}

// nodeNetworks reads podCIDRs and addresses; what is no address (host names) is no network.
func nodeNetworks(n *corev1.Node) []netip.Prefix {
	var out []netip.Prefix
	for _, text := range n.Spec.PodCIDRs {
		if p, err := netip.ParsePrefix(text); err == nil {
			out = append(out, p.Masked())
		}
	}
	for _, address := range n.Status.Addresses {
		if a, err := netip.ParseAddr(address.Address); err == nil {
			out = append(out, netip.PrefixFrom(a, a.BitLen()))
		}
	}
	return out
}

// nodeChanged indexes the networks of a node and wakes the ranges that meet them. Most node updates
// are heartbeats and change nothing here.
func (ix *Index) nodeChanged(before, now *corev1.Node, _ bool) {
	node, networks := before, []netip.Prefix(nil)
	if now != nil {
		node, networks = now, nodeNetworks(now)
	}
	ix.mu.Lock()
	had := ix.nodes[node.Name]
	ix.nodes[node.Name] = networks
	if len(networks) == 0 {
		delete(ix.nodes, node.Name)
	}
	ix.mu.Unlock()
	if slices.Equal(had, networks) {
		return
	}
	touched := slices.Concat(had, networks)
	for _, c := range ix.ServiceCIDRs() {
		if c.overlaps(touched) {
			ix.usageListeners.tell(c.Name)
		}
	}
}
