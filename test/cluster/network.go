package cluster

import (
	"context"
	"errors"
	"fmt"
	"net"
	"net/netip"

	"github.com/clusterip-operator/clusterip-operator/test/framework/network"
)

// bridge is the interface of the first node to which the eth0 of each other node is connected.
const bridge = "br0"

// gatewayAddresses are the default gateway's.
var gatewayAddresses = [2]netip.Addr{netip.MustParseAddr("10.77.0.1"), netip.MustParseAddr("fd77::1")}

// nodeAddresses are those of the i-th node, from 1, IPv4 first. The networks are a /24 and a /64.
func nodeAddresses(i int) [2]netip.Addr {
	return [2]netip.Addr{netip.MustParseAddr(fmt.Sprintf("10.77.0.%d", 10+i)), netip.MustParseAddr(fmt.Sprintf("fd77::%x", 0x10+i))}
}

// podRanges are what the pods of the i-th node have their addresses from.
func podRanges(i int) [2]netip.Prefix {
	return [2]netip.Prefix{netip.MustParsePrefix(fmt.Sprintf("10.244.%d.0/24", i)), netip.MustParsePrefix(fmt.Sprintf("fd00:10:244:%x::/64", i))}
}

// podBridge makes the bridge of the plugin for pods. Packets between pods on it pass iptables, as
// on every Kubernetes node: else an answer of an endpoint beside its client is not translated back.
const podBridge = "link add cni0 type bridge nf_call_iptables 1 nf_call_ip6tables 1"

// sysctls let a node forward and use addresses at once. The nodes' bridge is a wire: no iptables.
var sysctls = map[string]string{
	"net/ipv4/ip_forward": "1", "net/ipv6/conf/all/forwarding": "1", "net/ipv6/conf/all/disable_ipv6": "0", "net/ipv6/conf/default/disable_ipv6": "0",
	"net/ipv6/conf/all/accept_dad": "0", "net/ipv6/conf/default/accept_dad": "0", "net/ipv6/conf/default/accept_ra": "0",
	"net/bridge/bridge-nf-call-iptables": "0", "net/bridge/bridge-nf-call-ip6tables": "0",
}

// connect makes the nodes' network, and returns all namespaces but the first, and the gateway's.
func connect(ctx context.Context, nodes int) (others []network.Netns, gateway network.Netns, err error) {
	interfaces, err := net.Interfaces()
	if err == nil {
		err = mayUse(interfaces)
	}
	if err != nil {
		return nil, gateway, err
	}
	defer func() {
		if err != nil {
			err = errors.Join(err, disconnect(append(others, gateway)))
			others, gateway = nil, network.Netns{}
		}
	}()
	first := network.Netns{}
	if err := errors.Join(
		first.Sysctl(sysctls),
		first.IP(ctx, append([]string{"link set lo up", "link add " + bridge + " type bridge", "link set " + bridge + " up"}, nodeLines(1, bridge, nodes)...)...),
	); err != nil {
		return nil, gateway, err
	}
	for i := 2; i <= nodes; i++ {
		n, err := attachNode(ctx, i, nodes)
		if err != nil {
			return others, gateway, err
		}
		others = append(others, n)
	}
	if gateway, err = network.NewNetns("gateway"); err != nil {
		return others, gateway, err
	}
	lines := []string{"link set lo up", "link set eth0 up"}
	for family, a := range gatewayAddresses {
		lines = append(lines, addressLine(a, "eth0"))
		for i := 1; i <= nodes; i++ {
			lines = append(lines, fmt.Sprintf("route add %s via %s", podRanges(i)[family], nodeAddresses(i)[family]))
		}
	}
	return others, gateway, attach(ctx, gateway, "gateway", lines)
}

// mayUse refuses a network namespace with these interfaces if it is in use, like the machine's own.
func mayUse(interfaces []net.Interface) error {
	for _, i := range interfaces {
		if i.Flags&net.FlagUp != 0 && i.Flags&net.FlagLoopback == 0 {
			return fmt.Errorf("the interface %s is up: a cluster needs a network namespace of its own, see network.Isolate and network.Enter", i.Name)
		}
	}
	return nil
}

// attachNode makes the network of the i-th of so many nodes, which is not the first.
func attachNode(ctx context.Context, i, nodes int) (network.Netns, error) {
	n, err := network.NewNetns(fmt.Sprintf("node-%d", i))
	if err != nil {
		return network.Netns{}, err
	}
	port := fmt.Sprintf("node%d", i)
	if _, before := net.InterfaceByName(port); before == nil { // that of a node whose processes are not all gone yet
		err = network.Netns{}.IP(ctx, "link delete "+port)
	}
	if err := errors.Join(err, attach(ctx, n, port, nodeLines(i, "eth0", nodes))); err != nil {
		return network.Netns{}, errors.Join(err, n.Close())
	}
	return n, nil
}

// attach connects the eth0 of a namespace to a port of the bridge, and runs lines there.
func attach(ctx context.Context, n network.Netns, port string, lines []string) error {
	return errors.Join(
		n.Sysctl(sysctls),
		network.Netns{}.IP(ctx, fmt.Sprintf("link add %s type veth peer name eth0 netns %s", port, n.Path()), fmt.Sprintf("link set %s master %s up", port, bridge)),
		n.IP(ctx, lines...),
	)
}

// nodeLines give the i-th node its addresses, and the routes to the pods of the other nodes.
func nodeLines(i int, device string, nodes int) []string {
	lines := []string{"link set lo up", "link set " + device + " up", podBridge}
	for family, a := range nodeAddresses(i) {
		lines = append(lines, addressLine(a, device), fmt.Sprintf("route add default via %s", gatewayAddresses[family]))
		for other := 1; other <= nodes; other++ {
			if other != i {
				lines = append(lines, fmt.Sprintf("route add %s via %s", podRanges(other)[family], nodeAddresses(other)[family]))
			}
		}
	}
	return lines
}

func addressLine(a netip.Addr, device string) string {
	if a.Is4() {
		return fmt.Sprintf("addr add %s/24 dev %s", a, device)
	}
	return fmt.Sprintf("addr add %s/64 dev %s nodad", a, device)
}

// disconnect closes the networks, and clears this process's, so that the next cluster finds it as
// this one did: the first node leaves interfaces, rules, sets and connections there.
func disconnect(all []network.Netns) error {
	var errs []error
	for _, n := range all {
		errs = append(errs, n.Close())
	}
	own, ctx := network.Netns{}, context.Background()
	interfaces, err := net.Interfaces()
	errs = append(errs, err)
	for _, i := range interfaces {
		if i.Flags&net.FlagLoopback == 0 {
			_ = own.IP(ctx, "link delete "+i.Name) // that of a pod goes with the pod, perhaps at this moment, and the kernel's own stay
		}
	}
	for _, command := range []string{
		"nft flush ruleset",
		"for t in raw mangle nat filter; do for i in iptables-legacy ip6tables-legacy; do $i -w -t $t -F && $i -w -t $t -X || exit; done; done",
		"ipset destroy", "conntrack --flush",
	} {
		_, err := own.Run(ctx, "sh", "-c", command+" 2>&1")
		errs = append(errs, err)
	}
	return errors.Join(errs...)
}
