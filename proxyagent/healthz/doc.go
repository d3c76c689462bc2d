// Package healthz answers whether traffic may be sent through this node.
//
//	Server    /healthz, /livez       the agent: for load balancers that probe nodes, and for the kubelet
//	          /former                connections to former addresses: for whoever gives Services other ClusterIPs
//	Services  healthCheckNodePort    one Service with externalTrafficPolicy: Local: for its load balancer
//
// Paths, status codes, headers and JSON fields are those of kube-proxy, so that load balancers and dashboards need no change; the field "mode" and /former are ours.
// There is one difference: /healthz answers 503 until the rules of every family are in the kernel for the first time, because a
// node that was not yet programmed forwards nothing. /livez answers 200 meanwhile: an agent whose API server is away is not helped by
// a restart.
//
// It promises that nothing is left listening after Run has returned, that a port which cannot be bound is tried again, and
// that slow clients hold nothing open for long.
//
// Start with server.go.
package healthz
