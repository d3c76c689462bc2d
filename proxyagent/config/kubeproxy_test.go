package config

import (
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"reflect"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	kubeproxy "k8s.io/kube-proxy/config/v1alpha1"

	"github.com/clusterip-operator/clusterip-operator/api/config/v1alpha1"
	"github.com/clusterip-operator/clusterip-operator/proxyagent/model"
)

// other is for each field of kube-proxy's file a value that is not its default, as YAML.
var other = map[string]string{
	"featureGates":                                   "{TopologyAwareHints: false}",
	"clientConnection.kubeconfig":                    "/etc/kubeconfig",
	"clientConnection.acceptContentTypes":            "application/json",
	"clientConnection.contentType":                   "application/json",
	"clientConnection.qps":                           "7",
	"clientConnection.burst":                         "17",
	"logging.format":                                 "json",
	"logging.flushFrequency":                         "7s",
	"logging.verbosity":                              "4",
	"logging.vmodule":                                "[{filePattern: a, verbosity: 3}]",
	"logging.options.text.splitStream":               "true",
	"logging.options.text.infoBufferSize":            "1k",
	"logging.options.json.splitStream":               "true",
	"logging.options.json.infoBufferSize":            "1k",
	"hostnameOverride":                               "node",
	"bindAddress":                                    "192.0.2.1",
	"healthzBindAddress":                             "127.0.0.1",
	"metricsBindAddress":                             "0.0.0.0",
	"bindAddressHardFail":                            "true",
	"enableProfiling":                                "true",
	"showHiddenMetricsForVersion":                    `"1.36"`,
	"mode":                                           "ipvs",
	"iptables.masqueradeBit":                         "15",
	"iptables.masqueradeAll":                         "true",
	"iptables.localhostNodePorts":                    "false",
	"iptables.syncPeriod":                            "7s",
	"iptables.minSyncPeriod":                         "2s",
	"ipvs.syncPeriod":                                "7s",
	"ipvs.minSyncPeriod":                             "2s",
	"ipvs.scheduler":                                 "wrr",
	"ipvs.excludeCIDRs":                              "[10.0.0.0/8]",
	"ipvs.strictARP":                                 "true",
	"ipvs.tcpTimeout":                                "7s",
	"ipvs.tcpFinTimeout":                             "7s",
	"ipvs.udpTimeout":                                "7s",
	"nftables.masqueradeBit":                         "15",
	"nftables.masqueradeAll":                         "true",
	"nftables.syncPeriod":                            "7s",
	"nftables.minSyncPeriod":                         "2s",
	"winkernel.networkName":                          "net",
	"winkernel.sourceVip":                            "192.0.2.1",
	"winkernel.enableDSR":                            "true",
	"winkernel.rootHnsEndpointName":                  "net",
	"winkernel.forwardHealthCheckVip":                "true",
	"detectLocalMode":                                "NodeCIDR",
	"detectLocal.bridgeInterface":                    "cni0",
	"detectLocal.interfaceNamePrefix":                "cali",
	"clusterCIDR":                                    "10.244.0.0/16",
	"nodePortAddresses":                              "[192.0.2.0/24]",
	"oomScoreAdj":                                    "0",
	"conntrack.maxPerCore":                           "0",
	"conntrack.min":                                  "0",
	"conntrack.tcpEstablishedTimeout":                "0s",
	"conntrack.tcpCloseWaitTimeout":                  "0s",
	"conntrack.tcpBeLiberal":                         "true",
	"conntrack.udpTimeout":                           "7s",
	"conntrack.udpStreamTimeout":                     "7s",
	"configSyncPeriod":                               "1m",
	"portRange":                                      "1-2",
	"windowsRunAsService":                            "true",
	"featureGates." + externalIPsGate:                "false",
	"featureGates." + localhostGate:                  "true",
	"featureGates.KubeProxyDrainingTerminatingNodes": "true",
}

// needs are the settings without which kube-proxy does not look at a field.
var needs = map[string]string{
	"detectLocal.bridgeInterface":     "detectLocalMode: BridgeInterface\n",
	"detectLocal.interfaceNamePrefix": "detectLocalMode: InterfaceNamePrefix\n",
}

// A field that neither means something nor is named in a warning would be lost without a word.
func TestEveryFieldOfKubeProxyMattersOrIsNamed(t *testing.T) {
	for _, path := range allPaths() {
		t.Run(path, func(t *testing.T) {
			value, known := other[path]
			if !known {
				t.Fatal("a field that this test does not know: decide what it means")
			}
			got, warnings, err := Parse([]byte(theirHead+needs[path]+nested(path, value)), "")
			if err != nil {
				t.Fatal(err)
			}
			plain, _, err := Parse([]byte(theirHead), "")
			if err != nil {
				t.Fatal(err)
			}
			named := len(warnings) > 0 && strings.HasPrefix(warnings[len(warnings)-1], path)
			if !named && cmp.Equal(plain, got) {
				t.Errorf("%s has no effect, and the warnings are %q", path, warnings)
			}
			if named && strings.Contains(warnings[len(warnings)-1], "has no effect") && !cmp.Equal(plain, got) {
				t.Errorf("%s has an effect, and the warnings are %q", path, warnings)
			}
		})
	}
}

// nested writes a dotted path as YAML.
func nested(path, value string) string {
	parts := strings.Split(path, ".")
	return strings.Join(parts, ": {") + ": " + value + strings.Repeat("}", len(parts)-1) + "\n"
}

// scalars are types of kube-proxy's file that are structs in Go and single values in the file.
var scalars = []string{"Duration", "TimeOrMetaDuration", "QuantityValue"}

// paths are the fields of a type of the file, those of structs in it by dotted names.
func paths(under string, of reflect.Type) (all []string) {
	for f := range of.Fields() {
		name, _, _ := strings.Cut(f.Tag.Get("json"), ",")
		path := strings.TrimPrefix(under+"."+name, ".")
		switch {
		case f.Type.Name() == "TypeMeta":
		case f.Anonymous:
			all = append(all, paths(under, f.Type)...)
		case f.Type.Kind() == reflect.Struct && !slices.Contains(scalars, f.Type.Name()):
			all = append(all, paths(path, f.Type)...)
		default:
			all = append(all, path)
		}
	}
	return all
}

// allPaths are those of the file, and some of its feature gates.
func allPaths() []string {
	return append(paths("", reflect.TypeFor[kubeproxy.KubeProxyConfiguration]()),
		"featureGates."+externalIPsGate, "featureGates."+localhostGate, "featureGates.KubeProxyDrainingTerminatingNodes")
}

func TestConvert(t *testing.T) {
	type conf = v1alpha1.ProxyAgentConfiguration
	for name, tc := range map[string]struct {
		text     string
		want     func(*conf)
		warnings []string
	}{
		"nothing": {"", func(*conf) {}, nil},
		"the defaults written out": {`
mode: iptables
bindAddress: 0.0.0.0
healthzBindAddress: 0.0.0.0:10256
metricsBindAddress: 127.0.0.1
oomScoreAdj: -999
configSyncPeriod: 15m
iptables: {masqueradeBit: 14, localhostNodePorts: true, syncPeriod: 30s, minSyncPeriod: 1s}
ipvs: {syncPeriod: 30s}
nftables: {masqueradeBit: 14, syncPeriod: 30s, minSyncPeriod: 1s}
conntrack: {maxPerCore: 32768, min: 131072, tcpEstablishedTimeout: 24h, tcpCloseWaitTimeout: 1h}
clientConnection: {contentType: application/vnd.kubernetes.protobuf, qps: 5, burst: 10}
logging: {format: text, flushFrequency: 5s}
detectLocalMode: ClusterCIDR
`, func(*conf) {}, nil},
		"CIDRs as leniently as kube-proxy": {"clusterCIDR: 010.244.7.1/16\nnodePortAddresses: [192.168.1.17/24, 'fd00::7/64']\n", func(c *conf) {
			c.DetectLocal.ClusterCIDRs = []string{"10.244.0.0/16"}
			c.NodePortAddresses = []string{"192.168.1.0/24", "fd00::/64"}
		}, nil},
		"the words of 1.37": {"nodePortAddresses: [localhost, 192.168.1.0/24]\n", func(c *conf) {
			c.NodePortAddresses = []string{"127.0.0.0/8", "::1/128", "192.168.1.0/24"}
		}, nil},
		"the node's own, and loopback": {"mode: nftables\nnodePortAddresses: [primary, localhost]\n", func(c *conf) {
			c.Mode, c.LocalhostNodePorts, c.NodePortAddresses = "nftables", false, []string{"primary", "127.0.0.0/8", "::1/128"}
		}, nil},
		"loopback by the gate of nftables": {"mode: nftables\nnodePortAddresses: [primary, 127.0.0.0/8]\nfeatureGates: {KubeProxyNFTablesLocalhostNodePorts: true}\n", func(c *conf) {
			c.Mode, c.NodePortAddresses = "nftables", []string{"primary", "127.0.0.0/8"}
		}, []string{"featureGates.KubeProxyNFTablesLocalhostNodePorts: true means localhostNodePorts"}},
		"the gate alone": {"mode: nftables\nnodePortAddresses: [all]\nfeatureGates: {KubeProxyNFTablesLocalhostNodePorts: true}\n", func(c *conf) {
			c.Mode, c.LocalhostNodePorts = "nftables", false
		}, []string{"featureGates.KubeProxyNFTablesLocalhostNodePorts: true means localhostNodePorts"}},
		"all addresses": {"nodePortAddresses: [primary, all]\n", func(*conf) {}, nil},
		"IPv6 first": {"bindAddress: '::'\n", func(c *conf) {
			c.Health.BindAddress, c.Metrics.BindAddress = "[::]:10256", "[::1]:10249"
		}, nil},
		"an address of the node": {"bindAddress: 2001:db8::1\nmetricsBindAddress: 2001:db8::1\n", func(c *conf) {
			c.Health.BindAddress, c.Metrics.BindAddress = "[::]:10256", "[2001:db8::1]:10249"
		}, []string{`bindAddress: "2001:db8::1" only decides`}},
		"a network of pods that is not in force": {`
detectLocalMode: NodeCIDR
clusterCIDR: ten
detectLocal: {bridgeInterface: cni0}
`, func(c *conf) {
			c.DetectLocal.Mode = "NodeCIDR"
		}, nil},
		"IPVS, its own periods": {`
mode: ipvs
ipvs: {syncPeriod: 20s, minSyncPeriod: 2s}
iptables: {syncPeriod: 40s, masqueradeAll: true, masqueradeBit: 3, localhostNodePorts: true}
`, func(c *conf) {
			c.Mode = "ipvs"
			c.LocalhostNodePorts, c.MasqueradeAll, c.MasqueradeBit = false, true, 3
			c.SyncPeriod.Duration, c.MinSyncPeriod.Duration = 20e9, 2e9
		}, []string{`iptables.syncPeriod: "40s" has no effect: kube-proxy does not read it in mode ipvs`}},
		"IPVS, all of its section": {`
mode: ipvs
ipvs: {scheduler: wlc, strictARP: true, excludeCIDRs: [10.1.7.0/16], tcpTimeout: 900s, tcpFinTimeout: 120s, udpTimeout: 300s}
`, func(c *conf) {
			c.Mode, c.LocalhostNodePorts = "ipvs", false
			c.IPVS.Scheduler, c.IPVS.StrictARP, c.IPVS.ExcludeCIDRs = "wlc", true, []string{"10.1.0.0/16"}
			c.IPVS.TCPTimeout.Duration, c.IPVS.TCPFinTimeout.Duration, c.IPVS.UDPTimeout.Duration = 900e9, 120e9, 300e9
		}, nil},
		"nftables, its own section": {`
mode: nftables
nftables: {masqueradeAll: true, masqueradeBit: 3, syncPeriod: 20s}
iptables: {masqueradeAll: true, localhostNodePorts: false}
nodePortAddresses: [192.0.2.0/24]
`, func(c *conf) {
			c.Mode = "nftables"
			c.LocalhostNodePorts, c.MasqueradeAll, c.MasqueradeBit = false, true, 3
			c.SyncPeriod.Duration = 20e9
			c.NodePortAddresses = []string{"192.0.2.0/24"}
		}, []string{"iptables.localhostNodePorts: false", "iptables.masqueradeAll: true"}},
		"comparing more often than looking": {"iptables: {syncPeriod: 500ms, minSyncPeriod: 100ms}\n", func(c *conf) {
			c.SyncPeriod.Duration, c.MinSyncPeriod.Duration, c.ProbePeriod.Duration = 5e8, 1e8, 5e8
		}, nil},
		"no external IPs": {"featureGates: {AllowServiceExternalIPs: false, Other: true}\n", func(c *conf) {
			c.AllowServiceExternalIPs = false
		}, []string{"featureGates.Other: true has no effect"}},
		"for Windows":          {"winkernel: {enableDSR: true}\n", func(*conf) {}, []string{"winkernel.enableDSR: true has no effect: the agent runs on Linux"}},
		"very talkative":       {"logging: {verbosity: 99}\n", func(c *conf) { c.Log.Level = 10 }, []string{"logging.verbosity: 99"}},
		"a host name as it is": {"hostnameOverride: ' Node-1 '\n", func(c *conf) { c.NodeName = "node-1" }, nil},
		"a field twice": {
			"clusterCIDR: 10.1.0.0/16\nclusterCIDR: 10.2.0.0/16\n", func(c *conf) { c.DetectLocal.ClusterCIDRs = []string{"10.2.0.0/16"} },
			[]string{`line 4: key "clusterCIDR" already set in map: the last one counts`},
		},
		"a field misspelt": {
			"clusterCidr: 10.1.0.0/16\niptables: {bit: 1}\n", func(*conf) {},
			[]string{`unknown field "clusterCidr"`, `unknown field "iptables.bit"`},
		},
	} {
		t.Run(name, func(t *testing.T) {
			got, warnings, err := Parse([]byte(theirHead+tc.text), "")
			expect(t, got, warnings, err, tc.want, tc.warnings)
		})
	}
}

// TestTheModeOfTheCommandLine has its section read, over that of the file's own mode, which goes on
// deciding about node ports.
func TestTheModeOfTheCommandLine(t *testing.T) {
	type conf = v1alpha1.ProxyAgentConfiguration
	const text = `
nftables: {masqueradeBit: 3, syncPeriod: 20s}
ipvs: {scheduler: wlc, minSyncPeriod: 4s}
iptables: {masqueradeAll: true, masqueradeBit: 7, minSyncPeriod: 2s, localhostNodePorts: true}
`
	const idleNFTables, idleIPVS = "nftables.%s: %s has no effect: it is read where the file or --mode says nftables", "ipvs.%s: %s has no effect: it is read where the file or --mode says ipvs"
	nft := []string{fmt.Sprintf(idleNFTables, "masqueradeBit", "3"), fmt.Sprintf(idleNFTables, "syncPeriod", `"20s"`)}
	ipvs := []string{fmt.Sprintf(idleIPVS, "minSyncPeriod", `"4s"`), fmt.Sprintf(idleIPVS, "scheduler", `"wlc"`)}
	for name, tc := range map[string]struct {
		own, mode string
		want      func(*conf)
		warnings  []string
	}{
		"nftables over iptables": {"", "nftables", func(c *conf) {
			c.Mode, c.MasqueradeBit, c.SyncPeriod.Duration, c.MinSyncPeriod.Duration = "nftables", 3, 20e9, 2e9
		}, ipvs},
		"ipvs over iptables": {"iptables", "ipvs", func(c *conf) {
			c.Mode, c.IPVS.Scheduler, c.MasqueradeBit, c.MinSyncPeriod.Duration = "ipvs", "wlc", 7, 4e9
		}, nft},
		"auto over iptables": {"", "auto", func(c *conf) { c.MasqueradeBit, c.MinSyncPeriod.Duration = 7, 2e9 }, slices.Concat(ipvs, nft)},
		"none":               {"", "", func(c *conf) { c.MasqueradeBit, c.MinSyncPeriod.Duration = 7, 2e9 }, slices.Concat(ipvs, nft)},
		"iptables over nftables": {"nftables", "iptables", func(c *conf) {
			c.MasqueradeBit, c.SyncPeriod.Duration, c.MinSyncPeriod.Duration, c.LocalhostNodePorts = 7, 20e9, 2e9, false
			c.NodePortAddresses = []string{"primary"}
		}, ipvs},
	} {
		t.Run(name, func(t *testing.T) {
			file := theirHead + text
			if tc.own != "" {
				file += "mode: " + tc.own + "\n"
			}
			got, warnings, err := Parse([]byte(file), tc.mode)
			expect(t, got, warnings, err, func(c *conf) { c.MasqueradeAll = true; tc.want(c) }, tc.warnings)
		})
	}
}

// Each row must be reachable: one that is shadowed by another before it would say the wrong thing.
func TestRowsOfMeaninglessFieldsExist(t *testing.T) {
	exists := func(path string) bool {
		return slices.ContainsFunc(allPaths(), func(field string) bool { return field == path || strings.HasPrefix(field, path+".") })
	}
	for _, row := range meaningless {
		if !exists(row.path) {
			t.Errorf("%s is no field of kube-proxy's file", row.path)
		}
	}
	for path := range silent {
		if !exists(path) {
			t.Errorf("%s is no field of kube-proxy's file", path)
		}
	}
}

// What is taken is valid, has settings in both families, and means the same as our own kind.
func FuzzParse(f *testing.F) {
	files, err := filepath.Glob("testdata/*.yaml")
	if err != nil || len(files) == 0 {
		f.Fatal(files, err)
	}
	for _, file := range files {
		text, err := os.ReadFile(file)
		if err != nil {
			f.Fatal(err)
		}
		f.Add(text)
	}
	f.Add([]byte(theirHead + "clusterCIDR: 10.0.0.0/8,::/0\nnodePortAddresses: [all, localhost]\n"))
	f.Add([]byte(ownHead + "client: {qps: 1e39}\n"))
	f.Fuzz(func(t *testing.T, text []byte) {
		c, _, err := Parse(text, "")
		if err != nil {
			return
		}
		if err := c.Validate(); len(err) > 0 {
			t.Errorf("taken, and not valid: %v", err)
		}
		for _, family := range []model.Family{model.IPv4, model.IPv6} {
			if s, _ := Settings(c, family); s.LocalSource.CIDR.IsValid() && model.FamilyOf(s.LocalSource.CIDR.Addr()) != family {
				t.Errorf("%s: %v", family, s)
			}
		}
		again, err := json.Marshal(c)
		if err != nil {
			t.Fatal(err)
		}
		got, warnings, err := Parse(again, "")
		if err != nil || len(warnings) > 0 {
			t.Fatalf("%s: %v, %q", again, err, warnings)
		}
		if text, _ := json.Marshal(got); string(text) != string(again) {
			t.Errorf("read again it is\n%s\ninstead of\n%s", text, again)
		}
	})
}
