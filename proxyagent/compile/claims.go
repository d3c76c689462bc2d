package compile

import (
	"cmp"
	"iter"
	"net/netip"
	"slices"
	"strings"
	"time"

	"github.com/clusterip-operator/clusterip-operator/proxyagent/model"
)

// claims are what the spec and status of a Service claim in one family: no additional addresses.
type claims struct {
	// created decides between two Services: the older one wins.
	created time.Time
	// held is true for a Service that yields to all other Services.
	held bool
	// cluster, loadBalancer and external are usable addresses, sorted and unique; one that is load
	// balancer IP and external IP is in loadBalancer only.
	cluster, loadBalancer, external []netip.Addr
	// ports are sorted by name and protocol, and once of each.
	ports []port
}

// portKey is a port, or a node port.
type portKey struct {
	number   uint16
	protocol model.Protocol
}

// front is the destination of packets to a virtual IP.
type front struct {
	addr netip.Addr
	port portKey
}

// class is the first thing that decides between claims of the same front: the smaller one wins.
type class uint8

const (
	byStatus class = iota // a load balancer IP, which a controller wrote
	bySpec                // an external IP, which a tenant may write into a Service
)

// claimsOf reads the claims of a Service. One without a ClusterIP in the family has none in it: as
// with kube-proxy, it has no node ports and external addresses there.
func claimsOf(s *model.Service, set model.Settings) claims {
	c := claims{created: s.Created, held: s.Held, cluster: virtualIPs(s.ClusterIPs, set.Family), ports: portsOf(s)}
	if len(c.cluster) == 0 {
		return c
	}
	c.loadBalancer = virtualIPs(s.LoadBalancerIPs, set.Family)
	if !set.NoExternalIPs {
		c.external = slices.DeleteFunc(virtualIPs(s.ExternalIPs, set.Family), func(a netip.Addr) bool { return model.Has(c.loadBalancer, a) })
	}
	return c
}

// port is a port of a Service that can be served.
type port struct {
	model.Port
	// firstPort and firstNodePort: it is the first of its Service with that number and protocol. Only
	// it has the virtual IPs, or the node port; firstNodePort also means that there is a node port.
	firstPort, firstNodePort bool
}

// portsOf returns the ports of a Service that can be served, sorted. Of two with one name and
// protocol, which the API server refuses, the one with the smaller number stays.
func portsOf(s *model.Service) []port {
	valid := slices.DeleteFunc(slices.Clone(s.Ports), func(p model.Port) bool {
		return p.Port == 0 || !slices.Contains(model.Protocols, p.Protocol)
	})
	slices.SortFunc(valid, func(a, b model.Port) int {
		return cmp.Or(strings.Compare(a.Name, b.Name), cmp.Compare(a.Protocol, b.Protocol),
			cmp.Compare(a.Port, b.Port), cmp.Compare(a.NodePort, b.NodePort))
	})
	valid = slices.CompactFunc(valid, func(a, b model.Port) bool { return a.Name == b.Name && a.Protocol == b.Protocol })
	return markFirsts(valid)
}

// markFirsts finds the first port of every number and node port.
func markFirsts(valid []model.Port) []port {
	out := make([]port, len(valid))
	numbers, nodePorts := map[portKey]struct{}{}, map[portKey]struct{}{}
	for i, p := range valid {
		out[i] = port{Port: p, firstPort: first(numbers, portKey{p.Port, p.Protocol})}
		out[i].firstNodePort = p.NodePort != 0 && first(nodePorts, portKey{p.NodePort, p.Protocol})
	}
	return out
}

// first reports whether the key was not seen before.
func first(seen map[portKey]struct{}, k portKey) bool {
	_, before := seen[k]
	seen[k] = struct{}{}
	return !before
}

func (p port) front(a netip.Addr) front { return front{a, portKey{p.Port.Port, p.Protocol}} }

func (p port) nodePort() portKey { return portKey{p.NodePort, p.Protocol} }

func (c claims) equal(o claims) bool {
	return c.created.Equal(o.created) && c.held == o.held && slices.Equal(c.cluster, o.cluster) && slices.Equal(c.loadBalancer, o.loadBalancer) &&
		slices.Equal(c.external, o.external) && slices.Equal(c.ports, o.ports)
}

// outside yields every address for traffic from outside, with its class.
func (c claims) outside() iter.Seq2[netip.Addr, class] {
	return func(yield func(netip.Addr, class) bool) {
		for _, a := range c.loadBalancer {
			if !yield(a, byStatus) {
				return
			}
		}
		for _, a := range c.external {
			if !yield(a, bySpec) {
				return
			}
		}
	}
}

// fronts yields every front, once, with its class.
func (c claims) fronts() iter.Seq2[front, class] {
	return func(yield func(front, class) bool) {
		for a, k := range c.outside() {
			for _, p := range c.ports {
				if p.firstPort && !yield(p.front(a), k) {
					return
				}
			}
		}
	}
}

// nodePorts yields every node port, once.
func (c claims) nodePorts() iter.Seq[portKey] {
	return func(yield func(portKey) bool) {
		if len(c.cluster) == 0 {
			return
		}
		for _, p := range c.ports {
			if p.firstNodePort && !yield(p.nodePort()) {
				return
			}
		}
	}
}

// index has the claims of each key, sorted so that the first wins. A Service claims a key once. An
// operation costs the logarithm of the number of claims of one key, and moving them.
type index[K comparable] map[K][]claim

// claim is a Service's claim of some key.
type claim struct {
	by    *record
	class class
}

// compare puts held Services last, and orders by class, then age, then name, which is unique.
func (c claim) compare(o claim) int {
	return cmp.Or(falseFirst(c.by.held, o.by.held), cmp.Compare(c.class, o.class), c.by.created.Compare(o.by.created), c.by.name.Compare(o.by.name))
}

// set adds or removes a claim. Its Service must keep created and held while it is in the index.
func (x index[K]) set(k K, c claim, present bool) {
	i, found := slices.BinarySearchFunc(x[k], c, claim.compare)
	switch {
	case found == present:
	case present:
		x[k] = slices.Insert(x[k], i, c)
	case len(x[k]) == 1:
		delete(x, k)
	default:
		x[k] = slices.Delete(x[k], i, i+1)
	}
}

// first returns the Service that wins the key, nil if none claims it.
func (x index[K]) first(k K) *record {
	if all := x[k]; len(all) > 0 {
		return all[0].by
	}
	return nil
}
