package cluster

import (
	"testing"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	eventsv1 "k8s.io/api/events/v1"
)

func event(kind, name, reporter, reason string, times int32) eventsv1.Event {
	e := eventsv1.Event{
		Regarding: corev1.ObjectReference{Kind: kind, Name: name}, ReportingController: reporter, Reason: reason,
		Note: kind + " " + name, Type: corev1.EventTypeWarning,
	}
	if times > 1 {
		e.Series = &eventsv1.EventSeries{Count: times}
	}
	return e
}

func TestEventsAreFoundAndCounted(t *testing.T) {
	events := Events{
		event("ServiceCIDR", "kubernetes", "clusterip-operator-servicecidr", "ServiceCIDRNearlyFull", 3),
		event("ServiceCIDR", "kubernetes", "kubernetes-service-cidr-controller", "KubernetesDefaultServiceCIDRInconsistent", 1),
		event("Service", "kubernetes", "clusterip-operator-ipaddress", "ClusterIPNotAllocated", 1),
	}
	for name, tc := range map[string]struct {
		got       Events
		wantNotes []string
		wantCount int
	}{
		"of an object, not of its namesake": {events.OnServiceCIDR("kubernetes"), []string{"ServiceCIDR kubernetes", "ServiceCIDR kubernetes"}, 4},
		"of a Service":                      {events.OnService("kubernetes"), []string{"Service kubernetes"}, 1},
		"of the operator":                   {events.Ours(), []string{"ServiceCIDR kubernetes", "Service kubernetes"}, 4},
		"of a reason":                       {events.For("ClusterIPNotAllocated"), []string{"Service kubernetes"}, 1},
		"of nobody":                         {events.OnService("missing").Warnings(), []string{}, 0},
	} {
		t.Run(name, func(t *testing.T) {
			if diff := cmp.Diff(tc.wantNotes, tc.got.Notes()); diff != "" {
				t.Errorf("-want +got:\n%s", diff)
			}
			if got := tc.got.Count(); got != tc.wantCount {
				t.Errorf("counted %d, want %d", got, tc.wantCount)
			}
		})
	}
}
