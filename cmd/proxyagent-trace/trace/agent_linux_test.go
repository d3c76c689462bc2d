package trace

import (
	"fmt"
	"net/http"
	"net/http/httptest"
	"net/netip"
	"strings"
	"testing"

	"github.com/clusterip-operator/clusterip-operator/proxyagent/model"
)

// TestWhatConnectDoesIsSaid asks an agent, whose words are those of package socketlb.
func TestWhatConnectDoesIsSaid(t *testing.T) {
	const dump = `Service default/web, IPv4:

Elements of default/web/TCP in nftables, table clusterip-proxyagent:
  fronts: 10.96.0.10 . tcp . 80 : pick-1
At connect(), scope pods, %s:
  10.96.0.10:80: translated, by chance, 7 connections so far, to 10.244.0.1:8080
  10.96.0.11:80: left to rules: connections to a former address are counted
`
	state := "attached to /sys/fs/cgroup/kubepods.slice"
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.URL.Path != "/debug/dump" || r.URL.Query().Get("of") == "10.96.0.12" {
			http.Error(w, "no Service has it", http.StatusNotFound)
			return
		}
		_, _ = fmt.Fprintf(w, dump, state)
	}))
	defer server.Close()
	ask := func(dst string, p model.Protocol) string {
		return packet{protocol: p, dst: netip.MustParseAddrPort(dst)}.atConnect(t.Context(), strings.TrimPrefix(server.URL, "http://"))
	}
	if got := ask("10.96.0.10:80", model.TCP); !strings.Contains(got, "scope pods") || !strings.Contains(got, "to 10.244.0.1:8080") {
		t.Errorf("it says %q", got)
	}
	for dst, p := range map[string]model.Protocol{"10.96.0.10:81": model.TCP, "10.96.0.11:80": model.TCP, "10.96.0.12:80": model.TCP, "10.96.0.13:80": model.UDP} {
		if got := ask(dst, p); got != "" {
			t.Errorf("of %s over %s it says %q", dst, p, got)
		}
	}
	if got := ask("10.96.0.10:80", model.UDP); got != "" {
		t.Errorf("of UDP it says %q", got)
	}
	state = "there is no cgroup"
	if got := ask("10.96.0.10:80", model.TCP); got != "" {
		t.Errorf("where nothing is attached it says %q", got)
	}
	server.Close()
	if got := ask("10.96.0.10:80", model.TCP); got != "" {
		t.Errorf("where no agent is it says %q", got)
	}
}
