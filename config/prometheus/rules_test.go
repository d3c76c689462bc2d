// Package prometheus_test has promtool evaluate the alerts of rules.yaml over made-up series.
package prometheus_test

import (
	"cmp"
	"fmt"
	"maps"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"sigs.k8s.io/yaml"
)

// rule is an alert of rules.yaml, or what is recorded.
type rule struct {
	Alert, Record, Expr string
	Labels, Annotations map[string]string
}

// spec is that of the PrometheusRule, which is a file of rules as Prometheus reads it, with its
// alerts.
func spec(t *testing.T) (text []byte, alerts []rule) {
	t.Helper()
	text, rules := all(t)
	return text, slices.DeleteFunc(rules, func(r rule) bool { return r.Alert == "" })
}

// all is spec with what is recorded, too.
func all(t *testing.T) (text []byte, rules []rule) {
	t.Helper()
	content, err := os.ReadFile("rules.yaml")
	if err != nil {
		t.Fatal(err)
	}
	var object struct{ Spec any }
	var typed struct {
		Spec struct{ Groups []struct{ Rules []rule } }
	}
	if err := yaml.Unmarshal(content, &object); err != nil {
		t.Fatal(err)
	}
	if err := yaml.Unmarshal(content, &typed); err != nil {
		t.Fatal(err)
	}
	if text, err = yaml.Marshal(object.Spec); err != nil {
		t.Fatal(err)
	}
	for _, g := range typed.Spec.Groups {
		rules = append(rules, g.Rules...)
	}
	return text, rules
}

// series maps names with labels to promtool's values, one a minute: 5x180 is 5 for three hours.
type series map[string]string

// addresses are those of a range: of the static band, then of the dynamic one.
func addresses(staticFree, staticUsed, free, used, cooling int) series {
	all := series{}
	for band, states := range map[string]map[string]int{
		"static": {"free": staticFree, "allocated": staticUsed}, "dynamic": {"free": free, "allocated": used, "cooling": cooling},
	} {
		for state, n := range states {
			all[fmt.Sprintf(`clusterip_operator_addresses{servicecidr="a",cidr="10.96.0.0/24",family="IPv4",band=%q,state=%q,pod="m-0"}`, band, state)] = fmt.Sprintf("%dx300", n)
		}
	}
	return all
}

func and(all ...series) series {
	out := series{}
	for _, s := range all {
		maps.Copy(out, s)
	}
	return out
}

// cordoned is a range that a policy has cordoned, as two replicas tell.
func cordoned(servicecidr, cidr string) series {
	all := series{}
	for _, pod := range []string{"m-0", "m-1"} {
		all[fmt.Sprintf("clusterip_operator_cordoned{servicecidr=%q,cidr=%q,pod=%q}", servicecidr, cidr, pod)] = "1x300"
	}
	return all
}

var half = addresses(8, 8, 119, 119, 0)

type scenario struct {
	series series
	minute int // of the evaluation; 0: after two hours
	fires  []string
	near   string
}

// healthy is a cluster of which nothing is to be told. It hides nothing of another one.
var healthy = and(half, synced("3600x300", "3601x300"), degraded("RulesRefused", "0x300"), series{
	`clusterip_operator_blocked_deletions{servicecidr="a"}`:                             "0x300",
	`clusterip_operator_drift{type="missing"}`:                                          "0x300",
	`clusterip_operator_nodeport_allocated_ports{band="dynamic"}`:                       "5x300",
	`clusterip_operator_nodeport_available_ports{band="dynamic"}`:                       "2677x300",
	`clusterip_operator_admission_decisions_total{result="filled"}`:                     "0+5x300",
	`clusterip_operator_admission_in_flight_addresses`:                                  "0x300",
	`clusterip_operator_default_range_mismatch`:                                         "0x300",
	`clusterip_operator_webhooks_configured{kind="MutatingWebhookConfiguration"}`:       "3x300",
	`clusterip_operator_webhook_certificate_expiration_timestamp_seconds`:               "31536000x300",
	`apiserver_admission_webhook_fail_open_count{name="service.clusterip-operator.io"}`: "7x300",
})

// scenarios are what there is, and every alert that fires then, with its severity. near is an alert
// that has to be silent, though not much is missing.
var scenarios = map[string]scenario{
	"healthy": {series: half, near: "ClusterIPOperatorAbsent"},
	"nothing": {fires: []string{"ClusterIPOperatorAbsent critical"}},

	"74 % full":        {series: addresses(16, 0, 50, 188, 0), near: "ServiceCIDRNearlyFull"},
	"75 % full":        {series: addresses(16, 0, 46, 192, 0), fires: []string{"ServiceCIDRNearlyFull info"}},
	"85 % full":        {series: addresses(16, 0, 20, 218, 0), fires: []string{"ServiceCIDRNearlyFull warning"}},
	"95 % full":        {series: addresses(4, 12, 8, 230, 0), fires: []string{"ServiceCIDRNearlyFull critical", "ServiceCIDRStaticBandNearlyFull info"}},
	"for a moment":     {series: addresses(4, 12, 8, 230, 0), minute: 10, near: "ServiceCIDRNearlyFull"},
	"static band 70 %": {series: addresses(5, 11, 119, 119, 0), near: "ServiceCIDRStaticBandNearlyFull"},
	"static band 87 %": {series: addresses(2, 14, 119, 119, 0), fires: []string{"ServiceCIDRStaticBandNearlyFull warning"}},
	"static band full": {series: addresses(0, 16, 119, 119, 0), fires: []string{"ServiceCIDRStaticBandNearlyFull critical", "ServiceCIDRBandFull warning"}},
	"one left":         {series: addresses(1, 15, 119, 119, 0), fires: []string{"ServiceCIDRStaticBandNearlyFull warning"}, near: "ServiceCIDRBandFull"},

	// The alerts say nothing of a range that a policy has cordoned, and tell of another one.
	"cordoned":         {series: and(addresses(0, 16, 0, 238, 0), cordoned("a", "10.96.0.0/24"))},
	"cordoned, cools":  {series: and(addresses(0, 16, 0, 230, 8), cordoned("a", "10.96.0.0/24")), near: "ClusterIPCoolDownStarvation"},
	"cordoned, grows":  {series: and(grows(addresses(8, 8, 92, 146, 0)), cordoned("a", "10.96.0.0/24")), minute: 290, near: "ServiceCIDRFullSoon"},
	"another cordoned": {series: and(addresses(16, 0, 20, 218, 0), cordoned("a", "10.97.0.0/24"), cordoned("b", "10.96.0.0/24")), fires: []string{"ServiceCIDRNearlyFull warning"}},

	"grows, half full":    {series: grows(addresses(8, 8, 92, 146, 0)), minute: 290, fires: []string{"ServiceCIDRFullSoon warning"}},
	"grows, nearly empty": {series: grows(addresses(16, 0, 230, 8, 0)), minute: 290, near: "ServiceCIDRFullSoon"},
	"more and more cool":  {series: churns(addresses(8, 8, 92, 146, 0)), minute: 290, near: "ServiceCIDRFullSoon"},

	"only cooling addresses": {series: addresses(0, 16, 0, 230, 8), fires: []string{
		"ServiceCIDRNearlyFull critical", "ServiceCIDRStaticBandNearlyFull critical", "ServiceCIDRBandFull warning", "ClusterIPCoolDownStarvation warning"}},
	"many cooling addresses":  {series: addresses(16, 0, 0, 100, 138), near: "ServiceCIDRBandFull"},
	"one beside cooling ones": {series: addresses(8, 8, 0, 108, 130), near: "ClusterIPCoolDownStarvation"},

	"deletion blocked":             {series: and(half, blocked("a", 3)), fires: []string{"ServiceCIDRDeletionBlocked warning"}},
	"deletion blocked for 50 min":  {series: and(half, blocked("a", 3)), minute: 50, near: "ServiceCIDRDeletionBlocked"},
	"two deletions blocked":        {series: and(half, blocked("a", 3), blocked("b", 5)), fires: []string{"ServiceCIDRDeletionBlocked warning"}},
	"node ports 84 % in use":       {series: and(half, nodePorts(86, 2240)), near: "NodePortsNearlyFull"},
	"node ports 86 % in use":       {series: and(half, nodePorts(0, 2381)), fires: []string{"NodePortsNearlyFull warning"}},
	"node ports 97 % in use":       {series: and(half, nodePorts(3, 2682)), fires: []string{"NodePortsNearlyFull critical"}},
	"drift":                        {series: and(half, series{`clusterip_operator_drift{type="missing"}`: "1x300"}.by("pod", "m-0", "m-1")), fires: []string{"ClusterIPDrift warning"}},
	"drift that is repaired":       {series: and(half, series{`clusterip_operator_drift{type="missing"}`: "1x5 0x300"}), near: "ClusterIPDrift"},
	"repaired again and again":     {series: and(half, series{`clusterip_operator_drift_repaired_total{type="missing"}`: "0+1x300"}), fires: []string{"ClusterIPDriftKeepsComingBack info"}},
	"repaired now and then":        {series: and(half, series{`clusterip_operator_drift_repaired_total{type="missing"}`: "0+0.1x300"}), near: "ClusterIPDriftKeepsComingBack"},
	"unsteered":                    {series: and(half, series{`clusterip_operator_admission_decisions_total{result="failed"}`: "0+1x300"}), fires: []string{"ClusterIPServicesUnsteered warning"}},
	"steered":                      {series: and(half, series{`clusterip_operator_admission_decisions_total{result="filled"}`: "0+1x300"}), near: "ClusterIPServicesUnsteered"},
	"webhooks gone":                {series: and(half, series{`clusterip_operator_admission_in_flight_addresses`: "0x60 _x240"}), fires: []string{"ClusterIPSteeringAbsent critical"}},
	"never any webhook":            {series: half, near: "ClusterIPSteeringAbsent"},
	"drawn twice":                  {series: and(half, series{`clusterip_operator_admission_collisions_total`: "0+2x300"}), fires: []string{"ClusterIPAddressesDrawnTwice warning"}},
	"drawn twice as a leader dies": {series: and(half, series{`clusterip_operator_admission_collisions_total`: "0x60 9x240"}), minute: 65, near: "ClusterIPAddressesDrawnTwice"},
	"webhooks missing":             {series: and(half, series{`clusterip_operator_webhooks_configured{kind="MutatingWebhookConfiguration"}`: "0x300"}), fires: []string{"ClusterIPWebhooksMissing critical"}},
	"webhooks gone for a moment":   {series: and(half, series{`clusterip_operator_webhooks_configured{kind="MutatingWebhookConfiguration"}`: "0x3 3x297"}), minute: 4, near: "ClusterIPWebhooksMissing"},
	"the managers are gone": {series: series{`clusterip_operator_admission_in_flight_addresses`: "0x60 _x240"},
		fires: []string{"ClusterIPOperatorAbsent critical", "ClusterIPSteeringAbsent critical"}},
	"violated":     {series: and(half, series{`clusterip_operator_exclusive_violations{pod="m-0"}`: "2x300", `clusterip_operator_exclusive_violations{pod="m-1"}`: "0x300"}), fires: []string{"ClusterIPExclusiveRangeViolated warning"}},
	"not violated": {series: and(half, series{`clusterip_operator_exclusive_violations`: "0x300"}), near: "ClusterIPExclusiveRangeViolated"},
	"stuck in flight": {series: and(half, series{`clusterip_operator_admission_in_flight_addresses`: "2x300", `clusterip_operator_admission_decisions_total{result="filled"}`: "7x300"}),
		fires: []string{"ClusterIPAddressesStuckInFlight warning"}},
	"in flight under load": {series: and(half, series{`clusterip_operator_admission_in_flight_addresses`: "2x300", `clusterip_operator_admission_decisions_total{result="filled"}`: "7+5x300"}),
		near: "ClusterIPAddressesStuckInFlight"},
	"default range mismatch": {series: and(half, series{`clusterip_operator_default_range_mismatch`: "1x300"}), fires: []string{"ClusterIPDefaultRangeMismatch warning"}},
	"default range":          {series: and(half, series{`clusterip_operator_default_range_mismatch`: "0x300"}), near: "ClusterIPDefaultRangeMismatch"},
	"fails open": {series: and(half, series{`apiserver_admission_webhook_fail_open_count{name="default.service.clusterip-operator.io",type="admit"}`: "0+1x300"}),
		fires: []string{"ClusterIPWebhookFailsOpen warning"}},
	"another webhook fails open":  {series: and(half, series{`apiserver_admission_webhook_fail_open_count{name="example.com"}`: "0+1x300"}), near: "ClusterIPWebhookFailsOpen"},
	"certificate ends in 29 days": {series: and(half, series{`clusterip_operator_webhook_certificate_expiration_timestamp_seconds`: "2512800x300"}), fires: []string{"ClusterIPWebhookCertificateExpires warning"}},
	"certificate of another":      {series: and(half, series{`clusterip_operator_webhook_certificate_expiration_timestamp_seconds`: "0x300"}), near: "ClusterIPWebhookCertificateExpires"},

	"agent hangs":         {series: and(half, synced("0+60x300", "3600x300")), fires: []string{"ClusterIPAgentStale critical"}},
	"agent is quiet":      {series: and(half, synced("3600x300", "3601x300")), near: "ClusterIPAgentStale"},
	"rules refused":       {series: and(half, degraded("RulesRefused", "1x300")), fires: []string{"ClusterIPAgentDegraded warning"}},
	"affinity too dear":   {series: and(half, degraded("SessionAffinityTooDear", "1x300")), fires: []string{"ClusterIPAgentDegraded info"}},
	"no such scheduler":   {series: and(half, degraded("SchedulerUnavailable", "1x300")), fires: []string{"ClusterIPAgentDegraded info"}},
	"nothing is degraded": {series: and(half, degraded("RulesRefused", "0x300")), near: "ClusterIPAgentDegraded"},
	"disputed":            {series: and(half, series{`clusterip_proxyagent_disputed_addresses{ip_family="IPv4",reason="NotAllocated"}`: "1x300"}.by("instance", "n", "m")), fires: []string{"ClusterIPAgentDisputedAddresses warning"}},
	"disputed a moment":   {series: and(half, series{`clusterip_proxyagent_disputed_addresses{instance="n",ip_family="IPv4",reason="NotAllocated"}`: "1x5 0x300"}), near: "ClusterIPAgentDisputedAddresses"},
	"fought over":         {series: and(half, series{`clusterip_proxyagent_drift_repairs_total{instance="n",ip_family="IPv4",what="chains"}`: "0+1x300"}), fires: []string{"ClusterIPAgentRulesFoughtOver warning"}},
	"table hidden":        {series: and(half, series{`clusterip_proxyagent_degraded_tables{instance="n",ip_family="IPv4",table="filter",reason="TableUnreadable"}`: "1x300"}), fires: []string{"ClusterIPAgentTableUnreadable warning"}},
	"hidden a moment":     {series: and(half, series{`clusterip_proxyagent_degraded_tables{instance="n",ip_family="IPv4",table="filter",reason="TableUnreadable"}`: "1x5 _x295"}), near: "ClusterIPAgentTableUnreadable"},
	"repaired once":       {series: and(half, series{`clusterip_proxyagent_drift_repairs_total{instance="n",ip_family="IPv4",what="chains"}`: "0x60 1x240"}), near: "ClusterIPAgentRulesFoughtOver"},
}

// grows has six free addresses of the dynamic band allocated in each hour.
func grows(s series) series { return moves(s, "allocated") }

// churns has as many cool down, of Services that are gone.
func churns(s series) series { return moves(s, "cooling") }

func moves(s series, to string) series {
	for name, values := range s {
		if !strings.Contains(name, `band="dynamic"`) {
			continue
		}
		if strings.Contains(name, `state="free"`) {
			s[name] = strings.Replace(values, "x", "-0.1x", 1)
		} else if strings.Contains(name, fmt.Sprintf("state=%q", to)) {
			s[name] = strings.Replace(values, "x", "+0.1x", 1)
		}
	}
	return s
}

// by has each series once for each value of one more label: replicas of the manager, and agents,
// count the same things, which are not to be added up. A series needs another label.
func (s series) by(label string, values ...string) series {
	all := series{}
	for name, samples := range s {
		for _, value := range values {
			all[fmt.Sprintf("%s,%s=%q}", strings.TrimSuffix(name, "}"), label, value)] = samples
		}
	}
	return all
}

// blocked is what two replicas say of a ServiceCIDR that waits to be deleted.
func blocked(cidr string, n int) series {
	return series{fmt.Sprintf(`clusterip_operator_blocked_deletions{servicecidr=%q}`, cidr): fmt.Sprintf("%dx300", n)}.by("pod", "m-0", "m-1")
}

// nodePorts is what two replicas say of the default range, so many of whose ports are in use.
func nodePorts(static, dynamic int) series {
	all := series{}
	for band, n := range map[string][2]int{"static": {static, 86}, "dynamic": {dynamic, 2682}} {
		all[fmt.Sprintf("clusterip_operator_nodeport_allocated_ports{band=%q}", band)] = fmt.Sprintf("%dx300", n[0])
		all[fmt.Sprintf("clusterip_operator_nodeport_available_ports{band=%q}", band)] = fmt.Sprintf("%dx300", n[1]-n[0])
	}
	return all.by("pod", "m-0", "m-1")
}

func synced(queued, last string) series {
	return series{
		`clusterip_proxyagent_sync_proxy_rules_last_queued_timestamp_seconds{instance="n",ip_family="IPv4"}`: queued,
		`clusterip_proxyagent_sync_proxy_rules_last_timestamp_seconds{instance="n",ip_family="IPv4"}`:        last,
	}
}

func degraded(reason, values string) series {
	return series{fmt.Sprintf(`clusterip_proxyagent_degraded_service_ports{instance="n",ip_family="IPv4",reason=%q}`, reason): values}
}

// of gives every series a cluster, unless that has no name.
func (s series) of(cluster string) series {
	if cluster == "" {
		return s
	}
	labelled := series{}
	for name, values := range s {
		name, labels, found := strings.Cut(strings.TrimSuffix(name, "}"), "{")
		if found {
			labels = "," + labels
		}
		labelled[fmt.Sprintf("%s{cluster=%q%s}", name, cluster, labels)] = values
	}
	return labelled
}

// TestAlerts has promtool evaluate all scenarios, where a Prometheus has one cluster, and where it
// has two and nothing is wrong with the other one. In each, exactly the named alerts have to fire.
func TestAlerts(t *testing.T) {
	text, rules := spec(t)
	tests := []any{}
	for _, name := range slices.Sorted(maps.Keys(scenarios)) {
		s := scenarios[name]
		tests = append(tests, s.test(name, ""))
		if len(s.series) > 0 {
			tests = append(tests, s.test(name+", one cluster of two", "east"))
		}
	}
	promtool(t, "check", "rules", write(t, "rules.yaml", text))
	promtool(t, "test", "rules", testsFile(t, tests))
	expectBothWays(t, rules)
}

// test is a scenario for promtool. A cluster with a name stands beside a healthy one.
func (s scenario) test(name, cluster string) map[string]any {
	all, label := s.series, ""
	if cluster != "" {
		all, label = and(s.series.of(cluster), healthy.of("west")), fmt.Sprintf(", cluster=%q", cluster)
	}
	samples := []any{}
	for _, alert := range s.fires {
		alert, severity, _ := strings.Cut(alert, " ")
		samples = append(samples, map[string]any{"labels": fmt.Sprintf("{alertname=%q, severity=%q%s}", alert, severity, label), "value": 1})
	}
	return map[string]any{"name": name, "interval": "1m", "input_series": all.input(), "promql_expr_test": []any{map[string]any{
		"expr": `group by (cluster, alertname, severity) (ALERTS{alertstate="firing"})`, "eval_time": s.at(), "exp_samples": samples,
	}}}
}

// at is when the scenario is looked at.
func (s scenario) at() string { return fmt.Sprint(cmp.Or(s.minute, 120), "m") }

// input is promtool's form of them.
func (s series) input() []any {
	input := []any{}
	for of, values := range s {
		input = append(input, map[string]string{"series": of, "values": values})
	}
	return input
}

// testsFile writes promtool's tests of the alerts.
func testsFile(t *testing.T, tests []any) string {
	t.Helper()
	text, _ := spec(t)
	file, err := yaml.Marshal(map[string]any{"rule_files": []string{write(t, "rules.yaml", text)}, "evaluation_interval": "1m", "tests": tests})
	if err != nil {
		t.Fatal(err)
	}
	return write(t, "tests.yaml", file)
}

func write(t *testing.T, name string, content []byte) string {
	t.Helper()
	path := filepath.Join(t.TempDir(), name)
	if err := os.WriteFile(path, content, 0o600); err != nil {
		t.Fatal(err)
	}
	return path
}

// expectBothWays: each alert fires, in each severity, in a scenario, and nearly fires in another.
func expectBothWays(t *testing.T, rules []rule) {
	t.Helper()
	fires, near := map[string]bool{}, map[string]bool{}
	for _, s := range scenarios {
		near[s.near] = true
		for _, alert := range s.fires {
			fires[alert] = true
		}
	}
	for _, r := range rules {
		if !fires[r.Alert+" "+r.Labels["severity"]] || !near[r.Alert] {
			t.Errorf("%s %s: it fires in a scenario: %t; it nearly does in one: %t", r.Alert, r.Labels["severity"], fires[r.Alert+" "+r.Labels["severity"]], near[r.Alert])
		}
	}
}

func promtool(t *testing.T, args ...string) {
	t.Helper()
	folder, err := exec.CommandContext(t.Context(), "../../hack/tools/build.sh", "promtool").Output()
	if err != nil {
		t.Fatalf("building promtool: %v", err)
	}
	program := filepath.Join(strings.TrimSpace(string(folder)), "promtool")
	if out, err := exec.CommandContext(t.Context(), program, args...).CombinedOutput(); err != nil {
		t.Errorf("promtool %v: %v\n%s", args, err, out)
	}
}

// TestRunbooks has each alert lead to its section, which begins with what to run.
func TestRunbooks(t *testing.T) {
	text, err := os.ReadFile("../../docs/runbooks.md")
	if err != nil {
		t.Fatal(err)
	}
	_, rules := spec(t)
	for _, r := range rules {
		const file = "https://github.com/clusterip-operator/clusterip-operator/blob/main/docs/runbooks.md#"
		if want := file + strings.ToLower(r.Alert); r.Annotations["runbook_url"] != want {
			t.Errorf("%s leads to %q, not to %q", r.Alert, r.Annotations["runbook_url"], want)
		}
		if !strings.Contains(string(text), "\n## "+r.Alert+"\n\n```\n") {
			t.Errorf("%s has no section that begins with what to run", r.Alert)
		}
	}
}

// TestMeantToBeFull has the matcher for ranges that may be full take all alerts on how full a range
// is, and no others.
func TestMeantToBeFull(t *testing.T) {
	text, err := os.ReadFile("../../docs/runbooks.md")
	if err != nil {
		t.Fatal(err)
	}
	match := regexp.MustCompile(`alertname =~ "(.*)"`).FindSubmatch(text)
	if match == nil {
		t.Fatal("there is no matcher")
	}
	silenced := regexp.MustCompile("^(?:" + string(match[1]) + ")$") // as Alertmanager anchors it
	_, rules := spec(t)
	for _, r := range rules {
		if want := strings.Contains(r.Expr, "clusterip_operator_addresses{"); silenced.MatchString(r.Alert) != want {
			t.Errorf("%s is silenced: %t, want %t", r.Alert, !want, want)
		}
	}
}

var ours = regexp.MustCompile(`clusterip_(operator|proxyagent)_[a-z_]+`)

// TestMetricsExist looks for every metric of the rules: one that is not served is silent for ever.
func TestMetricsExist(t *testing.T) {
	_, rules := all(t)
	for _, r := range rules {
		expectServed(t, r.Alert+r.Record, r.Expr)
	}
}

// expectServed looks for the metrics of an expression in docs/reference/metrics.md, which is
// written from the code.
func expectServed(t *testing.T, who, expr string) {
	t.Helper()
	served, err := os.ReadFile("../../docs/reference/metrics.md")
	if err != nil {
		t.Fatal(err)
	}
	for _, name := range ours.FindAllString(expr, -1) {
		if !strings.Contains(string(served), "\n| `"+strings.TrimSuffix(name, "_bucket")+"` |") {
			t.Errorf("%s looks at %s, which nobody serves", who, name)
		}
	}
}
