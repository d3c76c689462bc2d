// Package framework runs real Kubernetes control planes for tests, for the tour and for benchmarks.
//
// It models the processes of a control plane, one type each: [Etcd], [APIServer],
// [ControllerManager] (kube-controller-manager), [Manager] and [Plugin] (our own programs). Each
// embeds [Process], which starts, stops, kills, pauses and measures. Start with [ControlPlane]:
// etcd with one API server, or several.
//
//	cp, err := framework.Start(ctx, framework.Options{Version: framework.V132})
//	...
//	defer cp.Stop()
//	service, err := cp.Client().CoreV1().Services("default").Create(ctx, ...)
//
// The builders of objects are in objects.go. Package suite beside this one ties all to Ginkgo.
//
// # Promises
//
//   - Everything listens on 127.0.0.1, on ports that were free. A Start that loses its port to
//     another program tries another one; a process that is started again keeps its port, so that
//     clients and kubeconfigs stay valid.
//   - The ctx of a Start bounds the start (a minute without a deadline), not the process's life.
//   - A process that does not come up is reported with the end of its log.
//   - Processes die with the test: by Stop, by a signal to the parent, even by its SIGKILL (Linux).
//   - Stop removes the folder that Start created, unless KEEP is set in the environment; then its
//     path is printed to stderr.
//
// A control plane runs no node and only the chosen controllers: none creates the ServiceAccount
// "default", fills EndpointSlices, deletes a namespace's content, or puts rules into the aggregated
// ClusterRoles (view, edit, admin). Tests create what they need; the TokenRequest API works.
package framework
