package metrics

import (
	"net/http"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/collectors"
	"github.com/prometheus/client_golang/prometheus/promauto"
	"github.com/prometheus/client_golang/prometheus/promhttp"

	"github.com/clusterip-operator/clusterip-operator/proxyagent/model"
)

// prefix stands before every name in the place of kubeproxy_.
const prefix = "clusterip_proxyagent_"

// Metrics are all metrics of one agent, in a registry of their own.
type Metrics struct {
	registry *prometheus.Registry

	syncDuration, fullSyncDuration, partialSyncDuration *prometheus.HistogramVec
	programmingDuration, conntrackDuration              *prometheus.HistogramVec
	syncedAt, queuedAt                                  *prometheus.GaugeVec
	endpointChangesPending, serviceChangesPending       prometheus.Gauge
	endpointChanges, serviceChanges                     prometheus.Counter
	restoreFailures, partialRestoreFailures             *prometheus.CounterVec
	rules, rulesWritten, noLocalEndpoints               *prometheus.GaugeVec
	conntrackDeleted                                    *prometheus.CounterVec
	answers                                             map[string]*prometheus.CounterVec
	disputes, degraded, degradedTables, buildInfo       *prometheus.GaugeVec
	driftRepairs                                        *prometheus.CounterVec
	formerAddresses, formerConnections                  *prometheus.GaugeVec
}

// New returns the metrics of an agent for some families. Other families' appear once observed.
func New(families ...model.Family) *Metrics {
	m := &Metrics{registry: prometheus.NewRegistry()}
	m.makeSync()
	m.makeOthers()
	m.registry.MustRegister(collectors.NewGoCollector(), collectors.NewProcessCollector(collectors.ProcessCollectorOpts{}))
	for _, f := range families {
		m.zero(f)
	}
	return m
}

// Handler serves them. A counter that cannot be read is left out and does not spoil the rest.
func (m *Metrics) Handler() http.Handler {
	return promhttp.HandlerFor(m.registry, promhttp.HandlerOpts{ErrorHandling: promhttp.ContinueOnError, Registry: m.registry})
}

func (m *Metrics) makeSync() {
	buckets := prometheus.ExponentialBuckets(0.001, 2, 15)
	m.syncDuration = m.histogram("sync_proxy_rules_duration_seconds", "How long a sync of the rules took, full or partial.", buckets)
	m.fullSyncDuration = m.histogram("sync_full_proxy_rules_duration_seconds", "How long a sync that wrote all rules took.", buckets)
	m.partialSyncDuration = m.histogram("sync_partial_proxy_rules_duration_seconds", "How long a sync that wrote only what changed took.", buckets)
	m.conntrackDuration = m.histogram("conntrack_reconciler_sync_duration_seconds", "How long it took to find and delete stale flows.", buckets)

	// The buckets that the network programming SLO of Kubernetes is measured with.
	buckets = append([]float64{0.25, 0.5}, prometheus.LinearBuckets(1, 1, 59)...)
	buckets = append(append(buckets, prometheus.LinearBuckets(60, 5, 12)...), prometheus.LinearBuckets(120, 30, 7)...)
	m.programmingDuration = m.histogram("network_programming_duration_seconds",
		"From a change of the pods of a Service to the rules that follow it.", buckets)

	m.syncedAt = m.gauge("sync_proxy_rules_last_timestamp_seconds", "When the rules were last synced successfully.", "ip_family")
	m.queuedAt = m.gauge("sync_proxy_rules_last_queued_timestamp_seconds",
		"When a sync was last asked for. Far beyond the last sync, something hangs.", "ip_family")
	m.restoreFailures = m.counter("sync_proxy_rules_iptables_restore_failures_total", "Failures of iptables-restore, or of a transaction of nftables.", "ip_family")
	m.partialRestoreFailures = m.counter("sync_proxy_rules_iptables_partial_restore_failures_total",
		"Failures of syncs that were to write only what changed; all rules are written next.", "ip_family")
	m.rules = m.gauge("sync_proxy_rules_iptables_total", "Rules that the agent has in the kernel; with nftables, elements of its table.", "table", "ip_family")
	m.rulesWritten = m.gauge("sync_proxy_rules_iptables_last", "Rules, or elements, that the last sync wrote.", "table", "ip_family")
	m.noLocalEndpoints = m.gauge("sync_proxy_rules_no_local_endpoints_total",
		"Service ports with a traffic policy of Local that have endpoints, but none on this node.", "traffic_policy", "ip_family")
}

func (m *Metrics) makeOthers() {
	m.endpointChangesPending = m.gauge("sync_proxy_rules_endpoint_changes_pending", "Changes of EndpointSlices that are not in the rules yet.").With(nil)
	m.serviceChangesPending = m.gauge("sync_proxy_rules_service_changes_pending", "Changes of Services that are not in the rules yet.").With(nil)
	m.endpointChanges = m.counter("sync_proxy_rules_endpoint_changes_total", "Changes of EndpointSlices seen.").With(nil)
	m.serviceChanges = m.counter("sync_proxy_rules_service_changes_total", "Changes of Services seen.").With(nil)
	m.conntrackDeleted = m.counter("conntrack_reconciler_deleted_entries_total", "Stale flows deleted.", "ip_family")
	m.answers = map[string]*prometheus.CounterVec{
		"healthz": m.counter("proxy_healthz_total", "Answers of /healthz by status code.", "code"),
		"livez":   m.counter("proxy_livez_total", "Answers of /livez by status code.", "code"),
	}
	m.disputes = m.gauge("disputed_addresses", "Addresses that a Service claims and does not get on this node, by reason.", "ip_family", "reason")
	m.degraded = m.gauge("degraded_service_ports",
		"Service ports that are not served on this node (RulesRefused), or not as they ask (all other reasons); the Service has an event, and proxyagent dump says it.", "ip_family", "reason")
	m.degradedTables = m.gauge("degraded_tables",
		"1 for a table of the node that the agent cannot read (TableUnreadable): what other programs change of its chains there is not repaired. The Node has an event.", "ip_family", "table", "reason")
	m.driftRepairs = m.counter("drift_repairs_total",
		"Times that something else changed what the agent keeps in the kernel, and it was put back. If it keeps growing, two programs fight.", "ip_family", "what")
	m.formerAddresses = m.gauge("former_addresses", "Addresses that Services gave up for other ones and that are served until no client uses them.", "ip_family")
	m.formerConnections = m.gauge("former_address_connections",
		"Connections through this node to former addresses, as last counted: every 5 s while there are such addresses.", "ip_family")
	m.buildInfo = m.gauge("build_info", "Always 1; the labels say what runs.", "version", "go_version", "mode", "mode_reason")
}

func (m *Metrics) histogram(name, help string, buckets []float64) *prometheus.HistogramVec {
	o := prometheus.HistogramOpts{Name: prefix + name, Help: help, Buckets: buckets}
	return promauto.With(m.registry).NewHistogramVec(o, []string{"ip_family"})
}

func (m *Metrics) gauge(name, help string, labels ...string) *prometheus.GaugeVec {
	return promauto.With(m.registry).NewGaugeVec(prometheus.GaugeOpts{Name: prefix + name, Help: help}, labels)
}

func (m *Metrics) counter(name, help string, labels ...string) *prometheus.CounterVec {
	return promauto.With(m.registry).NewCounterVec(prometheus.CounterOpts{Name: prefix + name, Help: help}, labels)
}

// zero makes the series of a family visible, but no timestamp: 1970 would look like a hung sync.
func (m *Metrics) zero(f model.Family) {
	for _, h := range []*prometheus.HistogramVec{
		m.syncDuration, m.fullSyncDuration, m.partialSyncDuration, m.programmingDuration, m.conntrackDuration,
	} {
		h.WithLabelValues(f.String())
	}
	for _, c := range []*prometheus.CounterVec{m.restoreFailures, m.partialRestoreFailures, m.conntrackDeleted} {
		c.WithLabelValues(f.String())
	}
	m.NoLocalEndpoints(f, 0, 0)
	m.Disputed(f, nil)
	m.Degraded(f, nil)
	m.Former(f, 0, 0)
}
