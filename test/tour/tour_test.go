package main

import (
	"bytes"
	"strings"
	"testing"
)

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
