package metrics

import (
	"runtime"
	"strconv"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/clusterip-operator/clusterip-operator/proxyagent/model"
)

// Changed records that changes came from the API server. They are pending until ChangesDone.
func (m *Metrics) Changed(services, endpoints int) {
	m.serviceChanges.Add(float64(services))
	m.serviceChangesPending.Add(float64(services))
	m.endpointChanges.Add(float64(endpoints))
	m.endpointChangesPending.Add(float64(endpoints))
}

// ChangesDone records that so many changes are in the rules of all families, or need no rules.
func (m *Metrics) ChangesDone(services, endpoints int) {
	m.serviceChangesPending.Sub(float64(services))
	m.endpointChangesPending.Sub(float64(endpoints))
}

// Queued records that at the time t a sync was asked for.
func (m *Metrics) Queued(f model.Family, t time.Time) {
	m.queuedAt.WithLabelValues(f.String()).Set(seconds(t))
}

// SyncDone records a sync that took d and ended at end, with err or nil. Full: it wrote all rules.
func (m *Metrics) SyncDone(f model.Family, full bool, d time.Duration, end time.Time, err error) {
	family := f.String()
	m.syncDuration.WithLabelValues(family).Observe(d.Seconds())
	if full {
		m.fullSyncDuration.WithLabelValues(family).Observe(d.Seconds())
	} else {
		m.partialSyncDuration.WithLabelValues(family).Observe(d.Seconds())
	}
	switch {
	case err == nil:
		m.syncedAt.WithLabelValues(family).Set(seconds(end))
	case !full:
		m.partialRestoreFailures.WithLabelValues(family).Inc()
	}
}

// RestoreFailed records that iptables-restore did not do what it was given.
func (m *Metrics) RestoreFailed(f model.Family) { m.restoreFailures.WithLabelValues(f.String()).Inc() }

// Programmed records that at the time now the rules follow pods that changed at the triggers. A
// trigger in the future, by another clock, counts as now.
func (m *Metrics) Programmed(f model.Family, triggers []time.Time, now time.Time) {
	m.syncedAt.WithLabelValues(f.String()).Set(seconds(now))
	h := m.programmingDuration.WithLabelValues(f.String())
	for _, t := range triggers {
		h.Observe(max(0, now.Sub(t)).Seconds())
	}
}

// Rules records how many rules each table has from the agent, and how many the last sync wrote.
func (m *Metrics) Rules(f model.Family, total, written map[string]int) {
	for table := range total {
		m.rules.WithLabelValues(table, f.String()).Set(float64(total[table]))
		m.rulesWritten.WithLabelValues(table, f.String()).Set(float64(written[table]))
	}
}

// NoLocalEndpoints sets how many Service ports have endpoints, but none that a policy allows here.
func (m *Metrics) NoLocalEndpoints(f model.Family, internal, external int) {
	m.noLocalEndpoints.WithLabelValues("internal", f.String()).Set(float64(internal))
	m.noLocalEndpoints.WithLabelValues("external", f.String()).Set(float64(external))
}

// ConntrackDone records that a search for stale flows took d and deleted some.
func (m *Metrics) ConntrackDone(f model.Family, d time.Duration, deleted int) {
	m.conntrackDuration.WithLabelValues(f.String()).Observe(d.Seconds())
	m.conntrackDeleted.WithLabelValues(f.String()).Add(float64(deleted))
}

// Answered counts an answer of the health probes, by their paths healthz and livez.
func (m *Metrics) Answered(path string, code int) {
	m.answers[path].WithLabelValues(strconv.Itoa(code)).Inc()
}

// Disputed replaces what is known about the addresses that Services of a family do not get.
func (m *Metrics) Disputed(f model.Family, disputes []model.Dispute) {
	counts := map[model.DisputeReason]int{}
	for _, d := range disputes {
		counts[d.Reason]++
	}
	for _, r := range []model.DisputeReason{model.AllocatedToOther, model.ClaimedByOlder, model.NotAllocated, model.ClusterIPOfOther} {
		m.disputes.WithLabelValues(f.String(), string(r)).Set(float64(counts[r]))
	}
}

// Degraded replaces what is known about ports that do without something here, and about tables.
func (m *Metrics) Degraded(f model.Family, degradations []model.Degradation) {
	m.degradedTables.DeletePartialMatch(prometheus.Labels{"ip_family": f.String()})
	counts := map[model.DegradationReason]int{}
	for _, d := range degradations {
		if d.Table == "" {
			counts[d.Reason]++
		} else {
			m.degradedTables.WithLabelValues(f.String(), d.Table, string(d.Reason)).Set(1)
		}
	}
	for _, r := range model.DegradationReasons {
		if r != model.TableUnreadable {
			m.degraded.WithLabelValues(f.String(), string(r)).Set(float64(counts[r]))
		}
	}
}

// Repaired records that something of ours was gone or changed in the kernel and was put back: what
// is a constant word, such as chain, jump or set.
func (m *Metrics) Repaired(f model.Family, what string) {
	m.driftRepairs.WithLabelValues(f.String(), what).Inc()
}

// Former sets how many former addresses of a family are served, and the connections to them.
func (m *Metrics) Former(f model.Family, addresses, connections int) {
	m.formerAddresses.WithLabelValues(f.String()).Set(float64(addresses))
	m.formerConnections.WithLabelValues(f.String()).Set(float64(connections))
}

// Build records what runs: mode is nft or legacy (iptables), or nftables; reason is a word for why.
func (m *Metrics) Build(version, mode, reason string) {
	m.buildInfo.WithLabelValues(version, runtime.Version(), mode, reason).Set(1)
}

// CountInvalidDropped counts packets dropped because connection tracking found them invalid. Each
// scrape calls read, possibly from several goroutines. To be called once.
func (m *Metrics) CountInvalidDropped(read func() uint64) {
	m.registry.MustRegister(prometheus.NewCounterFunc(prometheus.CounterOpts{
		Name: prefix + "iptables_ct_state_invalid_dropped_packets_total",
		Help: "Packets dropped because connection tracking found them invalid.",
	}, func() float64 { return float64(read()) }))
}

// CountConnections counts the connections to each Service, in each family that has a read. Each
// scrape calls that, possibly from several goroutines, and omits what fails. To be called once.
func (m *Metrics) CountConnections(read Connections) {
	m.countConnections("ipvs_connections_total",
		"Connections to a Service that IPVS has distributed on this node, in mode ipvs. Services without any have no series.", read)
}

// CountTranslated is CountConnections for those that were translated at connect().
func (m *Metrics) CountTranslated(read Connections) {
	m.countConnections("socketlb_connections_total",
		"Connections to a Service that were translated at connect() on this node, with socketLB. Services without any have no series.", read)
}

func (m *Metrics) countConnections(name, help string, read Connections) {
	m.registry.MustRegister(connections{read, prometheus.NewDesc(prefix+name, help, []string{"ip_family", "namespace", "service"}, nil)})
}

// Connections are counted in each family that has a function.
type Connections map[model.Family]func() (map[model.ServiceName]uint64, error)

// OfSocketLB is what a family tells of the maps of socketLB: how many fronts they have no room for,
// and how long they took of all syncs.
type OfSocketLB struct {
	Left func() int
	Took func() time.Duration
}

// SocketLB tells whether connections are translated at connect(), and what each family tells of its
// maps, with each scrape. To be called once, with all reasons for which they may be or not.
func (m *Metrics) SocketLB(scope string, reasons []string, now func() (reason string), families map[model.Family]OfSocketLB) {
	for _, reason := range reasons {
		m.registry.MustRegister(prometheus.NewGaugeFunc(prometheus.GaugeOpts{
			Name: prefix + "socketlb_state", ConstLabels: prometheus.Labels{"scope": scope, "reason": reason},
			Help: "1 for the reason for which connections are translated at connect() (Attached), or for which rules serve all instead (all other reasons).",
		}, func() float64 {
			if now() == reason {
				return 1
			}
			return 0
		}))
	}
	for f, of := range families {
		labels := prometheus.Labels{"ip_family": f.String()}
		m.registry.MustRegister(prometheus.NewGaugeFunc(prometheus.GaugeOpts{
			Name: prefix + "socketlb_fronts_left", ConstLabels: labels,
			Help: "Virtual IPs and ports that rules serve because the maps of socketLB are full.",
		}, func() float64 { return float64(of.Left()) }), prometheus.NewCounterFunc(prometheus.CounterOpts{
			Name: prefix + "socketlb_sync_seconds_total", ConstLabels: labels,
			Help: "How long the maps of socketLB took of all syncs of the rules.",
		}, func() float64 { return of.Took().Seconds() }))
	}
}

// connections are kernel counters of the Services that there are at the time of a scrape.
type connections struct {
	read        Connections
	description *prometheus.Desc
}

// Describe implements [prometheus.Collector].
func (c connections) Describe(to chan<- *prometheus.Desc) { to <- c.description }

// Collect implements [prometheus.Collector].
func (c connections) Collect(to chan<- prometheus.Metric) {
	for f, read := range c.read {
		counts, err := read()
		if err != nil {
			to <- prometheus.NewInvalidMetric(c.description, err)
		}
		for s, n := range counts {
			to <- prometheus.MustNewConstMetric(c.description, prometheus.CounterValue, float64(n), f.String(), s.Namespace, s.Name)
		}
	}
}

func seconds(t time.Time) float64 { return float64(t.UnixNano()) / 1e9 }
