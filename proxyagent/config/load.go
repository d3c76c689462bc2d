package config

import (
	"bufio"
	"bytes"
	"cmp"
	"errors"
	"fmt"
	"io"
	"net/netip"
	"os"
	"regexp"
	"slices"
	"strings"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	utilyaml "k8s.io/apimachinery/pkg/util/yaml"
	kubeproxy "k8s.io/kube-proxy/config/v1alpha1"
	"sigs.k8s.io/yaml"

	"github.com/clusterip-operator/clusterip-operator/api/config/v1alpha1"
	"github.com/clusterip-operator/clusterip-operator/proxyagent/model"
)

// kubeProxyKind is the kind of kube-proxy's configuration file.
const kubeProxyKind = "KubeProxyConfiguration"

// Load reads a file over the defaults: one of our own kind, or kube-proxy's, whose fields without
// meaning here are named in the warnings. Mode is that of the command line, empty if it says none:
// of kube-proxy's sections that of this mode is read. The configuration is valid unless there is an
// error, which names every mistake in the file.
func Load(path, mode string) (v1alpha1.ProxyAgentConfiguration, []string, error) {
	text, err := os.ReadFile(path)
	if err != nil {
		return v1alpha1.ProxyAgentConfiguration{}, nil, fmt.Errorf("reading the configuration file: %w", err)
	}
	c, warnings, err := Parse(text, mode)
	if err != nil {
		return v1alpha1.ProxyAgentConfiguration{}, warnings, fmt.Errorf("configuration file %s: %w", path, err)
	}
	return c, warnings, nil
}

// Parse is Load for a text that has been read.
func Parse(text []byte, mode string) (v1alpha1.ProxyAgentConfiguration, []string, error) {
	head, err := typeOf(text)
	if err != nil {
		return v1alpha1.ProxyAgentConfiguration{}, nil, err
	}
	switch head {
	case metav1.TypeMeta{APIVersion: v1alpha1.APIVersion, Kind: v1alpha1.ProxyAgentKind}:
		c, err := v1alpha1.ParseProxyAgent(text)
		return c, nil, errors.Join(err, c.Validate().ToAggregate())
	case metav1.TypeMeta{APIVersion: kubeproxy.SchemeGroupVersion.String(), Kind: kubeProxyKind}:
		return parseKubeProxy(text, mode)
	default:
		return v1alpha1.ProxyAgentConfiguration{}, nil, wrongType(head)
	}
}

// typeOf reads what a file says that it is. It refuses a second document, which would be ignored.
func typeOf(text []byte) (metav1.TypeMeta, error) {
	var head metav1.TypeMeta
	n, err := documents(text)
	if n > 1 {
		return head, fmt.Errorf("%d documents in one file: only one can be meant, put it into a file of its own", n)
	}
	if err == nil {
		err = yaml.Unmarshal(text, &head)
	}
	if err != nil {
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

// endOfDocument is the other marker of YAML.
var endOfDocument = regexp.MustCompile(`(?m)^\.\.\.\s*$`)

// documents counts the documents of a YAML stream that have any content. A line that begins with
// --- or ... is a marker also inside of quotes and block texts, as YAML forbids it there.
func documents(text []byte) (count int, err error) {
	reader := utilyaml.NewYAMLReader(bufio.NewReader(bytes.NewReader(endOfDocument.ReplaceAll(text, []byte("---")))))
	for {
		document, err := reader.Read()
		if errors.Is(err, io.EOF) {
			return count, nil
		}
		if err != nil {
			return 0, err
		}
		var content any
		if err := yaml.Unmarshal(document, &content); err != nil || content != nil {
			count++
		}
	}
}

// NodeName returns the first that is not empty: what was configured, the environment variable
// NODE_NAME, the host name as kubelets register it. It fails when all are empty.
func NodeName(configured, environment, host string) (string, error) {
	tidy := func(name string) string { return strings.ToLower(strings.TrimSpace(name)) }
	name := cmp.Or(tidy(configured), tidy(environment), tidy(host))
	if name == "" {
		return "", errors.New("the name of this machine's Node is not known: set --node-name, nodeName in the file, or the environment variable NODE_NAME")
	}
	return name, nil
}

// Settings returns a valid configuration for one family, and whether the family is to be served.
func Settings(c v1alpha1.ProxyAgentConfiguration, family model.Family) (model.Settings, bool) {
	s := model.Settings{
		Family:             family,
		Allocations:        model.AllocationMode(c.Allocations),
		MasqueradeAll:      c.MasqueradeAll,
		MasqueradeBit:      c.MasqueradeBit,
		LocalSource:        localSource(c.DetectLocal, family),
		FromNode:           c.DetectLocal.Mode == v1alpha1.DetectNodeCIDR,
		LocalhostNodePorts: family == model.IPv4 && c.LocalhostNodePorts,
		KeepInvalid:        !c.DropInvalid || c.Conntrack.TCPBeLiberal,
		NoExternalIPs:      !c.AllowServiceExternalIPs,
		KeepUnallocated:    !c.DropsUnallocated(),
	}
	s.NodePortPrimary = slices.Contains(c.NodePortAddresses, "primary")
	s.NodePortCIDRs = ofFamily(c.NodePortAddresses, family)
	return s, len(c.IPFamilies) == 0 || slices.Contains(c.IPFamilies, family.String())
}

// ExcludeCIDRs are those of a valid configuration.
func ExcludeCIDRs(c v1alpha1.ProxyAgentConfiguration) []netip.Prefix {
	return slices.Concat(ofFamily(c.IPVS.ExcludeCIDRs, model.IPv4), ofFamily(c.IPVS.ExcludeCIDRs, model.IPv6))
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

// ofFamily returns the CIDRs of one family and leaves out what is none.
func ofFamily(texts []string, family model.Family) (cidrs []netip.Prefix) {
	for _, text := range texts {
		if p, err := netip.ParsePrefix(text); err == nil && model.FamilyOf(p.Addr()) == family {
			cidrs = append(cidrs, p)
		}
	}
	return cidrs
}
