package check

import (
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/clusterip-operator/clusterip-operator/api/v1alpha1"
	"github.com/clusterip-operator/clusterip-operator/controllers/migration"
	"github.com/clusterip-operator/clusterip-operator/plugin/internal/plugintest"
)

// Only findings about bitmaps are added: other checks report the rest. A leftover is no fault.
func TestFindingsOfBitmaps(t *testing.T) {
	leaked := plugintest.Found(migration.LeakedBit, "10.0.0.9")
	leaked.Detail = "nobody has it"
	r := Report{Bitmaps: true}
	r.addFindings([]migration.Finding{leaked, plugintest.Found(migration.IPAddressMissing, "10.0.0.1", "Service ns/x"), plugintest.Found(migration.StaleBitmap, "")})
	want := []Item{{Check: "LeakedBit", Object: "bitmap", Address: "10.0.0.9", Message: "what follows from LeakedBit. nobody has it"}}
	if diff := cmp.Diff(want, r.Items); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
	for name, tc := range map[string]struct {
		r    Report
		want string
	}{
		"with the bitmaps":    {r, `<testcase name="LeakedBit"><failure`},
		"without the bitmaps": {Report{}, `failures="0"`},
	} {
		var text strings.Builder
		if err := tc.r.Print(&text, "junit"); err != nil {
			t.Fatal(err)
		}
		flat := strings.NewReplacer("\n", "", "  ", "").Replace(text.String())
		if !strings.Contains(flat, tc.want) || strings.Contains(flat, "LeakedBit") != tc.r.Bitmaps {
			t.Errorf("%s: %s", name, text.String())
		}
	}
}

// A pipeline is not told that a check has passed which could not be made.
func TestWhatIsNotLookedAtIsSkipped(t *testing.T) {
	r := Report{
		Items:   []Item{{Check: "WebhooksMissing", Object: "o", Message: "it is gone"}},
		Unknown: []Unknown{{"the user may not get A", []string{"WebhooksMissing", "WebhooksChanged"}}, {"nor B", []string{"WebhooksChanged"}}},
	}
	printed := func(format string) string {
		var text strings.Builder
		if err := r.Print(&text, format); err != nil {
			t.Fatal(err)
		}
		return strings.NewReplacer("\n", "", "  ", "").Replace(text.String())
	}
	for _, want := range []string{
		`failures="1" skipped="1"`, `name="WebhooksChanged"><skipped message="the user may not get A; nor B"></skipped></testcase>`,
		`name="WebhooksMissing"><failure message="o : it is gone"></failure></testcase>`, `name="WebhooksUntrusted"></testcase>`,
	} {
		if got := printed("junit"); !strings.Contains(got, want) {
			t.Errorf("no %s in %s", want, got)
		}
	}
	if got, want := printed("json"), `"unknown": ["the user may not get A","nor B"]`; !strings.Contains(got, want) {
		t.Errorf("no %s in %s", want, got)
	}
}

// An exclusive policy keeps out no tenant if it selects by labels of Services alone.
func TestPoliciesThatSelectByLabelsOfServicesAloneAreFound(t *testing.T) {
	by := &metav1.LabelSelector{MatchLabels: map[string]string{"team": "a"}}
	exists := &metav1.LabelSelector{MatchExpressions: []metav1.LabelSelectorRequirement{{Key: "team", Operator: metav1.LabelSelectorOpExists}}}
	for name, tc := range map[string]struct {
		spec v1alpha1.ServiceCIDRPolicySpec
		want bool
	}{
		"by Services":                            {v1alpha1.ServiceCIDRPolicySpec{Exclusive: true, ServiceSelector: by}, true},
		"by an expression, and all namespaces":   {v1alpha1.ServiceCIDRPolicySpec{Exclusive: true, ServiceSelector: exists, NamespaceSelector: &metav1.LabelSelector{}}, true},
		"by namespaces and Services":             {v1alpha1.ServiceCIDRPolicySpec{Exclusive: true, ServiceSelector: by, NamespaceSelector: exists}, false},
		"by namespaces":                          {v1alpha1.ServiceCIDRPolicySpec{Exclusive: true, NamespaceSelector: by}, false},
		"all Services":                           {v1alpha1.ServiceCIDRPolicySpec{Exclusive: true}, false},
		"by Services, and others may come along": {v1alpha1.ServiceCIDRPolicySpec{ServiceSelector: by}, false},
	} {
		t.Run(name, func(t *testing.T) {
			got := Conditions(plugintest.Now, nil, []v1alpha1.ServiceCIDRPolicy{{ObjectMeta: metav1.ObjectMeta{Name: "p", CreationTimestamp: metav1.NewTime(plugintest.Now)}, Spec: tc.spec}})
			if (len(got) == 1) != tc.want || tc.want && (got[0].Check != "PolicyByServiceLabels" || got[0].Object != "servicecidrpolicy/p") {
				t.Errorf("found %+v, want one: %v", got, tc.want)
			}
		})
	}
}

// Ready sums up other conditions, and Programmed repeats what Accepted and Conflicting tell.
func TestAFaultOfAPolicyIsToldOnce(t *testing.T) {
	condition := func(kind string, status metav1.ConditionStatus, reason string) metav1.Condition {
		return metav1.Condition{Type: kind, Status: status, Reason: reason}
	}
	for name, tc := range map[string]struct {
		conditions []metav1.Condition
		want       string
	}{
		"a mistake": {[]metav1.Condition{condition("Ready", "False", "Invalid"), condition("Accepted", "False", "Invalid"), condition("Programmed", "False", "Invalid")}, "PolicyNotAccepted"},
		"a better policy": {[]metav1.Condition{condition("Ready", "False", "Outranked"), condition("Conflicting", "True", "Outranked"), condition("Programmed", "False", "Outranked")},
			"PolicyConflicting"},
		"no range": {[]metav1.Condition{condition("Ready", "False", "NoRange"), condition("Programmed", "False", "NoRange")}, "PolicyNotProgrammed"},
	} {
		t.Run(name, func(t *testing.T) {
			got := Conditions(plugintest.Now, nil, []v1alpha1.ServiceCIDRPolicy{{Status: v1alpha1.ServiceCIDRPolicyStatus{Conditions: tc.conditions}}})
			if len(got) != 1 || got[0].Check != tc.want {
				t.Errorf("got %+v, want %s alone", got, tc.want)
			}
		})
	}
}

// A template may end as the name of a file, and such a name may have a =.
func TestWhereAReportGoes(t *testing.T) {
	dir := t.TempDir()
	for out, want := range map[string]struct{ format, file, err string }{
		"": {}, "yaml": {format: "yaml"}, "junit": {format: "junit"}, "custom-columns=A:.x.json": {format: "custom-columns=A:.x.json"},
		dir + "/a=b.yml": {"yaml", dir + "/a=b.yml", ""}, dir + "/report.xml": {"junit", dir + "/report.xml", ""},
		"custom-columns=A.yaml": {err: `"A.yaml" is no column`}, "jsonpath={.a.json": {err: "--output jsonpath: "}, "report.txt": {err: "or a file name that ends in"},
		dir + "/none/x.json": {"json", dir + "/none/x.json", "there is no folder"},
	} {
		format, file, err := destination(out)
		if format != want.format || file != want.file || (err == nil) != (want.err == "") || err != nil && !strings.Contains(err.Error(), want.err) {
			t.Errorf("%q: format %q, file %q, error %v; want %+v", out, format, file, err, want)
		}
	}
}
