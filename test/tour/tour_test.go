package main

import (
	"bytes"
	"context"
	"os"
	"strings"
	"testing"
)

func TestHowToGoOn(t *testing.T) {
	goOn := func() string { return "  tail -f LOG" }
	here := (&tour{goOn: goOn}).howToGoOn("KUBECONFIG", "/bin/kubectl-clusterip", "/kubectl")
	nodes := (&tour{goOn: goOn, prefix: "nsenter "}).howToGoOn("KUBECONFIG", "/bin/kubectl-clusterip", "/kubectl")
	for text, want := range map[string]struct{ here, nodes bool }{
		"kubectl clusterip status":                 {true, true},
		"tail -f LOG":                              {true, true},
		"kubectl clusterip console":                {true, false},
		"Go on with the guides":                    {true, false},
		"need another control plane":               {true, false},
		"alias kubectl='nsenter /kubectl/kubectl'": {false, true},
		"%!": {false, false},
	} {
		if got := strings.Contains(here, text); got != want.here {
			t.Errorf("on loopback %q is there: %t", text, got)
		}
		if got := strings.Contains(nodes, text); got != want.nodes {
			t.Errorf("with nodes %q is there: %t", text, got)
		}
	}
}

// TestRevive takes the operator away, as `make undeploy` does, and applies it again.
func TestRevive(t *testing.T) {
	ctx, tour := t.Context(), &tour{out: t.Output()}
	t.Cleanup(func() { _ = tour.end() })
	for _, do := range []func(context.Context) error{tour.startControlPlane, tour.applyConfig, tour.startManager} {
		if err := do(ctx); err != nil {
			t.Fatal(err)
		}
	}
	if _, err := tour.kubectl(ctx, "-n", operatorNamespace, "delete", "deployment/"+operatorDeployment, "serviceaccount/"+operatorAccount); err != nil {
		t.Fatal(err)
	}
	before := tour.manager.Pid()
	former, err := os.ReadFile(tour.managerKubeconfig())
	if err != nil {
		t.Fatal(err)
	}
	if err := tour.manager.Kill(); err != nil {
		t.Fatal(err)
	}
	if err := tour.reviveManager(ctx); err != nil || tour.manager.Running() {
		t.Fatalf("the operator is not installed; error %v, the manager runs: %t", err, tour.manager.Running())
	}
	if err := tour.applyConfig(ctx); err != nil {
		t.Fatal(err)
	}
	// On a busy machine it may have lost its Lease since it was ready, and ended.
	if err := tour.reviveManager(ctx); err != nil || tour.manager.Pid() == before {
		t.Fatalf("the operator is installed again; error %v, the manager was started: %t", err, tour.manager.Pid() != before)
	}
	// To ask the API server tells nothing: it remembers for ten seconds that a token is good.
	if now, err := os.ReadFile(tour.managerKubeconfig()); err != nil || bytes.Equal(now, former) {
		t.Errorf("the manager has the token of the former ServiceAccount; error %v", err)
	}
}

// TestOnce walks the whole tour that a newcomer sees; every step checks itself.
func TestOnce(t *testing.T) {
	var out bytes.Buffer
	if status := run([]string{"--once"}, &out); status != 0 {
		t.Fatalf("status %d:\n%s", status, out.String())
	}
	for _, want := range []string{
		"[14/14]", "There is no cluster network here", "back after", "would be left without a ServiceCIDR",
		`refused: ServiceCIDRPolicy "sample-tenant"`, "refused: failed to allocate IP 10.116.0.20: provided IP is already allocated", "refused: failed to allocate IP 10.120.0.",
		"clusterip-operator.io/purpose=additional", "Every step did what it says.",
	} {
		if !strings.Contains(out.String(), want) {
			t.Errorf("the tour does not show %q:\n%s", want, out.String())
		}
	}
}
