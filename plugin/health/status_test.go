package health

import (
	"errors"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	admissionregistrationv1 "k8s.io/api/admissionregistration/v1"
	appsv1 "k8s.io/api/apps/v1"
	coordinationv1 "k8s.io/api/coordination/v1"
	corev1 "k8s.io/api/core/v1"
	networkingv1 "k8s.io/api/networking/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/clusterip-operator/clusterip-operator/api/v1alpha1"
	"github.com/clusterip-operator/clusterip-operator/controllers/admission"
	"github.com/clusterip-operator/clusterip-operator/plugin/check"
	"github.com/clusterip-operator/clusterip-operator/plugin/internal/plugintest"
)

func deployed(ready, want int32) *appsv1.Deployment {
	return &appsv1.Deployment{Spec: appsv1.DeploymentSpec{Replicas: &want}, Status: appsv1.DeploymentStatus{ReadyReplicas: ready}}
}

func leased(holder string, renewed time.Duration) *coordinationv1.Lease {
	at := metav1.NewMicroTime(plugintest.Now.Add(-renewed))
	return &coordinationv1.Lease{Spec: coordinationv1.LeaseSpec{HolderIdentity: &holder, RenewTime: &at, AcquireTime: &at, LeaseDurationSeconds: new(int32(15))}}
}

func pod(name, node, image string) corev1.Pod {
	return corev1.Pod{
		ObjectMeta: metav1.ObjectMeta{Name: name}, Spec: corev1.PodSpec{NodeName: node, Containers: []corev1.Container{{Image: image}}},
		Status: corev1.PodStatus{Conditions: []corev1.PodCondition{{Type: corev1.PodReady, Status: corev1.ConditionTrue}}},
	}
}

func TestParts(t *testing.T) {
	full := metav1.Condition{Type: v1alpha1.ConditionDynamicBandFull, Status: metav1.ConditionTrue, Message: "no address is free"}
	var configured check.Admission
	configured.Mutating.Object = &admissionregistrationv1.MutatingWebhookConfiguration{Webhooks: []admissionregistrationv1.MutatingWebhook{{Name: "w"}}}
	pruned := check.Admission{Installed: true, Serves: true, Name: "clusterip-operator"}
	pruned.Mutating.Known, pruned.Exclusive.Known = true, true
	unread := check.Admission{Unknown: []check.Unknown{{Why: "the user may not get MutatingWebhookConfiguration clusterip-operator"}}}
	reached := &admission.Reached{Replica: "manager-1", Version: "v1.2.3", Since: plugintest.Now.Add(-time.Hour)}
	synced, late := plugintest.Now.Add(-time.Second), plugintest.Now.Add(-time.Minute)
	agents := []agent{
		{Node: "a", Ready: true, Mode: "iptables", Image: "agent:v1", Told: true, LastSync: &synced},
		{Node: "b", Ready: true, Mode: "nftables", Image: "agent:v1", Told: true, LastSync: &late},
		{Node: "c", Mode: "nftables", Image: "agent:v2", Problem: "its pod is not ready", Unknown: "it did not answer"},
	}
	for name, tc := range map[string]struct {
		health found
		part   string
		well   bool
		words  string
	}{
		"not installed":     {found{}, "manager", false, "not installed in this namespace"},
		"ready":             {found{manager: deployed(2, 2)}, "manager", true, "2 of 2 replicas are ready"},
		"one is missing":    {found{manager: deployed(1, 2)}, "manager", false, "1 of 2"},
		"scaled to nothing": {found{manager: deployed(0, 0)}, "manager", false, "0 of 0"},
		"two versions": {found{manager: deployed(2, 2), replicas: []corev1.Pod{pod("m-1", "a", "manager:v1"), pod("m-2", "b", "manager:v2")}},
			"manager", true, "image manager:v1 (1), manager:v2 (1)"},
		"nobody leads": {found{lease: leased("", 0)}, "leader", false, "no manager leads"},
		"leads": {found{lease: leased("manager-1_abcdef@10.0.0.1:9443", time.Second), replicas: []corev1.Pod{pod("manager-1", "a", "manager:v1")}},
			"leader", true, "manager-1, for 1s, image manager:v1"},
		"led":         {found{lease: leased("manager-1_abcdef@", time.Minute)}, "leader", false, "manager-1 has not renewed its Lease for 60s"},
		"no webhooks": {found{}, "webhooks", true, "none are configured"},
		"reached":     {found{admission: configured, probe: probed{Reached: reached}}, "webhooks", true, "the API server reaches manager-1, version v1.2.3, for 60m"},
		"not reached": {found{admission: configured}, "webhooks", false, "does not reach them"},
		"not tried":   {found{admission: configured, probe: probed{Unknown: "the user may not create services"}}, "webhooks", true, "is not known: the user may not create services"},
		"pruned":      {found{admission: pruned}, "webhooks", false, "mutatingwebhookconfiguration/clusterip-operator: WebhooksMissing: It is not in the cluster. Without it the API server does not ask"},
		"not applied": {found{admission: pruned}, "enforcement", false, "validatingadmissionpolicy/clusterip-operator-exclusive: EnforcementMissing: It is not in the cluster"},
		"not read":    {found{admission: unread}, "webhooks", true, "is not known: the user may not get MutatingWebhookConfiguration"},
		"no CA":       {found{admission: configured}, "certificate", false, "w has no CA yet"},
		"no need":     {found{}, "certificate", true, "none is needed"},
		"no agents":   {found{}, "agents", true, "there are none"},
		"agents": {found{wanted: 3, updated: 2, agents: agents}, "agents", false, "2 of 3 nodes are ready, 2 have this version; iptables (1), nftables (2); image agent:v1 (2), agent:v2 (1); " +
			"last sync 1s to 60s ago; nothing is known about the last sync of 1: it did not answer; c: its pod is not ready"},
		"a node without its agent": {found{wanted: 3, agents: agents[:2]}, "agents", false, "2 of 3 nodes are ready"},
		"agents are well":          {found{wanted: 2, updated: 2, agents: agents[:2]}, "agents", true, "2 of 2 nodes are ready"},
		"ranges":                   {found{ranges: []networkingv1.ServiceCIDR{*plugintest.ServiceCIDR("a", "10.0.0.0/24")}}, "ranges and policies", true, "1 ServiceCIDRs, 0 policies, nothing is wrong"},
		"full":                     {found{ranges: []networkingv1.ServiceCIDR{*plugintest.ServiceCIDR("a", "10.0.0.0/24", full)}}, "ranges and policies", false, "1 findings"},
		"no default range":         {found{defaults: check.Defaults{WithoutRange: true}}, "finding", false, "servicecidr/kubernetes: RangeDefaultMissing: It does not exist"},
		"a finding":                {found{ranges: []networkingv1.ServiceCIDR{*plugintest.ServiceCIDR("a", "10.0.0.0/24", full)}}, "finding", false, "servicecidr/a: RangeDynamicBandFull: no address is free"},
	} {
		t.Run(name, func(t *testing.T) {
			i := tc.health.installation(plugintest.Now)
			n := slices.IndexFunc(i.Parts, func(p part) bool { return p.Name == tc.part })
			if n < 0 {
				t.Fatalf("there is no such part: %v", i.Parts)
			}
			if p := i.Parts[n]; p.Well != tc.well || !strings.Contains(p.Text, tc.words) || i.Well && !p.Well {
				t.Errorf("well: %t, %q; want %t, %q", p.Well, p.Text, tc.well, tc.words)
			}
		})
	}
}

// A full range is no fault of an installation: a script that waits for `status` to end with 0 would
// wait for ever.
func TestWell(t *testing.T) {
	full := metav1.Condition{Type: v1alpha1.ConditionDynamicBandFull, Status: metav1.ConditionTrue, Message: "no address is free"}
	running := found{manager: deployed(1, 1), lease: leased("manager-1_abcdef@", time.Second)}
	filled := running
	filled.ranges = []networkingv1.ServiceCIDR{*plugintest.ServiceCIDR("a", "10.0.0.0/24", full)}
	pruned := running
	pruned.admission = check.Admission{Serves: true}
	pruned.admission.Validating.Known = true
	for name, tc := range map[string]struct {
		found        found
		well, strict bool
	}{
		"well":              {running, true, true},
		"a range is full":   {filled, true, false},
		"webhooks are gone": {pruned, false, false},
		"not installed":     {found{}, false, false},
	} {
		t.Run(name, func(t *testing.T) {
			i := tc.found.installation(plugintest.Now)
			if i.well(false) != tc.well || i.well(true) != tc.strict || i.Well != tc.well {
				t.Errorf("well: %t, strictly: %t; want %t, %t; parts %v", i.well(false), i.well(true), tc.well, tc.strict, i.Parts)
			}
		})
	}
}

// Agents answer as kube-proxy does, with 503 when they are not well, or not at all.
func TestHear(t *testing.T) {
	at := time.Date(2026, 11, 24, 10, 0, 0, 0, time.UTC)
	for name, tc := range map[string]struct {
		answer string
		err    error
		want   agent
	}{
		"well": {`{"lastUpdated":"2026-11-24T12:00:00Z","nodeEligible":true,"healthy":true,"status":{"IPv4":{"lastUpdated":"2026-11-24T10:00:00Z","healthy":true},
			"IPv6":{"lastUpdated":"2026-11-24T09:00:00Z","healthy":true}},"mode":"nftables"}`, nil, agent{Mode: "nftables", Told: true, LastSync: &at}},
		"late": {`{"healthy":false,"status":{"IPv4":{"lastUpdated":"2026-11-24T10:00:00Z","healthy":true},"IPv6":{"lastUpdated":"0001-01-01T00:00:00Z","healthy":false}}}`,
			errors.New("503"), agent{Mode: "auto", Told: true, LastSync: &at, Problem: "the rules of IPv6 are not up to date"}},
		"silent":         {``, errors.New("timed out"), agent{Mode: "auto", Unknown: "it did not answer: timed out"}},
		"somebody else":  {`{"kind":"Status","status":"Failure"}`, errors.New("no endpoints"), agent{Mode: "auto", Unknown: "it did not answer: no endpoints"}},
		"another server": {`<html>`, nil, agent{Mode: "auto", Unknown: "it did not answer"}},
	} {
		t.Run(name, func(t *testing.T) {
			a := agent{Mode: "auto"}
			a.hear([]byte(tc.answer), tc.err)
			if diff := cmp.Diff(tc.want, a); diff != "" {
				t.Errorf("(-want +got):\n%s", diff)
			}
		})
	}
}
