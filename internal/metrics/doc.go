// Package metrics holds what the operator tells Prometheus. Names carry over from kube-apiserver's
// allocator where it has them, under the prefix clusterip_operator_, so that dashboards need only a
// new prefix. Their help texts are their documentation: docs/reference/metrics.md is written from
// the code.
//
// Gauges of ranges are computed from the address index when they are scraped: they exist from the
// moment that a range exists, and vanish with it.
//
// Start with Addresses (the collector) and the counters in counters.go.
package metrics
