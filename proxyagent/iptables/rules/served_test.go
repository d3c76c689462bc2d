package rules

import (
	"fmt"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/clusterip-operator/clusterip-operator/proxyagent/model"
)

// TestServed has each form in which iptables-save prints the rules of a front, and rules that are
// none of one.
func TestServed(t *testing.T) {
	got := ""
	for _, p := range Served([]byte(`*nat
:CIPA-VIPS - [0:0]
[0:0] -A CIPA-VIPS -d 10.96.0.0/12 -g CIPA-V-0A6-12
[0:0] -A CIPA-VIPS -d 10.96.0.10/32 -p udp -m udp --dport 53 -m statistic --mode random --probability 0.5 -j DNAT --to-destination 10.244.0.2:5353
[0:0] -A CIPA-VIPS -d 10.96.0.10/32 -p tcp -m tcp --dport 53 -g CIPA-S-X
[0:0] -A CIPA-V-1-2 -d fd00::1/128 -p sctp -m sctp --dport 3868 -g CIPA-S-X
[0:0] -A CIPA-V-1-2 -d 203.0.113.1/32 -p udp -g CIPA-V-CB007101-40
[0:0] -A CIPA-NODEPORTS -p udp -m udp --dport 30000:30255 -g CIPA-N-1-12
[0:0] -A CIPA-N-1-12 -p udp -m udp --dport 30053 -g CIPA-X-Y
[0:0] -A CIPA-S-X -p udp -m udp -j DNAT --to-destination 10.244.0.2:5353
[0:0] -A CNI-DN-1 -d 192.0.2.1/32 -p udp -m udp --dport 5000 -j DNAT --to-destination 10.244.0.2:5353
COMMIT
`)) {
		got += fmt.Sprintln(p.Name.Protocol, p.LoadBalancerIPs, p.Port, p.NodePort)
	}
	want := fmt.Sprint(model.UDP, " [10.96.0.10] 53 0\n", model.SCTP, " [fd00::1] 3868 0\n", model.UDP, " [] 30053 30053\n")
	if diff := cmp.Diff(want, got); diff != "" {
		t.Error(diff)
	}
}
