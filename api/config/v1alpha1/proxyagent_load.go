package v1alpha1

import (
	"errors"
	"fmt"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	kjson "sigs.k8s.io/json"
	"sigs.k8s.io/yaml"
)

// DefaultProxyAgent returns the configuration of a node agent without file and flags. What kube-proxy has too has kube-proxy's default.
func DefaultProxyAgent() ProxyAgentConfiguration {
	return ProxyAgentConfiguration{
		TypeMeta:                metav1.TypeMeta{APIVersion: APIVersion, Kind: ProxyAgentKind},
		Allocations:             "prefer",
		AllowServiceExternalIPs: true,
		DetectLocal:             DetectLocal{Mode: DetectClusterCIDR},
		IPTables: IPTables{
			Mode: "auto", MasqueradeBit: 14, LocalhostNodePorts: true, DropInvalid: true,
			MinSyncPeriod: metav1.Duration{Duration: time.Second},
			SyncPeriod:    metav1.Duration{Duration: 30 * time.Second},
			ProbePeriod:   metav1.Duration{Duration: time.Second},
		},
		Conntrack: Conntrack{
			MaxPerCore: 32 * 1024, Min: 128 * 1024,
			TCPEstablishedTimeout: metav1.Duration{Duration: 24 * time.Hour},
			TCPCloseWaitTimeout:   metav1.Duration{Duration: time.Hour},
		},
		SysctlRoot: "/proc/sys",
		Client:     ProxyAgentClient{QPS: 5, Burst: 10},
		Health:     ProxyAgentHealth{BindAddress: "0.0.0.0:10256"},
		Metrics:    ProxyAgentMetrics{BindAddress: "127.0.0.1:10249"},
		Log:        Log{Format: "json"},
	}
}

// ParseProxyAgent reads one document of YAML or JSON over the defaults. Fields that do not exist, or stand twice, are refused, all of
// them in one error. It does not validate values; Validate does, when the flags are in. Beside an error it returns what it could read.
func ParseProxyAgent(text []byte) (ProxyAgentConfiguration, error) {
	c := DefaultProxyAgent()
	c.TypeMeta = metav1.TypeMeta{}
	body, err := yaml.YAMLToJSONStrict(text)
	if err != nil {
		return c, fmt.Errorf("not valid YAML: %w", err)
	}
	strict, err := kjson.UnmarshalStrict(body, &c)
	if err != nil {
		return c, fmt.Errorf("not a %s: %w", ProxyAgentKind, err)
	}
	if c.APIVersion != APIVersion || c.Kind != ProxyAgentKind {
		strict = append(strict, fmt.Errorf("apiVersion %q, kind %q: want %s, %s", c.APIVersion, c.Kind, APIVersion, ProxyAgentKind))
	}
	return c, errors.Join(strict...)
}
