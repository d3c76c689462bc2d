package v1alpha1

import (
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
		TypeMeta:       metav1.TypeMeta{APIVersion: APIVersion, Kind: Kind},
		BandLabels:     BandLabels{Enabled: true, QPS: 50},
		NearlyFull:     NearlyFull{FreePercent: 10, Within: metav1.Duration{Duration: 24 * time.Hour}},
		LeaderElection: LeaderElection{Enabled: true},
		Webhook: Webhook{
			BindAddress: "0", Service: "clusterip-operator-webhook", Configuration: "clusterip-operator", NetworkOverlap: NetworkOverlapWarn,
		},
		Metrics: Metrics{BindAddress: ":8443", Secure: true},
		Health:  Health{BindAddress: ":8081"},
		Client:  Client{QPS: 500, Burst: 1000},
		Log:     Log{Format: "json"},
	}
}

// Load reads a file over the defaults. It does not validate values; Validate does, when the flags are in.
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

// Parse reads YAML or JSON over the defaults. Fields that do not exist, or stand twice, are refused, all of
// them in one error: a misspelt field would otherwise be a default that nobody chose.
func Parse(text []byte) (ManagerConfiguration, error) {
	c := Default()
	c.TypeMeta = metav1.TypeMeta{}
	body, err := yaml.YAMLToJSONStrict(text)
	if err != nil {
		return c, fmt.Errorf("not valid YAML: %w", err)
	}
	strict, err := kjson.UnmarshalStrict(body, &c)
	if err != nil {
		return c, fmt.Errorf("not a %s: %w", Kind, err)
	}
	if c.APIVersion != APIVersion || c.Kind != Kind {
		strict = append(strict, fmt.Errorf("apiVersion %q, kind %q: want %s, %s", c.APIVersion, c.Kind, APIVersion, Kind))
	}
	return c, errors.Join(strict...)
}
