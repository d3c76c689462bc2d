// Package healthz answers whether traffic may be sent through this node.
//
//	Server    /healthz, /livez       the agent: for load balancers that probe nodes, and the kubelet
//	          /former                connections to former addresses: for a caller that renumbers
//	Services  healthCheckNodePort    a Service with externalTrafficPolicy: Local: its load balancer
//
// Paths, status codes, headers and JSON fields are those of kube-proxy, so that load balancers and
// dashboards need no change; the field "mode" and /former are ours. One difference: until the rules
// of every family are in the kernel for the first time, /healthz answers 503, because the node
// forwards nothing yet, but /livez 200: a restart does not help an agent without API server.
//
// It promises that nothing listens any more after Run has returned, that a port which cannot be
// bound is tried again, and that slow clients hold nothing open for long.
//
// Start with server.go.
package healthz
