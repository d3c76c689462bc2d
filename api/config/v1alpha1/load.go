package v1alpha1

import (
	"errors"
	"fmt"
	"os"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	kjson "sigs.k8s.io/json"
	"sigs.k8s.io/yaml"

	api "github.com/clusterip-operator/clusterip-operator/api/v1alpha1"
)

// Default returns the configuration of a manager without file and flags.
func Default() ManagerConfiguration {
	return ManagerConfiguration{
		TypeMeta:             metav1.TypeMeta{APIVersion: APIVersion, Kind: Kind},
		BandLabels:           BandLabels{Enabled: true, QPS: 50},
		ServiceNodePortRange: api.DefaultNodePortRange,
		History:              History{Owners: 5},
		NearlyFull:           NearlyFull{FreePercent: api.DefaultNearlyFullPercent, Within: metav1.Duration{Duration: 24 * time.Hour}},
		LeaderElection:       LeaderElection{Enabled: true},
		Webhook: Webhook{
			BindAddress: "0", Service: "clusterip-operator-webhook", Configuration: "clusterip-operator", NetworkOverlap: NetworkOverlapWarn,
		},
		Metrics: Metrics{BindAddress: ":8443", Secure: true},
		Health:  Health{BindAddress: ":8081"},
		Client:  Client{QPS: 500, Burst: 1000},
		Log:     Log{Format: "json"},
	}
}

// Load reads a file over the defaults. It validates no values: Validate does, once flags are in.
func Load(path string) (ManagerConfiguration, error) {
	text, err := os.ReadFile(path)
	if err != nil {
		return ManagerConfiguration{}, fmt.Errorf("reading the configuration file: %w", err)
	}
	c, err := Parse(text)
	if err != nil {
		return ManagerConfiguration{}, fmt.Errorf("configuration file %s: %w", path, err)
	}
	return c, nil
}

// Parse reads YAML or JSON over the defaults. Unknown and duplicate fields are refused, all in one
// error: a misspelt field would otherwise be a default that no admin chose.
func Parse(text []byte) (ManagerConfiguration, error) {
	c := Default()
	err := parse(text, &c, &c.TypeMeta, Kind)
	return c, err
}

func parse(text []byte, into any, is *metav1.TypeMeta, kind string) error {
	body, err := yaml.YAMLToJSONStrict(text)
	if err != nil {
		return fmt.Errorf("not valid YAML: %w", err)
	}
	*is = metav1.TypeMeta{}
	strict, err := kjson.UnmarshalStrict(body, into)
	if err != nil {
		return fmt.Errorf("not a %s: %w", kind, err)
	}
	if is.APIVersion != APIVersion || is.Kind != kind {
		strict = append(strict, fmt.Errorf("apiVersion %q, kind %q: want %s, %s", is.APIVersion, is.Kind, APIVersion, kind))
	}
	return errors.Join(strict...)
}

// DefaultProxyAgent returns the node agent's defaults: kube-proxy's for settings that it has too.
func DefaultProxyAgent() ProxyAgentConfiguration {
	return ProxyAgentConfiguration{
		TypeMeta:                metav1.TypeMeta{APIVersion: APIVersion, Kind: ProxyAgentKind},
		Mode:                    "iptables",
		Allocations:             "prefer",
		AllowServiceExternalIPs: true,
		DetectLocal:             DetectLocal{Mode: DetectClusterCIDR},
		MasqueradeBit:           14,
		LocalhostNodePorts:      true,
		DropInvalid:             true,
		MinSyncPeriod:           metav1.Duration{Duration: time.Second},
		SyncPeriod:              metav1.Duration{Duration: 30 * time.Second},
		ProbePeriod:             metav1.Duration{Duration: 500 * time.Millisecond},
		IPTables:                IPTables{Mode: "auto"},
		IPVS:                    IPVS{Scheduler: "rr", DrainTimeout: metav1.Duration{Duration: 15 * time.Minute}},
		Conntrack: Conntrack{
			MaxPerCore: 32 * 1024, Min: 128 * 1024,
			TCPEstablishedTimeout: metav1.Duration{Duration: 24 * time.Hour},
			TCPCloseWaitTimeout:   metav1.Duration{Duration: time.Hour},
		},
		SocketLB:   SocketLB{Scope: "off", CgroupRoot: "/sys/fs/cgroup"},
		SysctlRoot: "/proc/sys",
		Client:     ProxyAgentClient{QPS: 5, Burst: 10},
		Health:     Health{BindAddress: "0.0.0.0:10256"},
		Metrics:    ProxyAgentMetrics{BindAddress: "127.0.0.1:10249"},
		Log:        Log{Format: "json"},
	}
}

// ParseProxyAgent reads one document as [Parse] does. It does not validate values; Validate does,
// once the flags are in. Beside an error it returns what it could read.
func ParseProxyAgent(text []byte) (ProxyAgentConfiguration, error) {
	c := DefaultProxyAgent()
	err := parse(text, &c, &c.TypeMeta, ProxyAgentKind)
	return c, err
}
