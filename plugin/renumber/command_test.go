package renumber

import (
	"net/netip"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"
	admissionregistrationv1 "k8s.io/api/admissionregistration/v1"
	"k8s.io/apimachinery/pkg/types"
)

// TestWhoWaitsForAServiceIsNoted has webhooks that are called at an address, or through a Service.
func TestWhoWaitsForAServiceIsNoted(t *testing.T) {
	type (
		client = admissionregistrationv1.WebhookClientConfig
		rule   = admissionregistrationv1.RuleWithOperations
	)
	on := func(operation admissionregistrationv1.OperationType, group, resource string) rule {
		return rule{
			Operations: []admissionregistrationv1.OperationType{operation},
			Rule:       admissionregistrationv1.Rule{APIGroups: []string{group}, APIVersions: []string{"*"}, Resources: []string{resource}},
		}
	}
	byName := client{Service: &admissionregistrationv1.ServiceReference{Namespace: "policies", Name: "judge"}}
	awaited := Rules{Awaited: map[types.NamespacedName][]string{{Namespace: "policies", Name: "judge"}: {"the configuration"}}}
	ignore, fail := admissionregistrationv1.Ignore, admissionregistrationv1.Fail
	for name, tc := range map[string]struct {
		client client
		policy *admissionregistrationv1.FailurePolicyType
		rule   rule
		want   Rules
	}{
		"changes of Services":             {byName, &fail, on("UPDATE", "", "services"), awaited},
		"no policy, which is Fail":        {byName, nil, on("UPDATE", "", "services"), awaited},
		"whatever there is":               {byName, &fail, on("*", "*", "*"), awaited},
		"whatever there is, and parts":    {byName, &fail, on("*", "*", "*/*"), awaited},
		"a webhook that may be away":      {byName, &ignore, on("UPDATE", "", "services"), Rules{}},
		"creations":                       {byName, &fail, on("CREATE", "", "services"), Rules{}},
		"another resource":                {byName, &fail, on("UPDATE", "", "pods"), Rules{}},
		"the status alone":                {byName, &fail, on("UPDATE", "", "services/status"), Rules{}},
		"another group":                   {byName, &fail, on("UPDATE", "apps", "services"), Rules{}},
		"an address, for another purpose": {client{URL: new("https://10.96.0.7:443/x")}, &ignore, on("CREATE", "", "pods"), Rules{Callers: map[netip.Addr][]string{netip.MustParseAddr("10.96.0.7"): {"the configuration"}}}},
		"an address of IPv6":              {client{URL: new("https://[fd00::7]/x")}, &fail, on("UPDATE", "", "services"), Rules{Callers: map[netip.Addr][]string{netip.MustParseAddr("fd00::7"): {"the configuration"}}}},
		"a name":                          {client{URL: new("https://judge.example/x")}, &fail, on("UPDATE", "", "services"), Rules{}},
		"no URL":                          {client{URL: new("://")}, &fail, on("UPDATE", "", "services"), Rules{}},
	} {
		t.Run(name, func(t *testing.T) {
			got := Rules{Callers: map[netip.Addr][]string{}, Awaited: map[types.NamespacedName][]string{}}
			for range 2 { // the second webhook of one configuration
				addCaller(got, tc.client, tc.policy, []rule{on("DELETE", "", "pods"), tc.rule}, "the configuration")
			}
			if diff := cmp.Diff(tc.want, got, cmpopts.EquateEmpty(), cmpopts.EquateComparable(netip.Addr{})); diff != "" {
				t.Errorf("-want +got:\n%s", diff)
			}
		})
	}
}
