package renumber

import (
	"net/netip"
	"strings"
	"testing"
)

// What may be used is not deleted: an agent that does not answer may have connections.
func TestWhichSecondServicesStay(t *testing.T) {
	none, some := 0, 3
	for name, tc := range map[string]struct {
		flags       keeping
		connections *int
		agents      bool
		want        string
	}{
		"without agents":                      {},
		"no connection":                       {connections: &none, agents: true},
		"connections":                         {connections: &some, agents: true, want: "3 connections to "},
		"connections, which do not count":     {flags: keeping{inUse: true}, connections: &some, agents: true},
		"an agent does not answer":            {agents: true, want: "not every agent tells its connections to "},
		"an agent does not answer, all to go": {flags: keeping{inUse: true}, agents: true},
	} {
		for _, address := range []string{"10.96.0.7", "fd00:10:96::7"} {
			got := tc.flags.stays(Second{Address: netip.MustParseAddr(address), Connections: tc.connections}, tc.agents)
			if (got == "") != (tc.want == "") || tc.want != "" && !strings.Contains(got, tc.want+address) {
				t.Errorf("%s, %s: stays because %q, want %q", name, address, got, tc.want)
			}
		}
	}
}
