package main

import (
	"net/netip"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	config "github.com/clusterip-operator/clusterip-operator/api/config/v1alpha1"
	"github.com/clusterip-operator/clusterip-operator/controllers"
	"github.com/clusterip-operator/clusterip-operator/internal/nodeports"
)

func file(t *testing.T, text string) string {
	t.Helper()
	path := filepath.Join(t.TempDir(), "config.yaml")
	head := "apiVersion: " + config.APIVersion + "\nkind: " + config.Kind + "\n"
	if err := os.WriteFile(path, []byte(head+text), 0o600); err != nil {
		t.Fatal(err)
	}
	return path
}

func TestWithoutFlagsTheDefaults(t *testing.T) {
	c, err := parse("run", nil)
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(config.Default(), c.config); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
}

func TestFlagsOutweighTheFile(t *testing.T) {
	path := file(t, "log: {level: 2, format: text}\nreservedNetworks: [{name: a, cidr: 10.1.0.0/16}]\nserviceClusterIPRange: [10.0.0.0/16]\n")
	c, err := parse("run", []string{"--log-level=4", "--config", path, "--reserved-networks=b=10.2.0.0/16,c=fd02::/64"})
	if err != nil {
		t.Fatal(err)
	}
	if c.config.Log != (config.Log{Format: "text", Level: 4}) {
		t.Errorf("log is %+v, want the file's format and the flag's level", c.config.Log)
	}
	if diff := cmp.Diff([]config.ReservedNetwork{{Name: "b", CIDR: "10.2.0.0/16"}, {Name: "c", CIDR: "fd02::/64"}}, c.config.ReservedNetworks); diff != "" {
		t.Errorf("networks of the flag alone (-want +got):\n%s", diff)
	}
	if diff := cmp.Diff([]string{"10.0.0.0/16"}, c.config.ServiceClusterIPRange); diff != "" {
		t.Errorf("range of the file (-want +got):\n%s", diff)
	}
}

func TestBadCommandLines(t *testing.T) {
	for name, tc := range map[string]struct {
		args []string
		want string
	}{
		"unknown flag":       {[]string{"--frobnicate"}, "--frobnicate"},
		"a network unnamed":  {[]string{"--reserved-networks=10.0.0.0/8"}, "NAME=CIDR"},
		"a value that lies":  {[]string{"--log-format=xml", "--kube-api-qps=0"}, "log.format"},
		"dry run of running": {[]string{"--dry-run"}, "--dry-run"},
		"webhooks anywhere":  {[]string{"--webhook-bind-address=:0"}, "webhook.bindAddress"},
		"overlap as liked":   {[]string{"--webhook-network-overlap=Maybe"}, "webhook.networkOverlap"},
		"a file with a typo": {[]string{"--config", file(t, "logg: {}\n")}, "logg"},
	} {
		t.Run(name, func(t *testing.T) {
			if _, err := parse("run", tc.args); err == nil || !strings.Contains(err.Error(), tc.want) {
				t.Errorf("got %v, want …%s…", err, tc.want)
			}
		})
	}
}

func TestExitStatus(t *testing.T) {
	for status, args := range [][]string{0: {"--help"}, 2: {"frobnicate"}} {
		if got := run(args); args != nil && got != status {
			t.Errorf("%v ends with %d, want %d", args, got, status)
		}
	}
}

// What --help says is of the command that was asked, and is its output.
func TestHelpOfCleanup(t *testing.T) {
	text := printed(t, "cleanup", "--help")
	for _, want := range []string{"manager cleanup --dry-run ", "--force ", "--kubeconfig "} {
		if !strings.Contains(text, want) {
			t.Errorf("it lacks %q:\n%s", want, text)
		}
	}
	for _, other := range []string{"--band-labels", "--webhook", "manager version"} {
		if strings.Contains(text, other) {
			t.Errorf("it tells of %s", other)
		}
	}
	if text := printed(t, "--help"); !strings.Contains(text, "--band-labels ") || strings.Contains(text, "--dry-run ") && !strings.Contains(text, "cleanup") {
		t.Errorf("the manager says\n%s", text)
	}
	if _, err := parse("cleanup", []string{"--frobnicate"}); err == nil || !strings.Contains(err.Error(), "try `manager cleanup --help`") {
		t.Errorf("a wrong flag: %v", err)
	}
}

// printed is what a command line that ends well writes to its output.
func printed(t *testing.T, args ...string) string {
	t.Helper()
	out, err := os.Create(filepath.Join(t.TempDir(), "out"))
	if err != nil {
		t.Fatal(err)
	}
	before := os.Stdout
	os.Stdout = out
	status := run(args)
	os.Stdout = before
	text, err := os.ReadFile(out.Name())
	if err != nil || status != 0 || out.Close() != nil {
		t.Errorf("%v ends with %d, error %v", args, status, err)
	}
	return string(text)
}

func TestOptions(t *testing.T) {
	c := config.Default()
	c.ServiceClusterIPRange = []string{"10.0.0.0/16", "fd00::/112"}
	c.ServiceNodePortRange = "30000-30100"
	c.ReservedNetworks = []config.ReservedNetwork{{Name: "vpn", CIDR: "10.8.1.1/16"}}
	c.Namespace = "home"
	got := options(c)
	ports, err := nodeports.ParseRange("30000-30100")
	if err != nil {
		t.Fatal(err)
	}
	want := controllers.Options{
		ServiceClusterIPRange: []netip.Prefix{netip.MustParsePrefix("10.0.0.0/16"), netip.MustParsePrefix("fd00::/112")},
		ServiceNodePortRange:  ports,
		ReservedNetworks:      []controllers.ReservedNetwork{{Name: "vpn", Prefix: netip.MustParsePrefix("10.8.0.0/16")}},
		Namespace:             "home",
		BandLabels:            true, BandLabelQPS: 50, NearlyFullPercent: 10, NearlyFullWithin: c.NearlyFull.Within.Duration,
	}
	if diff := cmp.Diff(want, got, cmp.Comparer(func(a, b netip.Prefix) bool { return a == b }), cmp.Comparer(func(a, b nodeports.Range) bool { return a == b })); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
}

func TestOptionsOfTheWebhooks(t *testing.T) {
	c, err := parse("run", []string{"--webhook-bind-address=127.0.0.1:9443", "--webhook-dns-names=localhost,a.example", "--webhook-network-overlap=Deny"})
	if err != nil {
		t.Fatal(err)
	}
	want := controllers.Webhook{
		BindAddress: "127.0.0.1:9443", DNSNames: []string{"localhost", "a.example"}, NetworkOverlap: "Deny",
		Service: "clusterip-operator-webhook", Configuration: "clusterip-operator",
	}
	if diff := cmp.Diff(want, options(c.config).Webhook); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
	if options(config.Default()).Webhook.Enabled() {
		t.Error("webhooks are served though no flag asks for them")
	}
}

// Where neither webhooks nor the election ask for a namespace, it is the one of config/default.
func TestNamespaces(t *testing.T) {
	t.Setenv("POD_NAMESPACE", "")
	for name, tc := range map[string]struct {
		args             []string
		pod              string
		home, lease, err string
	}{
		"neither election nor webhooks": {args: []string{"--leader-elect=false"}, home: "clusterip-operator-system"},
		"an election nowhere":           {err: "--leader-election-namespace"},
		"webhooks nowhere":              {args: []string{"--leader-elect=false", "--webhook-bind-address=:1"}, err: "--webhook-bind-address=0"},
		"in a pod":                      {args: []string{"--webhook-bind-address=:1"}, pod: "there", home: "there", lease: "there"},
		"said otherwise":                {args: []string{"--namespace=here"}, pod: "there", home: "here", lease: "here"},
		"the Lease elsewhere": {
			args: []string{"--leader-election-namespace=away", "--webhook-bind-address=:1"}, pod: "there", home: "there", lease: "away",
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Setenv("POD_NAMESPACE", tc.pod)
			c, err := parse("run", tc.args)
			if err != nil {
				t.Fatal(err)
			}
			err = c.namespaces()
			if (tc.err == "") != (err == nil) || err != nil && !strings.Contains(err.Error(), tc.err) {
				t.Fatalf("got %v, want …%s…", err, tc.err)
			}
			if err == nil && (c.config.Namespace != tc.home || c.config.LeaderElection.Namespace != tc.lease) {
				t.Errorf("at home in %q, Lease in %q; want %q and %q", c.config.Namespace, c.config.LeaderElection.Namespace, tc.home, tc.lease)
			}
		})
	}
}
