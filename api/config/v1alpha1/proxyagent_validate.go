package v1alpha1

import (
	"math"
	"net"
	"net/netip"
	"path"
	"regexp"
	"slices"
	"strconv"
	"time"

	"k8s.io/apimachinery/pkg/util/validation"
	"k8s.io/apimachinery/pkg/util/validation/field"
)

// Validate returns every mistake in the values at once, each with the path of its field.
func (c *ProxyAgentConfiguration) Validate() field.ErrorList {
	var m mistakes
	if c.NodeName != "" {
		m.named("nodeName", c.NodeName, "must be the name of a Node: ", validation.IsDNS1123Subdomain(c.NodeName))
	}
	m.named("serviceProxyName", c.ServiceProxyName, "must be the value of a label: ", validation.IsValidLabelValue(c.ServiceProxyName))
	for i, family := range c.IPFamilies {
		at := "ipFamilies[" + strconv.Itoa(i) + "]"
		m.oneOf(at, family, "IPv4", "IPv6")
		if slices.Contains(c.IPFamilies[:i], family) {
			m.add(field.Duplicate(field.NewPath(at), family))
		}
	}
	m.oneOf("allocations", c.Allocations, "prefer", "enforce", "ignore")
	// It would harm the other proxy: flows to its addresses would count as left over.
	m.unless(c.ServiceProxyName == "" || !c.DropsUnallocated(), "dropUnallocated", true,
		"must be false, or left out, together with serviceProxyName: the proxy of the other Services serves addresses of the same ServiceCIDRs")
	m.nodePortAddresses(c.NodePortAddresses)
	m.detectLocal(c.DetectLocal)
	m.oneOf("mode", c.Mode, "iptables", "nftables", "ipvs", "auto")
	m.rules(c)
	m.oneOf("iptables.mode", c.IPTables.Mode, "auto", "nft", "legacy")
	m.ipvs(c.IPVS)
	m.socketLB(c)
	m.conntrack(c.Conntrack)
	m.unless(path.IsAbs(c.SysctlRoot), "sysctlRoot", c.SysctlRoot, "must be the full path of a folder, such as /proc/sys")
	m.unless(c.Client.QPS != 0, "client.qps", c.Client.QPS, "must be greater than 0, or negative for no bound")
	m.unless(c.Client.QPS <= 0 || c.Client.Burst >= 1, "client.burst", c.Client.Burst, "must be at least 1")
	m.endpoints(c.Health.BindAddress, c.Metrics.BindAddress)
	m.log(c.Log)
	return field.ErrorList(m)
}

func (m *mistakes) nodePortAddresses(addresses []string) {
	for i, text := range addresses {
		at := "nodePortAddresses[" + strconv.Itoa(i) + "]"
		if text == "primary" {
			m.unless(slices.Index(addresses, text) == i, at, text, "must not stand twice")
		} else {
			m.network(at, text)
		}
	}
}

// network is cidr that refuses IPv4 in the guise of IPv6.
func (m *mistakes) network(at, text string) (netip.Prefix, bool) {
	p, ok := m.cidr(at, text, "10.244.0.0/16 or fd00:244::/56")
	m.unless(!p.Addr().Is4In6(), at, text, "must be written as an IPv4 CIDR")
	return p, ok && !p.Addr().Is4In6()
}

func (m *mistakes) detectLocal(d DetectLocal) {
	before := len(*m)
	m.oneOf("detectLocal.mode", d.Mode, DetectClusterCIDR, DetectNodeCIDR, DetectBridgeInterface, DetectInterfaceNamePrefix, DetectNone)
	if len(*m) > before {
		return
	}
	const cidrs = "detectLocal.clusterCIDRs"
	if len(d.ClusterCIDRs) > 0 && d.Mode != DetectClusterCIDR {
		m.add(field.Forbidden(field.NewPath(cidrs), "has no effect in mode "+d.Mode+"; remove it, or set mode: "+DetectClusterCIDR))
	}
	lengths := map[int]bool{} // of the addresses, which tell the families apart
	for i, text := range d.ClusterCIDRs {
		at := cidrs + "[" + strconv.Itoa(i) + "]"
		if p, ok := m.network(at, text); ok {
			m.unless(!lengths[p.Addr().BitLen()], at, text, "must be of another family than the first; there is one network of pods in a family")
			lengths[p.Addr().BitLen()] = true
		}
	}
	m.networkInterface("detectLocal.bridgeInterface", d.BridgeInterface, d.Mode, DetectBridgeInterface)
	m.networkInterface("detectLocal.interfaceNamePrefix", d.InterfaceNamePrefix, d.Mode, DetectInterfaceNamePrefix)
}

// interfaceName keeps out what iptables reads otherwise: wildcard +, negation !, blanks, quotes.
var interfaceName = regexp.MustCompile(`^[A-Za-z0-9_.][A-Za-z0-9_.@-]{0,14}$`)

// networkInterface wants a name exactly in the mode that uses it.
func (m *mistakes) networkInterface(at, name, mode, user string) {
	switch {
	case mode != user && name != "":
		m.add(field.Forbidden(field.NewPath(at), "has no effect in mode "+mode+"; remove it, or set mode: "+user))
	case mode == user && name == "":
		m.add(field.Required(field.NewPath(at), "mode "+mode+" goes by it"))
	default:
		m.unless(name == "" || interfaceName.MatchString(name), at, name,
			"must be at most 15 letters, digits, and any of _ . @ -, without a wildcard")
	}
}

func (m *mistakes) rules(c *ProxyAgentConfiguration) {
	m.inRange("masqueradeBit", c.MasqueradeBit, 31)
	m.notNegative("minSyncPeriod", c.MinSyncPeriod.Duration)
	full := c.SyncPeriod.Duration
	m.unless(full > 0, "syncPeriod", full.String(), "must be greater than 0")
	m.unless(c.ProbePeriod.Duration > 0, "probePeriod", c.ProbePeriod.Duration.String(), "must be greater than 0")
	m.unless(full <= 0 || c.MinSyncPeriod.Duration <= full, "minSyncPeriod", c.MinSyncPeriod.Duration.String(), "must not be longer than syncPeriod")
	m.unless(full <= 0 || c.ProbePeriod.Duration <= full, "probePeriod", c.ProbePeriod.Duration.String(), "must not be longer than syncPeriod")
}

func (m *mistakes) ipvs(t IPVS) {
	m.oneOf("ipvs.scheduler", t.Scheduler, "rr", "wrr", "lc", "wlc", "lblc", "lblcr", "sh", "dh", "sed", "nq", "mh")
	for i, text := range t.ExcludeCIDRs {
		m.network("ipvs.excludeCIDRs["+strconv.Itoa(i)+"]", text)
	}
	m.notNegative("ipvs.tcpTimeout", t.TCPTimeout.Duration)
	m.notNegative("ipvs.tcpFinTimeout", t.TCPFinTimeout.Duration)
	m.notNegative("ipvs.udpTimeout", t.UDPTimeout.Duration)
	m.unless(t.DrainTimeout.Duration > 0, "ipvs.drainTimeout", t.DrainTimeout.Duration.String(), "must be greater than 0")
}

func (m *mistakes) socketLB(c *ProxyAgentConfiguration) {
	m.oneOf("socketLB.scope", c.SocketLB.Scope, "off", "pods", "host", "all")
	m.unless(c.SocketLB.Scope == "off" || c.Mode != "ipvs", "socketLB.scope", c.SocketLB.Scope,
		"must be off in mode ipvs, which chooses endpoints by connections that it sees; use mode nftables or iptables")
	m.unless(path.IsAbs(c.SocketLB.CgroupRoot), "socketLB.cgroupRoot", c.SocketLB.CgroupRoot, "must be the full path of a folder, such as /sys/fs/cgroup")
}

func (m *mistakes) conntrack(t Conntrack) {
	m.inRange("conntrack.maxPerCore", t.MaxPerCore, math.MaxInt32)
	m.inRange("conntrack.min", t.Min, math.MaxInt32)
	m.notNegative("conntrack.tcpEstablishedTimeout", t.TCPEstablishedTimeout.Duration)
	m.notNegative("conntrack.tcpCloseWaitTimeout", t.TCPCloseWaitTimeout.Duration)
	m.notNegative("conntrack.udpTimeout", t.UDPTimeout.Duration)
	m.notNegative("conntrack.udpStreamTimeout", t.UDPStreamTimeout.Duration)
}

func (m *mistakes) notNegative(at string, d time.Duration) {
	m.unless(d >= 0, at, d.String(), "must not be negative")
}

// endpoints wants IP addresses, not names: a node that boots has no DNS yet.
func (m *mistakes) endpoints(health, metrics string) {
	before := len(*m)
	for _, e := range [][2]string{{"health.bindAddress", health}, {"metrics.bindAddress", metrics}} {
		if m.address(e[0], e[1]) {
			host, _, _ := net.SplitHostPort(e[1])
			_, err := netip.ParseAddr(host)
			m.unless(host == "" || err == nil, e[0], e[1], "must begin with an IP address; 0.0.0.0 or [::] for all")
			m.port(e[0], e[1])
		}
	}
	m.unless(len(*m) > before || !collide(health, metrics), "metrics.bindAddress", metrics, "must have another port than health.bindAddress")
}

// collide reports whether two valid addresses cannot both be listened on.
func collide(a, b string) bool {
	hostA, portA, _ := net.SplitHostPort(a)
	hostB, portB, _ := net.SplitHostPort(b)
	return portA != "" && portA == portB && (hostA == hostB || everywhere(hostA) || everywhere(hostB))
}

func everywhere(host string) bool {
	ip, err := netip.ParseAddr(host)
	return err != nil || ip.IsUnspecified()
}
