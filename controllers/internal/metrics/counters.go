package metrics

import (
	"github.com/prometheus/client_golang/prometheus"
	ctrlmetrics "sigs.k8s.io/controller-runtime/pkg/metrics"

	"github.com/clusterip-operator/clusterip-operator/controllers/internal/drift"
)

const prefix = "clusterip_operator_"

var (
	// AllocationErrors counts the operator's own IPAddress writes that failed, by operation.
	AllocationErrors = prometheus.NewCounterVec(prometheus.CounterOpts{
		Name: prefix + "allocation_errors_total",
		Help: "IPAddress writes of the operator that failed.",
	}, []string{"operation"})
	// AllocationDuration times the operator's own IPAddress writes, by operation.
	AllocationDuration = prometheus.NewHistogramVec(prometheus.HistogramOpts{
		Name:    prefix + "allocation_duration_seconds",
		Help:    "Duration of the IPAddress writes of the operator.",
		Buckets: prometheus.ExponentialBuckets(0.001, 2, 14),
	}, []string{"operation"})
	// DriftDetected counts confirmed drift by type.
	DriftDetected = prometheus.NewCounterVec(prometheus.CounterOpts{
		Name: prefix + "drift_detected_total",
		Help: "Drift between Services, IPAddresses and ServiceCIDRs that was confirmed.",
	}, []string{"type"})
	// DriftRepaired counts repaired drift by type.
	DriftRepaired = prometheus.NewCounterVec(prometheus.CounterOpts{
		Name: prefix + "drift_repaired_total",
		Help: "Drift between Services, IPAddresses and ServiceCIDRs that was repaired.",
	}, []string{"type"})
	// BlockedDeletions counts, for each ServiceCIDR that is to be deleted, the addresses that hold it.
	// A range that nothing holds has no series.
	BlockedDeletions = prometheus.NewGaugeVec(prometheus.GaugeOpts{
		Name: prefix + "blocked_deletions",
		Help: "Addresses that would be left without a range by the deletion of a terminating ServiceCIDR.",
	}, []string{"servicecidr"})
)

func init() {
	ctrlmetrics.Registry.MustRegister(AllocationErrors, AllocationDuration, DriftDetected, DriftRepaired, BlockedDeletions)
	// A series that appears with its first error cannot be alerted on by its rate.
	for _, t := range drift.Types() {
		DriftDetected.WithLabelValues(string(t))
		DriftRepaired.WithLabelValues(string(t))
	}
	for _, operation := range []string{"create", "delete", "label"} {
		AllocationErrors.WithLabelValues(operation)
		AllocationDuration.WithLabelValues(operation)
	}
}
