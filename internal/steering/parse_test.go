package steering

import (
	"fmt"
	"net/netip"
	"slices"
	"strings"
	"testing"
	"time"

	gocmp "github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/clusterip-operator/clusterip-operator/allocator"
	"github.com/clusterip-operator/clusterip-operator/api/v1alpha1"
)

func TestParseReservation(t *testing.T) {
	for text, want := range map[string]string{
		"10.0.0.9": "10.0.0.9-10.0.0.9", "10.0.0.9/32": "10.0.0.9-10.0.0.9", "10.0.0.16/28": "10.0.0.16-10.0.0.31", "0.0.0.0/0": "0.0.0.0-255.255.255.255",
		"10.0.0.9-10.0.0.12": "10.0.0.9-10.0.0.12", "10.0.0.9-10.0.0.9": "10.0.0.9-10.0.0.9",
		"fd00::9": "fd00::9-fd00::9", "FD00::9-fd00::00ff": "fd00::9-fd00::ff", "fd00::10/124": "fd00::10-fd00::1f",
	} {
		if got, err := ParseReservation(text); err != nil || got.String() != want {
			t.Errorf("%q is read as %s, %v; want %s", text, got, err, want)
		}
	}
	for _, text := range []string{
		"", "-", "ten", "10.0.0.9-", "-10.0.0.9", "10.0.0.9 - 10.0.0.12", "10.0.0.12-10.0.0.9", "10.0.0.9-fd00::9", "fd00::9-10.0.0.9", "10.0.0.9-10.0.0.12/32",
		"10.0.0.9-10.0.0.12-10.0.0.13", "10.0.0.17/28", "10.0.0.16/33", "10.0.0.16/", "010.0.0.9", "fd00::/1", "::ffff:10.0.0.9", "::ffff:10.0.0.0/120",
		"fe80::1%eth0", "fe80::1%eth0-fe80::2%eth0",
	} {
		if got, err := ParseReservation(text); err == nil {
			t.Errorf("%q is read as %s", text, got)
		}
	}
}

// What is read is a run of plain addresses of one family, and its text is read as the same again.
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
			_, got := Validate(tc.policy)
			if d := gocmp.Diff(tc.want, got); d != "" {
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
		"four":                        {annotation: "a,b,c,d", want: strings.Split("abcd", "")},
		"five":                        {annotation: "a,b,c,d,e", wrong: "it names more than 4 ServiceCIDRs"},
		"long, but not too long":      {annotation: strings.Repeat("x", 253), want: []string{strings.Repeat("x", 253)}},
		"too long":                    {annotation: "a" + strings.Repeat(" ", 253), wrong: "it has more than 253 characters"},
		"twice":                       {annotation: "a,b, a", wrong: `it names ServiceCIDR "a" twice`},
		"a comma too many":            {annotation: "a,,b", wrong: `"" is no name of a ServiceCIDR`},
		"a comma at the end":          {annotation: "a,", wrong: `"" is no name of a ServiceCIDR`},
		"capitals":                    {annotation: "a,Blue", wrong: `"Blue" is no name of a ServiceCIDR`},
		"a CIDR":                      {annotation: "10.0.0.0/24", wrong: `"10.0.0.0/24" is no name of a ServiceCIDR`},
		"JSON":                        {annotation: `["a"]`, wrong: `"[\"a\"]" is no name of a ServiceCIDR`},
		"no text at all":              {annotation: "\x00\xff", wrong: `"\x00\xff" is no name of a ServiceCIDR`},
		"long, shown in part":         {annotation: strings.Repeat("X", 253), wrong: `"` + strings.Repeat("X", 64) + `..." is no name of a ServiceCIDR`},
		"not cut in half of a letter": {annotation: strings.Repeat("x", 63) + "ß", wrong: `"` + strings.Repeat("x", 63) + `..." is no name of a ServiceCIDR`},
	} {
		t.Run(name, func(t *testing.T) {
			got, err := ParseFrom(tc.annotation)
			if diff := gocmp.Diff(tc.want, got); diff != "" {
				t.Errorf("(-want +got):\n%s", diff)
			}
			if text := textOf(err); text != tc.wrong {
				t.Errorf("got the error %q, want %q", text, tc.wrong)
			}
		})
	}
}

func TestParseFormer(t *testing.T) {
	many := func(n int) string {
		var all []string
		for i := range n {
			all = append(all, fmt.Sprintf("10.0.0.%d", i))
		}
		return strings.Join(all, ",")
	}
	for name, tc := range map[string]struct {
		annotation string
		want       int
		wrong      string
	}{
		"nothing":               {},
		"blanks":                {annotation: " \t"},
		"one of each family":    {annotation: "10.0.0.5, fd00::5\n", want: 2},
		"8":                     {annotation: many(8), want: 8},
		"9":                     {annotation: many(9), wrong: "it has more than 8 addresses"},
		"one twice":             {annotation: "10.0.0.5,10.0.0.5", wrong: "it has 10.0.0.5 twice"},
		"a comma too many":      {annotation: "10.0.0.5,", wrong: `"" is no address as the name of an IPAddress has it`},
		"leading zeros":         {annotation: "010.0.0.5", wrong: `"010.0.0.5" is no address as the name of an IPAddress has it`},
		"not canonical":         {annotation: "10.0.0.5,fd00:0::5", wrong: `"fd00:0::5" is no address as the name of an IPAddress has it`},
		"capitals":              {annotation: "FD00::5", wrong: `"FD00::5" is no address as the name of an IPAddress has it`},
		"IPv4 in IPv6":          {annotation: "::ffff:10.0.0.5", wrong: `"::ffff:10.0.0.5" is no address as the name of an IPAddress has it`},
		"a zone":                {annotation: "fe80::1%eth0", wrong: `"fe80::1%eth0" is no address as the name of an IPAddress has it`},
		"a megabyte, in part":   {annotation: strings.Repeat("x", 1<<20), wrong: `"` + strings.Repeat("x", 64) + `..." is no address as the name of an IPAddress has it`},
		"JSON":                  {annotation: `["fd00::5"]`, wrong: `"[\"fd00::5\"]" is no address as the name of an IPAddress has it`},
		"separated by a blank":  {annotation: "10.0.0.5 10.0.0.6", wrong: `"10.0.0.5 10.0.0.6" is no address as the name of an IPAddress has it`},
		"a prefix, not address": {annotation: "fd00::/64", wrong: `"fd00::/64" is no address as the name of an IPAddress has it`},
	} {
		t.Run(name, func(t *testing.T) {
			got, err := ParseFormer(tc.annotation)
			if len(got) != tc.want || textOf(err) != tc.wrong {
				t.Errorf("got %v and the error %q, want %d addresses and %q", got, textOf(err), tc.want, tc.wrong)
			}
		})
	}
}

// A Service keeps former addresses while it lists them and has its own address, or is about to.
func TestKeepsFormer(t *testing.T) {
	external := corev1.ServiceTypeExternalName
	for name, tc := range map[string]struct {
		kind         corev1.ServiceType
		ip           string
		list, marked string
		alias        bool // of its owner
		want, other  bool // keeps the addresses that are asked about, and additional ones
	}{
		"listed":                         {ip: "10.0.0.1", list: "10.0.0.5,fd00::5", want: true},
		"others are listed":              {ip: "10.0.0.1", list: "10.0.0.6,fd00::6"},
		"nothing is listed":              {ip: "10.0.0.1"},
		"junk keeps everything":          {ip: "10.0.0.1", list: "bla", want: true},
		"an alias of its owner, marked":  {kind: external, list: "10.0.0.5,fd00::5", marked: "{}", alias: true},
		"headless":                       {ip: "None", list: "10.0.0.5,fd00::5"},
		"ExternalName":                   {kind: external, list: "10.0.0.5,fd00::5"},
		"between the two updates":        {kind: external, list: "10.0.0.5,fd00::5", marked: "{}", want: true, other: true},
		"between them, and not listed":   {kind: external, marked: "{}", other: true},
		"the mark alone means nothing":   {ip: "10.0.0.1", marked: "{}"},
		"the mark on a headless Service": {ip: "None", list: "10.0.0.5,fd00::5", marked: "{}"},
	} {
		t.Run(name, func(t *testing.T) {
			s := &corev1.Service{
				ObjectMeta: metav1.ObjectMeta{Annotations: map[string]string{v1alpha1.AnnotationFormerIPs: tc.list}},
				Spec:       corev1.ServiceSpec{Type: tc.kind, ClusterIPs: []string{tc.ip}, ExternalName: v1alpha1.ExternalNameRenumbering},
			}
			if tc.marked != "" {
				s.Annotations[v1alpha1.AnnotationRenumbering] = tc.marked
			}
			if tc.alias {
				s.Spec.ExternalName = "example.com"
			}
			got := AdditionalRequestOf(s)
			for _, address := range []string{"10.0.0.5", "fd00::5"} {
				if keeps := got.KeepsFormer(netip.MustParseAddr(address)); keeps != tc.want {
					t.Errorf("keeps %s: %v", address, keeps)
				}
				if keeps := got.Keeps("a", allocator.FamilyOf(netip.MustParseAddr(address))); keeps != tc.other {
					t.Errorf("keeps an additional one of the family of %s: %v", address, keeps)
				}
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

// asked is short for the table below.
type asked = AdditionalRequest

func TestAdditionalRequestOf(t *testing.T) {
	dual := []corev1.IPFamily{corev1.IPv6Protocol, corev1.IPv4Protocol}
	four, six := []allocator.Family{allocator.IPv4}, []allocator.Family{allocator.IPv6}
	for name, tc := range map[string]struct {
		kind     corev1.ServiceType
		ips      []string
		families []corev1.IPFamily
		from     string
		want     asked
		junk     bool
		keeps    []string // "NAME 4", "NAME 6" of a and b
	}{
		"asks for nothing":      {families: dual, ips: []string{"fd00::1", "10.0.0.1"}, want: asked{}},
		"single stack":          {families: dual[1:], ips: []string{"10.0.0.1"}, from: "a", want: asked{From: []string{"a"}, Families: four}, keeps: []string{"a 4"}},
		"IPv6 alone":            {families: dual[:1], ips: []string{"fd00::1"}, from: "a", want: asked{From: []string{"a"}, Families: six}, keeps: []string{"a 6"}},
		"dual stack":            {families: dual, ips: []string{"fd00::1", "10.0.0.1"}, from: "a", want: asked{From: []string{"a"}, Families: allocator.Families}, keeps: []string{"a 4", "a 6"}},
		"headless":              {families: dual, ips: []string{"None"}, from: "a"},
		"ExternalName":          {kind: corev1.ServiceTypeExternalName, families: dual, from: "a"},
		"junk keeps everything": {families: dual[1:], ips: []string{"10.0.0.1"}, from: "a,,", want: asked{Families: four}, junk: true, keeps: []string{"a 4", "b 4"}},
	} {
		t.Run(name, func(t *testing.T) {
			s := &corev1.Service{
				ObjectMeta: metav1.ObjectMeta{Annotations: map[string]string{v1alpha1.AnnotationAdditionalFrom: tc.from}},
				Spec:       corev1.ServiceSpec{Type: tc.kind, ClusterIPs: tc.ips, IPFamilies: tc.families},
			}
			got := AdditionalRequestOf(s)
			if (got.FromError != nil) != tc.junk {
				t.Errorf("the error is %v", got.FromError)
			}
			if diff := gocmp.Diff(tc.keeps, kept(got)); diff != "" {
				t.Errorf("what it keeps (-want +got):\n%s", diff)
			}
			got.FromError = nil
			if diff := gocmp.Diff(tc.want, got); diff != "" {
				t.Errorf("(-want +got):\n%s", diff)
			}
		})
	}
}

func kept(w AdditionalRequest) (out []string) {
	for _, name := range []string{"a", "b"} {
		for _, f := range allocator.Families {
			if w.Keeps(name, f) {
				out = append(out, fmt.Sprintf("%s %d", name, f))
			}
		}
	}
	return out
}

// What a cache remembers asks for the same as the Service itself, and is never longer than what can
// be read.
func TestRemembered(t *testing.T) {
	long := strings.Repeat("x", 1<<18)
	for name, tc := range map[string]struct{ in, want map[string]string }{
		"nothing": {map[string]string{"mine": long}, nil},
		"readable": {map[string]string{v1alpha1.AnnotationAdditionalFrom: " red , blue", v1alpha1.AnnotationFormerIPs: "10.0.0.5, fd00::5"},
			map[string]string{v1alpha1.AnnotationAdditionalFrom: "red,blue", v1alpha1.AnnotationFormerIPs: "10.0.0.5,fd00::5"}},
		"junk": {map[string]string{v1alpha1.AnnotationAdditionalFrom: long, v1alpha1.AnnotationFormerIPs: long, v1alpha1.AnnotationRenumbering: long},
			map[string]string{v1alpha1.AnnotationAdditionalFrom: ",", v1alpha1.AnnotationFormerIPs: ",", v1alpha1.AnnotationRenumbering: ""}},
	} {
		s := &corev1.Service{ObjectMeta: metav1.ObjectMeta{Annotations: tc.in}}
		s.Spec.Type, s.Spec.IPFamilies = corev1.ServiceTypeClusterIP, []corev1.IPFamily{corev1.IPv4Protocol}
		got := Remembered(s)
		if diff := gocmp.Diff(tc.want, got); diff != "" {
			t.Errorf("%s (-want +got):\n%s", name, diff)
		}
		before := AdditionalRequestOf(s)
		s.Annotations = got
		after := AdditionalRequestOf(s)
		if diff := gocmp.Diff(before.From, after.From); diff != "" || !slices.Equal(before.Former, after.Former) ||
			(before.FromError == nil) != (after.FromError == nil) || (before.FormerError == nil) != (after.FormerError == nil) {
			t.Errorf("%s: the Service asks for %+v, and as remembered for %+v", name, before, after)
		}
	}
}
