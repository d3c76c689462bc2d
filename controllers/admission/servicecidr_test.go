package admission

import (
	"encoding/json"
	"fmt"
	"net/netip"
	"testing"

	"github.com/google/go-cmp/cmp"
	admissionv1 "k8s.io/api/admission/v1"
	networkingv1 "k8s.io/api/networking/v1"
	"k8s.io/apimachinery/pkg/runtime"

	"github.com/clusterip-operator/clusterip-operator/internal/addressindex"
)

func TestGuardServiceCIDR(t *testing.T) {
	prefixes := []netip.Prefix{netip.MustParsePrefix("10.8.0.0/16"), netip.MustParsePrefix("fd08::/112")}
	pods := addressindex.Network{Owner: "node a", Prefix: netip.MustParsePrefix("10.8.3.0/24")}
	office := addressindex.Network{Owner: "network office", Prefix: netip.MustParsePrefix("fd08::/16")}
	const four, six = "10.8.0.0/16 overlaps 10.8.3.0/24 (node a)", "fd08::/112 overlaps fd08::/16 (network office)"
	const why = "traffic to other networks may be taken for Service traffic: "
	many := []addressindex.Network{pods}
	for i := range 6 {
		many = append(many, addressindex.Network{Owner: "node b", Prefix: netip.MustParsePrefix(fmt.Sprintf("10.8.%d.0/24", 100+i))})
	}
	for name, tc := range map[string]struct {
		mode         OverlapMode
		networks     []addressindex.Network
		wantRefusal  string
		wantWarnings []string
	}{
		"nothing overlaps":     {mode: OverlapDeny},
		"warned, IPv4":         {mode: OverlapWarn, networks: []addressindex.Network{pods}, wantWarnings: []string{why + four}},
		"warned, IPv6":         {mode: OverlapWarn, networks: []addressindex.Network{office}, wantWarnings: []string{why + six}},
		"warned, both":         {mode: OverlapWarn, networks: []addressindex.Network{pods, office}, wantWarnings: []string{why + four, six}},
		"ignored":              {mode: OverlapIgnore, networks: []addressindex.Network{pods, office}},
		"a mode of the future": {mode: "Ponder", networks: []addressindex.Network{pods, office}},
		"denied, both":         {mode: OverlapDeny, networks: []addressindex.Network{pods, office}, wantRefusal: four + ", " + six + "; traffic to these addresses may be taken for Service traffic: choose another range"},
		"others, denied":       {mode: OverlapDeny, networks: []addressindex.Network{{Owner: "node c", Prefix: netip.MustParsePrefix("10.9.0.0/16")}}},
		"others, warned of":    {mode: OverlapWarn, networks: []addressindex.Network{{Owner: "node c", Prefix: netip.MustParsePrefix("fd09::/16")}}},
		"too many to be named": {mode: OverlapWarn, networks: many, wantWarnings: []string{why + four,
			"10.8.0.0/16 overlaps 10.8.100.0/24 (node b)", "10.8.0.0/16 overlaps 10.8.101.0/24 (node b)", "10.8.0.0/16 overlaps 10.8.102.0/24 (node b)",
			"10.8.0.0/16 overlaps 10.8.103.0/24 (node b)", "and 2 more networks"}},
	} {
		t.Run(name, func(t *testing.T) {
			refusal, warnings := guardServiceCIDR(tc.mode, prefixes, tc.networks)
			if refusal != tc.wantRefusal {
				t.Errorf("refused with %q, want %q", refusal, tc.wantRefusal)
			}
			if diff := cmp.Diff(tc.wantWarnings, warnings); diff != "" {
				t.Errorf("warnings (-want +got):\n%s", diff)
			}
		})
	}
}

func TestAddedPrefixes(t *testing.T) {
	raw := func(cidrs ...string) runtime.RawExtension {
		body, err := json.Marshal(networkingv1.ServiceCIDR{Spec: networkingv1.ServiceCIDRSpec{CIDRs: cidrs}})
		if err != nil {
			t.Fatalf("writing a ServiceCIDR: %v", err)
		}
		return runtime.RawExtension{Raw: body}
	}
	for name, tc := range map[string]struct {
		operation   admissionv1.Operation
		before, now runtime.RawExtension
		want        string
		wantErr     bool
	}{
		"new, both families":          {operation: admissionv1.Create, now: raw("10.8.0.0/16", "fd08::/112"), want: "[10.8.0.0/16 fd08::/112]"},
		"a second family comes":       {operation: admissionv1.Update, before: raw("10.8.0.0/16"), now: raw("10.8.0.0/16", "fd08::/112"), want: "[fd08::/112]"},
		"only labels or status":       {operation: admissionv1.Update, before: raw("10.8.0.0/16"), now: raw("10.8.0.0/16"), want: "[]"},
		"what is no prefix is not us": {operation: admissionv1.Create, now: raw("bla", "10.8.0.0/16"), want: "[10.8.0.0/16]"},
		"deleted":                     {operation: admissionv1.Delete, before: raw("10.8.0.0/16"), want: "[]"},
		"no object":                   {operation: admissionv1.Create, want: "[]", wantErr: true},
		"no object before":            {operation: admissionv1.Update, now: raw("10.8.0.0/16"), want: "[]", wantErr: true},
	} {
		t.Run(name, func(t *testing.T) {
			got, err := addedPrefixes(admissionv1.AdmissionRequest{Operation: tc.operation, Object: tc.now, OldObject: tc.before})
			if fmt.Sprint(got) != tc.want || (err != nil) != tc.wantErr {
				t.Errorf("got %v, %v", got, err)
			}
		})
	}
}
