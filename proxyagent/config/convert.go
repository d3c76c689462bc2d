package config

import (
	"cmp"
	"fmt"
	"net"
	"net/netip"
	"slices"
	"strconv"
	"strings"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/validation/field"
	kubeproxy "k8s.io/kube-proxy/config/v1alpha1"
	netutils "k8s.io/utils/net"
	"k8s.io/utils/ptr"
	kjson "sigs.k8s.io/json"
	"sigs.k8s.io/yaml"

	"github.com/clusterip-operator/clusterip-operator/api/config/v1alpha1"
)

// The modes of kube-proxy on Linux. An empty one is modeIPTables.
const (
	modeIPTables = "iptables"
	modeIPVS     = "ipvs"
	modeNFTables = "nftables"
)

// The feature gates of kube-proxy that have a meaning here.
const (
	externalIPsGate = "AllowServiceExternalIPs"
	localhostGate   = "KubeProxyNFTablesLocalhostNodePorts"
)

// modeOf is the mode in force, whose section is read: the command line's, or the file's.
func modeOf(in kubeproxy.KubeProxyConfiguration, chosen string) kubeproxy.ProxyMode {
	if slices.Contains([]string{modeIPTables, modeIPVS, modeNFTables}, chosen) {
		return kubeproxy.ProxyMode(chosen)
	}
	return in.Mode
}

// convert returns our configuration with the same meaning. The mistakes are what ours cannot
// express; Validate finds the rest.
func convert(in kubeproxy.KubeProxyConfiguration, mode kubeproxy.ProxyMode) (v1alpha1.ProxyAgentConfiguration, field.ErrorList) {
	c := v1alpha1.DefaultProxyAgent()
	c.NodeName = strings.ToLower(strings.TrimSpace(in.HostnameOverride))
	if allowed, set := in.FeatureGates[externalIPsGate]; set {
		c.AllowServiceExternalIPs = allowed
	}
	if mode == modeNFTables || mode == modeIPVS {
		c.Mode = string(mode)
	}
	convertRules(in, mode, &c)
	c.Conntrack = convertConntrack(in.Conntrack, c.Conntrack)
	c.Client.Kubeconfig = in.ClientConnection.Kubeconfig
	c.Client.QPS = cmp.Or(in.ClientConnection.QPS, c.Client.QPS)
	c.Client.Burst = int(cmp.Or(in.ClientConnection.Burst, int32(c.Client.Burst)))
	c.Log = v1alpha1.Log{Format: cmp.Or(in.Logging.Format, "text"), Level: int(min(in.Logging.Verbosity, 10))}
	c.Metrics.EnableProfiling = in.EnableProfiling

	var errs, more field.ErrorList
	if modes := []string{"", modeIPTables, modeIPVS, modeNFTables}; !slices.Contains(modes, string(in.Mode)) {
		errs = append(errs, field.NotSupported(field.NewPath("mode"), string(in.Mode), modes[1:]))
	}
	if mode == modeIPVS {
		c.IPVS, more = convertIPVS(in.IPVS, c.IPVS)
		errs = append(errs, more...)
	}
	c.DetectLocal, more = convertDetectLocal(in)
	errs = append(errs, more...)
	c.NodePortAddresses, more = convertNodePortAddresses(in)
	errs = append(errs, more...)
	c.Health.BindAddress, c.Metrics.BindAddress, more = convertEndpoints(in)
	return c, append(errs, more...)
}

// fromSection reports whether kube-proxy reads a setting from its mode's section, not iptables.
func fromSection(mode kubeproxy.ProxyMode, name string) bool {
	switch mode {
	case modeNFTables:
		return slices.Contains([]string{"masqueradeAll", "masqueradeBit", "syncPeriod", "minSyncPeriod"}, name)
	case modeIPVS:
		return slices.Contains([]string{"syncPeriod", "minSyncPeriod"}, name)
	default:
		return false
	}
}

type section struct {
	full, pause metav1.Duration
	all         bool
	bit         *int32
}

func sectionOf(in kubeproxy.KubeProxyConfiguration, mode kubeproxy.ProxyMode) section {
	switch mode {
	case modeIPVS:
		return section{in.IPVS.SyncPeriod, in.IPVS.MinSyncPeriod, in.IPTables.MasqueradeAll, in.IPTables.MasqueradeBit}
	case modeNFTables:
		return section{in.NFTables.SyncPeriod, in.NFTables.MinSyncPeriod, in.NFTables.MasqueradeAll, in.NFTables.MasqueradeBit}
	default:
		return section{in.IPTables.SyncPeriod, in.IPTables.MinSyncPeriod, in.IPTables.MasqueradeAll, in.IPTables.MasqueradeBit}
	}
}

// convertRules reads the section that is in force; where the command line has chosen that, the
// section of the file's own mode says what it leaves out. Node ports on 127.0.0.0/8 kube-proxy
// serves in mode iptables, and by a gate in mode nftables: the file's own mode decides about them.
func convertRules(in kubeproxy.KubeProxyConfiguration, mode kubeproxy.ProxyMode, c *v1alpha1.ProxyAgentConfiguration) {
	s, own := sectionOf(in, mode), sectionOf(in, in.Mode)
	c.MasqueradeAll = s.all || own.all
	c.MasqueradeBit = int(ptr.Deref(cmp.Or(s.bit, own.bit), int32(c.MasqueradeBit)))
	c.SyncPeriod = cmp.Or(s.full, own.full, c.SyncPeriod)
	c.MinSyncPeriod = cmp.Or(s.pause, own.pause, c.MinSyncPeriod)
	iptables := in.Mode != modeIPVS && in.Mode != modeNFTables
	c.LocalhostNodePorts = iptables && ptr.Deref(in.IPTables.LocalhostNodePorts, c.LocalhostNodePorts) ||
		in.Mode == modeNFTables && in.FeatureGates[localhostGate] && slices.ContainsFunc(in.NodePortAddresses, namesLoopback)
	if c.SyncPeriod.Duration > 0 {
		c.ProbePeriod.Duration = min(c.ProbePeriod.Duration, c.SyncPeriod.Duration)
	}
}

func convertIPVS(in kubeproxy.KubeProxyIPVSConfiguration, c v1alpha1.IPVS) (v1alpha1.IPVS, field.ErrorList) {
	c.Scheduler, c.StrictARP = cmp.Or(in.Scheduler, c.Scheduler), in.StrictARP
	c.TCPTimeout, c.TCPFinTimeout, c.UDPTimeout = in.TCPTimeout, in.TCPFinTimeout, in.UDPTimeout
	var errs field.ErrorList
	for i, text := range in.ExcludeCIDRs {
		cidr, ok := canonical(text)
		if !ok {
			errs = append(errs, field.Invalid(field.NewPath("ipvs", "excludeCIDRs").Index(i), text, "must be a CIDR such as 10.1.0.0/16"))
			continue
		}
		c.ExcludeCIDRs = append(c.ExcludeCIDRs, cidr)
	}
	return c, errs
}

func convertConntrack(in kubeproxy.KubeProxyConntrackConfiguration, c v1alpha1.Conntrack) v1alpha1.Conntrack {
	return v1alpha1.Conntrack{
		MaxPerCore:            int(ptr.Deref(in.MaxPerCore, int32(c.MaxPerCore))),
		Min:                   int(ptr.Deref(in.Min, int32(c.Min))),
		TCPEstablishedTimeout: ptr.Deref(in.TCPEstablishedTimeout, c.TCPEstablishedTimeout),
		TCPCloseWaitTimeout:   ptr.Deref(in.TCPCloseWaitTimeout, c.TCPCloseWaitTimeout),
		TCPBeLiberal:          in.TCPBeLiberal,
		UDPTimeout:            in.UDPTimeout,
		UDPStreamTimeout:      in.UDPStreamTimeout,
	}
}

// convertDetectLocal drops the values of modes that are not in force, as kube-proxy does.
func convertDetectLocal(in kubeproxy.KubeProxyConfiguration) (v1alpha1.DetectLocal, field.ErrorList) {
	d := v1alpha1.DetectLocal{Mode: cmp.Or(string(in.DetectLocalMode), v1alpha1.DetectClusterCIDR)}
	switch d.Mode {
	case v1alpha1.DetectClusterCIDR:
		var errs field.ErrorList
		d.ClusterCIDRs, errs = convertClusterCIDR(in.ClusterCIDR)
		return d, errs
	case v1alpha1.DetectBridgeInterface:
		d.BridgeInterface = in.DetectLocal.BridgeInterface
	case v1alpha1.DetectInterfaceNamePrefix:
		d.InterfaceNamePrefix = in.DetectLocal.InterfaceNamePrefix
	}
	return d, nil
}

func convertClusterCIDR(text string) (cidrs []string, errs field.ErrorList) {
	if text == "" {
		return nil, nil
	}
	for part := range strings.SplitSeq(text, ",") {
		cidr, ok := canonical(part)
		if !ok {
			errs = append(errs, field.Invalid(field.NewPath("clusterCIDR"), text,
				strconv.Quote(part)+" must be a CIDR such as 10.244.0.0/16; two families are written 10.244.0.0/16,fd00:244::/56"))
			continue
		}
		cidrs = append(cidrs, cidr)
	}
	return cidrs, errs
}

// canonical reads CIDRs as leniently as kube-proxy: it drops bits beyond the prefix, leading zeros.
func canonical(text string) (string, bool) {
	_, parsed, err := netutils.ParseCIDRSloppy(text)
	if err != nil {
		return "", false
	}
	ones, _ := parsed.Mask.Size()
	addr, ok := netip.AddrFromSlice(parsed.IP)
	if !ok {
		return "", false
	}
	return netip.PrefixFrom(addr, ones).String(), true
}

// convertNodePortAddresses also knows the words that kube-proxy has since 1.37.
func convertNodePortAddresses(in kubeproxy.KubeProxyConfiguration) (cidrs []string, errs field.ErrorList) {
	path := field.NewPath("nodePortAddresses")
	addresses := in.NodePortAddresses
	if len(addresses) == 0 && in.Mode == modeNFTables {
		addresses = []string{"primary"}
	}
	for i, text := range addresses {
		switch text {
		case "primary":
			errs = append(errs, checkPrimary(path.Index(i), in)...)
			cidrs = append(cidrs, text)
		case "localhost":
			cidrs = append(cidrs, "127.0.0.0/8", "::1/128")
		case "all":
		default:
			cidr, ok := canonical(text)
			if !ok {
				errs = append(errs, field.Invalid(path.Index(i), text, "must be a CIDR such as 192.0.2.0/24, primary, localhost or all"))
			}
			cidrs = append(cidrs, cidr)
		}
	}
	if len(errs) > 0 || slices.Contains(addresses, "all") {
		return nil, errs // all includes the other entries
	}
	return cidrs, nil
}

// namesLoopback reports whether an entry of nodePortAddresses is loopback alone, as "all" is not.
func namesLoopback(text string) bool {
	cidr, _ := canonical(text)
	p, err := netip.ParsePrefix(cidr)
	return text == "localhost" || err == nil && p.Addr().IsLoopback()
}

// checkPrimary refuses what we cannot express: kube-proxy prefers bindAddress to Node addresses.
func checkPrimary(path *field.Path, in kubeproxy.KubeProxyConfiguration) field.ErrorList {
	ip := netutils.ParseIPSloppy(in.BindAddress)
	if ip == nil || ip.IsUnspecified() {
		return nil
	}
	return field.ErrorList{field.Invalid(path, "primary", "means bindAddress "+in.BindAddress+
		" to kube-proxy and the addresses of the Node object here: name the CIDR instead, such as "+
		(&net.IPNet{IP: ip, Mask: net.CIDRMask(8*len(ip), 8*len(ip))}).String()+", or remove bindAddress")}
}

// convertEndpoints follows kube-proxy: the family of bindAddress decides where a missing address
// listens, and a missing port is the usual one.
func convertEndpoints(in kubeproxy.KubeProxyConfiguration) (health, metrics string, errs field.ErrorList) {
	all, loopback := "0.0.0.0", "127.0.0.1"
	if in.BindAddress != "" {
		ip := netutils.ParseIPSloppy(in.BindAddress)
		if ip == nil {
			errs = append(errs, field.Invalid(field.NewPath("bindAddress"), in.BindAddress, "must be an IP address"))
		} else if ip.To4() == nil {
			all, loopback = "::", "::1"
		}
	}
	return withPort(cmp.Or(in.HealthzBindAddress, all), "10256"), withPort(cmp.Or(in.MetricsBindAddress, loopback), "10249"), errs
}

// withPort appends a port to an address that has none; what is no address it leaves for Validate.
func withPort(address, port string) string {
	if _, _, err := net.SplitHostPort(address); err == nil || netutils.ParseIPSloppy(address) == nil {
		return address
	}
	return net.JoinHostPort(address, port)
}

// parseKubeProxy reads kube-proxy's kind. Unknown and repeated fields are warnings there, too.
func parseKubeProxy(text []byte, chosen string) (v1alpha1.ProxyAgentConfiguration, []string, error) {
	in, warnings, err := decodeKubeProxy(text)
	if err != nil {
		return v1alpha1.ProxyAgentConfiguration{}, nil, err
	}
	mode := modeOf(in, chosen)
	c, errs := convert(in, mode)
	warnings = append(warnings, idle(in, mode)...)
	for _, mistake := range c.Validate() {
		mistake.Field = theirName(mistake.Field, mode)
		errs = append(errs, mistake)
	}
	return c, warnings, errs.ToAggregate()
}

func decodeKubeProxy(text []byte) (kubeproxy.KubeProxyConfiguration, []string, error) {
	var in kubeproxy.KubeProxyConfiguration
	var warnings []string
	body, err := yaml.YAMLToJSONStrict(text)
	if err != nil {
		warnings = append(warnings, oneLine(err)+": the last one counts")
		if body, err = yaml.YAMLToJSON(text); err != nil {
			return in, nil, fmt.Errorf("not valid YAML: %w", err)
		}
	}
	strict, err := kjson.UnmarshalStrict(body, &in)
	if err != nil {
		return in, nil, fmt.Errorf("not a %s: %w", kubeProxyKind, err)
	}
	for _, err := range strict {
		warnings = append(warnings, fmt.Sprintf("%v: ignored", err))
	}
	return in, warnings, nil
}

// oneLine shortens the complaint of the YAML reader about keys that stand twice.
func oneLine(err error) string {
	return strings.Join(strings.Fields(strings.TrimPrefix(err.Error(), "yaml: unmarshal errors:")), " ")
}

// renamed are the fields whose name differs, ours before theirs.
var renamed = strings.NewReplacer("nodeName", "hostnameOverride", "detectLocal.clusterCIDRs", "clusterCIDR", "detectLocal.mode", "detectLocalMode",
	"client.", "clientConnection.", "health.bindAddress", "healthzBindAddress", "metrics.bindAddress", "metricsBindAddress",
	"log.format", "logging.format", "log.level", "logging.verbosity")

// theirName names a field as kube-proxy's file does.
func theirName(ours string, mode kubeproxy.ProxyMode) string {
	switch {
	case fromSection(mode, ours):
		return string(mode) + "." + ours
	case fromSection(modeNFTables, ours):
		return modeIPTables + "." + ours
	default:
		return renamed.Replace(ours)
	}
}
