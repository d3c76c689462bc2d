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

// ManagerConfiguration is what `manager --config FILE` reads. Its zero value is not usable; begin with Default.
type ManagerConfiguration struct {
	metav1.TypeMeta `json:",inline"`

	// ServiceClusterIPRange is the value of kube-apiserver's flag: one CIDR, or two of different families.
	// It is needed on Kubernetes 1.31 and 1.32, where the operator creates the default ServiceCIDR from it;
	// on later ones the operator then reports a default ServiceCIDR that differs.
	ServiceClusterIPRange []string `json:"serviceClusterIPRange,omitempty"`
	// ReservedNetworks are networks that no Service range may overlap without being reported.
	ReservedNetworks []ReservedNetwork `json:"reservedNetworks,omitempty"`
	// BandLabels is about the label clusterip-operator.io/band on IPAddresses.
	BandLabels BandLabels `json:"bandLabels"`
	// NearlyFull says when a ServiceCIDR is reported as nearly full.
	NearlyFull NearlyFull `json:"nearlyFull"`
	// LeaderElection decides which of several replicas works.
	LeaderElection LeaderElection `json:"leaderElection"`
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
	// Name says whose it is; it appears in conditions and events.
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

// LeaderElection decides which of several replicas works.
type LeaderElection struct {
	// Enabled waits for the Lease before the loops start. Default true.
	Enabled bool `json:"enabled"`
	// Namespace of the Lease. Default: the namespace of the pod.
	Namespace string `json:"namespace,omitempty"`
}

// Metrics is the endpoint that Prometheus reads.
type Metrics struct {
	// BindAddress, "0" for none. Default ":8443".
	BindAddress string `json:"bindAddress"`
	// Secure serves https and asks the API server who may read. Default true.
	Secure bool `json:"secure"`
}

// Health is the endpoint of the probes /healthz and /readyz.
type Health struct {
	// BindAddress, "0" for none. Default ":8081".
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
