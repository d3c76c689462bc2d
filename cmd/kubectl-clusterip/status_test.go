package main

import (
	"strings"
	"testing"
	"time"

	admissionregistrationv1 "k8s.io/api/admissionregistration/v1"
	appsv1 "k8s.io/api/apps/v1"
	coordinationv1 "k8s.io/api/coordination/v1"
	networkingv1 "k8s.io/api/networking/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/clusterip-operator/clusterip-operator/api/v1alpha1"
)

func deployed(ready, want int32) *appsv1.Deployment {
	return &appsv1.Deployment{Spec: appsv1.DeploymentSpec{Replicas: &want}, Status: appsv1.DeploymentStatus{ReadyReplicas: ready}}
}

func leased(holder string, renewed time.Duration) *coordinationv1.Lease {
	at := metav1.NewMicroTime(rangesNow.Add(-renewed))
	return &coordinationv1.Lease{Spec: coordinationv1.LeaseSpec{HolderIdentity: &holder, RenewTime: &at, AcquireTime: &at, LeaseDurationSeconds: new(int32(15))}}
}

func TestParts(t *testing.T) {
	full := metav1.Condition{Type: v1alpha1.ConditionDynamicBandFull, Status: metav1.ConditionTrue}
	for name, tc := range map[string]struct {
		health health
		part   string
		well   bool
		words  string
	}{
		"not installed":     {health{}, "manager", false, "not installed in this namespace"},
		"ready":             {health{manager: deployed(2, 2)}, "manager", true, "2 of 2 replicas are ready"},
		"one is missing":    {health{manager: deployed(1, 2)}, "manager", false, "1 of 2"},
		"scaled to nothing": {health{manager: deployed(0, 0)}, "manager", false, "0 of 0"},
		"nobody leads":      {health{lease: leased("", 0)}, "leader", false, "nobody leads"},
		"leads":             {health{lease: leased("manager-1_abcdef@10.0.0.1:9443", time.Second)}, "leader", true, "manager-1, for 1s"},
		"led":               {health{lease: leased("manager-1_abcdef@", time.Minute)}, "leader", false, "manager-1 has not renewed its Lease for 60s"},
		"no webhooks":       {health{}, "webhooks", true, "none are configured"},
		"no CA": {health{mutating: &admissionregistrationv1.MutatingWebhookConfiguration{Webhooks: []admissionregistrationv1.MutatingWebhook{{Name: "w"}}}},
			"webhooks", false, "w has no CA yet"},
		"no agents": {health{}, "agents", true, "there are none"},
		"agents":    {health{agents: []appsv1.DaemonSet{{Status: appsv1.DaemonSetStatus{DesiredNumberScheduled: 3, NumberReady: 2}}}}, "agents", false, "2 of 3 nodes"},
		"ranges":    {health{ranges: []networkingv1.ServiceCIDR{*cidrOf("a", "10.0.0.0/24")}}, "ranges", true, "1, nothing is wrong"},
		"full":      {health{ranges: []networkingv1.ServiceCIDR{*cidrOf("a", "10.0.0.0/24", full)}}, "ranges", false, "1, a: RangeDynamicBandFull"},
	} {
		t.Run(name, func(t *testing.T) {
			for _, p := range tc.health.parts(rangesNow) {
				if p.name == tc.part && (p.well != tc.well || !strings.Contains(p.text, tc.words)) {
					t.Errorf("well: %t, %q; want %t, %q", p.well, p.text, tc.well, tc.words)
				}
			}
		})
	}
}
