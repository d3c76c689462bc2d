package network

import "fmt"

// link is a veth pair between two namespaces.
type link struct{ a, ifA, b, ifB string }

var links = []link{
	{"node", "eth0", "client", "eth0"},
	{"node", "eth1", "client", "eth1"},
	{"node", "eth2", "remote", "eth0"},
	{"node", "pod1", "pod1", "eth0"},
	{"node", "pod2", "pod2", "eth0"},
	{"remote", "pod1", "remote-pod", "eth0"},
}

// hosts are all namespaces, in the order in which they are made.
var hosts = []host{hostNode, hostRemote, hostClient, hostPod1, hostPod2, hostRemotePod}

// sysctls are set in a namespace before it has interfaces. Addresses are usable at once, return
// paths filter nothing, and refusals have no rate limit: the kernel would answer a burst of probes
// with six. A packet is sent again after five seconds without an acknowledgement, not a fifth of
// one (since Linux 6.11): tests count what is sent again as lost, and a timer of a virtual
// processor that stalled for seconds fires before the acknowledgement is read. A packet that was
// lost is still sent again, and counted, within the ten seconds that traffic of package environment
// waits.
var sysctls = map[string]string{
	"net/ipv4/conf/all/rp_filter":                "0",
	"net/ipv4/conf/default/rp_filter":            "0",
	"net/ipv4/tcp_rto_min_us":                    "5000000",
	"net/ipv4/icmp_ratelimit":                    "0",
	"net/ipv4/icmp_msgs_per_sec":                 "1000000",
	"net/ipv4/icmp_msgs_burst":                   "100000",
	"net/ipv6/icmp/ratelimit":                    "0",
	"net/ipv6/conf/all/accept_dad":               "0",
	"net/ipv6/conf/default/accept_dad":           "0",
	"net/ipv6/conf/default/dad_transmits":        "0",
	"net/ipv6/conf/all/disable_ipv6":             "0",
	"net/ipv6/conf/default/disable_ipv6":         "0",
	"net/ipv6/conf/default/accept_ra":            "0",
	"net/ipv6/conf/default/router_solicitations": "0",
}

// forwarding are the sysctls of namespaces that are routers.
var forwarding = map[string]string{
	"net/ipv4/ip_forward":          "1",
	"net/ipv6/conf/all/forwarding": "1",
}

// script returns the lines for "ip -batch" in one namespace, once its links are there.
func script(name string) []string {
	lines := []string{"link set lo up"}
	for _, l := range links {
		switch name {
		case l.a:
			lines = append(lines, "link set "+l.ifA+" up")
		case l.b:
			lines = append(lines, "link set "+l.ifB+" up")
		}
	}
	for i := range 2 {
		lines = append(lines, scriptOf(name, i)...)
	}
	return lines
}

// scriptOf is script for one family: addresses, then routes.
func scriptOf(name string, i int) []string {
	switch name {
	case "node":
		return nodeScript(i)
	case "remote":
		return []string{
			onLink(hostRemote.main[i], "eth0", i), address(remoteGateway[i], "pod1", i),
			route(hostRemotePod.main[i], "dev pod1"), route(hostRemotePod.ranges[i], "via "+hostRemotePod.main[i]+" dev pod1 onlink"),
			route("default", "via "+nodeCluster[i]),
		}
	case "client":
		return []string{
			onLink(hostClient.main[i], "eth0", i), onLink(clientAlt[i], "eth1", i),
			"route add local " + hostClient.ranges[i] + " dev lo",
			route("default", "via "+hostNode.main[i]),
		}
	default:
		return podScript(name, i)
	}
}

func nodeScript(i int) []string {
	lines := []string{
		onLink(hostNode.main[i], "eth0", i), onLink(nodeAlt[i], "eth1", i), onLink(nodeCluster[i], "eth2", i),
		route(remoteCIDR[i], "via "+hostRemote.main[i]),
		route(hostClient.ranges[i], "via "+hostClient.main[i]),
		route("default", "via "+hostClient.main[i]+" src "+hostNode.main[i]),
	}
	for _, pod := range []host{hostPod1, hostPod2} {
		lines = append(lines, address(podGateway[i], pod.name, i), route(pod.main[i], "dev "+pod.name),
			route(pod.ranges[i], "via "+pod.main[i]+" dev "+pod.name+" onlink"))
	}
	return lines
}

func podScript(name string, i int) []string {
	pod, gateway := hostPod1, podGateway[i]
	switch name {
	case "pod2":
		pod = hostPod2
	case "remote-pod":
		pod, gateway = hostRemotePod, remoteGateway[i]
	}
	return []string{
		address(pod.main[i], "eth0", i), "route add local " + pod.ranges[i] + " dev lo",
		route(gateway, "dev eth0"), route("default", "via "+gateway+" src "+pod.main[i]),
	}
}

// address gives an interface an address without a network; onLink adds its network's neighbours.
func address(a, dev string, i int) string {
	return fmt.Sprintf("addr add %s/%d dev %s%s", a, []int{32, 128}[i], dev, []string{"", " nodad"}[i])
}

func onLink(a, dev string, i int) string {
	return fmt.Sprintf("addr add %s/%d dev %s%s", a, []int{24, 64}[i], dev, []string{"", " nodad"}[i])
}

func route(to, way string) string { return "route add " + to + " " + way }
