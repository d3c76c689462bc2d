package v1alpha1

import (
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	kjson "sigs.k8s.io/json"
	"sigs.k8s.io/yaml"
)

// Default returns the configuration of a manager without file and flags.
func Default() ManagerConfiguration {
	return ManagerConfiguration{
		TypeMeta:             metav1.TypeMeta{APIVersion: APIVersion, Kind: Kind},
		BandLabels:           BandLabels{Enabled: true, QPS: 50},
		ServiceNodePortRange: "30000-32767",
		NearlyFull:           NearlyFull{FreePercent: 10, Within: metav1.Duration{Duration: 24 * time.Hour}},
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
	return decode(body, into, is, kind)
}

func decode(body []byte, into any, is *metav1.TypeMeta, kind string) error {
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

// ParseProxyAgent reads one document as [Parse] does. It also takes what the version before wrote
// in other places, which the warnings name. It does not validate values; Validate does, once the
// flags are in. Beside an error it returns what it could read.
func ParseProxyAgent(text []byte) (ProxyAgentConfiguration, []string, error) {
	c := DefaultProxyAgent()
	body, err := yaml.YAMLToJSONStrict(text)
	if err != nil {
		return c, nil, fmt.Errorf("not valid YAML: %w", err)
	}
	body, warnings, err := hoist(body)
	return c, warnings, errors.Join(err, decode(body, &c, &c.TypeMeta, ProxyAgentKind))
}

// formerlyIPTables are the settings that the version before reads in the section iptables.
var formerlyIPTables = []string{"masqueradeAll", "masqueradeBit", "localhostNodePorts", "dropInvalid", "minSyncPeriod", "syncPeriod", "probePeriod"}

// hoist takes them out of the section. What is not an object is left for decode to complain of.
func hoist(body []byte) (hoisted []byte, warnings []string, err error) {
	var file, section map[string]json.RawMessage
	if json.Unmarshal(body, &file) != nil || file["iptables"] == nil || json.Unmarshal(file["iptables"], &section) != nil {
		return body, nil, nil
	}
	for _, name := range formerlyIPTables {
		value, old := section[name]
		if !old {
			continue
		}
		if _, both := file[name]; both {
			err = errors.Join(err, fmt.Errorf("%[1]s and iptables.%[1]s: remove the latter, whose place is the former by now", name))
		}
		warnings = append(warnings, fmt.Sprintf("iptables.%[1]s: write it as %[1]s, outside of the section iptables; the next version no longer reads it there", name))
		file[name] = value
		delete(section, name)
	}
	if len(warnings) == 0 {
		return body, nil, nil
	}
	inner, problem := json.Marshal(section)
	file["iptables"] = inner
	hoisted, again := json.Marshal(file)
	return hoisted, warnings, errors.Join(err, problem, again)
}
