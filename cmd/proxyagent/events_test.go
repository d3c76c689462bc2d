//go:build linux

package main

import (
	"net/netip"
	"slices"
	"strings"
	"testing"

	"github.com/go-logr/logr"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/client-go/tools/events"

	"github.com/clusterip-operator/clusterip-operator/proxyagent/model"
)

// TestWhatAllNodesSeeAFewTell: one of two nodes tells what both see, each tells the rest.
func TestWhatAllNodesSeeAFewTell(t *testing.T) {
	port := func(name string) model.PortName {
		return model.PortName{Service: model.ServiceName{Namespace: "ns", Name: name}, Protocol: model.TCP}
	}
	for node, tells := range map[string]string{"node-a": "web", "node-b": "other"} {
		recorder := events.NewFakeRecorder(100)
		source := eventSource{
			recorder: recorder, node: &corev1.ObjectReference{Name: node}, log: logr.Discard(),
			tells: func(n model.ServiceName) bool { return n.Name == tells },
		}
		source.Disputed(model.Dispute{Addr: netip.MustParseAddr("10.96.0.1"), Loser: port("web").Service, Reason: model.ClusterIPOfOther})
		ofPorts := slices.DeleteFunc(slices.Clone(model.DegradationReasons), func(r model.DegradationReason) bool { return r == model.TableUnreadable })
		for _, reason := range ofPorts {
			source.Degraded(model.IPv6, model.Degradation{Port: port("web"), Reason: reason})
		}
		close(recorder.Events)
		var told []string
		for event := range recorder.Events {
			told = append(told, event)
			if names := strings.Contains(event, node); names != strings.Contains(event, "Refused") {
				t.Errorf("%s: names the node: %t: %s", node, names, event)
			}
		}
		if want := map[string]int{"web": 1 + len(ofPorts), "other": 2}[tells]; len(told) != want {
			t.Errorf("%s tells %q, want %d events", node, told, want)
		}
	}
}
