package v1alpha1

import (
	"reflect"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
)

const agentHead = "apiVersion: config.clusterip-operator.io/v1alpha1\nkind: ProxyAgentConfiguration\n"

func TestParseProxyAgentOverDefaults(t *testing.T) {
	got, err := ParseProxyAgent([]byte(agentHead +
		"syncPeriod: 90s\ndetectLocal: {clusterCIDRs: [10.244.0.0/16]}\ndropUnallocated: false\n"))
	if err != nil {
		t.Fatal(err)
	}
	want := DefaultProxyAgent()
	want.SyncPeriod.Duration = 90 * time.Second
	want.DetectLocal.ClusterCIDRs = []string{"10.244.0.0/16"}
	want.DropUnallocated = new(false)
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
}

// Writing out a field's default changes nothing; this also pins the defaults that comments promise.
func TestParseProxyAgentDefaultsWrittenOut(t *testing.T) {
	got, err := ParseProxyAgent([]byte(agentHead + `
allocations: prefer
allowServiceExternalIPs: true
detectLocal: {mode: ClusterCIDR}
iptables: {mode: auto}
masqueradeAll: false
masqueradeBit: 14
localhostNodePorts: true
dropInvalid: true
minSyncPeriod: 1s
syncPeriod: 30s
probePeriod: 500ms
conntrack:
  maxPerCore: 32768
  min: 131072
  tcpEstablishedTimeout: 24h
  tcpCloseWaitTimeout: 1h
  tcpBeLiberal: false
  udpTimeout: 0s
  udpStreamTimeout: 0s
sysctlRoot: /proc/sys
client: {qps: 5, burst: 10}
health: {bindAddress: "0.0.0.0:10256"}
metrics: {bindAddress: "127.0.0.1:10249", enableProfiling: false}
log: {format: json, level: 0}
`))
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(DefaultProxyAgent(), got); diff != "" {
		t.Errorf("(-default +written out):\n%s", diff)
	}
}

// The settings of all modes have one place, outside of the sections.
func TestParseProxyAgentRefuses(t *testing.T) {
	for text, want := range map[string]string{
		"iptables: {masqueradeBit: 15}\n":              `unknown field "iptables.masqueradeBit"`,
		"syncPeriod: 1m\niptables: {syncPeriod: 1m}\n": `unknown field "iptables.syncPeriod"`,
		"masqueradeBit: four\n":                        "masqueradeBit",
		"iptables: [masqueradeBit]\n":                  "iptables",
	} {
		if _, err := ParseProxyAgent([]byte(agentHead + text)); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%q: %v, want …%s…", text, err, want)
		}
	}
}

func TestProxyAgentZeroIsNotValid(t *testing.T) {
	if err := (&ProxyAgentConfiguration{}).Validate(); len(err) == 0 {
		t.Error("taken")
	}
}

// TestProxyAgentValidateNamesEveryMistake has one mistake in every field that can have one.
func TestProxyAgentValidateNamesEveryMistake(t *testing.T) {
	c := DefaultProxyAgent()
	c.NodeName, c.ServiceProxyName = "Node_1", "a/b"
	c.IPFamilies = []string{"IPv4", "ipv6", "IPv4"}
	c.Allocations = "sometimes"
	c.DropUnallocated = new(true)
	c.NodePortAddresses = []string{"10.0.0.0/8", "primary", "primary", "10.0.0.1/8", "::ffff:10.0.0.0/104", "ten"}
	c.DetectLocal = DetectLocal{Mode: DetectBridgeInterface, ClusterCIDRs: []string{"10.244.0.0/16"}, InterfaceNamePrefix: "cali"}
	c.IPTables.Mode, c.MasqueradeBit, c.SyncPeriod.Duration, c.ProbePeriod.Duration = "nftables", 32, 0, 0
	c.MinSyncPeriod.Duration = -1
	c.IPVS = IPVS{Scheduler: "random", ExcludeCIDRs: []string{"10.0.0.0/8", "ten"}}
	c.IPVS.TCPTimeout.Duration, c.IPVS.TCPFinTimeout.Duration, c.IPVS.UDPTimeout.Duration = -1, -1, -1
	c.SocketLB = SocketLB{Scope: "nodes", CgroupRoot: "sys/fs/cgroup"}
	c.Conntrack.MaxPerCore, c.Conntrack.Min = -1, 1<<31
	c.Conntrack.TCPEstablishedTimeout.Duration, c.Conntrack.TCPCloseWaitTimeout.Duration = -1, -1
	c.Conntrack.UDPTimeout.Duration, c.Conntrack.UDPStreamTimeout.Duration = -1, -1
	c.SysctlRoot = "proc/sys"
	c.Client = ProxyAgentClient{}
	c.Health.BindAddress, c.Metrics.BindAddress = "somewhere:10256", "127.0.0.1:metrics"
	c.Log = Log{Format: "xml", Level: 11}
	var got []string
	for _, mistake := range c.Validate() {
		got = append(got, mistake.Field)
	}
	want := []string{
		"nodeName", "serviceProxyName", "ipFamilies[1]", "ipFamilies[2]", "allocations", "dropUnallocated",
		"nodePortAddresses[2]", "nodePortAddresses[3]", "nodePortAddresses[4]", "nodePortAddresses[5]",
		"detectLocal.clusterCIDRs", "detectLocal.bridgeInterface", "detectLocal.interfaceNamePrefix",
		"masqueradeBit", "minSyncPeriod", "syncPeriod", "probePeriod", "iptables.mode",
		"ipvs.scheduler", "ipvs.excludeCIDRs[1]", "ipvs.tcpTimeout", "ipvs.tcpFinTimeout", "ipvs.udpTimeout", "ipvs.drainTimeout",
		"socketLB.scope", "socketLB.cgroupRoot",
		"conntrack.maxPerCore", "conntrack.min", "conntrack.tcpEstablishedTimeout", "conntrack.tcpCloseWaitTimeout",
		"conntrack.udpTimeout", "conntrack.udpStreamTimeout", "sysctlRoot", "client.qps",
		"health.bindAddress", "metrics.bindAddress", "log.format", "log.level",
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
}

func TestProxyAgentValidate(t *testing.T) {
	for name, tc := range map[string]struct {
		change func(*ProxyAgentConfiguration)
		want   string // empty: taken
	}{
		"a fully qualified node name": {func(c *ProxyAgentConfiguration) { c.NodeName = "ip-10-0-0-1.ec2.internal" }, ""},
		"beside another, dropping its own": {
			func(c *ProxyAgentConfiguration) { c.ServiceProxyName, c.DropUnallocated = "x", new(true) },
			"must be false, or left out",
		},
		"two networks of pods in a family": {
			func(c *ProxyAgentConfiguration) { c.DetectLocal.ClusterCIDRs = []string{"10.1.0.0/16", "10.2.0.0/16"} },
			"another family than the first",
		},
		"no detection, with a CIDR": {func(c *ProxyAgentConfiguration) {
			c.DetectLocal = DetectLocal{Mode: "None", ClusterCIDRs: []string{"10.1.0.0/16"}}
		}, "set mode: ClusterCIDR"},
		"an unknown detection": {func(c *ProxyAgentConfiguration) { c.DetectLocal.Mode = "clusterCIDR" }, `supported values: "ClusterCIDR"`},
		"interfaces by a prefix of 16": {func(c *ProxyAgentConfiguration) {
			c.DetectLocal = DetectLocal{Mode: DetectInterfaceNamePrefix, InterfaceNamePrefix: "v-a.b_c@d3456789"}
		}, "at most 15"},
		"interfaces by a wildcard": {func(c *ProxyAgentConfiguration) {
			c.DetectLocal = DetectLocal{Mode: DetectInterfaceNamePrefix, InterfaceNamePrefix: "cali+"}
		}, "without a wildcard"},
		"a bridge that ends a line": {func(c *ProxyAgentConfiguration) {
			c.DetectLocal = DetectLocal{Mode: DetectBridgeInterface, BridgeInterface: "a\nb"}
		}, "must be at most 15"},
		"connections of pods translated": {func(c *ProxyAgentConfiguration) { c.SocketLB.Scope = "pods" }, ""},
		"connections of pods translated, with IPVS": {
			func(c *ProxyAgentConfiguration) { c.SocketLB.Scope, c.Mode = "pods", "ipvs" },
			"must be off in mode ipvs",
		},
		"connections of some others translated": {
			func(c *ProxyAgentConfiguration) { c.SocketLB.Scope = "nodes" },
			`supported values: "off", "pods", "host", "all"`,
		},
		"writing at once": {func(c *ProxyAgentConfiguration) { c.MinSyncPeriod.Duration = 0 }, ""},
		"a pause longer than the period": {
			func(c *ProxyAgentConfiguration) { c.MinSyncPeriod.Duration = time.Minute },
			"must not be longer than syncPeriod",
		},
		"looks rarer than comparisons": {
			func(c *ProxyAgentConfiguration) { c.ProbePeriod.Duration = time.Minute },
			"must not be longer than syncPeriod",
		},
		"the highest bit":            {func(c *ProxyAgentConfiguration) { c.MasqueradeBit = 31 }, ""},
		"a negative bit":             {func(c *ProxyAgentConfiguration) { c.MasqueradeBit = -1 }, "from 0 to 31"},
		"the kernel's own conntrack": {func(c *ProxyAgentConfiguration) { c.Conntrack = Conntrack{} }, ""},
		"requests without bound":     {func(c *ProxyAgentConfiguration) { c.Client = ProxyAgentClient{QPS: -1} }, ""},
		"no request at a time":       {func(c *ProxyAgentConfiguration) { c.Client.Burst = 0 }, "at least 1"},
		"no endpoints":               {func(c *ProxyAgentConfiguration) { c.Health.BindAddress, c.Metrics.BindAddress = "0", "0" }, ""},
		"everywhere": {
			func(c *ProxyAgentConfiguration) { c.Health.BindAddress, c.Metrics.BindAddress = ":10256", "[::]:10249" },
			"",
		},
		"the same port twice": {
			func(c *ProxyAgentConfiguration) { c.Metrics.BindAddress = "127.0.0.1:10256" },
			"another port than health.bindAddress",
		},
		"the same port, one of them everywhere": {func(c *ProxyAgentConfiguration) {
			c.Health.BindAddress, c.Metrics.BindAddress = "127.0.0.1:9000", "[::]:9000"
		}, "another port than health.bindAddress"},
		"the same port on two addresses": {func(c *ProxyAgentConfiguration) {
			c.Health.BindAddress, c.Metrics.BindAddress = "192.0.2.1:9000", "127.0.0.1:9000"
		}, ""},
		"an address without a port": {func(c *ProxyAgentConfiguration) { c.Health.BindAddress = "127.0.0.1" }, `"0" for none`},
		"port 0": {
			func(c *ProxyAgentConfiguration) { c.Health.BindAddress = "127.0.0.1:0" },
			"from 1 to 65535",
		},
		"a relative folder for the settings": {func(c *ProxyAgentConfiguration) { c.SysctlRoot = "" }, "full path"},
	} {
		t.Run(name, func(t *testing.T) {
			c := DefaultProxyAgent()
			tc.change(&c)
			err := c.Validate().ToAggregate()
			if tc.want == "" && err != nil {
				t.Error(err)
			}
			if tc.want != "" && (err == nil || !strings.Contains(err.Error(), tc.want)) {
				t.Errorf("%v, want …%s…", err, tc.want)
			}
		})
	}
}

func TestDropsUnallocated(t *testing.T) {
	for _, tc := range []struct {
		proxy string
		drop  *bool
		want  bool
	}{{"", nil, true}, {"", new(false), false}, {"", new(true), true}, {"x", nil, false}, {"x", new(false), false}, {"x", new(true), true}} {
		c := ProxyAgentConfiguration{ServiceProxyName: tc.proxy, DropUnallocated: tc.drop}
		if got := c.DropsUnallocated(); got != tc.want {
			t.Errorf("%+v: %t", tc, got)
		}
	}
}

// A field without a name in the file could not be set, one with a capital would be a trap.
func TestProxyAgentFieldNames(t *testing.T) {
	check(t, reflect.TypeFor[ProxyAgentConfiguration]())
}

func check(t *testing.T, of reflect.Type) {
	t.Helper()
	for f := range of.Fields() {
		name, _, _ := strings.Cut(f.Tag.Get("json"), ",")
		if name == "" && !f.Anonymous || name != "" && name[0] >= 'A' && name[0] <= 'Z' {
			t.Errorf("%s.%s is %q in the file", of.Name(), f.Name, name)
		}
		if f.Type.Kind() == reflect.Struct && f.Type.PkgPath() == of.PkgPath() {
			check(t, f.Type)
		}
	}
}
