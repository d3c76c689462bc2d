package metrics

import (
	"errors"
	"net/http"
	"net/http/httptest"
	"net/netip"
	"runtime"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/clusterip-operator/clusterip-operator/internal/metricsdoc"
	"github.com/clusterip-operator/clusterip-operator/proxyagent/model"
)

var noon = time.Date(2026, 1, 2, 12, 0, 0, 0, time.UTC)

// busy returns metrics that have seen one of everything.
func busy() *Metrics {
	m := New(model.IPv4, model.IPv6)
	m.Changed(3, 5)
	m.ChangesDone(1, 2)
	m.Queued(model.IPv4, noon)
	m.SyncDone(model.IPv4, true, 2*time.Second, noon.Add(1500*time.Millisecond), nil)
	m.SyncDone(model.IPv4, false, time.Second, noon.Add(time.Hour), errors.New("no"))
	m.RestoreFailed(model.IPv4)
	m.Programmed(model.IPv4, []time.Time{noon.Add(-time.Second), noon.Add(time.Minute)}, noon)
	m.Rules(model.IPv6, map[string]int{"nat": 100}, map[string]int{"nat": 7})
	m.NoLocalEndpoints(model.IPv4, 4, 6)
	m.ConntrackDone(model.IPv4, time.Second, 9)
	m.Answered("healthz", 503)
	m.Answered("livez", 200)
	m.Disputed(model.IPv4, []model.Dispute{
		{Addr: netip.MustParseAddr("10.0.0.1"), Reason: model.NotAllocated},
		{Addr: netip.MustParseAddr("10.0.0.2"), Reason: model.NotAllocated},
	})
	m.Degraded(model.IPv4, []model.Degradation{{Table: "nat", Reason: model.TableUnreadable}}) // by now it can be read
	m.Degraded(model.IPv4, []model.Degradation{{Table: "filter", Reason: model.TableUnreadable}, {Reason: model.AffinityTooDear}})
	m.Degraded(model.IPv6, nil)
	m.Repaired(model.IPv4, "jump")
	m.Former(model.IPv6, 2, 13)
	m.Build("v1", "nft", "Configured")
	m.CountInvalidDropped(func() uint64 { return 11 })
	m.CountConnections(Connections{model.IPv6: someConnections})
	m.CountTranslated(Connections{model.IPv4: someConnections})
	maps := OfSocketLB{Left: func() int { return 3 }, Took: func() time.Duration { return 1500 * time.Millisecond }}
	m.SocketLB("pods", []string{"Attached", "NoCgroup2"}, func() string { return "NoCgroup2" }, map[model.Family]OfSocketLB{model.IPv4: maps})
	return m
}

func someConnections() (map[model.ServiceName]uint64, error) {
	return map[model.ServiceName]uint64{{Namespace: "shop", Name: "web"}: 12}, nil
}

// TestDashboardsCarryOverByChangingThePrefix has the names, types and labels of kube-proxy 1.37.2
// in iptables mode, written down from its source, and our own: build_info, disputed_addresses,
// degraded_service_ports, degraded_tables, drift_repairs_total, former_addresses,
// former_address_connections, ipvs_connections_total and those of socketlb. Values follow what was
// observed.
func TestDashboardsCarryOverByChangingThePrefix(t *testing.T) {
	want := `
# TYPE clusterip_proxyagent_build_info gauge
# TYPE clusterip_proxyagent_conntrack_reconciler_deleted_entries_total counter
# TYPE clusterip_proxyagent_conntrack_reconciler_sync_duration_seconds histogram
# TYPE clusterip_proxyagent_degraded_service_ports gauge
# TYPE clusterip_proxyagent_degraded_tables gauge
# TYPE clusterip_proxyagent_disputed_addresses gauge
# TYPE clusterip_proxyagent_drift_repairs_total counter
# TYPE clusterip_proxyagent_former_address_connections gauge
# TYPE clusterip_proxyagent_former_addresses gauge
# TYPE clusterip_proxyagent_iptables_ct_state_invalid_dropped_packets_total counter
# TYPE clusterip_proxyagent_ipvs_connections_total counter
# TYPE clusterip_proxyagent_network_programming_duration_seconds histogram
# TYPE clusterip_proxyagent_proxy_healthz_total counter
# TYPE clusterip_proxyagent_proxy_livez_total counter
# TYPE clusterip_proxyagent_socketlb_connections_total counter
# TYPE clusterip_proxyagent_socketlb_fronts_left gauge
# TYPE clusterip_proxyagent_socketlb_state gauge
# TYPE clusterip_proxyagent_socketlb_sync_seconds_total counter
# TYPE clusterip_proxyagent_sync_full_proxy_rules_duration_seconds histogram
# TYPE clusterip_proxyagent_sync_partial_proxy_rules_duration_seconds histogram
# TYPE clusterip_proxyagent_sync_proxy_rules_duration_seconds histogram
# TYPE clusterip_proxyagent_sync_proxy_rules_endpoint_changes_pending gauge
# TYPE clusterip_proxyagent_sync_proxy_rules_endpoint_changes_total counter
# TYPE clusterip_proxyagent_sync_proxy_rules_iptables_last gauge
# TYPE clusterip_proxyagent_sync_proxy_rules_iptables_partial_restore_failures_total counter
# TYPE clusterip_proxyagent_sync_proxy_rules_iptables_restore_failures_total counter
# TYPE clusterip_proxyagent_sync_proxy_rules_iptables_total gauge
# TYPE clusterip_proxyagent_sync_proxy_rules_last_queued_timestamp_seconds gauge
# TYPE clusterip_proxyagent_sync_proxy_rules_last_timestamp_seconds gauge
# TYPE clusterip_proxyagent_sync_proxy_rules_no_local_endpoints_total gauge
# TYPE clusterip_proxyagent_sync_proxy_rules_service_changes_pending gauge
# TYPE clusterip_proxyagent_sync_proxy_rules_service_changes_total counter
clusterip_proxyagent_build_info{go_version="` + runtime.Version() + `",mode="nft",mode_reason="Configured",version="v1"} 1
clusterip_proxyagent_conntrack_reconciler_deleted_entries_total{ip_family="IPv4"} 9
clusterip_proxyagent_conntrack_reconciler_deleted_entries_total{ip_family="IPv6"} 0
clusterip_proxyagent_conntrack_reconciler_sync_duration_seconds_count{ip_family="IPv4"} 1
clusterip_proxyagent_conntrack_reconciler_sync_duration_seconds_count{ip_family="IPv6"} 0
clusterip_proxyagent_conntrack_reconciler_sync_duration_seconds_sum{ip_family="IPv4"} 1
clusterip_proxyagent_degraded_service_ports{ip_family="IPv4",reason="EndpointWeightsInvalid"} 0
clusterip_proxyagent_degraded_service_ports{ip_family="IPv4",reason="EndpointWeightsNotAllowed"} 0
clusterip_proxyagent_degraded_service_ports{ip_family="IPv4",reason="PartRefused"} 0
clusterip_proxyagent_degraded_service_ports{ip_family="IPv4",reason="RulesRefused"} 0
clusterip_proxyagent_degraded_service_ports{ip_family="IPv4",reason="SchedulerInvalid"} 0
clusterip_proxyagent_degraded_service_ports{ip_family="IPv4",reason="SchedulerTooDear"} 0
clusterip_proxyagent_degraded_service_ports{ip_family="IPv4",reason="SchedulerUnavailable"} 0
clusterip_proxyagent_degraded_service_ports{ip_family="IPv4",reason="SessionAffinityTooDear"} 1
clusterip_proxyagent_degraded_service_ports{ip_family="IPv4",reason="SourceRangesUnusable"} 0
clusterip_proxyagent_degraded_service_ports{ip_family="IPv6",reason="EndpointWeightsInvalid"} 0
clusterip_proxyagent_degraded_service_ports{ip_family="IPv6",reason="EndpointWeightsNotAllowed"} 0
clusterip_proxyagent_degraded_service_ports{ip_family="IPv6",reason="PartRefused"} 0
clusterip_proxyagent_degraded_service_ports{ip_family="IPv6",reason="RulesRefused"} 0
clusterip_proxyagent_degraded_service_ports{ip_family="IPv6",reason="SchedulerInvalid"} 0
clusterip_proxyagent_degraded_service_ports{ip_family="IPv6",reason="SchedulerTooDear"} 0
clusterip_proxyagent_degraded_service_ports{ip_family="IPv6",reason="SchedulerUnavailable"} 0
clusterip_proxyagent_degraded_service_ports{ip_family="IPv6",reason="SessionAffinityTooDear"} 0
clusterip_proxyagent_degraded_service_ports{ip_family="IPv6",reason="SourceRangesUnusable"} 0
clusterip_proxyagent_degraded_tables{ip_family="IPv4",reason="TableUnreadable",table="filter"} 1
clusterip_proxyagent_disputed_addresses{ip_family="IPv4",reason="AllocatedToOtherService"} 0
clusterip_proxyagent_disputed_addresses{ip_family="IPv4",reason="ClaimedByOlderService"} 0
clusterip_proxyagent_disputed_addresses{ip_family="IPv4",reason="ClusterIPOfOtherService"} 0
clusterip_proxyagent_disputed_addresses{ip_family="IPv4",reason="NotAllocated"} 2
clusterip_proxyagent_disputed_addresses{ip_family="IPv6",reason="AllocatedToOtherService"} 0
clusterip_proxyagent_disputed_addresses{ip_family="IPv6",reason="ClaimedByOlderService"} 0
clusterip_proxyagent_disputed_addresses{ip_family="IPv6",reason="ClusterIPOfOtherService"} 0
clusterip_proxyagent_disputed_addresses{ip_family="IPv6",reason="NotAllocated"} 0
clusterip_proxyagent_drift_repairs_total{ip_family="IPv4",what="jump"} 1
clusterip_proxyagent_former_address_connections{ip_family="IPv4"} 0
clusterip_proxyagent_former_address_connections{ip_family="IPv6"} 13
clusterip_proxyagent_former_addresses{ip_family="IPv4"} 0
clusterip_proxyagent_former_addresses{ip_family="IPv6"} 2
clusterip_proxyagent_iptables_ct_state_invalid_dropped_packets_total 11
clusterip_proxyagent_ipvs_connections_total{ip_family="IPv6",namespace="shop",service="web"} 12
clusterip_proxyagent_network_programming_duration_seconds_count{ip_family="IPv4"} 2
clusterip_proxyagent_network_programming_duration_seconds_count{ip_family="IPv6"} 0
clusterip_proxyagent_network_programming_duration_seconds_sum{ip_family="IPv4"} 1
clusterip_proxyagent_proxy_healthz_total{code="503"} 1
clusterip_proxyagent_proxy_livez_total{code="200"} 1
clusterip_proxyagent_socketlb_connections_total{ip_family="IPv4",namespace="shop",service="web"} 12
clusterip_proxyagent_socketlb_fronts_left{ip_family="IPv4"} 3
clusterip_proxyagent_socketlb_state{reason="Attached",scope="pods"} 0
clusterip_proxyagent_socketlb_state{reason="NoCgroup2",scope="pods"} 1
clusterip_proxyagent_socketlb_sync_seconds_total{ip_family="IPv4"} 1.5
clusterip_proxyagent_sync_full_proxy_rules_duration_seconds_count{ip_family="IPv4"} 1
clusterip_proxyagent_sync_full_proxy_rules_duration_seconds_count{ip_family="IPv6"} 0
clusterip_proxyagent_sync_full_proxy_rules_duration_seconds_sum{ip_family="IPv4"} 2
clusterip_proxyagent_sync_partial_proxy_rules_duration_seconds_count{ip_family="IPv4"} 1
clusterip_proxyagent_sync_partial_proxy_rules_duration_seconds_count{ip_family="IPv6"} 0
clusterip_proxyagent_sync_partial_proxy_rules_duration_seconds_sum{ip_family="IPv4"} 1
clusterip_proxyagent_sync_proxy_rules_duration_seconds_count{ip_family="IPv4"} 2
clusterip_proxyagent_sync_proxy_rules_duration_seconds_count{ip_family="IPv6"} 0
clusterip_proxyagent_sync_proxy_rules_duration_seconds_sum{ip_family="IPv4"} 3
clusterip_proxyagent_sync_proxy_rules_endpoint_changes_pending 3
clusterip_proxyagent_sync_proxy_rules_endpoint_changes_total 5
clusterip_proxyagent_sync_proxy_rules_iptables_last{ip_family="IPv6",table="nat"} 7
clusterip_proxyagent_sync_proxy_rules_iptables_partial_restore_failures_total{ip_family="IPv4"} 1
clusterip_proxyagent_sync_proxy_rules_iptables_partial_restore_failures_total{ip_family="IPv6"} 0
clusterip_proxyagent_sync_proxy_rules_iptables_restore_failures_total{ip_family="IPv4"} 1
clusterip_proxyagent_sync_proxy_rules_iptables_restore_failures_total{ip_family="IPv6"} 0
clusterip_proxyagent_sync_proxy_rules_iptables_total{ip_family="IPv6",table="nat"} 100
clusterip_proxyagent_sync_proxy_rules_last_queued_timestamp_seconds{ip_family="IPv4"} 1.7673552e+09
clusterip_proxyagent_sync_proxy_rules_last_timestamp_seconds{ip_family="IPv4"} 1.7673552e+09
clusterip_proxyagent_sync_proxy_rules_no_local_endpoints_total{ip_family="IPv4",traffic_policy="external"} 6
clusterip_proxyagent_sync_proxy_rules_no_local_endpoints_total{ip_family="IPv4",traffic_policy="internal"} 4
clusterip_proxyagent_sync_proxy_rules_no_local_endpoints_total{ip_family="IPv6",traffic_policy="external"} 0
clusterip_proxyagent_sync_proxy_rules_no_local_endpoints_total{ip_family="IPv6",traffic_policy="internal"} 0
clusterip_proxyagent_sync_proxy_rules_service_changes_pending 2
clusterip_proxyagent_sync_proxy_rules_service_changes_total 3
`
	if diff := cmp.Diff(strings.Split(strings.TrimSpace(want), "\n"), scraped(t, busy())); diff != "" {
		t.Errorf("scrape (-want +got):\n%s", diff)
	}
}

// asKubeProxy are gauges with the suffix of a counter, as kube-proxy has them: a dashboard carries
// over by changing the prefix.
var asKubeProxy = []string{prefix + "sync_proxy_rules_iptables_total", prefix + "sync_proxy_rules_no_local_endpoints_total"}

// TestDocumentation compares the agent's part of docs/reference/metrics.md with the code;
// hack/generate.sh writes it.
func TestDocumentation(t *testing.T) {
	if err := metricsdoc.Check("../../docs/reference/metrics.md", prefix, busy().registry, asKubeProxy...); err != nil {
		t.Error(err)
	}
}

// scraped are the sorted lines of our own metrics and their types, without buckets and empty sums.
func scraped(t *testing.T, m *Metrics) (lines []string) {
	t.Helper()
	w := httptest.NewRecorder()
	m.Handler().ServeHTTP(w, httptest.NewRequest(http.MethodGet, "/metrics", nil))
	if w.Code != http.StatusOK {
		t.Fatalf("the scrape answers %d: %s", w.Code, w.Body)
	}
	for line := range strings.Lines(w.Body.String()) {
		ours := strings.HasPrefix(line, prefix) || strings.HasPrefix(line, "# TYPE "+prefix)
		if ours && !strings.Contains(line, "_bucket{") && (!strings.Contains(line, "_sum{") || !strings.HasSuffix(line, " 0\n")) {
			lines = append(lines, strings.TrimSpace(line))
		}
	}
	slices.Sort(lines)
	return lines
}

func TestBuckets(t *testing.T) {
	families, err := busy().registry.Gather()
	if err != nil {
		t.Fatal(err)
	}
	for _, f := range families {
		buckets := f.GetMetric()[0].GetHistogram().GetBucket()
		if !strings.HasPrefix(f.GetName(), prefix) || len(buckets) == 0 {
			continue
		}
		want := [3]float64{15, 0.001, 16.384}
		if strings.Contains(f.GetName(), "network_programming") {
			want = [3]float64{80, 0.25, 300}
		}
		if got := [3]float64{float64(len(buckets)), buckets[0].GetUpperBound(), buckets[len(buckets)-1].GetUpperBound()}; got != want {
			t.Errorf("%s has %v buckets, from the first to the last, want %v", f.GetName(), got, want)
		}
	}
}

func TestADisputeThatIsOverIsNoLongerCounted(t *testing.T) {
	m := New()
	m.Disputed(model.IPv6, []model.Dispute{{Addr: netip.MustParseAddr("fd00::1"), Reason: model.ClaimedByOlder}})
	m.Disputed(model.IPv6, nil)
	for _, line := range scraped(t, m) {
		if strings.Contains(line, "disputed_addresses{") && !strings.HasSuffix(line, " 0") {
			t.Error(line)
		}
	}
}

func TestAFailedSyncIsNoLastSync(t *testing.T) {
	m := New(model.IPv4)
	m.SyncDone(model.IPv4, true, time.Second, noon, errors.New("no"))
	lines := strings.Join(scraped(t, m), "\n")
	if strings.Contains(lines, "last_timestamp_seconds") {
		t.Error("a sync that failed is shown as the last one")
	}
	if !strings.Contains(lines, `partial_restore_failures_total{ip_family="IPv4"} 0`) {
		t.Error("a full sync that failed is counted as a partial one")
	}
}

func TestWhatCannotBeReadSpoilsNothingElse(t *testing.T) {
	m := New(model.IPv4)
	m.CountConnections(map[model.Family]func() (map[model.ServiceName]uint64, error){
		model.IPv4: func() (map[model.ServiceName]uint64, error) { return nil, errors.New("no") },
		model.IPv6: someConnections,
	})
	lines := strings.Join(scraped(t, m), "\n")
	for _, want := range []string{`ipvs_connections_total{ip_family="IPv6",namespace="shop",service="web"} 12`, `former_addresses{ip_family="IPv4"} 0`} {
		if !strings.Contains(lines, want) {
			t.Errorf("the scrape lacks %s", want)
		}
	}
}
