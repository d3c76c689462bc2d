package v1alpha1

import (
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// ProxyAgentKind is the kind of the node agent's configuration file; its apiVersion is APIVersion.
const ProxyAgentKind = "ProxyAgentConfiguration"

// ProxyAgentConfiguration is what `proxyagent --config FILE` reads. Its zero value is not usable; begin with DefaultProxyAgent.
type ProxyAgentConfiguration struct {
	metav1.TypeMeta `json:",inline"`

	// NodeName is the name of the Node object of this machine. Default: the environment variable NODE_NAME, then the host name.
	NodeName string `json:"nodeName,omitempty"`
	// IPFamilies are the families to serve, of IPv4 and IPv6. Default: both, as far as the machine has them.
	IPFamilies []string `json:"ipFamilies,omitempty"`
	// ServiceProxyName restricts the agent to Services with this value of the label service.kubernetes.io/service-proxy-name.
	// Default empty: it serves the Services without that label.
	ServiceProxyName string `json:"serviceProxyName,omitempty"`
	// Allocations says what IPAddress objects mean: prefer, enforce or ignore. Default prefer.
	Allocations string `json:"allocations"`
	// DropUnallocated drops new traffic to addresses inside of ServiceCIDRs that nobody has. Default true, but false together with
	// ServiceProxyName: the addresses are then the business of the other proxy too. Ask DropsUnallocated for the value in force.
	DropUnallocated *bool `json:"dropUnallocated,omitempty"`
	// AllowServiceExternalIPs serves spec.externalIPs. Default true.
	AllowServiceExternalIPs bool `json:"allowServiceExternalIPs"`
	// FollowNodes lets Services weigh endpoints by the cores and labels of their nodes. While a
	// Service asks for that, the agent follows all Nodes. Default false: a tenant could have each
	// node of a large cluster follow all others. Zones count anyway.
	FollowNodes bool `json:"followNodes,omitempty"`
	// NodePortAddresses restricts node ports to local addresses inside of these CIDRs; a family
	// without a CIDR is not restricted. The word primary stands for one address of each family: of
	// those of the Node object the first InternalIP, or without one the first ExternalIP. Default:
	// any local address.
	NodePortAddresses []string `json:"nodePortAddresses,omitempty"`
	// DetectLocal says how traffic of this node's pods is told from other traffic.
	DetectLocal DetectLocal `json:"detectLocal"`
	// Mode is iptables, nftables, ipvs, or auto: nftables where the kernel has it and no other
	// program has rules of iptables, unless an agent has served otherwise before. Default iptables.
	Mode string `json:"mode"`
	// MasqueradeAll gives all traffic to ClusterIPs the node's address. Default false.
	MasqueradeAll bool `json:"masqueradeAll"`
	// MasqueradeBit is the bit of the packet mark, from 0 to 31, that stands for "give it the
	// node's address". Default 14.
	MasqueradeBit int `json:"masqueradeBit"`
	// LocalhostNodePorts lets node ports answer on 127.0.0.0/8, where NodePortAddresses do not
	// exclude it; never in mode ipvs. Default true.
	LocalhostNodePorts bool `json:"localhostNodePorts"`
	// DropInvalid drops forwarded packets that belong to no connection, unless
	// Conntrack.TCPBeLiberal. Default true.
	DropInvalid bool `json:"dropInvalid"`
	// MinSyncPeriod is the pause between two writes of rules. Default 1s.
	MinSyncPeriod metav1.Duration `json:"minSyncPeriod"`
	// SyncPeriod is the time between two full comparisons of the rules with what they should be.
	// Default 30s.
	SyncPeriod metav1.Duration `json:"syncPeriod"`
	// ProbePeriod is the time between two cheap looks whether another program has changed the
	// rules. Default 500ms.
	ProbePeriod metav1.Duration `json:"probePeriod"`
	// IPTables is about mode iptables.
	IPTables IPTables `json:"iptables"`
	// IPVS is about mode ipvs.
	IPVS IPVS `json:"ipvs"`
	// Conntrack is about the kernel's settings of connection tracking.
	Conntrack Conntrack `json:"conntrack"`
	// SysctlRoot is the folder in which the kernel's settings are written. Default "/proc/sys", which in a container without
	// privileges is read-only: there the host's is mounted elsewhere.
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

// DetectLocal says how traffic of this node's pods is told from other traffic. Where it is not told, nothing counts as local.
type DetectLocal struct {
	// Mode is ClusterCIDR, NodeCIDR (the podCIDRs of the Node object), BridgeInterface, InterfaceNamePrefix or None. Default ClusterCIDR.
	Mode string `json:"mode"`
	// ClusterCIDRs are the networks of all pods in mode ClusterCIDR, at most one of a family. A family without one is not told.
	ClusterCIDRs []string `json:"clusterCIDRs,omitempty"`
	// BridgeInterface is the bridge of the pods in mode BridgeInterface.
	BridgeInterface string `json:"bridgeInterface,omitempty"`
	// InterfaceNamePrefix is the beginning of the names of the pods' interfaces in mode InterfaceNamePrefix.
	InterfaceNamePrefix string `json:"interfaceNamePrefix,omitempty"`
}

// IPTables is about mode iptables.
type IPTables struct {
	// Mode is nft, legacy, or auto: the variant that the kubelet and the network plugin use. Default auto.
	Mode string `json:"mode"`
}

// IPVS is about mode ipvs, in which the kernel's load balancer chooses endpoints, and nftables does the rest.
type IPVS struct {
	// Scheduler is that of Services that ask for none: rr, wrr, lc, wlc, lblc, lblcr, sh, dh, sed, nq or mh. Default rr.
	Scheduler string `json:"scheduler"`
	// ExcludeCIDRs are networks in which virtual servers of others are never taken away, whatever they look like.
	ExcludeCIDRs []string `json:"excludeCIDRs,omitempty"`
	// StrictARP keeps the node from answering ARP for virtual IPs (arp_ignore 1 and arp_announce 2 for all interfaces), as some load balancers need. Default false.
	StrictARP bool `json:"strictARP"`
	// TCPTimeout is how long IPVS remembers an idle TCP connection. Default 0s: the kernel's value is left.
	TCPTimeout metav1.Duration `json:"tcpTimeout"`
	// TCPFinTimeout is the same after a FIN. Default 0s.
	TCPFinTimeout metav1.Duration `json:"tcpFinTimeout"`
	// UDPTimeout is the same for UDP. Default 0s.
	UDPTimeout metav1.Duration `json:"udpTimeout"`
	// DrainTimeout is how long TCP connections to an endpoint that is no longer used may go on. Default 15m.
	DrainTimeout metav1.Duration `json:"drainTimeout"`
}

// Conntrack is about the kernel's settings of connection tracking. A zero leaves the kernel's value as it is.
type Conntrack struct {
	// MaxPerCore is the number of connections to track for each CPU; with 0 Min is ignored too. Default 32768.
	MaxPerCore int `json:"maxPerCore"`
	// Min is the number of connections to track at least. Default 131072.
	Min int `json:"min"`
	// TCPEstablishedTimeout is how long an idle connection is remembered. Default 24h.
	TCPEstablishedTimeout metav1.Duration `json:"tcpEstablishedTimeout"`
	// TCPCloseWaitTimeout is how long a connection that the server has closed is remembered. Default 1h.
	TCPCloseWaitTimeout metav1.Duration `json:"tcpCloseWaitTimeout"`
	// TCPBeLiberal does not take packets outside of the window for invalid. Default false: the kernel's value is left.
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
	// QPS is the mean rate of requests, a negative one means no bound; Burst what may go beyond it for a moment. Defaults 5 and 10.
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
