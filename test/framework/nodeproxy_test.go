//go:build linux

package framework

import (
	"fmt"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"sigs.k8s.io/yaml"

	"github.com/clusterip-operator/clusterip-operator/test/framework/network"
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

func TestProxiesLiveInTheirNamespace(t *testing.T) {
	if os.Getuid() != 0 {
		t.Skip("namespaces need root")
	}
	bed, err := network.New(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = bed.Close() })
	listener, err := bed.Node.Listen("tcp4", "127.0.0.1:10256")
	if err != nil {
		t.Fatal(err)
	}
	born := time.Now()
	go func() {
		_ = http.Serve(listener, http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) { //nolint:gosec // it lives for a second
			if r.URL.Path != "/healthz" || time.Since(born) < 200*time.Millisecond {
				http.Error(w, "not yet", http.StatusServiceUnavailable)
			}
		}))
	}()
	p := &ProxyAgent{}
	p.name, p.log, p.ready = "proxyagent", filepath.Join(t.TempDir(), "log"), p.healthz
	p.inNamespace(bed.Node, "sh", []string{"-c", "echo $XTABLES_LOCKFILE; ip -br link show dev pod2; exec sleep 600"})
	if err := p.Start(t.Context()); err != nil {
		t.Fatal(err)
	}
	if time.Since(born) < 200*time.Millisecond {
		t.Error("Start returned before the proxy was ready")
	}
	for deadline := time.Now().Add(10 * time.Second); !strings.Contains(p.LogTail(9), "pod2") && time.Now().Before(deadline); {
		time.Sleep(pollInterval) // what is ready is another server, and not the script
	}
	if got := p.LogTail(9); !strings.HasPrefix(got, bed.Node.LockFile()) || !strings.Contains(got, "pod2") {
		t.Errorf("its log: %q", got)
	}
	if err := p.WaitReady(t.Context()); err != nil {
		t.Error(err)
	}
	wantErrorWith(t, p.Healthy(t.Context(), "/livez"), "503", "not yet")
	_, err = p.Metrics(t.Context())
	wantErrorWith(t, err, "scraping proxyagent")
	pid := p.Pid()
	if err := p.Stop(); err != nil {
		t.Fatal(err)
	}
	if _, err := os.Stat(fmt.Sprintf("/proc/%d", pid)); !os.IsNotExist(err) {
		t.Error("it still runs: the process is not the program")
	}
}
