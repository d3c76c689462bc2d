package metrics

import (
	"errors"
	"net/http"
	"net/http/httptest"
	"net/netip"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/prometheus/client_golang/prometheus/testutil/promlint"
	dto "github.com/prometheus/client_model/go"

	"github.com/clusterip-operator/clusterip-operator/proxyagent/model"
)

// shape is what a dashboard relies on.
type shape struct {
	Type   string
	Labels string
	// Buckets is how many there are without the infinite one, with the first and the last.
	Buckets     int
	First, Last float64
}

var (
	syncHistogram    = shape{"HISTOGRAM", "ip_family", 15, 0.001, 16.384}
	familyGauge      = shape{Type: "GAUGE", Labels: "ip_family"}
	familyCounter    = shape{Type: "COUNTER", Labels: "ip_family"}
	tableGauge       = shape{Type: "GAUGE", Labels: "ip_family,table"}
	plainGauge       = shape{Type: "GAUGE"}
	plainCounter     = shape{Type: "COUNTER"}
	codeCounter      = shape{Type: "COUNTER", Labels: "code"}
	programming      = shape{"HISTOGRAM", "ip_family", 80, 0.25, 300}
	localPolicyGauge = shape{Type: "GAUGE", Labels: "ip_family,traffic_policy"}
)

// kubeProxy are the metrics of kube-proxy 1.36.3 in iptables mode, written down from its source and without kubeproxy_.
var kubeProxy = map[string]shape{
	"sync_proxy_rules_duration_seconds":                        syncHistogram,
	"sync_full_proxy_rules_duration_seconds":                   syncHistogram,
	"sync_partial_proxy_rules_duration_seconds":                syncHistogram,
	"sync_proxy_rules_last_timestamp_seconds":                  familyGauge,
	"sync_proxy_rules_last_queued_timestamp_seconds":           familyGauge,
	"network_programming_duration_seconds":                     programming,
	"sync_proxy_rules_endpoint_changes_pending":                plainGauge,
	"sync_proxy_rules_endpoint_changes_total":                  plainCounter,
	"sync_proxy_rules_service_changes_pending":                 plainGauge,
	"sync_proxy_rules_service_changes_total":                   plainCounter,
	"sync_proxy_rules_iptables_restore_failures_total":         familyCounter,
	"sync_proxy_rules_iptables_partial_restore_failures_total": familyCounter,
	"sync_proxy_rules_iptables_total":                          tableGauge,
	"sync_proxy_rules_iptables_last":                           tableGauge,
	"sync_proxy_rules_no_local_endpoints_total":                localPolicyGauge,
	"conntrack_reconciler_sync_duration_seconds":               syncHistogram,
	"conntrack_reconciler_deleted_entries_total":               familyCounter,
	"proxy_healthz_total":                                      codeCounter,
	"proxy_livez_total":                                        codeCounter,
	"iptables_ct_state_invalid_dropped_packets_total":          plainCounter,
}

// ours are those that kube-proxy has no counterpart of.
var ours = map[string]shape{
	"build_info":          {Type: "GAUGE", Labels: "commit,go_version,mode,version"},
	"disputed_addresses":  {Type: "GAUGE", Labels: "ip_family,reason"},
	"drift_repairs_total": {Type: "COUNTER", Labels: "ip_family,what"},
}

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
	m.Rules(model.IPv6, "nat", 100, 7)
	m.NoLocalEndpoints(model.IPv4, 4, 6)
	m.ConntrackDone(model.IPv4, time.Second, 9)
	m.Answered("healthz", 503)
	m.Answered("livez", 200)
	m.Answered("metrics", 200)
	m.Disputed(model.IPv4, []model.Dispute{
		{Addr: netip.MustParseAddr("10.0.0.1"), Reason: model.NotAllocated},
		{Addr: netip.MustParseAddr("10.0.0.2"), Reason: model.NotAllocated},
		{Addr: netip.MustParseAddr("fd00::1"), Reason: model.NotAllocated},
	})
	m.Repaired(model.IPv4, "jump")
	m.Build("v1", "abc", "go1.26", "legacy")
	m.Build("v1", "abc", "go1.26", "nft")
	m.CountInvalidDropped(func() uint64 { return 11 })
	return m
}

func TestDashboardsCarryOverByChangingThePrefix(t *testing.T) {
	want := map[string]shape{}
	for _, metrics := range []map[string]shape{kubeProxy, ours} {
		for name, s := range metrics {
			want["clusterip_proxyagent_"+name] = s
		}
	}
	got := map[string]shape{}
	for name, f := range gathered(t, busy()) {
		if !strings.HasPrefix(name, "go_") && !strings.HasPrefix(name, "process_") && !strings.HasPrefix(name, "promhttp_") {
			got[name] = shapeOf(f)
		}
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("metrics (-want +got):\n%s", diff)
	}
}

func gathered(t *testing.T, m *Metrics) map[string]*dto.MetricFamily {
	t.Helper()
	families, err := m.Gatherer().Gather()
	if err != nil {
		t.Fatalf("gathering: %v", err)
	}
	byName := map[string]*dto.MetricFamily{}
	for _, f := range families {
		byName[f.GetName()] = f
	}
	return byName
}

func shapeOf(f *dto.MetricFamily) shape {
	m := f.GetMetric()[0]
	var labels []string
	for _, l := range m.GetLabel() {
		labels = append(labels, l.GetName())
	}
	slices.Sort(labels)
	s := shape{Type: f.GetType().String(), Labels: strings.Join(labels, ",")}
	if b := m.GetHistogram().GetBucket(); len(b) > 0 {
		s.Buckets, s.First, s.Last = len(b), b[0].GetUpperBound(), b[len(b)-1].GetUpperBound()
	}
	return s
}

func TestValuesFollowWhatWasObserved(t *testing.T) {
	want := `
clusterip_proxyagent_build_info{commit="abc",go_version="go1.26",mode="nft",version="v1"} 1
clusterip_proxyagent_conntrack_reconciler_deleted_entries_total{ip_family="IPv4"} 9
clusterip_proxyagent_conntrack_reconciler_deleted_entries_total{ip_family="IPv6"} 0
clusterip_proxyagent_conntrack_reconciler_sync_duration_seconds_count{ip_family="IPv4"} 1
clusterip_proxyagent_conntrack_reconciler_sync_duration_seconds_count{ip_family="IPv6"} 0
clusterip_proxyagent_conntrack_reconciler_sync_duration_seconds_sum{ip_family="IPv4"} 1
clusterip_proxyagent_conntrack_reconciler_sync_duration_seconds_sum{ip_family="IPv6"} 0
clusterip_proxyagent_disputed_addresses{ip_family="IPv4",reason="AllocatedToOtherService"} 0
clusterip_proxyagent_disputed_addresses{ip_family="IPv4",reason="ClaimedByOlderService"} 0
clusterip_proxyagent_disputed_addresses{ip_family="IPv4",reason="ClusterIPOfOtherService"} 0
clusterip_proxyagent_disputed_addresses{ip_family="IPv4",reason="NotAllocated"} 2
clusterip_proxyagent_disputed_addresses{ip_family="IPv6",reason="AllocatedToOtherService"} 0
clusterip_proxyagent_disputed_addresses{ip_family="IPv6",reason="ClaimedByOlderService"} 0
clusterip_proxyagent_disputed_addresses{ip_family="IPv6",reason="ClusterIPOfOtherService"} 0
clusterip_proxyagent_disputed_addresses{ip_family="IPv6",reason="NotAllocated"} 0
clusterip_proxyagent_drift_repairs_total{ip_family="IPv4",what="jump"} 1
clusterip_proxyagent_iptables_ct_state_invalid_dropped_packets_total 11
clusterip_proxyagent_network_programming_duration_seconds_count{ip_family="IPv4"} 2
clusterip_proxyagent_network_programming_duration_seconds_count{ip_family="IPv6"} 0
clusterip_proxyagent_network_programming_duration_seconds_sum{ip_family="IPv4"} 1
clusterip_proxyagent_network_programming_duration_seconds_sum{ip_family="IPv6"} 0
clusterip_proxyagent_proxy_healthz_total{code="503"} 1
clusterip_proxyagent_proxy_livez_total{code="200"} 1
clusterip_proxyagent_sync_full_proxy_rules_duration_seconds_count{ip_family="IPv4"} 1
clusterip_proxyagent_sync_full_proxy_rules_duration_seconds_count{ip_family="IPv6"} 0
clusterip_proxyagent_sync_full_proxy_rules_duration_seconds_sum{ip_family="IPv4"} 2
clusterip_proxyagent_sync_full_proxy_rules_duration_seconds_sum{ip_family="IPv6"} 0
clusterip_proxyagent_sync_partial_proxy_rules_duration_seconds_count{ip_family="IPv4"} 1
clusterip_proxyagent_sync_partial_proxy_rules_duration_seconds_count{ip_family="IPv6"} 0
clusterip_proxyagent_sync_partial_proxy_rules_duration_seconds_sum{ip_family="IPv4"} 1
clusterip_proxyagent_sync_partial_proxy_rules_duration_seconds_sum{ip_family="IPv6"} 0
clusterip_proxyagent_sync_proxy_rules_duration_seconds_count{ip_family="IPv4"} 2
clusterip_proxyagent_sync_proxy_rules_duration_seconds_count{ip_family="IPv6"} 0
clusterip_proxyagent_sync_proxy_rules_duration_seconds_sum{ip_family="IPv4"} 3
clusterip_proxyagent_sync_proxy_rules_duration_seconds_sum{ip_family="IPv6"} 0
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

// scraped are the sorted lines of our own metrics, without buckets.
func scraped(t *testing.T, m *Metrics) (lines []string) {
	t.Helper()
	w := httptest.NewRecorder()
	m.Handler().ServeHTTP(w, httptest.NewRequest(http.MethodGet, "/metrics", nil))
	if w.Code != http.StatusOK {
		t.Fatalf("the scrape answers %d: %s", w.Code, w.Body)
	}
	for line := range strings.Lines(w.Body.String()) {
		if strings.HasPrefix(line, prefix) && !strings.Contains(line, "_bucket{") {
			lines = append(lines, strings.TrimSpace(line))
		}
	}
	slices.Sort(lines)
	return lines
}

// inherited are the complaints about names that kube-proxy gave.
var inherited = []string{
	prefix + `sync_proxy_rules_iptables_total: non-counter metrics should not have "_total" suffix`,
	prefix + `sync_proxy_rules_no_local_endpoints_total: non-counter metrics should not have "_total" suffix`,
}

func TestNamesFollowTheRulesOfPrometheus(t *testing.T) {
	families, err := busy().Gatherer().Gather()
	if err != nil {
		t.Fatal(err)
	}
	problems, err := promlint.NewWithMetricFamilies(families).Lint()
	if err != nil {
		t.Fatal(err)
	}
	var complaints []string
	for _, p := range problems {
		complaints = append(complaints, p.Metric+": "+p.Text)
	}
	if diff := cmp.Diff(inherited, complaints); diff != "" {
		t.Errorf("complaints (-want +got):\n%s", diff)
	}
}

func TestADisputeThatIsOverIsNoLongerCounted(t *testing.T) {
	m := New()
	m.Disputed(model.IPv6, []model.Dispute{{Addr: netip.MustParseAddr("fd00::1"), Reason: model.ClaimedByOlder}})
	m.Disputed(model.IPv6, nil)
	for _, line := range scraped(t, m) {
		if strings.Contains(line, "disputed_addresses") && !strings.HasSuffix(line, " 0") {
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
