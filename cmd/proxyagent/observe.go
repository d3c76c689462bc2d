//go:build linux

package main

import (
	"runtime"

	"github.com/clusterip-operator/clusterip-operator/proxyagent/metrics"
	"github.com/clusterip-operator/clusterip-operator/proxyagent/model"
)

// agentMetrics fits the metrics to what the loop calls.
type agentMetrics struct{ *metrics.Metrics }

// NoLocalEndpoints counts for both traffic policies.
func (m agentMetrics) NoLocalEndpoints(f model.Family, internal, external int) {
	m.Metrics.NoLocalEndpoints(f, metrics.InternalPolicy, internal)
	m.Metrics.NoLocalEndpoints(f, metrics.ExternalPolicy, external)
}

func goVersion() string { return runtime.Version() }
