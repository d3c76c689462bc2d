package steering

import (
	"net/netip"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/clusterip-operator/clusterip-operator/api/v1alpha1"
)

func TestRelatedServiceCIDRs(t *testing.T) {
	labelled := ready("labelled", "10.1.0.0/24", "fd01::/112")
	labelled.Labels = map[string]string{"pool": "red", "tier": "a"}
	half := ready("half", "10.2.0.0/24")
	half.Labels = map[string]string{"pool": "red"}
	created := ready("created", "10.3.0.0/24")
	created.CreatedFor = "grows"
	other := ready("other", "10.4.0.0/24")
	other.CreatedFor, other.Labels = "another", map[string]string{"pool": "grows"}
	s := Compile(inputs(serviceCIDRs{labelled, half, created, other, ready("inside", "10.5.1.0/24"), ready("around", "10.0.0.0/8"), ready("six", "fd05::/112")}))
	for name, tc := range map[string]struct {
		labels   map[string]string
		policy   string
		prefixes []netip.Prefix
		want     []string
	}{
		"by all labels":               {map[string]string{"pool": "red", "tier": "a"}, "", nil, []string{"labelled"}},
		"by one label":                {map[string]string{"pool": "red"}, "", nil, []string{"half", "labelled"}},
		"by none, which all have":     {nil, "", nil, []string{"around", "created", "half", "inside", "labelled", "other", "six"}},
		"created for it":              {map[string]string{"pool": "blue"}, "grows", nil, []string{"created"}},
		"by a label of that name":     {map[string]string{v1alpha1.AnnotationCreatedFor: "grows"}, "", nil, nil},
		"around and inside, and once": {map[string]string{"pool": "blue"}, "grows", prefixes("10.5.0.0/16", "10.5.1.0/25", "10.3.0.0/24"), []string{"around", "created", "inside"}},
		"of the other family":         {map[string]string{"pool": "blue"}, "", prefixes("fd05::/64"), []string{"six"}},
	} {
		t.Run(name, func(t *testing.T) {
			var got []string
			for _, c := range s.Related(tc.labels, tc.policy, tc.prefixes) {
				got = append(got, c.Name)
			}
			if d := cmp.Diff(tc.want, got); d != "" {
				t.Errorf("-want +got:\n%s", d)
			}
		})
	}
}

func prefixes(texts ...string) (out []netip.Prefix) {
	for _, text := range texts {
		out = append(out, netip.MustParsePrefix(text))
	}
	return out
}
