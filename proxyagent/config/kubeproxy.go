package config

import (
	"errors"
	"fmt"
	"strings"

	"k8s.io/apimachinery/pkg/util/validation/field"
	kubeproxy "k8s.io/kube-proxy/config/v1alpha1"
	kjson "sigs.k8s.io/json"
	"sigs.k8s.io/yaml"

	"github.com/clusterip-operator/clusterip-operator/api/config/v1alpha1"
)

// parseKubeProxy reads kube-proxy's kind. Fields that do not exist, or stand twice, are warnings, because kube-proxy takes such files.
func parseKubeProxy(text []byte) (v1alpha1.ProxyAgentConfiguration, []string, error) {
	in, warnings, err := decodeKubeProxy(text)
	if err != nil {
		return v1alpha1.ProxyAgentConfiguration{}, nil, err
	}
	c, errs := convert(in)
	warnings = append(warnings, idle(in)...)
	errs = append(errs, inWordsOfKubeProxy(c.Validate(), in)...)
	return c, warnings, errs.ToAggregate()
}

func decodeKubeProxy(text []byte) (kubeproxy.KubeProxyConfiguration, []string, error) {
	var in kubeproxy.KubeProxyConfiguration
	var warnings []string
	body, err := yaml.YAMLToJSONStrict(text)
	if err != nil {
		warnings = append(warnings, oneLine(err)+": the last one counts")
		if body, err = yaml.YAMLToJSON(text); err != nil {
			return in, nil, fmt.Errorf("not valid YAML: %w", err)
		}
	}
	strict, err := kjson.UnmarshalStrict(body, &in)
	if err != nil {
		return in, nil, fmt.Errorf("not a %s: %w", kubeProxyKind, err)
	}
	for _, err := range strict {
		warnings = append(warnings, fmt.Sprintf("%v: ignored", err))
	}
	return in, warnings, nil
}

// oneLine shortens the complaint of the YAML reader about keys that stand twice.
func oneLine(err error) string {
	return strings.Join(strings.Fields(strings.TrimPrefix(err.Error(), "yaml: unmarshal errors:")), " ")
}

// renamed are the fields whose name differs, ours first.
var renamed = []struct{ ours, theirs string }{
	{"nodeName", "hostnameOverride"},
	{"detectLocal.clusterCIDRs", "clusterCIDR"},
	{"detectLocal.mode", "detectLocalMode"},
	{"client.", "clientConnection."},
	{"health.bindAddress", "healthzBindAddress"},
	{"metrics.bindAddress", "metricsBindAddress"},
	{"log.format", "logging.format"},
	{"log.level", "logging.verbosity"},
}

// inWordsOfKubeProxy names the fields of mistakes as the file does.
func inWordsOfKubeProxy(err error, in kubeproxy.KubeProxyConfiguration) field.ErrorList {
	var aggregate interface{ Errors() []error }
	if !errors.As(err, &aggregate) {
		return nil
	}
	var errs field.ErrorList
	for _, err := range aggregate.Errors() {
		if mistake, ok := errors.AsType[*field.Error](err); ok {
			theirs := *mistake
			theirs.Field = theirName(theirs.Field, in)
			errs = append(errs, &theirs)
		}
	}
	return errs
}

func theirName(ours string, in kubeproxy.KubeProxyConfiguration) string {
	for _, r := range renamed {
		if rest, found := strings.CutPrefix(ours, r.ours); found {
			return r.theirs + rest
		}
	}
	if name, found := strings.CutPrefix(ours, "iptables."); found && fromSection(in.Mode, name) {
		return string(in.Mode) + "." + name
	}
	return ours
}
