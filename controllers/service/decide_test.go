package service

import (
	"net/netip"
	"testing"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"

	"github.com/clusterip-operator/clusterip-operator/internal/drift"
)

func TestDecide(t *testing.T) {
	range4, range6 := netip.MustParsePrefix("10.0.0.0/24"), netip.MustParsePrefix("fd00::/64")
	offered := func(a netip.Addr) bool { return range4.Contains(a) || range6.Contains(a) }
	for name, tc := range map[string]struct {
		kind      corev1.ServiceType
		ips       []string
		want      []finding
		wantWorst drift.Type
	}{
		"in range, both families":        {ips: []string{"10.0.0.5", "fd00::5"}},
		"headless":                       {ips: []string{"None"}},
		"not allocated yet":              {ips: []string{""}},
		"ExternalName with old leftover": {kind: corev1.ServiceTypeExternalName, ips: []string{"192.0.2.1"}},
		"out of range":                   {ips: []string{"10.0.0.5", "fd01::5"}, want: []finding{{drift.OutOfRange, "fd01::5"}}, wantWorst: drift.OutOfRange},
		"no address":                     {ips: []string{"10.0.0.256"}, want: []finding{{drift.Invalid, "10.0.0.256"}}, wantWorst: drift.Invalid},
		"misspelt":                       {ips: []string{"10.0.0.5", "fd00::00AC"}, want: []finding{{drift.Misspelt, "fd00::00AC"}}, wantWorst: drift.Misspelt},
		"leading zeros, IPv4 in IPv6": {
			ips: []string{"010.0.0.5", "::ffff:10.0.0.5"}, want: []finding{{drift.Misspelt, "010.0.0.5"}, {drift.Misspelt, "::ffff:10.0.0.5"}}, wantWorst: drift.Misspelt,
		},
		"misspelt, and one of each": {ips: []string{"fd00::00AC", "fd01::0005", "x"}, wantWorst: drift.Invalid,
			want: []finding{{drift.Misspelt, "fd00::00AC"}, {drift.OutOfRange, "fd01::0005"}, {drift.Invalid, "x"}}},
		"both": {ips: []string{"192.0.2.1", "x"}, wantWorst: drift.Invalid,
			want: []finding{{drift.OutOfRange, "192.0.2.1"}, {drift.Invalid, "x"}}},
	} {
		t.Run(name, func(t *testing.T) {
			s := &corev1.Service{Spec: corev1.ServiceSpec{Type: tc.kind, ClusterIPs: tc.ips}}
			got := decide(s, offered)
			if diff := cmp.Diff(tc.want, got, cmp.AllowUnexported(finding{})); diff != "" {
				t.Errorf("(-want +got):\n%s", diff)
			}
			if w := worst(got); w != tc.wantWorst {
				t.Errorf("worst is %q, want %q", w, tc.wantWorst)
			}
		})
	}
}
