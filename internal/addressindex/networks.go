package addressindex

import (
	"cmp"
	"iter"
	"net/netip"
	"slices"

	"github.com/gaissmai/bart"
	corev1 "k8s.io/api/core/v1"
)

// Network is a range in use by something else than Services.
type Network struct {
	// Owner names the owner, for messages: "node worker-1", "network corporate".
	Owner  string
	Prefix netip.Prefix
}

// Overlaps returns the networks that meet any of the prefixes, by owner: pod CIDRs and addresses of
// nodes, and those declared as used by something else. It costs as much as it returns.
func (ix *Index) Overlaps(prefixes []netip.Prefix, declared []Network) (out []Network) {
	ix.mu.RLock()
	defer ix.mu.RUnlock()
	for _, n := range declared {
		if slices.ContainsFunc(prefixes, n.Prefix.Overlaps) {
			out = append(out, n)
		}
	}
	for network, nodes := range overlapping(&ix.nodesAt, prefixes) {
		for _, name := range nodes {
			out = append(out, Network{Owner: "node " + name, Prefix: network})
		}
	}
	slices.SortFunc(out, compareNetworks)
	return slices.Compact(out) // prefixes may overlap
}

func compareNetworks(a, b Network) int {
	return cmp.Or(cmp.Compare(a.Owner, b.Owner), a.Prefix.Compare(b.Prefix))
}

// overlapping yields what a table has around and inside of prefixes, once for each of them.
func overlapping(table *bart.Table[[]string], prefixes []netip.Prefix) iter.Seq2[netip.Prefix, []string] {
	return func(yield func(netip.Prefix, []string) bool) {
		for _, p := range prefixes {
			for at, names := range table.Supernets(p) {
				if at != p && !yield(at, names) {
					return
				}
			}
			for at, names := range table.Subnets(p) {
				if !yield(at, names) {
					return
				}
			}
		}
	}
}

// meeting returns the ServiceCIDRs that have a range which overlaps one of the prefixes, by name.
func (ix *Index) meeting(prefixes []netip.Prefix) (out []string) {
	ix.mu.RLock()
	defer ix.mu.RUnlock()
	for _, names := range overlapping(&ix.names, prefixes) {
		out = append(out, names...)
	}
	slices.Sort(out)
	return slices.Compact(out)
}

// addName enters a name at a prefix, removeName takes it away again.
func addName(table *bart.Table[[]string], p netip.Prefix, name string) {
	names, _ := table.Get(p)
	table.Insert(p, append(slices.Clip(names), name))
}

func removeName(table *bart.Table[[]string], p netip.Prefix, name string) {
	table.Modify(p, func(names []string, _ bool) ([]string, bool) {
		names = slices.DeleteFunc(names, func(n string) bool { return n == name })
		return names, len(names) == 0
	})
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
	changed := !slices.Equal(had, networks)
	if changed {
		ix.enterNode(node.Name, had, networks)
	}
	ix.mu.Unlock()
	if !changed {
		return
	}
	for _, name := range ix.meeting(slices.Concat(had, networks)) {
		ix.usageListeners.tell(name)
	}
}

// enterNode replaces the networks of a node; the caller holds mu.
func (ix *Index) enterNode(name string, had, networks []netip.Prefix) {
	for _, n := range had {
		removeName(&ix.nodesAt, n, name)
	}
	for _, n := range networks {
		addName(&ix.nodesAt, n, name)
	}
	ix.nodes[name] = networks
	if len(networks) == 0 {
		delete(ix.nodes, name)
	}
}
