//go:build linux

package ipvs

import "testing"

func TestLoaded(t *testing.T) {
	const before = "ip_vs 180224 1 ip_vs_rr, Live 0x0000000000000000\nip_vs_lblcr 16384 0 - Live 0x0000000000000000\n"
	for name, tc := range map[string]struct {
		modules       string
		setting, want bool
	}{
		"loaded":               {before + "ip_vs_lblc 16384 0 - Live 0x0000000000000000\n", true, true},
		"being loaded":         {before + "ip_vs_lblc 16384 1 - Loading 0x0000000000000000\n", true, false},
		"going":                {before + "ip_vs_lblc 16384 0 - Unloading 0x0000000000000000\n", false, false},
		"not there":            {before, false, false},
		"part of the kernel":   {before, true, true},
		"a kernel of no parts": {"", true, true},
	} {
		if got := loaded(tc.modules, "ip_vs_lblc", tc.setting); got != tc.want {
			t.Errorf("%s: %t", name, got)
		}
	}
}
