// Package framework runs real Kubernetes control planes for tests, for the tour and for benchmarks.
//
// It models the processes of a control plane, one type each: [Etcd], [APIServer], [ControllerManager]
// (kube-controller-manager), [Manager] and [Plugin] (our own programs). Each embeds [Process], which starts, stops,
// kills, pauses and measures. [ControlPlane] is etcd with one API server, or several, and is where to start:
//
//	cp, err := framework.Start(ctx, framework.Options{Version: framework.V132})
//	...
//	defer cp.Stop()
//	service, err := cp.Client().CoreV1().Services("default").Create(ctx, framework.NewService("default", "web"), ...)
//
// The builders of objects are in objects.go. Package suite beside this one ties everything to Ginkgo.
//
// # Promises
//
//   - Everything listens on 127.0.0.1, on ports that were free. A Start that loses its port to another
//     program tries again with another one; a process that is started again keeps its port, so that
//     clients and kubeconfigs stay valid.
//   - The ctx of a Start bounds the start alone (a minute if it has no deadline), never the life of the process.
//   - A process that does not come up is reported with the end of its log.
//   - Processes die with the test: by Stop, by a signal to the parent, even by its SIGKILL (Linux).
//   - Stop removes the folder that Start created, unless KEEP is set in the environment; then its path is
//     printed to stderr.
//
// What no control plane of this package does: it runs no node and no controllers but the chosen ones. In
// particular nobody creates the ServiceAccount "default", fills EndpointSlices, deletes the content of a
// namespace, or puts rules into the aggregated ClusterRoles (view, edit, admin). Tests create the ServiceAccounts
// and roles that they need; the TokenRequest API works.
package framework
