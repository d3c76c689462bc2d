package steering

import (
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/clusterip-operator/clusterip-operator/api/v1alpha1"
)

func TestParseFrom(t *testing.T) {
	for name, tc := range map[string]struct {
		annotation string
		want       []string
		wrong      string
	}{
		"nothing":                     {},
		"blanks":                      {annotation: " \t"},
		"one":                         {annotation: "blue", want: []string{"blue"}},
		"the order stays":             {annotation: "red,blue.example", want: []string{"red", "blue.example"}},
		"blanks around names":         {annotation: " red , blue\n", want: []string{"red", "blue"}},
		"eight":                       {annotation: "a,b,c,d,e,f,g,h", want: strings.Split("abcdefgh", "")},
		"nine":                        {annotation: "a,b,c,d,e,f,g,h,i", wrong: "it names more than 8 ServiceCIDRs"},
		"twice":                       {annotation: "a,b, a", wrong: `it names ServiceCIDR "a" twice`},
		"a comma too many":            {annotation: "a,,b", wrong: `"" is no name of a ServiceCIDR`},
		"a comma at the end":          {annotation: "a,", wrong: `"" is no name of a ServiceCIDR`},
		"capitals":                    {annotation: "a,Blue", wrong: `"Blue" is no name of a ServiceCIDR`},
		"a CIDR":                      {annotation: "10.0.0.0/24", wrong: `"10.0.0.0/24" is no name of a ServiceCIDR`},
		"JSON":                        {annotation: `["a"]`, wrong: `"[\"a\"]" is no name of a ServiceCIDR`},
		"no text at all":              {annotation: "\x00\xff", wrong: `"\x00\xff" is no name of a ServiceCIDR`},
		"a megabyte, shown in part":   {annotation: strings.Repeat("x", 1<<20), wrong: `"` + strings.Repeat("x", 64) + `..." is no name of a ServiceCIDR`},
		"not cut in half of a letter": {annotation: strings.Repeat("x", 63) + "ß", wrong: `"` + strings.Repeat("x", 63) + `..." is no name of a ServiceCIDR`},
	} {
		t.Run(name, func(t *testing.T) {
			got, err := ParseFrom(tc.annotation)
			if diff := cmp.Diff(tc.want, got); diff != "" {
				t.Errorf("(-want +got):\n%s", diff)
			}
			if text := textOf(err); text != tc.wrong {
				t.Errorf("got the error %q, want %q", text, tc.wrong)
			}
		})
	}
}

func textOf(err error) string {
	if err == nil {
		return ""
	}
	return err.Error()
}

func TestAdditionalRequestOf(t *testing.T) {
	dual := []corev1.IPFamily{corev1.IPv6Protocol, corev1.IPv4Protocol}
	for name, tc := range map[string]struct {
		kind     corev1.ServiceType
		ips      []string
		families []corev1.IPFamily
		from     string
		want     AdditionalRequest
		junk     bool
		keeps    []string // "NAME 4", "NAME 6" of a and b
	}{
		"asks for nothing":      {families: dual, ips: []string{"fd00::1", "10.0.0.1"}, want: AdditionalRequest{IPv4: true, IPv6: true}},
		"single stack":          {families: dual[1:], ips: []string{"10.0.0.1"}, from: "a", want: AdditionalRequest{From: []string{"a"}, IPv4: true}, keeps: []string{"a 4"}},
		"IPv6 alone":            {families: dual[:1], ips: []string{"fd00::1"}, from: "a", want: AdditionalRequest{From: []string{"a"}, IPv6: true}, keeps: []string{"a 6"}},
		"dual stack":            {families: dual, ips: []string{"fd00::1", "10.0.0.1"}, from: "a", want: AdditionalRequest{From: []string{"a"}, IPv4: true, IPv6: true}, keeps: []string{"a 4", "a 6"}},
		"headless":              {families: dual, ips: []string{"None"}, from: "a"},
		"ExternalName":          {kind: corev1.ServiceTypeExternalName, families: dual, from: "a"},
		"junk keeps everything": {families: dual[1:], ips: []string{"10.0.0.1"}, from: "a,,", want: AdditionalRequest{IPv4: true}, junk: true, keeps: []string{"a 4", "b 4"}},
	} {
		t.Run(name, func(t *testing.T) {
			s := &corev1.Service{
				ObjectMeta: metav1.ObjectMeta{Annotations: map[string]string{v1alpha1.AnnotationAdditionalFrom: tc.from}},
				Spec:       corev1.ServiceSpec{Type: tc.kind, ClusterIPs: tc.ips, IPFamilies: tc.families},
			}
			got := AdditionalRequestOf(s)
			if (got.Junk != nil) != tc.junk {
				t.Errorf("junk is %v", got.Junk)
			}
			if diff := cmp.Diff(tc.keeps, kept(got)); diff != "" {
				t.Errorf("what it keeps (-want +got):\n%s", diff)
			}
			got.Junk = nil
			if diff := cmp.Diff(tc.want, got); diff != "" {
				t.Errorf("(-want +got):\n%s", diff)
			}
		})
	}
}

func kept(w AdditionalRequest) (out []string) {
	for _, name := range []string{"a", "b"} {
		for _, is4 := range []bool{true, false} {
			if w.Keeps(name, is4) {
				out = append(out, name+map[bool]string{true: " 4", false: " 6"}[is4])
			}
		}
	}
	return out
}
