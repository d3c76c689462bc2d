// Package inspect has the commands that show a cluster and change nothing: `kubectl clusterip
// ranges`, `addresses`, `map` and `why`. The console shows the same.
//
// It promises that what would happen to a Service is the answer of the function by which the
// webhook decides, and that counts of the operator are believed only if they are of the ranges that
// there are.
//
// Start with why.go, which asks one question of each kind, and rangeinfo.go.
package inspect
