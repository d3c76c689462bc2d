package config

import (
	"errors"
	"fmt"
	"os"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	kubeproxy "k8s.io/kube-proxy/config/v1alpha1"
	"sigs.k8s.io/yaml"

	"github.com/clusterip-operator/clusterip-operator/api/config/v1alpha1"
)

// kubeProxyKind is the kind of kube-proxy's configuration file.
const kubeProxyKind = "KubeProxyConfiguration"

// Default returns the configuration of an agent without file and flags.
func Default() v1alpha1.ProxyAgentConfiguration { return v1alpha1.DefaultProxyAgent() }

// Validate returns every mistake in the values at once, each with the path of its field. Call it after the flags are in.
func Validate(c v1alpha1.ProxyAgentConfiguration) error { return c.Validate() }

// Load reads a file over the defaults: one of our own kind, or kube-proxy's, whose fields without meaning here are named in the
// warnings. The configuration is valid unless there is an error, which names every mistake in the file.
func Load(path string) (v1alpha1.ProxyAgentConfiguration, []string, error) {
	text, err := os.ReadFile(path)
	if err != nil {
		return v1alpha1.ProxyAgentConfiguration{}, nil, fmt.Errorf("reading the configuration file: %w", err)
	}
	c, warnings, err := Parse(text)
	if err != nil {
		return v1alpha1.ProxyAgentConfiguration{}, warnings, fmt.Errorf("configuration file %s: %w", path, err)
	}
	return c, warnings, nil
}

// Parse is Load for a text that has been read.
func Parse(text []byte) (v1alpha1.ProxyAgentConfiguration, []string, error) {
	head, err := typeOf(text)
	if err != nil {
		return v1alpha1.ProxyAgentConfiguration{}, nil, err
	}
	switch head {
	case metav1.TypeMeta{APIVersion: v1alpha1.APIVersion, Kind: v1alpha1.ProxyAgentKind}:
		c, err := parseOwn(text)
		return c, nil, err
	case metav1.TypeMeta{APIVersion: kubeproxy.SchemeGroupVersion.String(), Kind: kubeProxyKind}:
		return parseKubeProxy(text)
	default:
		return v1alpha1.ProxyAgentConfiguration{}, nil, wrongType(head)
	}
}

// parseOwn names mistakes in the fields and in their values together.
func parseOwn(text []byte) (v1alpha1.ProxyAgentConfiguration, error) {
	c, err := v1alpha1.ParseProxyAgent(text)
	return c, errors.Join(err, c.Validate())
}

// typeOf reads what a file says that it is, and refuses more than one document: all but the first would be ignored.
func typeOf(text []byte) (metav1.TypeMeta, error) {
	var head metav1.TypeMeta
	if n := documents(text); n > 1 {
		return head, fmt.Errorf("%d documents in one file: only one can be meant, put it into a file of its own", n)
	}
	if err := yaml.Unmarshal(text, &head); err != nil {
		return head, fmt.Errorf("not valid YAML: %w", err)
	}
	return head, nil
}

func wrongType(head metav1.TypeMeta) error {
	hint := ""
	if head.Kind == "ConfigMap" {
		hint = "; this is a ConfigMap, the configuration is the text below one of its keys (config.conf in kubeadm's)"
	}
	return fmt.Errorf("apiVersion %q, kind %q: want %s, %s, or kube-proxy's %s, %s%s", head.APIVersion, head.Kind,
		v1alpha1.APIVersion, v1alpha1.ProxyAgentKind, kubeproxy.SchemeGroupVersion, kubeProxyKind, hint)
}
