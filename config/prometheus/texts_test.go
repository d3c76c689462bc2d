package prometheus_test

import (
	"maps"
	"slices"
	"strings"
	"testing"
)

// said is an alert as an admin gets it. Labels are those beside its name and severity.
type said struct {
	in, alert            string // the scenario; the name and the severity
	labels               map[string]string
	summary, description string
}

var (
	ofRange = map[string]string{"servicecidr": "a", "cidr": "10.96.0.0/24", "family": "IPv4"}
	ofAgent = map[string]string{"instance": "n", "ip_family": "IPv4"}
)

func with(labels map[string]string, key, value string) map[string]string {
	more := maps.Clone(labels)
	if more == nil {
		more = map[string]string{}
	}
	more[key] = value
	return more
}

const (
	addRange       = " Add a ServiceCIDR of the same family before new Services are refused: a new range helps at once."
	addStaticRange = " Few addresses are left there that dynamic allocation keeps away from. Create a ServiceCIDR for fixed addresses."
	noNodePort     = "When none is left the API server refuses Services of type NodePort, and of type LoadBalancer unless they set allocateLoadBalancerNodePorts to false. Give kube-apiserver a larger --service-node-port-range, and the operator the same."
	stillInUse     = " address(es) of the range are still in use. The condition clusterip-operator.io/DeletionBlocked of the ServiceCIDR names the first of the Services that hold them and says what to do."
)

// texts has each alert, in each severity, at least once.
var texts = []said{
	{"75 % full", "ServiceCIDRNearlyFull info", ofRange, "ServiceCIDR a fills up.", "75.59% of 10.96.0.0/24 is in use or reserved." + addRange},
	{"85 % full", "ServiceCIDRNearlyFull warning", ofRange, "ServiceCIDR a fills up.", "85.83% of 10.96.0.0/24 is in use or reserved." + addRange},
	{"95 % full", "ServiceCIDRNearlyFull critical", ofRange, "ServiceCIDR a fills up.", "95.28% of 10.96.0.0/24 is in use or reserved." + addRange},
	{"95 % full", "ServiceCIDRStaticBandNearlyFull info", ofRange, "The static band of ServiceCIDR a fills up.", "75% of the static band of 10.96.0.0/24 is in use or reserved." + addStaticRange},
	{"static band 87 %", "ServiceCIDRStaticBandNearlyFull warning", ofRange, "The static band of ServiceCIDR a fills up.", "87.5% of the static band of 10.96.0.0/24 is in use or reserved." + addStaticRange},
	{"static band full", "ServiceCIDRStaticBandNearlyFull critical", ofRange, "The static band of ServiceCIDR a fills up.", "100% of the static band of 10.96.0.0/24 is in use or reserved." + addStaticRange},
	{
		"static band full", "ServiceCIDRBandFull warning", with(ofRange, "band", "static"), "The static band of ServiceCIDR a is full.",
		"No address is left in the static band of 10.96.0.0/24. With the dynamic band full the API server hands out static addresses; with the static band full no fixed clusterIP is left there.",
	},
	{
		"grows, half full", "ServiceCIDRFullSoon warning", map[string]string{"servicecidr": "a", "cidr": "10.96.0.0/24"}, "ServiceCIDR a will be full within three days.",
		"At the rate of the last six hours no address of 10.96.0.0/24 will be left in three days. Add a ServiceCIDR of the same family.",
	},
	{"deletion blocked", "ServiceCIDRDeletionBlocked warning", map[string]string{"servicecidr": "a"}, "ServiceCIDR a waits to be deleted.", "3" + stillInUse},
	{"two deletions blocked", "ServiceCIDRDeletionBlocked warning", map[string]string{"servicecidr": "a"}, "ServiceCIDR a waits to be deleted.", "3" + stillInUse},
	{"two deletions blocked", "ServiceCIDRDeletionBlocked warning", map[string]string{"servicecidr": "b"}, "ServiceCIDR b waits to be deleted.", "5" + stillInUse},
	{"node ports 86 % in use", "NodePortsNearlyFull warning", nil, "86.02% of the node ports are in use.", noNodePort},
	{"node ports 97 % in use", "NodePortsNearlyFull critical", nil, "97% of the node ports are in use.", noNodePort},
	{
		"drift", "ClusterIPDrift warning", map[string]string{"type": "missing"}, "1 address(es) and Services disagree: missing.",
		"The disagreement was confirmed and could not be repaired. The events of the Services concerned say why (kubectl get events -A --field-selector type=Warning).",
	},
	{
		"repaired again and again", "ClusterIPDriftKeepsComingBack info", map[string]string{"type": "missing"}, "Drift of type missing is repaired again and again.",
		"60 repairs in an hour: a user or a program deletes or changes IPAddress objects. The audit log of the API server knows which.",
	},
	{
		"unsteered", "ClusterIPServicesUnsteered warning", nil, "Services passed without being steered.",
		"10 Services in 10 minutes got an address from the API server alone: policies did not count for them, exclusive ranges neither. The log of the managers says why.",
	},
	{
		"webhooks gone", "ClusterIPSteeringAbsent critical", nil, "No manager reports that it steers Services.",
		"The webhooks fail open: Services are created, but get an address of any range, exclusive ones too, and nothing is refused. Look at the Deployment clusterip-operator-manager.",
	},
	{
		"webhooks missing", "ClusterIPWebhooksMissing critical", map[string]string{"kind": "MutatingWebhookConfiguration"}, "The MutatingWebhookConfiguration clusterip-operator is gone, or has no webhooks.",
		"The API server does not ask the operator any more: Services get an address of any range, or IPAddresses and ServiceCIDRs in use are not guarded. Apply config/webhook of this version again.",
	},
	{
		"drawn twice", "ClusterIPAddressesDrawnTwice warning", nil, "Replicas draw addresses beside each other.",
		"20 times in 10 minutes an address was handed out to one Service and became another one's, and the API server refused one of the two creations. " +
			"Replicas that do not lead cannot reach the one that does.",
	},
	{
		"violated", "ClusterIPExclusiveRangeViolated warning", nil, "2 address(es) of exclusive ranges belong to Services that may not have them.",
		"They came while nothing guarded the range, or before the policy, or the labels of their namespace changed. The condition Violated of the ServiceCIDRPolicies and events name the Services.",
	},
	{
		"stuck in flight", "ClusterIPAddressesStuckInFlight warning", nil, "2 address(es) stay handed out, and no Service has them.",
		"No Service was created for 10 minutes, and still a manager keeps addresses from being handed out that no IPAddress shows. It misses news of the API server: restart it, and keep its log.",
	},
	{
		"nothing", "ClusterIPOperatorAbsent critical", nil, "No manager of clusterip-operator reports.",
		"The cluster allocates as if the operator were not installed, but nothing restores lost addresses and no ServiceCIDR with our finalizer can be deleted. Look at the Deployment clusterip-operator-manager.",
	},
	{
		"only cooling addresses", "ClusterIPCoolDownStarvation warning", ofRange, "Only addresses that cool down are left in ServiceCIDR a.",
		"Nothing is free in 10.96.0.0/24. Addresses that cool down are drawn before a Service is refused, so that the cool-down of the policy is not kept any more.",
	},
	{
		"default range mismatch", "ClusterIPDefaultRangeMismatch warning", nil, "The ServiceCIDR kubernetes is not the range of the API server.",
		"The API server goes on with the ServiceCIDR, and its flag says something else. The condition clusterip-operator.io/DefaultRangeMismatch has both.",
	},
	{
		"fails open", "ClusterIPWebhookFailsOpen warning", nil, "The API server does not reach the webhooks.",
		"10 requests in 10 minutes passed without the webhooks: Services got an address of any range, exclusive ones too. This takes the metrics of kube-apiserver.",
	},
	{
		"certificate ends in 29 days", "ClusterIPWebhookCertificateExpires warning", nil, "The certificate of the webhooks runs out in 29d 0h 0m 0s.",
		"The operator replaces it 90 days before its end, and did not. When it has run out the webhooks fail open.",
	},
	{
		"agent hangs", "ClusterIPAgentStale critical", ofAgent, "The node agent n does not write its rules.",
		"A change of IPv4 is 1h 0m 0s younger than the last rules. Services on this node are served as they were before.",
	},
	{
		"rules refused", "ClusterIPAgentDegraded warning", map[string]string{"instance": "n", "reason": "RulesRefused"}, "1 Service port(s) are not served by n.",
		"The kernel of the node refuses their rules. An event of each Service says so; all other Services are served.",
	},
	{
		"affinity too dear", "ClusterIPAgentDegraded info", map[string]string{"instance": "n", "reason": "SessionAffinityTooDear"}, "1 Service port(s) are not served as they ask by n.",
		"The reason is SessionAffinityTooDear: connections are spread over endpoints, or kept at them, otherwise than their Services ask.",
	},
	{
		"disputed", "ClusterIPAgentDisputedAddresses warning", map[string]string{"reason": "NotAllocated"}, "1 address(es) are claimed by Services that do not get them: NotAllocated.",
		"An event of each Service says who has the address.",
	},
	{
		"fought over", "ClusterIPAgentRulesFoughtOver warning", map[string]string{"instance": "n"}, "Something changes the rules of the node agent n.",
		"The agent has put its rules back 60 times in an hour: two programs fight.",
	},
	{
		"table hidden", "ClusterIPAgentTableUnreadable warning", with(ofAgent, "table", "filter"), "The node agent n cannot read the table filter (IPv4).",
		"Another program has written a rule into it that iptables cannot show. Services are served; what is changed of the agent's chains in that table is not repaired.",
	},
}

// TestTexts has promtool render each alert, and compares labels and texts.
func TestTexts(t *testing.T) {
	_, rules := spec(t)
	runbooks, expected := map[string]string{}, map[string]map[string][]any{} // by scenario, then by alert
	for _, r := range rules {
		runbooks[r.Alert] = r.Annotations["runbook_url"]
		if !slices.ContainsFunc(texts, func(s said) bool { return s.alert == r.Alert+" "+r.Labels["severity"] }) {
			t.Errorf("%s %s has no text here", r.Alert, r.Labels["severity"])
		}
	}
	for _, s := range texts {
		alert, severity, _ := strings.Cut(s.alert, " ")
		if expected[s.in] == nil {
			expected[s.in] = map[string][]any{}
		}
		expected[s.in][alert] = append(expected[s.in][alert], map[string]any{
			"exp_labels":      with(s.labels, "severity", severity),
			"exp_annotations": map[string]string{"summary": s.summary, "description": s.description, "runbook_url": runbooks[alert]},
		})
	}
	tests := []any{}
	for _, name := range slices.Sorted(maps.Keys(expected)) {
		s, alerts := scenarios[name], []any{}
		for alert, all := range expected[name] {
			alerts = append(alerts, map[string]any{"alertname": alert, "eval_time": s.at(), "exp_alerts": all})
		}
		tests = append(tests, map[string]any{"name": name, "interval": "1m", "input_series": s.series.input(), "alert_rule_test": alerts})
	}
	promtool(t, "test", "rules", testsFile(t, tests))
}
