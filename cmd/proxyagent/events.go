//go:build linux

package main

import (
	"context"
	"fmt"

	"github.com/go-logr/logr"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/kubernetes/scheme"
	"k8s.io/client-go/tools/events"

	"github.com/clusterip-operator/clusterip-operator/internal/version"
	"github.com/clusterip-operator/clusterip-operator/proxyagent/model"
)

// eventSource writes events about Services and about the own Node.
type eventSource struct {
	recorder events.EventRecorder
	node     *corev1.ObjectReference
	log      logr.Logger
	// tells reports whether this node is one of the few that report what is the same on all nodes.
	tells func(model.ServiceName) bool
}

func newEvents(ctx context.Context, client kubernetes.Interface, node string, tells func(model.ServiceName) bool) eventSource {
	broadcaster := events.NewBroadcaster(&events.EventSinkImpl{Interface: client.EventsV1()})
	log := logr.FromContextOrDiscard(ctx)
	if err := broadcaster.StartRecordingToSinkWithContext(ctx); err != nil {
		log.Error(err, "Events cannot be written")
	}
	context.AfterFunc(ctx, broadcaster.Shutdown)
	return eventSource{
		recorder: broadcaster.NewRecorder(scheme.Scheme, "clusterip-operator-proxyagent"),
		// The UID is the name, as for kubelet and kube-proxy: `kubectl describe node` looks for that.
		node: &corev1.ObjectReference{Kind: "Node", APIVersion: "v1", Name: node, UID: types.UID(node)},
		log:  log, tells: tells,
	}
}

func (e eventSource) started() {
	e.recorder.Eventf(e.node, nil, corev1.EventTypeNormal, "Starting", "StartProxyAgent", "proxyagent %s serves Services on this node", version.String())
}

func (e eventSource) healthFailed(err error) {
	e.log.Error(err, "Serving health failed and will be tried again")
	e.recorder.Eventf(e.node, nil, corev1.EventTypeWarning, "FailedToStartProxierHealthcheck", "StartProxyAgent", "%s", short(err.Error()))
}

// healthCheckFailed reports that the health check node port of a Service cannot be served.
func (e eventSource) healthCheckFailed(n model.ServiceName, port uint16, err error) {
	e.log.Error(err, "Serving a health check node port", "service", n, "port", port)
	e.recorder.Eventf(service(n), nil, corev1.EventTypeWarning, "FailedToStartServiceHealthcheck", "Listen",
		"node %s failed to serve the health check on port %d: %s", e.node.Name, port, short(err.Error()))
}

// Disputed reports to a Service that it does not get an address, which is the same on every node.
// The action names the family, because the recorder merges events that differ in the note alone.
func (e eventSource) Disputed(d model.Dispute) {
	e.log.Info("A Service does not get an address", "service", d.Loser, "address", d.Addr, "winner", d.Winner, "reason", d.Reason)
	if !e.tells(d.Loser) {
		return
	}
	note := fmt.Sprintf("%s is not served for this Service", d.Addr)
	if d.Winner != (model.ServiceName{}) {
		note += ": another Service has it" // which, the log says: it may be of another tenant
	}
	e.recorder.Eventf(service(d.Loser), nil, corev1.EventTypeWarning, string(d.Reason), "Serve"+model.FamilyOf(d.Addr).String(), "%s", note)
}

// Degraded reports to a Service that one of its ports does without something, on this node or on
// all, or to the Node what is wrong with one of its tables.
func (e eventSource) Degraded(f model.Family, d model.Degradation) {
	if d.Table != "" {
		e.log.Info("A table of the node cannot be read", "table", d.Table, "family", f, "reason", string(d.Reason))
		e.recorder.Eventf(e.node, nil, corev1.EventTypeWarning, string(d.Reason), "Read"+f.String(), "table %s of %s: %s", d.Table, f, d.Reason)
		return
	}
	e.log.Info("A port of a Service is not served as it asks", "port", d.Port, "family", f, "reason", string(d.Reason), "detail", d.Detail)
	where := ""
	if !d.Reason.Everywhere() {
		where = " on node " + e.node.Name
	} else if !e.tells(d.Port.Service) {
		return
	}
	e.recorder.Eventf(service(d.Port.Service), nil, corev1.EventTypeWarning, string(d.Reason), "Serve"+f.String(),
		"%s%s over %s: %s", d.Port, where, f, d.Reason)
}

func service(n model.ServiceName) *corev1.ObjectReference {
	return &corev1.ObjectReference{Kind: "Service", APIVersion: "v1", Namespace: n.Namespace, Name: n.Name}
}

// short keeps a note within what the API accepts.
func short(s string) string {
	const most = 800
	if len(s) > most {
		return s[:most]
	}
	return s
}
