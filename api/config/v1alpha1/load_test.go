package v1alpha1

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
)

const head = "apiVersion: config.clusterip-operator.io/v1alpha1\nkind: ManagerConfiguration\n"

func TestParseOverDefaults(t *testing.T) {
	got, err := Parse([]byte(head + "bandLabels: {qps: 7}\nnearlyFull: {within: 90m}\nreservedNetworks: [{name: vpn, cidr: 10.8.0.0/16}]\n"))
	if err != nil {
		t.Fatal(err)
	}
	want := Default()
	want.BandLabels.QPS = 7
	want.NearlyFull.Within.Duration = 90 * time.Minute
	want.ReservedNetworks = []ReservedNetwork{{Name: "vpn", CIDR: "10.8.0.0/16"}}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
}

func TestParseNamesEveryMistake(t *testing.T) {
	for name, tc := range map[string]struct {
		text string
		want []string
	}{
		"two unknown fields":  {head + "bandLabel: {}\nlog: {colour: red}\n", []string{"bandLabel", "log.colour"}},
		"a field twice":       {head + "log: {level: 1}\nlog: {level: 2}\n", []string{"log"}},
		"another kind":        {"apiVersion: v1\nkind: Pod\n", []string{`"v1"`, `"Pod"`, APIVersion, Kind}},
		"another version":     {strings.Replace(head, "v1alpha1", "v1", 1), []string{`"config.clusterip-operator.io/v1"`}},
		"empty":               {"", []string{APIVersion, Kind}},
		"not YAML":            {head + "log: [", []string{"YAML"}},
		"a text for a number": {head + "log: {level: high}\n", []string{"level", "ManagerConfiguration"}},
	} {
		t.Run(name, func(t *testing.T) {
			_, err := Parse([]byte(tc.text))
			_, agentErr := ParseProxyAgent([]byte(strings.Replace(tc.text, Kind, ProxyAgentKind, 1)))
			for _, want := range tc.want {
				if !strings.Contains(fmt.Sprint(err), want) {
					t.Errorf("%q does not name %q", err, want)
				}
				want = strings.Replace(want, Kind, ProxyAgentKind, 1)
				if !strings.Contains(fmt.Sprint(agentErr), want) {
					t.Errorf("of the node agent: %q does not name %q", agentErr, want)
				}
			}
		})
	}
}

func TestLoadNamesTheFile(t *testing.T) {
	missing := filepath.Join(t.TempDir(), "missing.yaml")
	if _, err := Load(missing); err == nil || !strings.Contains(err.Error(), missing) {
		t.Errorf("a missing file is %v", err)
	}
	wrong := filepath.Join(t.TempDir(), "wrong.yaml")
	if err := os.WriteFile(wrong, []byte("kind: x"), 0o600); err != nil {
		t.Fatal(err)
	}
	if _, err := Load(wrong); err == nil || !strings.Contains(err.Error(), wrong) {
		t.Errorf("a wrong file is %v", err)
	}
}

func TestDefaultsAreValid(t *testing.T) {
	c := Default()
	if err := c.Validate(); err != nil {
		t.Error(err)
	}
}

func TestValidateNamesEveryMistake(t *testing.T) {
	c := Default()
	c.ServiceClusterIPRange = []string{"10.0.0.1/16", "10.1.0.0/16", "fd00::/48"}
	c.ReservedNetworks = []ReservedNetwork{{CIDR: "ten"}}
	c.ServiceNodePortRange = "0-9"
	c.BandLabels.QPS = 0
	c.History.Owners = 21
	c.NearlyFull.FreePercent = 101
	c.NearlyFull.Within.Duration = -1
	c.Metrics.BindAddress, c.Health.BindAddress = "nowhere", "8081"
	c.Namespace = "Home"
	c.Webhook = Webhook{BindAddress: ":0", DNSNames: []string{"localhost", "*.a"}, Service: "", Configuration: "", NetworkOverlap: "deny"}
	c.Client.QPS, c.Client.Burst = 0, -1
	c.Log = Log{Format: "xml", Level: 11}
	err := c.Validate()
	if err == nil {
		t.Fatal("taken")
	}
	for _, want := range []string{
		"serviceClusterIPRange[0]", "10.0.0.0/16 is meant", "serviceClusterIPRange[2]", "serviceClusterIPRange: Too many", "serviceNodePortRange",
		"reservedNetworks[0].name", "reservedNetworks[0].cidr", "bandLabels.qps", "history.owners", "nearlyFull.freePercent", "nearlyFull.within",
		"namespace", "webhook.bindAddress", "webhook.dnsNames[1]", "webhook.service", "webhook.configuration", "webhook.networkOverlap",
		"metrics.bindAddress", "health.bindAddress", "client.qps", "client.burst", "log.format", "log.level",
	} {
		if !strings.Contains(err.Error(), want) {
			t.Errorf("%q is not named in: %v", want, err)
		}
	}
}

func TestValidateRange(t *testing.T) {
	for cidrs, want := range map[string]string{
		"10.0.0.0/16": "", "10.0.0.0/16,fd00::/112": "", "fd00::/64,10.0.0.0/12": "",
		"10.0.0.0/16,10.1.0.0/16": "different families",
		"fd00::/63":               "/64 or smaller",
		"10.0.0.0":                "must be a CIDR",
	} {
		c := Default()
		c.ServiceClusterIPRange = strings.Split(cidrs, ",")
		err := c.Validate()
		if want == "" && err != nil {
			t.Errorf("%s: %v", cidrs, err)
		}
		if want != "" && (err == nil || !strings.Contains(err.Error(), want)) {
			t.Errorf("%s: %v, want …%s…", cidrs, err, want)
		}
	}
}
