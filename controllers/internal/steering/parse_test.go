package steering

import (
	"strings"
	"testing"
	"time"

	gocmp "github.com/google/go-cmp/cmp"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/clusterip-operator/clusterip-operator/api/v1alpha1"
)

func TestParseReservation(t *testing.T) {
	for text, want := range map[string]string{
		"10.0.0.9":                     "10.0.0.9-10.0.0.9",
		"10.0.0.9-10.0.0.12":           "10.0.0.9-10.0.0.12",
		"10.0.0.9-10.0.0.9":            "10.0.0.9-10.0.0.9",
		"10.0.0.16/28":                 "10.0.0.16-10.0.0.31",
		"10.0.0.9/32":                  "10.0.0.9-10.0.0.9",
		"0.0.0.0/0":                    "0.0.0.0-255.255.255.255",
		"fd00::9":                      "fd00::9-fd00::9",
		"FD00::9-fd00::00ff":           "fd00::9-fd00::ff",
		"fd00::10/124":                 "fd00::10-fd00::1f",
		"fd00::/1":                     "",
		"":                             "",
		"-":                            "",
		"10.0.0.9-":                    "",
		"-10.0.0.9":                    "",
		"10.0.0.9 - 10.0.0.12":         "",
		"10.0.0.12-10.0.0.9":           "",
		"10.0.0.9-fd00::9":             "",
		"fd00::9-10.0.0.9":             "",
		"10.0.0.9-10.0.0.12/32":        "",
		"10.0.0.9-10.0.0.12-10.0.0.13": "",
		"10.0.0.17/28":                 "",
		"10.0.0.16/33":                 "",
		"10.0.0.16/":                   "",
		"010.0.0.9":                    "",
		"::ffff:10.0.0.9":              "",
		"::ffff:10.0.0.0/120":          "",
		"fe80::1%eth0":                 "",
		"fe80::1%eth0-fe80::2%eth0":    "",
		"ten":                          "",
	} {
		got, err := ParseReservation(text)
		switch {
		case want == "" && err == nil:
			t.Errorf("%q is read as %s, %v", text, got, err)
		case want != "" && (err != nil || got.String() != want):
			t.Errorf("%q is read as %s, %v; want %s", text, got, err, want)
		}
	}
}

// Whatever is read is a run of plain addresses of one family, and is read again the same when it is written out.
func FuzzParseReservation(f *testing.F) {
	for _, text := range []string{"10.0.0.9", "10.0.0.9-10.0.0.12", "10.0.0.16/28", "fd00::9-fd00::ff", "fd00::10/124", "::ffff:10.0.0.9", "fe80::1%eth0", "-", "/", "1/2-3"} {
		f.Add(text)
	}
	f.Fuzz(func(t *testing.T, text string) {
		got, err := ParseReservation(text)
		if err != nil {
			return
		}
		if got.IsEmpty() || got.Size() == 0 || !got.Contains(got.First) || !got.Contains(got.Last) || got.First.Is4In6() {
			t.Fatalf("%q is read as %v", text, got)
		}
		again, err := ParseReservation(got.String())
		if err != nil || again != got {
			t.Fatalf("%q is %s, which is read as %s, %v", text, got, again, err)
		}
	})
}

func TestValidate(t *testing.T) {
	junk := &metav1.LabelSelector{MatchExpressions: []metav1.LabelSelectorRequirement{{Key: "a", Operator: "Like"}}}
	for name, tc := range map[string]struct {
		policy *v1alpha1.ServiceCIDRPolicy
		want   []string
	}{
		"nothing": {policy("a", 0), nil},
		"everything": {with(policy("a", 0), of("blue"), exclusive, fails, coolsFor(time.Hour), selecting("a"), reserves("one", "10.0.0.9", "ns/a"),
			reserves("all", "10.0.4.0/23", ""), reserves("six", "fd00::1-fd00::1ff", "kube-system/dns")), nil},
		"selectors": {with(policy("a", 0), func(s *v1alpha1.ServiceCIDRPolicySpec) {
			s.NamespaceSelector, s.ServiceSelector, s.ServiceCIDRSelector = junk, junk, junk
		}), []string{
			`namespaceSelector: "Like" is not a valid label selector operator`, `serviceSelector: "Like" is not a valid label selector operator`,
			`serviceCIDRSelector: "Like" is not a valid label selector operator`,
		}},
		"names and labels": {with(policy("a", 0), of("blue"), func(s *v1alpha1.ServiceCIDRPolicySpec) { s.ServiceCIDRSelector = &metav1.LabelSelector{} }),
			[]string{"serviceCIDRSelector: not together with serviceCIDRs; leave out one of them"}},
		"negative cool-down": {with(policy("a", 0), coolsFor(-time.Second)), []string{"coolDown: -1s is negative; 0s is none"}},
		"junk in reservations": {with(policy("a", 0), reserves("a", "ten", ""), reserves("b", "10.0.0.9-10.0.0.1", ""), reserves("c", "10.0.0.9/24", ""), reserves("d", "10.0.0.9", "a")),
			[]string{
				`reservations[a]: "ten" is no address; write an IPv4 or IPv6 address, FIRST-LAST, or a CIDR`,
				`reservations[b]: "10.0.0.9-10.0.0.1": give the lower address first, and both of one family`,
				`reservations[c]: "10.0.0.9/24" has bits behind its prefix; 10.0.0.0/24 is meant, or a single address`,
				`reservations[d]: for: "a" is no Service; write NAMESPACE/NAME`,
			}},
		"overlapping reservations": {with(policy("a", 0), reserves("a", "10.0.0.0/28", ""), reserves("b", "10.0.0.15", ""), reserves("c", "10.0.0.16", "")),
			[]string{"reservations[b]: 10.0.0.15 overlaps the reservation a of this policy"}},
		"too many addresses": {with(policy("a", 0), reserves("a", "10.0.0.0/22", ""), reserves("b", "10.1.0.0", ""), reserves("c", "fd00::/64", "")),
			[]string{
				"reservations[b]: 10.1.0.0 has too many addresses; 0 are left of the 1024 that a policy may reserve",
				"reservations[c]: fd00::/64 has too many addresses; 0 are left of the 1024 that a policy may reserve",
			}},
	} {
		t.Run(name, func(t *testing.T) {
			if d := gocmp.Diff(tc.want, Validate(tc.policy)); d != "" {
				t.Errorf("(-want +got):\n%s", d)
			}
		})
	}
}

func TestParseFor(t *testing.T) {
	for text, ok := range map[string]bool{
		"": true, "ns/a": true, "kube-system/kube-dns": true, "ns/1st": true, "ns": false, "/": false, "ns/": false, "/a": false, "ns/a/b": false,
		"NS/a": false, "ns/A": false, " ns/a": false, "ns/a.b": false, "ns/" + strings.Repeat("a", 63): true, "ns/" + strings.Repeat("a", 64): false,
	} {
		got, err := parseFor(text)
		if (err == nil) != ok || ok && text != "" && got.String() != text {
			t.Errorf("%q is read as %s, %v", text, got, err)
		}
	}
}
