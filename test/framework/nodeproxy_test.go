//go:build linux

package framework

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"sigs.k8s.io/yaml"
)

func TestProxyConfigurationIsCompleted(t *testing.T) {
	fields := map[string]any{"clusterCIDR": "", "iptables": map[string]any{"masqueradeAll": true}}
	got := proxyConfiguration("node-1", "/kubeconfig", "nftables", fields)
	want := map[string]any{"minSyncPeriod": "200ms", "masqueradeAll": true}
	if diff := cmp.Diff(want, got["iptables"]); diff != "" {
		t.Errorf("iptables (-want +got):\n%s", diff)
	}
	if got["clusterCIDR"] != "" || got["mode"] != "nftables" || got["hostnameOverride"] != "node-1" {
		t.Errorf("got %v", got)
	}
	if diff := cmp.Diff(map[string]any{"masqueradeAll": true}, fields["iptables"]); diff != "" {
		t.Errorf("the caller's fields were changed:\n%s", diff)
	}
}

func TestProxyAgentIsToldOfFilesOfTheCaller(t *testing.T) {
	got, err := new(ControlPlane).proxyAgentArgs(ProxyAgentOptions{
		Node: "node-1", Mode: "legacy", Kubeconfig: "/mine", ConfigFile: "/own", Args: []string{"--node-name=other"}}, "unused")
	want := []string{"--config=/own", "--kubeconfig=/mine", "--node-name=node-1", "--iptables-mode=legacy", "--node-name=other"}
	if diff := cmp.Diff(want, got); diff != "" || err != nil {
		t.Errorf("%v (-want +got):\n%s", err, diff)
	}
}

func TestProxyAgentGetsFilesWrittenForIt(t *testing.T) {
	base := filepath.Join(t.TempDir(), "agent")
	_, err := new(ControlPlane).proxyAgentArgs(ProxyAgentOptions{
		Node: "node-1", Kubeconfig: "/mine", Config: map[string]any{"clusterCIDR": "10.0.0.0/8"}}, base)
	if err != nil {
		t.Fatal(err)
	}
	text, err := os.ReadFile(base + ".yaml")
	if err != nil {
		t.Fatal(err)
	}
	var got struct {
		Kind, Mode, ClusterCIDR string
		ClientConnection        struct{ Kubeconfig string }
	}
	if err := yaml.UnmarshalStrict(text, &got); err == nil {
		t.Error("the file holds nothing else")
	}
	if err := yaml.Unmarshal(text, &got); err != nil || got.Kind != "KubeProxyConfiguration" || got.Mode != "iptables" ||
		got.ClusterCIDR != "10.0.0.0/8" || got.ClientConnection.Kubeconfig != "/mine" {
		t.Errorf("got %+v (%v)", got, err)
	}
}

func TestIPTablesOfOneVariant(t *testing.T) {
	t.Setenv("CLUSTERIP_CACHE", t.TempDir())
	for range 2 { // the second time everything is there
		dir, err := IPTables("legacy")
		if err != nil {
			t.Fatal(err)
		}
		for _, name := range []string{"iptables", "iptables-save", "iptables-restore", "ip6tables", "ip6tables-save", "ip6tables-restore"} {
			if target, err := os.Readlink(filepath.Join(dir, name)); err != nil || !strings.Contains(target, "tables-legacy") {
				t.Errorf("%s is %q (%v)", name, target, err)
			}
		}
	}
	_, err := IPTables("of-clay")
	wantErrorWith(t, err, "of-clay")
}
