package config

import (
	"encoding/json"
	"fmt"
	"maps"
	"slices"
	"strings"

	kubeproxy "k8s.io/kube-proxy/config/v1alpha1"
)

// meaningless are the fields of kube-proxy's file that mean nothing to this agent, with what an
// admin should know instead. A path stands for all below it; the first row that fits counts.
var meaningless = []struct{ path, why string }{
	{"featureGates." + externalIPsGate, ""},
	{"featureGates." + localhostGate, ""},
	{"featureGates", "the gates of kube-proxy do not exist here"},
	{"clientConnection.acceptContentTypes", "the agent always speaks protobuf"},
	{"clientConnection.contentType", "the agent always speaks protobuf"},
	{"logging.flushFrequency", "the log is not buffered"},
	{"logging.vmodule", "there is one verbosity for all"},
	{"logging.options", "the log goes to standard error, not buffered"},
	{"bindAddressHardFail", "the agent goes on and tries again when a port is taken"},
	{"showHiddenMetricsForVersion", "no metric is hidden"},
	{"ipvs", "it is read where the file or --mode says ipvs"},
	{"nftables", "it is read where the file or --mode says nftables"},
	{"winkernel", "the agent runs on Linux"},
	{"oomScoreAdj", "the kubelet sets it by the priority class of the pod"},
	{"configSyncPeriod", "the agent relies on watches, and looks at the kernel every syncPeriod"},
	{"portRange", "kube-proxy does not use it either"},
	{"windowsRunAsService", "the agent runs on Linux"},
}

const protobuf = `"application/vnd.kubernetes.protobuf"`

// silent are the values, as JSON, that mean no value. null always does; zero does in other fields.
var silent = map[string][]string{
	"clientConnection.acceptContentTypes": {`""`, protobuf, `"application/vnd.kubernetes.protobuf,application/json"`},
	"clientConnection.contentType":        {`""`, protobuf},
	"logging.flushFrequency":              {`0`, `"0s"`, `5000000000`, `"5s"`},
	"logging.options.json.infoBufferSize": {`"0"`},
	"logging.options.text.infoBufferSize": {`"0"`},
	"oomScoreAdj":                         {`-999`},
	"configSyncPeriod":                    {`"0s"`, `"15m0s"`},
	"iptables.localhostNodePorts":         {`true`},
	"iptables.masqueradeBit":              {`14`},
	"iptables.syncPeriod":                 {`"0s"`, `"30s"`},
	"iptables.minSyncPeriod":              {`"0s"`, `"1s"`},
	"ipvs.syncPeriod":                     {`"0s"`, `"30s"`},
	"nftables.masqueradeBit":              {`14`},
	"nftables.syncPeriod":                 {`"0s"`, `"30s"`},
	"nftables.minSyncPeriod":              {`"0s"`, `"1s"`},
}

var zeros = []string{`""`, `"0s"`, `0`, `false`, `[]`, `{}`}

// idle names each field that is not set to its default and has no effect here, sorted by path.
func idle(in kubeproxy.KubeProxyConfiguration, mode kubeproxy.ProxyMode) []string {
	set := leaves(in)
	warnings := modeWarnings(in)
	for _, path := range slices.Sorted(maps.Keys(set)) {
		why := whyIdle(path, in.Mode, mode)
		if why != "" && !isSilent(path, set[path]) {
			warnings = append(warnings, fmt.Sprintf("%s: %s has no effect: %s", path, set[path], why))
		}
	}
	return warnings
}

// modeWarnings are about fields whose effect is not quite that of kube-proxy.
func modeWarnings(in kubeproxy.KubeProxyConfiguration) (warnings []string) {
	if !slices.Contains([]string{"", "0.0.0.0", "::"}, in.BindAddress) {
		warnings = append(warnings, fmt.Sprintf("bindAddress: %q only decides the family of healthzBindAddress and metricsBindAddress; "+
			"the node's addresses are those of its Node object", in.BindAddress))
	}
	if in.FeatureGates[localhostGate] {
		warnings = append(warnings, "featureGates."+localhostGate+": true means localhostNodePorts where nodePortAddresses names localhost: 127.0.0.0/8 with UDP and SCTP, and not ::1")
	}
	if in.Logging.Verbosity > 10 {
		warnings = append(warnings, fmt.Sprintf("logging.verbosity: %d is taken for 10, the highest", in.Logging.Verbosity))
	}
	return warnings
}

// whyIdle returns why the field has no effect in a file of its own mode where a mode is in force,
// or nothing when it has one.
func whyIdle(path string, own, mode kubeproxy.ProxyMode) string {
	section, name, _ := strings.Cut(path, ".")
	switch {
	case section == string(mode) && (mode == modeIPVS || fromSection(mode, name)), section == string(own) && fromSection(own, name):
		return ""
	case section == modeIPTables && (fromSection(own, name) && mode != modeIPTables || name == "localhostNodePorts" && own != "" && own != modeIPTables):
		return fmt.Sprintf("kube-proxy does not read it in mode %s", own)
	}
	for _, row := range meaningless {
		if path == row.path || strings.HasPrefix(path, row.path+".") {
			return row.why
		}
	}
	return ""
}

// isSilent reports whether a value means the same as none. A feature gate's default may be either.
func isSilent(path, value string) bool {
	defaults, known := silent[path]
	if !known && !strings.HasPrefix(path, "featureGates.") {
		defaults = zeros
	}
	return value == "null" || slices.Contains(defaults, value)
}

// leaves returns each value that is no object, as JSON, by its path.
func leaves(in kubeproxy.KubeProxyConfiguration) map[string]string {
	set := map[string]string{}
	text, err := json.Marshal(in)
	if err != nil {
		return set // what was read from JSON can be written as JSON
	}
	collect("", text, set)
	return set
}

func collect(path string, text json.RawMessage, set map[string]string) {
	var fields map[string]json.RawMessage
	if json.Unmarshal(text, &fields) != nil || fields == nil {
		set[path] = string(text)
		return
	}
	for name, value := range fields {
		if path != "" {
			name = path + "." + name
		}
		collect(name, value, set)
	}
}
