package config

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/clusterip-operator/clusterip-operator/api/config/v1alpha1"
)

const (
	ownHead   = "apiVersion: config.clusterip-operator.io/v1alpha1\nkind: ProxyAgentConfiguration\n"
	theirHead = "apiVersion: kubeproxy.config.k8s.io/v1alpha1\nkind: KubeProxyConfiguration\n"
)

// The files in testdata are from kubeadm, kind, k3s, managed clusters, and ours with all fields.
func TestLoadRealFiles(t *testing.T) {
	for _, tc := range []struct {
		file     string
		want     func(*v1alpha1.ProxyAgentConfiguration)
		warnings []string
	}{
		{"kubeadm.yaml", func(c *v1alpha1.ProxyAgentConfiguration) {
			c.DetectLocal.ClusterCIDRs = []string{"10.244.0.0/16"}
			c.Client.Kubeconfig = "/var/lib/kube-proxy/kubeconfig.conf"
		}, nil},
		{"kubeadm-dual-stack.yaml", func(c *v1alpha1.ProxyAgentConfiguration) {
			c.DetectLocal.ClusterCIDRs = []string{"10.244.0.0/16", "fd00:10:244::/56"}
			c.NodePortAddresses = []string{"primary"}
			c.Client.Kubeconfig = "/var/lib/kube-proxy/kubeconfig.conf"
			c.Health.BindAddress, c.Metrics.BindAddress = "[::]:10256", "[::1]:10249"
		}, nil},
		{"kubeadm-ipvs.yaml", func(c *v1alpha1.ProxyAgentConfiguration) {
			c.DetectLocal.ClusterCIDRs = []string{"10.244.0.0/16"}
			c.Client.Kubeconfig = "/var/lib/kube-proxy/kubeconfig.conf"
			c.Mode, c.LocalhostNodePorts = "ipvs", false
			c.IPVS.ExcludeCIDRs, c.IPVS.StrictARP = []string{"172.16.0.0/24"}, true
		}, nil},
		{"kind.yaml", func(c *v1alpha1.ProxyAgentConfiguration) {
			c.DetectLocal.ClusterCIDRs = []string{"10.244.0.0/16"}
			c.Client.Kubeconfig = "/var/lib/kube-proxy/kubeconfig.conf"
			c.Conntrack.MaxPerCore = 0
			c.Mode = "nftables"
			c.NodePortAddresses = []string{"primary"}
			c.LocalhostNodePorts = false
		}, nil},
		{"k3s.yaml", func(c *v1alpha1.ProxyAgentConfiguration) {
			c.NodeName = "k3s-server-0"
			c.DetectLocal.ClusterCIDRs = []string{"10.42.0.0/16"}
			c.Client.Kubeconfig = "/var/lib/rancher/k3s/agent/kubeproxy.kubeconfig"
			c.Conntrack = v1alpha1.Conntrack{Min: 131072}
			c.Health.BindAddress = "127.0.0.1:10256"
		}, nil},
		{"cloud-old.yaml", func(c *v1alpha1.ProxyAgentConfiguration) {
			c.Client.Kubeconfig = "/var/lib/kube-proxy/kubeconfig"
			c.Metrics.BindAddress = "0.0.0.0:10249"
		}, []string{`unknown field "resourceContainer": ignored`, `unknown field "udpIdleTimeout": ignored`, "oomScoreAdj: -998"}},
	} {
		t.Run(tc.file, func(t *testing.T) {
			got, warnings, err := Load(filepath.Join("testdata", tc.file), "")
			expect(t, got, warnings, err, tc.want, tc.warnings)
		})
	}
}

// expect wants what a file of kube-proxy became: the defaults, changed.
func expect(t *testing.T, got v1alpha1.ProxyAgentConfiguration, warnings []string, err error, change func(*v1alpha1.ProxyAgentConfiguration), wantWarnings []string) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
	want := v1alpha1.DefaultProxyAgent()
	want.Log.Format = "text"
	change(&want)
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
	expectWarnings(t, warnings, wantWarnings)
}

// expectWarnings wants one warning for each beginning, in this order, and no other.
func expectWarnings(t *testing.T, got, want []string) {
	t.Helper()
	for i, warning := range got {
		if i >= len(want) || !strings.HasPrefix(warning, want[i]) {
			t.Errorf("unexpected warning %d: %s", i, warning)
		}
	}
	if len(got) < len(want) {
		t.Errorf("not warned of: %q", want[len(got):])
	}
}

func TestLoadOwnKind(t *testing.T) {
	got, warnings, err := Load("testdata/own.yaml", "")
	if err != nil || len(warnings) > 0 {
		t.Fatal(err, warnings)
	}
	want := v1alpha1.DefaultProxyAgent()
	want.NodeName, want.IPFamilies, want.ServiceProxyName, want.Allocations = "worker-1", []string{"IPv6"}, "clusterip-operator", "enforce"
	want.AllowServiceExternalIPs = false
	want.NodePortAddresses = []string{"192.0.2.0/24", "2001:db8::/64"}
	want.DetectLocal = v1alpha1.DetectLocal{Mode: "InterfaceNamePrefix", InterfaceNamePrefix: "cali"}
	want.IPTables.Mode, want.MasqueradeAll, want.MasqueradeBit, want.LocalhostNodePorts, want.DropInvalid = "legacy", true, 0, false, false
	want.MinSyncPeriod.Duration = 0
	want.SyncPeriod.Duration, want.ProbePeriod.Duration = time.Minute, 2*time.Second
	want.IPVS = v1alpha1.IPVS{Scheduler: "wlc", ExcludeCIDRs: []string{"198.51.100.0/24"}, StrictARP: true}
	want.IPVS.TCPTimeout.Duration, want.IPVS.TCPFinTimeout.Duration, want.IPVS.UDPTimeout.Duration = 10*time.Minute, time.Minute, 2*time.Minute
	want.IPVS.DrainTimeout.Duration = 5 * time.Minute
	want.SocketLB = v1alpha1.SocketLB{Scope: "pods", CgroupRoot: "/host/sys/fs/cgroup"}
	want.Conntrack.MaxPerCore, want.Conntrack.TCPBeLiberal = 0, true
	want.SysctlRoot = "/host/proc/sys"
	want.Client = v1alpha1.ProxyAgentClient{Kubeconfig: "/etc/kubernetes/proxyagent.conf", QPS: 50, Burst: 100}
	want.Health.BindAddress, want.Metrics = "[::]:10356", v1alpha1.ProxyAgentMetrics{BindAddress: "0", EnableProfiling: true}
	want.Log = v1alpha1.Log{Format: "text", Level: 4}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
}

func TestParseRefuses(t *testing.T) {
	for name, tc := range map[string]struct {
		text string
		want []string // all in one error
	}{
		"nothing": {"", []string{"ProxyAgentConfiguration", "KubeProxyConfiguration"}},
		"the manager's file": {
			"apiVersion: config.clusterip-operator.io/v1alpha1\nkind: ManagerConfiguration\n",
			[]string{`"ManagerConfiguration"`},
		},
		"a later version of ours": {
			strings.Replace(ownHead, "v1alpha1", "v1", 1),
			[]string{`"config.clusterip-operator.io/v1"`},
		},
		"a later version of kube-proxy's": {
			strings.Replace(theirHead, "v1alpha1", "v1alpha2", 1),
			[]string{`"kubeproxy.config.k8s.io/v1alpha2"`},
		},
		"the ConfigMap around it": {
			"apiVersion: v1\nkind: ConfigMap\ndata: {config.conf: x}\n",
			[]string{"config.conf in kubeadm's"},
		},
		"no mapping":                     {"- a\n- b\n", []string{"not valid YAML"}},
		"broken YAML":                    {ownHead + "a: [", []string{"not valid YAML"}},
		"two documents":                  {ownHead + "---\n" + theirHead, []string{"2 documents"}},
		"two documents, the first empty": {"# nothing\n---\n" + ownHead + "\n--- # and\n" + ownHead, []string{"2 documents"}},
		"mistakes in fields and values": {
			ownHead + "wrong: 1\nlog: {level: 11}\niptables: {mode: nftables}\n",
			[]string{`"wrong"`, "log.level", "iptables.mode"},
		},
		"kube-proxy with a wrong type": {theirHead + "clusterCIDR: 7\n", []string{"clusterCIDR"}},
		"kube-proxy in another mode":   {theirHead + "mode: userspace\n", []string{`mode: Unsupported value: "userspace"`}},
		"kube-proxy with wrong values": {
			theirHead + "clusterCIDR: 10.0.0.0/8, fd00::/8\nnodePortAddresses: [ten]\nbindAddress: here\n",
			[]string{"clusterCIDR", "nodePortAddresses[0]", "bindAddress"},
		},
		"kube-proxy with two networks":      {theirHead + "clusterCIDR: 10.0.0.0/16,10.1.0.0/16\n", []string{"clusterCIDR[1]", "another family"}},
		"kube-proxy with a wrong detection": {theirHead + "detectLocalMode: bridge\n", []string{"detectLocalMode: Unsupported"}},
		"kube-proxy without its bridge":     {theirHead + "detectLocalMode: BridgeInterface\n", []string{"detectLocal.bridgeInterface: Required"}},
		"kube-proxy with wrong limits": {
			theirHead + "conntrack: {min: -1}\niptables: {masqueradeBit: 32}\nclientConnection: {burst: -1}\n",
			[]string{"conntrack.min", "iptables.masqueradeBit", "clientConnection.burst"},
		},
		"nftables with wrong limits": {theirHead + "mode: nftables\nnftables: {masqueradeBit: 32, syncPeriod: -1s}\n", []string{"nftables.masqueradeBit", "nftables.syncPeriod"}},
		"kube-proxy with names to listen on": {
			theirHead + "healthzBindAddress: localhost:1\nmetricsBindAddress: '0'\nlogging: {format: xml}\n",
			[]string{"healthzBindAddress", "logging.format"},
		},
		"kube-proxy on primary twice": {theirHead + "nodePortAddresses: [primary, 10.0.0.0/8, primary]\n", []string{"nodePortAddresses[2]", "must not stand twice"}},
		"kube-proxy on a primary of its own": {
			theirHead + "nodePortAddresses: [primary]\nbindAddress: 192.0.2.7\n",
			[]string{"nodePortAddresses[0]", "192.0.2.7/32"},
		},
		"kube-proxy with mapped addresses": {theirHead + "clusterCIDR: ::ffff:10.0.0.0/104\n", []string{"clusterCIDR[0]", "IPv4 CIDR"}},
		"kube-proxy with a strange host":   {theirHead + "hostnameOverride: a b\n", []string{"hostnameOverride"}},
	} {
		t.Run(name, func(t *testing.T) {
			_, _, err := Parse([]byte(tc.text), "")
			if err == nil {
				t.Fatal("taken")
			}
			for _, want := range tc.want {
				if !strings.Contains(err.Error(), want) {
					t.Errorf("%q does not name %q", err, want)
				}
			}
		})
	}
}

func TestLoadNamesTheFile(t *testing.T) {
	missing := filepath.Join(t.TempDir(), "missing.yaml")
	if _, _, err := Load(missing, ""); err == nil || !strings.Contains(err.Error(), missing) {
		t.Errorf("a missing file is %v", err)
	}
	wrong := filepath.Join(t.TempDir(), "wrong.yaml")
	if err := os.WriteFile(wrong, []byte(ownHead+"allocation: x\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	c, _, err := Load(wrong, "")
	if err == nil || !strings.Contains(err.Error(), wrong) {
		t.Errorf("a wrong file is %v", err)
	}
	if diff := cmp.Diff(v1alpha1.ProxyAgentConfiguration{}, c); diff != "" {
		t.Errorf("beside an error there is something to use:\n%s", diff)
	}
}

func TestDocuments(t *testing.T) {
	for text, want := range map[string]int{
		"":                              0,
		"# nothing\n\n---\n":            0,
		"# a comment\n---\na: 1":        1,
		"---\r\na: 1\r\n---\r\n# end\n": 1,
		"a: 1\n...\n# more\n":           1,
		"a: 1\n...\nb: 2\n":             2,
		"a: 1\n---\nb: [\n":             2,
		"{\"a\": \"---\"}":              1,
	} {
		if got, err := documents([]byte(text)); err != nil || got != want {
			t.Errorf("%q is %d documents, want %d (%v)", text, got, want, err)
		}
	}
}
