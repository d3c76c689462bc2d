package v1alpha1

import (
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// ProxyAgentKind is the kind of the node agent's configuration file; its apiVersion is APIVersion.
const ProxyAgentKind = "ProxyAgentConfiguration"

// ProxyAgentConfiguration is what `proxyagent --config FILE` reads. Begin with DefaultProxyAgent:
// the zero value is not usable.
type ProxyAgentConfiguration struct {
	metav1.TypeMeta `json:",inline"`

	// NodeName is this machine's Node object. Default: environment variable NODE_NAME, then host name.
	NodeName string `json:"nodeName,omitempty"`
	// IPFamilies are the families to serve: IPv4, IPv6. Default: both, as far as the machine has them.
	IPFamilies []string `json:"ipFamilies,omitempty"`
	// ServiceProxyName restricts the agent to Services with this value of the label
	// service.kubernetes.io/service-proxy-name. Default empty: it serves those without the label.
	ServiceProxyName string `json:"serviceProxyName,omitempty"`
	// Allocations says what IPAddress objects mean: prefer, enforce or ignore. Default prefer.
	Allocations string `json:"allocations"`
	// DropUnallocated drops new traffic to addresses inside of ServiceCIDRs that no Service has.
	// Default true, but false with ServiceProxyName: the other proxy serves such addresses too. Ask
	// DropsUnallocated for the value in force.
	DropUnallocated *bool `json:"dropUnallocated,omitempty"`
	// AllowServiceExternalIPs serves spec.externalIPs. Default true.
	AllowServiceExternalIPs bool `json:"allowServiceExternalIPs"`
	// FollowNodes lets Services weigh endpoints by the cores and labels of their nodes. While a
	// Service asks for that, the agent follows all Nodes. Default false: a tenant could make each node
	// of a large cluster follow all other nodes. Zones count anyway.
	FollowNodes bool `json:"followNodes,omitempty"`
	// NodePortAddresses restricts node ports to local addresses inside of these CIDRs; a family
	// without a CIDR is not restricted. The word primary stands for one address of each family: the
	// Node object's first InternalIP, or else its first ExternalIP. Default: any local address.
	NodePortAddresses []string `json:"nodePortAddresses,omitempty"`
	// DetectLocal says how traffic of this node's pods is told from other traffic.
	DetectLocal DetectLocal `json:"detectLocal"`
	// Mode is iptables, nftables, ipvs, or auto: nftables where the kernel has it and no other program
	// has iptables rules, unless an agent has served otherwise before. Default iptables.
	Mode string `json:"mode"`
	// MasqueradeAll gives all traffic to ClusterIPs the node's address. Default false.
	MasqueradeAll bool `json:"masqueradeAll"`
	// MasqueradeBit is the packet mark bit, 0 to 31, for "give it the node's address". Default 14.
	MasqueradeBit int `json:"masqueradeBit"`
	// LocalhostNodePorts lets node ports answer on 127.0.0.0/8, where NodePortAddresses do not
	// exclude it; never in mode ipvs. Default true.
	LocalhostNodePorts bool `json:"localhostNodePorts"`
	// DropInvalid drops forwarded packets of no connection. Default true; never with TCPBeLiberal.
	DropInvalid bool `json:"dropInvalid"`
	// MinSyncPeriod is the pause between two writes of rules. Default 1s.
	MinSyncPeriod metav1.Duration `json:"minSyncPeriod"`
	// SyncPeriod is the time between two full comparisons of the rules with the plan. Default 30s.
	SyncPeriod metav1.Duration `json:"syncPeriod"`
	// ProbePeriod is the time between cheap looks for rules changed by other programs. Default 500ms.
	ProbePeriod metav1.Duration `json:"probePeriod"`
	// IPTables is about mode iptables.
	IPTables IPTables `json:"iptables"`
	// IPVS is about mode ipvs.
	IPVS IPVS `json:"ipvs"`
	// SocketLB has connections to ClusterIPs translated at connect(), instead of by rules.
	SocketLB SocketLB `json:"socketLB"`
	// Conntrack is about the kernel's settings of connection tracking.
	Conntrack Conntrack `json:"conntrack"`
	// SysctlRoot is the folder in which the kernel's settings are written. Default "/proc/sys", which
	// is read-only in a container without privileges: there the host's is mounted elsewhere.
	SysctlRoot string `json:"sysctlRoot"`
	// Client is the connection to the API server.
	Client ProxyAgentClient `json:"client"`
	// Health is the endpoint of the probes and of load balancers.
	Health Health `json:"health"`
	// Metrics is the endpoint of metrics and of `proxyagent dump`.
	Metrics ProxyAgentMetrics `json:"metrics"`
	// Log is about the log on standard error.
	Log Log `json:"log"`
}

// DropsUnallocated is DropUnallocated with its default, which depends on ServiceProxyName.
func (c *ProxyAgentConfiguration) DropsUnallocated() bool {
	if c.DropUnallocated != nil {
		return *c.DropUnallocated
	}
	return c.ServiceProxyName == ""
}

// The modes of DetectLocal. Their names are kube-proxy's; DetectNone has none there.
const (
	DetectClusterCIDR         = "ClusterCIDR"
	DetectNodeCIDR            = "NodeCIDR"
	DetectBridgeInterface     = "BridgeInterface"
	DetectInterfaceNamePrefix = "InterfaceNamePrefix"
	DetectNone                = "None"
)

// DetectLocal says how this node's pod traffic is told. Where it is not, nothing counts as local.
type DetectLocal struct {
	// Mode is ClusterCIDR, NodeCIDR (the podCIDRs of the Node object), BridgeInterface,
	// InterfaceNamePrefix or None. Default ClusterCIDR.
	Mode string `json:"mode"`
	// ClusterCIDRs are the networks of all pods in mode ClusterCIDR, at most one of a family. Of a
	// family without one, traffic is not told.
	ClusterCIDRs []string `json:"clusterCIDRs,omitempty"`
	// BridgeInterface is the bridge of the pods in mode BridgeInterface.
	BridgeInterface string `json:"bridgeInterface,omitempty"`
	// InterfaceNamePrefix begins the names of the pods' interfaces in mode InterfaceNamePrefix.
	InterfaceNamePrefix string `json:"interfaceNamePrefix,omitempty"`
}

// IPTables is about mode iptables.
type IPTables struct {
	// Mode is nft, legacy, or auto: what the kubelet and the network plugin use. Default auto.
	Mode string `json:"mode"`
}

// IPVS is about mode ipvs: the kernel's load balancer chooses endpoints, nftables does the rest.
type IPVS struct {
	// Scheduler of Services without one: rr (default), wrr, lc, wlc, lblc, lblcr, sh, dh, sed, nq, mh.
	Scheduler string `json:"scheduler"`
	// ExcludeCIDRs are networks where other programs' virtual servers stay, whatever they look like.
	ExcludeCIDRs []string `json:"excludeCIDRs,omitempty"`
	// StrictARP keeps the node from answering ARP for virtual IPs (arp_ignore 1 and arp_announce 2 for
	// all interfaces), as some load balancers need. Default false.
	StrictARP bool `json:"strictARP"`
	// TCPTimeout is how long IPVS remembers an idle TCP connection. Default 0s: the kernel's value.
	TCPTimeout metav1.Duration `json:"tcpTimeout"`
	// TCPFinTimeout is the same after a FIN. Default 0s.
	TCPFinTimeout metav1.Duration `json:"tcpFinTimeout"`
	// UDPTimeout is the same for UDP. Default 0s.
	UDPTimeout metav1.Duration `json:"udpTimeout"`
	// DrainTimeout bounds how long TCP connections go on to an endpoint no longer used. Default 15m.
	DrainTimeout metav1.Duration `json:"drainTimeout"`
}

// SocketLB translates TCP connections to ClusterIPs once, at connect(), by BPF programs at cgroups.
// Where that is not possible, rules serve as without it, and the agent says why.
type SocketLB struct {
	// Scope says whose connections: off, pods (the processes of pods), host (the sockets of the node's
	// network namespace, also of pods with hostNetwork), or all. Default off; not in mode ipvs.
	Scope string `json:"scope"`
	// CgroupRoot is the folder of the machine's cgroups: of cgroup2, or of cgroup v1 with the folder
	// unified in it. Default "/sys/fs/cgroup"; in a container the host's is mounted there.
	CgroupRoot string `json:"cgroupRoot"`
}

// Conntrack is about the kernel's connection tracking. A zero leaves the kernel's value as it is.
type Conntrack struct {
	// MaxPerCore is the number of connections to track per CPU; 0 ignores Min too. Default 32768.
	MaxPerCore int `json:"maxPerCore"`
	// Min is the number of connections to track at least. Default 131072.
	Min int `json:"min"`
	// TCPEstablishedTimeout is how long an idle connection is remembered. Default 24h.
	TCPEstablishedTimeout metav1.Duration `json:"tcpEstablishedTimeout"`
	// TCPCloseWaitTimeout is how long a connection closed by the server is remembered. Default 1h.
	TCPCloseWaitTimeout metav1.Duration `json:"tcpCloseWaitTimeout"`
	// TCPBeLiberal takes packets outside of the window for valid. Default false: the kernel's value.
	TCPBeLiberal bool `json:"tcpBeLiberal"`
	// UDPTimeout is how long a flow without an answer is remembered. Default 0s.
	UDPTimeout metav1.Duration `json:"udpTimeout"`
	// UDPStreamTimeout is how long a flow with answers is remembered. Default 0s.
	UDPStreamTimeout metav1.Duration `json:"udpStreamTimeout"`
}

// ProxyAgentClient is the connection to the API server.
type ProxyAgentClient struct {
	// Kubeconfig is a file. Default: the pod's service account.
	Kubeconfig string `json:"kubeconfig,omitempty"`
	// QPS is the mean request rate, negative: unbounded; Burst may exceed it briefly. Defaults 5, 10.
	QPS   float32 `json:"qps"`
	Burst int     `json:"burst"`
}

// ProxyAgentMetrics is the endpoint of /metrics, /configz, /proxyMode and /debug/dump.
type ProxyAgentMetrics struct {
	// BindAddress, "0" for none. Default "127.0.0.1:10249".
	BindAddress string `json:"bindAddress"`
	// EnableProfiling serves /debug/pprof there. Default false.
	EnableProfiling bool `json:"enableProfiling"`
}
