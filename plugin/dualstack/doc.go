// Package dualstack gives a second family to Services that prefer two and have one, since the
// cluster had no more when they were created. The API server never does so by itself: it leaves a
// Service with PreferDualStack as it is until something about its addresses changes (KEP-563).
//
// It promises that nothing else about a Service changes: the first address, node ports, labels, and
// what other clients edit meanwhile. Services whose owners would not be served by it are left out
// of the plan, with the reason. A run can be ended at any moment and repeated.
//
// It clears spec.ipFamilies, and the API server fills it in, behind the family of the first
// address. So the field has no owner afterwards, and no manager's next apply meets a conflict. A
// headless Service has no address that says which family comes first; there both are written.
//
// Start with decide.go, which has the rules. NewPlan reads the cluster, Runner writes, and New
// returns the command.
package dualstack
