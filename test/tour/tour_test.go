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
		`refused: ServiceCIDRPolicy "sample-tenant"`, `refused: ServiceCIDRPolicy "sample-reservations"`, `refused: ServiceCIDRPolicy "tour-cool-down"`,
		"clusterip-operator.io/purpose=additional", "Every step did what it says.",
	} {
		if !strings.Contains(out.String(), want) {
			t.Errorf("the tour does not show %q:\n%s", want, out.String())
		}
	}
}

func TestEach(t *testing.T) {
	ranges := []string{"10.0.0.0/24", "fd00::6/127"}
	for name, test := range map[string]struct {
		addresses []string
		held      bool
	}{
		"one in each":            {[]string{"fd00::7", "10.0.0.9"}, true},
		"one beside its range":   {[]string{"10.0.1.9", "fd00::7"}, false},
		"one family missing":     {[]string{"10.0.0.9"}, false},
		"one too many":           {[]string{"10.0.0.9", "fd00::7", "10.0.0.8"}, false},
		"what is not an address": {[]string{"", "fd00::7"}, false},
		"none":                   {nil, false},
	} {
		t.Run(name, func(t *testing.T) {
			if err := each(test.addresses, ranges...); (err == nil) != test.held {
				t.Errorf("each(%v): %v", test.addresses, err)
			}
		})
	}
}
