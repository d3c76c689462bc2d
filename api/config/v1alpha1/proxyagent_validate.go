package v1alpha1

import (
	"math"
	"net"
	"net/netip"
	"path"
	"regexp"
	"slices"
	"strconv"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/validation"
	"k8s.io/apimachinery/pkg/util/validation/field"
)

// Validate returns every mistake in the values at once, each a *field.Error with the path of its field.
func (c *ProxyAgentConfiguration) Validate() error {
	var errs field.ErrorList
	errs = append(errs, validateIdentity(c)...)
	errs = append(errs, validateFamilies(field.NewPath("ipFamilies"), c.IPFamilies)...)
	errs = append(errs, oneOf(field.NewPath("allocations"), c.Allocations, "prefer", "enforce", "ignore")...)
	errs = append(errs, validateDropUnallocated(c)...)
	errs = append(errs, validateNodePortAddresses(field.NewPath("nodePortAddresses"), c.NodePortAddresses)...)
	errs = append(errs, validateDetectLocal(field.NewPath("detectLocal"), c.DetectLocal)...)
	errs = append(errs, validateIPTables(field.NewPath("iptables"), c.IPTables)...)
	errs = append(errs, validateConntrack(field.NewPath("conntrack"), c.Conntrack)...)
	if !path.IsAbs(c.SysctlRoot) {
		errs = append(errs, field.Invalid(field.NewPath("sysctlRoot"), c.SysctlRoot, "must be the full path of a folder, such as /proc/sys"))
	}
	errs = append(errs, validateClient(field.NewPath("client"), c.Client)...)
	errs = append(errs, validateEndpoints(c)...)
	errs = append(errs, validateLog(field.NewPath("log"), c.Log)...)
	return errs.ToAggregate()
}

func validateIdentity(c *ProxyAgentConfiguration) field.ErrorList {
	var errs field.ErrorList
	if c.NodeName != "" {
		for _, why := range validation.IsDNS1123Subdomain(c.NodeName) {
			errs = append(errs, field.Invalid(field.NewPath("nodeName"), c.NodeName, "must be the name of a Node: "+why))
		}
	}
	for _, why := range validation.IsValidLabelValue(c.ServiceProxyName) {
		errs = append(errs, field.Invalid(field.NewPath("serviceProxyName"), c.ServiceProxyName, "must be the value of a label: "+why))
	}
	return errs
}

func validateFamilies(path *field.Path, families []string) field.ErrorList {
	var errs field.ErrorList
	for i, family := range families {
		errs = append(errs, oneOf(path.Index(i), family, "IPv4", "IPv6")...)
		if slices.Contains(families[:i], family) {
			errs = append(errs, field.Duplicate(path.Index(i), family))
		}
	}
	return errs
}

// validateDropUnallocated refuses what would harm the other proxy: flows to its addresses would count as left over.
func validateDropUnallocated(c *ProxyAgentConfiguration) field.ErrorList {
	if c.ServiceProxyName == "" || !c.DropsUnallocated() {
		return nil
	}
	return field.ErrorList{field.Invalid(field.NewPath("dropUnallocated"), true,
		"must be false, or left out, together with serviceProxyName: the proxy of the other Services serves addresses of the same ServiceCIDRs")}
}

func validateNodePortAddresses(path *field.Path, addresses []string) field.ErrorList {
	var errs field.ErrorList
	for i, text := range addresses {
		switch {
		case text != "primary":
			errs = append(errs, validateCIDR(path.Index(i), text)...)
		case len(addresses) > 1:
			errs = append(errs, field.Invalid(path.Index(i), text, "must stand alone; name CIDRs, or primary, not both"))
		}
	}
	return errs
}

func validateCIDR(path *field.Path, text string) field.ErrorList {
	p, err := netip.ParsePrefix(text)
	switch {
	case err != nil:
		return field.ErrorList{field.Invalid(path, text, "must be a CIDR such as 10.244.0.0/16 or fd00:244::/56")}
	case p != p.Masked():
		return field.ErrorList{field.Invalid(path, text, "has bits beyond its prefix; "+p.Masked().String()+" is meant")}
	case p.Addr().Is4In6():
		return field.ErrorList{field.Invalid(path, text, "must be written as an IPv4 CIDR")}
	}
	return nil
}

func validateDetectLocal(path *field.Path, d DetectLocal) field.ErrorList {
	errs := oneOf(path.Child("mode"), d.Mode, DetectClusterCIDR, DetectNodeCIDR, DetectBridgeInterface, DetectInterfaceNamePrefix, DetectNone)
	if len(errs) > 0 {
		return errs
	}
	errs = append(errs, validateClusterCIDRs(path.Child("clusterCIDRs"), d)...)
	errs = append(errs, validateInterface(path.Child("bridgeInterface"), d.BridgeInterface, d.Mode, DetectBridgeInterface)...)
	errs = append(errs, validateInterface(path.Child("interfaceNamePrefix"), d.InterfaceNamePrefix, d.Mode, DetectInterfaceNamePrefix)...)
	return errs
}

func validateClusterCIDRs(path *field.Path, d DetectLocal) field.ErrorList {
	var errs field.ErrorList
	if len(d.ClusterCIDRs) > 0 && d.Mode != DetectClusterCIDR {
		errs = append(errs, field.Forbidden(path, "has no effect in mode "+d.Mode+"; remove it, or set mode: "+DetectClusterCIDR))
	}
	families := map[bool]bool{}
	for i, text := range d.ClusterCIDRs {
		wrong := validateCIDR(path.Index(i), text)
		errs = append(errs, wrong...)
		if len(wrong) > 0 {
			continue
		}
		is4 := netip.MustParsePrefix(text).Addr().Is4()
		if families[is4] {
			errs = append(errs, field.Invalid(path.Index(i), text,
				"must be of another family than the first; there is one network of pods in a family"))
		}
		families[is4] = true
	}
	return errs
}

// interfaceName keeps out what iptables would read as something else: its wildcard +, its negation !, blanks and quotes.
var interfaceName = regexp.MustCompile(`^[A-Za-z0-9_.][A-Za-z0-9_.@-]{0,14}$`)

// validateInterface wants a name exactly in the mode that uses it.
func validateInterface(path *field.Path, name, mode, user string) field.ErrorList {
	switch {
	case mode != user && name != "":
		return field.ErrorList{field.Forbidden(path, "has no effect in mode "+mode+"; remove it, or set mode: "+user)}
	case mode == user && name == "":
		return field.ErrorList{field.Required(path, "mode "+mode+" goes by it")}
	case name != "" && !interfaceName.MatchString(name):
		return field.ErrorList{field.Invalid(path, name, "must be at most 15 letters, digits, and any of _ . @ -, without a wildcard")}
	}
	return nil
}

func validateIPTables(path *field.Path, t IPTables) field.ErrorList {
	errs := oneOf(path.Child("mode"), t.Mode, "auto", "nft", "legacy")
	if b := t.MasqueradeBit; b < 0 || b > 31 {
		errs = append(errs, field.Invalid(path.Child("masqueradeBit"), b, "must be from 0 to 31"))
	}
	errs = append(errs, notNegative(path.Child("minSyncPeriod"), t.MinSyncPeriod)...)
	errs = append(errs, positive(path.Child("syncPeriod"), t.SyncPeriod)...)
	errs = append(errs, positive(path.Child("probePeriod"), t.ProbePeriod)...)
	if t.SyncPeriod.Duration > 0 && t.MinSyncPeriod.Duration > t.SyncPeriod.Duration {
		errs = append(errs, field.Invalid(path.Child("minSyncPeriod"), t.MinSyncPeriod.Duration.String(), "must not be longer than syncPeriod"))
	}
	if t.SyncPeriod.Duration > 0 && t.ProbePeriod.Duration > t.SyncPeriod.Duration {
		errs = append(errs, field.Invalid(path.Child("probePeriod"), t.ProbePeriod.Duration.String(), "must not be longer than syncPeriod"))
	}
	return errs
}

func validateConntrack(path *field.Path, t Conntrack) field.ErrorList {
	errs := inRange(path.Child("maxPerCore"), t.MaxPerCore, math.MaxInt32)
	errs = append(errs, inRange(path.Child("min"), t.Min, math.MaxInt32)...)
	errs = append(errs, notNegative(path.Child("tcpEstablishedTimeout"), t.TCPEstablishedTimeout)...)
	errs = append(errs, notNegative(path.Child("tcpCloseWaitTimeout"), t.TCPCloseWaitTimeout)...)
	errs = append(errs, notNegative(path.Child("udpTimeout"), t.UDPTimeout)...)
	return append(errs, notNegative(path.Child("udpStreamTimeout"), t.UDPStreamTimeout)...)
}

func validateClient(path *field.Path, c ProxyAgentClient) field.ErrorList {
	var errs field.ErrorList
	if c.QPS == 0 {
		errs = append(errs, field.Invalid(path.Child("qps"), c.QPS, "must be greater than 0, or negative for no bound"))
	}
	if c.QPS > 0 && c.Burst < 1 {
		errs = append(errs, field.Invalid(path.Child("burst"), c.Burst, "must be at least 1"))
	}
	return errs
}

func validateEndpoints(c *ProxyAgentConfiguration) field.ErrorList {
	health, metrics := field.NewPath("health", "bindAddress"), field.NewPath("metrics", "bindAddress")
	errs := validateBindAddress(health, c.Health.BindAddress)
	errs = append(errs, validateBindAddress(metrics, c.Metrics.BindAddress)...)
	if len(errs) == 0 && collide(c.Health.BindAddress, c.Metrics.BindAddress) {
		errs = append(errs, field.Invalid(metrics, c.Metrics.BindAddress, "must have another port than health.bindAddress"))
	}
	return errs
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

// validateBindAddress wants an IP address, not a name: a node that boots has no DNS yet.
func validateBindAddress(path *field.Path, address string) field.ErrorList {
	if address == "0" {
		return nil
	}
	host, port, err := net.SplitHostPort(address)
	if err != nil {
		return field.ErrorList{field.Invalid(path, address, `must be ADDRESS:PORT, :PORT, or "0" for none`)}
	}
	var errs field.ErrorList
	if _, err := netip.ParseAddr(host); host != "" && err != nil {
		errs = append(errs, field.Invalid(path, address, "must begin with an IP address; 0.0.0.0 or [::] for all"))
	}
	if n, err := strconv.ParseUint(port, 10, 16); err != nil || n == 0 {
		errs = append(errs, field.Invalid(path, address, "must end with a port from 1 to 65535"))
	}
	return errs
}

func validateLog(path *field.Path, l Log) field.ErrorList {
	return append(oneOf(path.Child("format"), l.Format, "json", "text"), inRange(path.Child("level"), l.Level, 10)...)
}

func oneOf(path *field.Path, value string, valid ...string) field.ErrorList {
	if slices.Contains(valid, value) {
		return nil
	}
	return field.ErrorList{field.NotSupported(path, value, valid)}
}

// inRange wants a number from 0 to most.
func inRange(path *field.Path, n, most int) field.ErrorList {
	if n >= 0 && n <= most {
		return nil
	}
	return field.ErrorList{field.Invalid(path, n, "must be from 0 to "+strconv.Itoa(most))}
}

func notNegative(path *field.Path, d metav1.Duration) field.ErrorList {
	if d.Duration >= 0 {
		return nil
	}
	return field.ErrorList{field.Invalid(path, d.Duration.String(), "must not be negative")}
}

func positive(path *field.Path, d metav1.Duration) field.ErrorList {
	if d.Duration > 0 {
		return nil
	}
	return field.ErrorList{field.Invalid(path, d.Duration.String(), "must be greater than 0")}
}
