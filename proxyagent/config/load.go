package config

import (
	"bytes"
	"errors"
	"fmt"
	"net/netip"
	"os"
	"slices"
	"strings"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	kubeproxy "k8s.io/kube-proxy/config/v1alpha1"
	"sigs.k8s.io/yaml"

	"github.com/clusterip-operator/clusterip-operator/api/config/v1alpha1"
	"github.com/clusterip-operator/clusterip-operator/proxyagent/model"
)

// kubeProxyKind is the kind of kube-proxy's configuration file.
const kubeProxyKind = "KubeProxyConfiguration"

// Default returns the configuration of an agent without file and flags.
func Default() v1alpha1.ProxyAgentConfiguration { return v1alpha1.DefaultProxyAgent() }

// Validate returns every mistake in the values at once, each with the path of its field. Call it after the flags are in.
func Validate(c v1alpha1.ProxyAgentConfiguration) error { return c.Validate() }

// Load reads a file over the defaults: one of our own kind, or kube-proxy's, whose fields without meaning here are named in the
// warnings. The configuration is valid unless there is an error, which names every mistake in the file.
func Load(path string) (v1alpha1.ProxyAgentConfiguration, []string, error) {
	text, err := os.ReadFile(path)
	if err != nil {
		return v1alpha1.ProxyAgentConfiguration{}, nil, fmt.Errorf("reading the configuration file: %w", err)
	}
	c, warnings, err := Parse(text)
	if err != nil {
		return v1alpha1.ProxyAgentConfiguration{}, warnings, fmt.Errorf("configuration file %s: %w", path, err)
	}
	return c, warnings, nil
}

// Parse is Load for a text that has been read.
func Parse(text []byte) (v1alpha1.ProxyAgentConfiguration, []string, error) {
	head, err := typeOf(text)
	if err != nil {
		return v1alpha1.ProxyAgentConfiguration{}, nil, err
	}
	switch head {
	case metav1.TypeMeta{APIVersion: v1alpha1.APIVersion, Kind: v1alpha1.ProxyAgentKind}:
		c, err := parseOwn(text)
		return c, nil, err
	case metav1.TypeMeta{APIVersion: kubeproxy.SchemeGroupVersion.String(), Kind: kubeProxyKind}:
		return parseKubeProxy(text)
	default:
		return v1alpha1.ProxyAgentConfiguration{}, nil, wrongType(head)
	}
}

// parseOwn names mistakes in the fields and in their values together.
func parseOwn(text []byte) (v1alpha1.ProxyAgentConfiguration, error) {
	c, err := v1alpha1.ParseProxyAgent(text)
	return c, errors.Join(err, c.Validate())
}

// typeOf reads what a file says that it is, and refuses more than one document: all but the first would be ignored.
func typeOf(text []byte) (metav1.TypeMeta, error) {
	var head metav1.TypeMeta
	if n := documents(text); n > 1 {
		return head, fmt.Errorf("%d documents in one file: only one can be meant, put it into a file of its own", n)
	}
	if err := yaml.Unmarshal(text, &head); err != nil {
		return head, fmt.Errorf("not valid YAML: %w", err)
	}
	return head, nil
}

func wrongType(head metav1.TypeMeta) error {
	hint := ""
	if head.Kind == "ConfigMap" {
		hint = "; this is a ConfigMap, the configuration is the text below one of its keys (config.conf in kubeadm's)"
	}
	return fmt.Errorf("apiVersion %q, kind %q: want %s, %s, or kube-proxy's %s, %s%s", head.APIVersion, head.Kind,
		v1alpha1.APIVersion, v1alpha1.ProxyAgentKind, kubeproxy.SchemeGroupVersion, kubeProxyKind, hint)
}

// documents counts the documents of a YAML stream that have any content. A line that begins with --- or ... is a marker wherever it
// stands, also inside of quotes and block texts, as YAML forbids it there.
func documents(text []byte) int {
	count, open := 0, false
	for line := range bytes.Lines(text) {
		rest, starts := marker(line, "---")
		if _, ends := marker(line, "..."); starts || ends {
			open = false
		}
		if !open && hasContent(rest) {
			open = true
			count++
		}
	}
	return count
}

// marker reports whether a line is the given marker, and returns what follows it; all of the line if it is none.
func marker(line []byte, mark string) ([]byte, bool) {
	rest, found := bytes.CutPrefix(line, []byte(mark))
	if !found || len(rest) > 0 && !bytes.ContainsAny(rest[:1], " \t\r\n") {
		return line, false
	}
	return rest, true
}

// hasContent reports whether a line holds more than blanks, a comment, a directive or the end of a document.
func hasContent(line []byte) bool {
	_, ends := marker(line, "...")
	line = bytes.TrimLeft(line, " \t\r\n\uFEFF")
	return !ends && len(line) > 0 && line[0] != '#' && line[0] != '%'
}

// Flags are the values of a command line. A nil one was not given.
type Flags struct {
	Kubeconfig, NodeName, Allocations, IPTablesMode, ServiceProxyName *string
	MetricsBindAddress, HealthBindAddress, SysctlRoot                 *string
	// ClusterCIDRs are the values of --cluster-cidr, split at commas. Given, they switch to mode ClusterCIDR.
	ClusterCIDRs  *[]string
	MinSyncPeriod *time.Duration
	Verbosity     *int
}

// Over returns the configuration with the given flags in the place of what the file says. It does not validate, and c is not changed.
func (f Flags) Over(c v1alpha1.ProxyAgentConfiguration) v1alpha1.ProxyAgentConfiguration {
	give(&c.Client.Kubeconfig, f.Kubeconfig)
	give(&c.NodeName, f.NodeName)
	give(&c.Allocations, f.Allocations)
	give(&c.IPTables.Mode, f.IPTablesMode)
	give(&c.ServiceProxyName, f.ServiceProxyName)
	give(&c.Metrics.BindAddress, f.MetricsBindAddress)
	give(&c.Health.BindAddress, f.HealthBindAddress)
	give(&c.SysctlRoot, f.SysctlRoot)
	give(&c.Log.Level, f.Verbosity)
	if f.ClusterCIDRs != nil {
		cidrs := slices.DeleteFunc(slices.Clone(*f.ClusterCIDRs), func(s string) bool { return s == "" })
		c.DetectLocal = v1alpha1.DetectLocal{Mode: v1alpha1.DetectClusterCIDR, ClusterCIDRs: cidrs}
	}
	if f.MinSyncPeriod != nil {
		c.IPTables.MinSyncPeriod = metav1.Duration{Duration: *f.MinSyncPeriod}
	}
	return c
}

func give[T any](to, value *T) {
	if value != nil {
		*to = *value
	}
}

// NodeName returns the first that is not empty: what was configured, the environment variable NODE_NAME, the host name in the form that
// kubelets register. It fails when all are empty.
func NodeName(configured, environment, host string) (string, error) {
	for _, name := range []string{configured, environment, host} {
		if name = strings.ToLower(strings.TrimSpace(name)); name != "" {
			return name, nil
		}
	}
	return "", errors.New("the name of this machine's Node is not known: " +
		"set --node-name, nodeName in the file, or the environment variable NODE_NAME")
}

// Settings returns what a valid configuration says for one family, and whether the family is to be served at all.
func Settings(c v1alpha1.ProxyAgentConfiguration, family model.Family) (model.Settings, bool) {
	s := model.Settings{
		Family:             family,
		Allocations:        model.AllocationMode(c.Allocations),
		MasqueradeAll:      c.IPTables.MasqueradeAll,
		MasqueradeBit:      c.IPTables.MasqueradeBit,
		LocalSource:        localSource(c.DetectLocal, family),
		FromNode:           c.DetectLocal.Mode == v1alpha1.DetectNodeCIDR,
		LocalhostNodePorts: family == model.IPv4 && c.IPTables.LocalhostNodePorts,
		KeepInvalid:        !c.IPTables.DropInvalid || c.Conntrack.TCPBeLiberal,
		NoExternalIPs:      !c.AllowServiceExternalIPs,
		KeepUnallocated:    !c.DropsUnallocated(),
	}
	s.NodePortPrimary = slices.Contains(c.NodePortAddresses, "primary")
	s.NodePortCIDRs = nodePortCIDRs(c.NodePortAddresses, family)
	return s, len(c.IPFamilies) == 0 || slices.Contains(c.IPFamilies, family.String())
}

func localSource(d v1alpha1.DetectLocal, family model.Family) model.LocalSource {
	switch d.Mode {
	case v1alpha1.DetectClusterCIDR:
		if cidrs := ofFamily(d.ClusterCIDRs, family); len(cidrs) > 0 {
			return model.LocalSource{CIDR: cidrs[0]}
		}
	case v1alpha1.DetectBridgeInterface:
		return model.LocalSource{Interface: d.BridgeInterface}
	case v1alpha1.DetectInterfaceNamePrefix:
		return model.LocalSource{InterfacePrefix: d.InterfaceNamePrefix}
	}
	return model.LocalSource{}
}

// nodePortCIDRs is empty, which means any address, also when one of them is the whole of the family.
func nodePortCIDRs(addresses []string, family model.Family) []netip.Prefix {
	cidrs := ofFamily(addresses, family)
	if slices.ContainsFunc(cidrs, func(p netip.Prefix) bool { return p.Bits() == 0 }) {
		return nil
	}
	return cidrs
}

// ofFamily returns the CIDRs of one family and leaves out what is none.
func ofFamily(texts []string, family model.Family) (cidrs []netip.Prefix) {
	for _, text := range texts {
		if p, err := netip.ParsePrefix(text); err == nil && model.FamilyOf(p.Addr()) == family {
			cidrs = append(cidrs, p)
		}
	}
	return cidrs
}
