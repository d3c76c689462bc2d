package v1alpha1

import (
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

const (
	// APIVersion of the configuration file.
	APIVersion = "config.clusterip-operator.io/v1alpha1"
	// Kind of the configuration file.
	Kind = "ManagerConfiguration"
)

// ManagerConfiguration is what `manager --config FILE` reads; begin with Default, not with zero.
type ManagerConfiguration struct {
	metav1.TypeMeta `json:",inline"`

	// ServiceClusterIPRange is the value of kube-apiserver's flag: one CIDR, or two of different
	// families. Kubernetes 1.31 and 1.32 need it: there the operator creates the default ServiceCIDR
	// from it. On later versions the operator reports a default ServiceCIDR that differs.
	ServiceClusterIPRange []string `json:"serviceClusterIPRange,omitempty"`
	// ServiceNodePortRange is the value of kube-apiserver's flag, which no API tells: of these node
	// ports metrics and the alert say how many are left. Default "30000-32767", as there.
	ServiceNodePortRange string `json:"serviceNodePortRange,omitempty"`
	// ReservedNetworks are networks that no Service range may overlap without being reported.
	ReservedNetworks []ReservedNetwork `json:"reservedNetworks,omitempty"`
	// BandLabels is about the label clusterip-operator.io/band on IPAddresses.
	BandLabels BandLabels `json:"bandLabels"`
	// NearlyFull says when a ServiceCIDR is reported as nearly full.
	NearlyFull NearlyFull `json:"nearlyFull"`
	// History keeps who had which address, and when, beyond the life of Services.
	History History `json:"history"`
	// Namespace is where the operator keeps its Lease and the Secret with its webhooks' certificate.
	// Default: the pod's namespace. Without webhooks and leader election nothing needs it.
	Namespace string `json:"namespace,omitempty"`
	// LeaderElection decides which of several replicas works.
	LeaderElection LeaderElection `json:"leaderElection"`
	// Webhook serves the admission webhooks, by which policies steer.
	Webhook Webhook `json:"webhook"`
	// Metrics is the endpoint that Prometheus reads.
	Metrics Metrics `json:"metrics"`
	// Health is the endpoint of the probes.
	Health Health `json:"health"`
	// Client bounds the requests to the API server.
	Client Client `json:"client"`
	// Log is about the log on standard error.
	Log Log `json:"log"`
}

// ReservedNetwork is a network in use by something else than Services.
type ReservedNetwork struct {
	// Name says whose network it is; it appears in conditions and events.
	Name string `json:"name"`
	// CIDR of the network.
	CIDR string `json:"cidr"`
}

// BandLabels is about the label clusterip-operator.io/band.
type BandLabels struct {
	// Enabled writes the label. Default true.
	Enabled bool `json:"enabled"`
	// QPS bounds the labels written in a second. Default 50.
	QPS float32 `json:"qps"`
}

// NearlyFull says when a band counts as nearly full: when one of the two is reached.
type NearlyFull struct {
	// FreePercent is the share of free addresses, from 0 (never) to 100. Default 10.
	FreePercent int `json:"freePercent"`
	// Within is the time in which the forecast says that the band will be full. Default 24h.
	Within metav1.Duration `json:"within"`
}

// History is that of addresses: which Services had each, and when. It takes the component history,
// which has the role for it.
type History struct {
	// Enabled keeps it, in up to 64 ConfigMaps in the operator's namespace of 128 KiB each at most;
	// the leader writes one of them a second at most. Default false.
	Enabled bool `json:"enabled"`
	// Owners is how many former owners of an address are kept at most, from 1 to 20. Default 5.
	Owners int `json:"owners"`
}

// LeaderElection decides which of several replicas works.
type LeaderElection struct {
	// Enabled waits for the Lease before the loops start. Default true.
	Enabled bool `json:"enabled"`
	// Namespace of the Lease. Default: the namespace above, or that of the pod.
	Namespace string `json:"namespace,omitempty"`
}

// Webhook serves the admission webhooks: each replica, whether it leads or not.
type Webhook struct {
	// BindAddress to serve https on, "0" for no webhooks. Default "0"; config/default has ":9443".
	BindAddress string `json:"bindAddress"`
	// DNSNames are further names in the certificate, beside SERVICE.NAMESPACE.svc.
	DNSNames []string `json:"dnsNames,omitempty"`
	// CertDir is a folder with tls.crt and tls.key, which another program such as cert-manager renews.
	// Default: the operator issues and renews a certificate itself, keeps it in the Secret
	// clusterip-operator-webhook, and enters its authority into the webhook configurations.
	CertDir string `json:"certDir,omitempty"`
	// Service is the Service by which the API server calls. Default "clusterip-operator-webhook".
	Service string `json:"service"`
	// Configuration is the name of the MutatingWebhookConfiguration and of the
	// ValidatingWebhookConfiguration. Default "clusterip-operator".
	Configuration string `json:"configuration"`
	// NetworkOverlap is what happens to a ServiceCIDR that overlaps the network of a node, of pods, or
	// a reserved one: Warn, Deny or Ignore. Default Warn.
	NetworkOverlap string `json:"networkOverlap"`
}

// Values of NetworkOverlap.
const (
	// NetworkOverlapWarn warns the client that creates the ServiceCIDR.
	NetworkOverlapWarn = "Warn"
	// NetworkOverlapDeny refuses the ServiceCIDR.
	NetworkOverlapDeny = "Deny"
	// NetworkOverlapIgnore says nothing at admission; the condition NetworkOverlap still tells it.
	NetworkOverlapIgnore = "Ignore"
)

// Metrics is the endpoint that Prometheus reads.
type Metrics struct {
	// BindAddress, "0" for none. Default ":8443".
	BindAddress string `json:"bindAddress"`
	// Secure serves https and asks the API server who may read. Default true.
	Secure bool `json:"secure"`
}

// Health is the endpoint of the probes: /healthz, and /readyz (manager) or /livez (node agent).
type Health struct {
	// BindAddress, "0" for none. Default ":8081", and "0.0.0.0:10256" of the node agent.
	BindAddress string `json:"bindAddress"`
}

// Client bounds the requests to the API server.
type Client struct {
	// QPS is the mean rate; Burst what may go beyond it for a moment. Defaults 500 and 1000.
	QPS   float32 `json:"qps"`
	Burst int     `json:"burst"`
}

// Log is about the log on standard error.
type Log struct {
	// Format is json or text. Default json.
	Format string `json:"format"`
	// Level is the verbosity: 0 what an admin wants to read, 4 what a developer does. Default 0.
	Level int `json:"level"`
}
