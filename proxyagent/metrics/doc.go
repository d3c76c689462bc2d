// Package metrics is what the agent tells Prometheus.
//
// Wherever the agent does what kube-proxy does, the metric has kube-proxy's name, type, labels and buckets, with the prefix
// clusterip_proxyagent_ in the place of kubeproxy_: dashboards and alerts carry over by changing the prefix. Names that break
// today's naming rules (gauges that end in _total) are kept for the same reason.
//
// Left out are
//
//	sync_proxy_rules_nftables_sync_failures_total, sync_proxy_rules_nftables_cleanup_failures_total   nftables counts among the failures of iptables
//	iptables_localhost_nodeports_accepted_packets_total       no rule counts these packets alone
//	rest_client_*, workqueue_*, kubernetes_feature_enabled    belong to libraries that kube-proxy links; they say nothing about Services
//	kubernetes_build_info                                     ours is build_info
//
// Added are build_info, disputed_addresses, degraded_service_ports, drift_repairs_total, former_addresses, former_address_connections, and the usual go_ and process_
// metrics.
//
// It promises that every series that can be zero is there from the start, so that rates and alerts need no guard for absence, and that its
// methods may be called by any goroutine at any time.
//
// docs/metrics.md is written from the help texts. Start with metrics.go for the list, observe.go for what the agent calls.
package metrics
