package metrics

import (
	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/promauto"
	ctrlmetrics "sigs.k8s.io/controller-runtime/pkg/metrics"

	"github.com/clusterip-operator/clusterip-operator/internal/drift"
)

const prefix = "clusterip_operator_"

// auto makes metrics that are served.
var auto = promauto.With(ctrlmetrics.Registry)

func vec(name, help, label string) *prometheus.CounterVec {
	return auto.NewCounterVec(prometheus.CounterOpts{Name: prefix + name, Help: help}, []string{label})
}

var (
	// AllocationErrors counts the operator's own IPAddress writes that failed, by operation.
	AllocationErrors = vec("allocation_errors_total", "IPAddress writes of the operator that failed, by operation: create, delete, label.", "operation")
	// AllocationDuration times the operator's own IPAddress writes, by operation.
	AllocationDuration = auto.NewHistogramVec(prometheus.HistogramOpts{
		Name:    prefix + "allocation_duration_seconds",
		Help:    "Duration of the IPAddress writes of the operator.",
		Buckets: prometheus.ExponentialBuckets(0.001, 2, 14),
	}, []string{"operation"})
	// DriftDetected counts confirmed drift by type.
	DriftDetected = vec("drift_detected_total", "Drift between Services, IPAddresses and ServiceCIDRs that was confirmed, by type.", "type")
	// DriftRepaired counts repaired drift by type.
	DriftRepaired = vec("drift_repaired_total", "Drift between Services, IPAddresses and ServiceCIDRs that was repaired, by type.", "type")
	// AdmissionDecisions counts the answers of the webhook of Services, by result.
	AdmissionDecisions = vec("admission_decisions_total",
		"Answers to Services on their way into the cluster: filled (an address was drawn), refused, left (nothing to do), "+
			"handed-on (the leader answered, and counts the answer too), handed-back (the leader could not decide, and the replica that asked it did), failed (passed unsteered; the log says why), "+
			"malformed (left, because the API server refuses it).", "result")
	// AdmissionDuration times these answers.
	AdmissionDuration = auto.NewHistogram(prometheus.HistogramOpts{
		Name:    prefix + "admission_duration_seconds",
		Help:    "Time from a Service to its answer, without the way from and to the API server.",
		Buckets: prometheus.ExponentialBuckets(0.00005, 2, 16),
	})
	// AdmissionUnread counts the reviews that no webhook got to see, by reason.
	AdmissionUnread = vec("admission_unread_total",
		"Admission reviews that no webhook got to see, by reason: long (a part is longer than any that the API server takes, or than the operator reads; refused), "+
			"busy (there was no room among others), late (it did not arrive in time), malformed (no API server sends such). All but the first pass, unless failurePolicy says otherwise.", "reason")
	// HistoryWrites counts the writes of ConfigMaps of the history, by result.
	HistoryWrites = vec("history_writes_total",
		"ConfigMaps of the history of addresses that the leader wrote, or failed to write or read, by result: written, failed. One a second at most; none where no history is kept.", "result")
	// BlockedDeletions counts, for each ServiceCIDR that is to be deleted, the addresses that hold it;
	// a range that nothing holds has no series.
	BlockedDeletions = auto.NewGaugeVec(prometheus.GaugeOpts{
		Name: prefix + "blocked_deletions",
		Help: "Addresses that hold a ServiceCIDR which is to be deleted: they would be left without a range.",
	}, []string{"servicecidr"})
	// WritesRefused is 1 while the API server refuses an operation on IPAddresses that a loop
	// needs. See package refusal.
	WritesRefused = auto.NewGaugeVec(prometheus.GaugeOpts{
		Name: prefix + "writes_refused",
		Help: "1 while the API server refuses an operation (create, delete, change) on IPAddresses, by what it is for: two are tried after each pause of two minutes or less.",
	}, []string{"for", "operation"})
	// ExclusiveViolations counts the addresses of Services that a policy keeps for other Services.
	ExclusiveViolations = auto.NewGauge(prometheus.GaugeOpts{
		Name: prefix + "exclusive_violations",
		Help: "Addresses that Services have although an exclusive policy keeps them for others; the leader's, 0 elsewhere.",
	})
	// DefaultRangeMismatch is 1 while the default ServiceCIDR is not the range the operator knows of.
	DefaultRangeMismatch = auto.NewGauge(prometheus.GaugeOpts{
		Name: prefix + "default_range_mismatch",
		Help: "1 while the ServiceCIDR kubernetes differs from the API server's --service-cluster-ip-range, as the operator was told of it.",
	})
	// WebhooksConfigured counts the webhooks of each kind of configuration, 0 for one that is gone. It
	// has series only where the operator maintains the certificate, for there alone it looks.
	WebhooksConfigured = auto.NewGaugeVec(prometheus.GaugeOpts{
		Name: prefix + "webhooks_configured",
		Help: "Webhooks in the operator's configuration of a kind (MutatingWebhookConfiguration, ValidatingWebhookConfiguration); 0 while it is missing. " +
			"There is none where no webhooks are served, and where another program issues their certificate.",
	}, []string{"kind"})
	// CertificateExpiration is when the webhooks' certificate runs out; 0 before there is one.
	CertificateExpiration = auto.NewGauge(prometheus.GaugeOpts{
		Name: prefix + "webhook_certificate_expiration_timestamp_seconds",
		Help: "When the certificate that the webhooks serve runs out, in seconds since 1970; 0 before there is one, and where another program issues it.",
	})
)

func init() {
	// A series that appears with its first error cannot be alerted on by its rate.
	for _, t := range drift.Types() {
		DriftDetected.WithLabelValues(string(t))
		DriftRepaired.WithLabelValues(string(t))
	}
	for _, result := range []string{"filled", "refused", "left", "handed-on", "handed-back", "failed", "malformed"} {
		AdmissionDecisions.WithLabelValues(result)
	}
	for _, reason := range []string{"long", "busy", "late", "malformed"} {
		AdmissionUnread.WithLabelValues(reason)
	}
	for _, result := range []string{"written", "failed"} {
		HistoryWrites.WithLabelValues(result)
	}
	for _, operation := range []string{"create", "delete", "label"} {
		AllocationErrors.WithLabelValues(operation)
		AllocationDuration.WithLabelValues(operation)
	}
}
