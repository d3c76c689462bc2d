// Package metrics is what the agent tells Prometheus.
//
// Where the agent does what kube-proxy does, the metric has kube-proxy's name, type, labels and
// buckets, with the prefix clusterip_proxyagent_ for kubeproxy_: dashboards and alerts need only
// another prefix. So names stay that break today's rules (gauges that end in _total).
//
// Left out are
//
//	sync_proxy_rules_nftables_{sync,cleanup}_failures_total   counted as failures of iptables
//	iptables_localhost_nodeports_accepted_packets_total       no rule counts these packets alone
//	rest_client_*, workqueue_*, kubernetes_feature_enabled    of libraries, not about Services
//	kubernetes_build_info                                     ours is build_info
//
// Added are build_info, disputed_addresses, degraded_service_ports, drift_repairs_total,
// former_addresses, former_address_connections, socketlb_state and its like, and the usual go_ and
// process_ metrics.
//
// It promises that every series that can be zero exists from the start: rates and alerts need no
// guard for absence. Any goroutine may call its methods at any time.
//
// docs/reference/metrics.md is written from the help texts. Start with metrics.go (list) or
// observe.go (API).
package metrics
