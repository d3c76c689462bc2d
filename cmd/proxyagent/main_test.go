//go:build linux

package main

import (
	"context"
	"io"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/go-logr/logr"
	"github.com/go-logr/logr/funcr"
	"github.com/google/go-cmp/cmp"
	"github.com/spf13/pflag"

	v1alpha1 "github.com/clusterip-operator/clusterip-operator/api/config/v1alpha1"
	"github.com/clusterip-operator/clusterip-operator/internal/program"
	"github.com/clusterip-operator/clusterip-operator/internal/version"
	"github.com/clusterip-operator/clusterip-operator/proxyagent/iptables"
)

// execute runs a command line in this process, and returns its exit code and what it printed.
func execute(t *testing.T, args ...string) (code int, stdout, stderr string) {
	t.Helper()
	ends := [2]*os.File{os.Stdout, os.Stderr}
	defer func() { os.Stdout, os.Stderr = ends[0], ends[1] }()
	var out, problems func() string
	os.Stdout, out = collect(t)
	os.Stderr, problems = collect(t)
	code = program.Run(newRoot(), args)
	return code, out(), problems()
}

// collect returns a file, and what was written into it.
func collect(t *testing.T) (*os.File, func() string) {
	t.Helper()
	file, err := os.Create(filepath.Join(t.TempDir(), "output"))
	if err != nil {
		t.Fatal(err)
	}
	return file, func() string {
		defer func() { _ = file.Close() }()
		text, err := os.ReadFile(file.Name())
		if err != nil {
			t.Fatal(err)
		}
		return string(text)
	}
}

func write(t *testing.T, text string) string {
	t.Helper()
	path := filepath.Join(t.TempDir(), "config.yaml")
	if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	return path
}

// TestMistakesOnTheCommandLine end with 1 and a message, and print nothing like an answer.
func TestMistakesOnTheCommandLine(t *testing.T) {
	for name, tc := range map[string]struct {
		args []string
		want string
	}{
		"an unknown flag":            {[]string{"--proxy-mode", "iptables"}, "unknown flag: --proxy-mode"},
		"an unknown subcommand":      {[]string{"clean"}, `unknown command "clean"`},
		"no number":                  {[]string{"-v", "much"}, `invalid argument "much"`},
		"no duration":                {[]string{"--min-sync-period", "7"}, `invalid argument "7"`},
		"an unknown mode":            {[]string{"--iptables-mode", "ipvs"}, "iptables.mode"},
		"a wrong network":            {[]string{"--cluster-cidr", "10.0.0.1"}, "10.0.0.1"},
		"two mistakes":               {[]string{"--allocations", "maybe", "--iptables-mode", "ipvs"}, "allocations"},
		"no file":                    {[]string{"--config", "/nonexistent/agent.yaml"}, "/nonexistent/agent.yaml"},
		"no kubeconfig":              {[]string{"--kubeconfig", "/nonexistent/kubeconfig"}, "/nonexistent/kubeconfig"},
		"neither kubeconfig nor pod": {nil, "set --kubeconfig outside of a pod"},
		"clean up a wrong mode":      {[]string{"cleanup", "--iptables-mode", "ipvs"}, `--iptables-mode "ipvs": it has to be auto, nft or legacy`},
		"dump two things":            {[]string{"dump", "a/b", "c/d"}, "accepts at most 1 arg"},
		"dump without a listener":    {[]string{"dump", "--address", "127.0.0.1:1"}, "no agent answers at 127.0.0.1:1 (see --address)"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Setenv("NODE_NAME", "here")
			t.Setenv("KUBERNETES_SERVICE_HOST", "")
			t.Setenv("KUBERNETES_SERVICE_PORT", "")
			code, stdout, stderr := execute(t, tc.args...)
			if code != 1 || stdout != "" {
				t.Errorf("exit code %d, printed %q", code, stdout)
			}
			if !strings.Contains(stderr, tc.want) || strings.Count(stderr, "error:") != 1 || !strings.HasSuffix(stderr, "\n") {
				t.Errorf("stderr is %q, want one error with %q", stderr, tc.want)
			}
			if strings.Contains(stderr, "Usage:") {
				t.Errorf("the message hides in the usage:\n%s", stderr)
			}
		})
	}
}

// TestHelpMentions what people look for.
func TestHelpMentions(t *testing.T) {
	for command, words := range map[string][]string{
		"": {
			"--config", "--sysctl-root", "-v, --verbosity", "prefer, enforce or ignore", "auto, nft or legacy", "127.0.0.1:10249", "0.0.0.0:10256",
			"(default 1s)", "$NODE_NAME", "Flags win over the file", "KubeProxyConfiguration", "cleanup", "dump", "version",
		},
		"cleanup": {"--dry-run", "--kube-proxy", "--iptables-mode", "Nothing of others is touched"},
		"dump":    {"NAMESPACE/NAME | ADDRESS", "--address", "127.0.0.1:10249"},
	} {
		code, stdout, stderr := execute(t, append(strings.Fields(command), "--help")...)
		if code != 0 || stderr != "" || strings.Contains(stdout, "completion") {
			t.Errorf("%q: exit code %d, stderr %q:\n%s", command, code, stderr, stdout)
		}
		for _, w := range words {
			if !strings.Contains(stdout, w) {
				t.Errorf("%q does not mention %q:\n%s", command, w, stdout)
			}
		}
	}
}

func TestVersion(t *testing.T) {
	if code, stdout, _ := execute(t, "version"); code != 0 || stdout != version.String()+"\n" {
		t.Errorf("exit code %d, printed %q", code, stdout)
	}
}

const fileOfAll = `apiVersion: config.clusterip-operator.io/v1alpha1
kind: ProxyAgentConfiguration
nodeName: of-the-file
allocations: enforce
iptables: {mode: legacy}
minSyncPeriod: 3s
detectLocal: {mode: NodeCIDR}
log: {level: 2}
`

// TestFlagsWinOverTheFile where they are given, and only there.
func TestFlagsWinOverTheFile(t *testing.T) {
	for name, tc := range map[string]struct {
		args []string
		want func(c *v1alpha1.ProxyAgentConfiguration)
	}{
		"none": {nil, func(*v1alpha1.ProxyAgentConfiguration) {}},
		"some": {[]string{"--allocations", "ignore", "-v", "4"}, func(c *v1alpha1.ProxyAgentConfiguration) {
			c.Allocations, c.Log.Level = "ignore", 4
		}},
		"with what is the default": {[]string{"--allocations=prefer", "--iptables-mode=auto", "--min-sync-period=1s", "--verbosity=0"},
			func(c *v1alpha1.ProxyAgentConfiguration) {
				c.Allocations, c.IPTables.Mode, c.MinSyncPeriod.Duration, c.Log.Level = "prefer", "auto", 1e9, 0
			}},
		"all": {[]string{
			"--kubeconfig=/k", "--node-name=of-the-flag", "--service-proxy-name=mine", "--cluster-cidr=10.0.0.0/8,fd00::/64",
			"--metrics-bind-address=127.0.0.1:1", "--healthz-bind-address=0", "--sysctl-root=/s",
		}, func(c *v1alpha1.ProxyAgentConfiguration) {
			c.Client.Kubeconfig, c.NodeName, c.ServiceProxyName, c.SysctlRoot = "/k", "of-the-flag", "mine", "/s"
			c.DetectLocal = v1alpha1.DetectLocal{Mode: v1alpha1.DetectClusterCIDR, ClusterCIDRs: []string{"10.0.0.0/8", "fd00::/64"}}
			c.Metrics.BindAddress, c.Health.BindAddress = "127.0.0.1:1", "0"
		}},
	} {
		t.Run(name, func(t *testing.T) {
			want := v1alpha1.DefaultProxyAgent()
			want.NodeName, want.Allocations, want.IPTables.Mode, want.Log.Level = "of-the-file", "enforce", "legacy", 2
			want.MinSyncPeriod.Duration, want.DetectLocal.Mode = 3e9, v1alpha1.DetectNodeCIDR
			tc.want(&want)
			got, warnings, err := configured(t, append(tc.args, "--config", write(t, fileOfAll))...)
			if err != nil || len(warnings) > 0 {
				t.Fatalf("%v, %q", err, warnings)
			}
			if diff := cmp.Diff(want, got); diff != "" {
				t.Errorf("(-want +got):\n%s", diff)
			}
		})
	}
}

// configured reads a command line.
func configured(t *testing.T, args ...string) (v1alpha1.ProxyAgentConfiguration, []string, error) {
	t.Helper()
	f, set := &flags{}, pflag.NewFlagSet("", pflag.ContinueOnError)
	f.register(set)
	if err := set.Parse(args); err != nil {
		t.Fatal(err)
	}
	return f.configuration()
}

func TestNameOfTheNode(t *testing.T) {
	t.Setenv("NODE_NAME", " Of-The-Environment\n")
	for want, args := range map[string][]string{
		"of-the-flag":        {"--node-name", "of-the-flag", "--config", write(t, fileOfAll)},
		"of-the-file":        {"--config", write(t, fileOfAll)},
		"of-the-environment": nil,
	} {
		if c, _, err := configured(t, args...); err != nil || c.NodeName != want {
			t.Errorf("%v: got %q, %v", args, c.NodeName, err)
		}
	}
	t.Setenv("NODE_NAME", "")
	host, err := os.Hostname()
	if err != nil {
		t.Fatal(err)
	}
	if c, _, err := configured(t); err != nil || c.NodeName != strings.ToLower(host) {
		t.Errorf("without anything: got %q, %v", c.NodeName, err)
	}
}

func TestCleanupModes(t *testing.T) {
	for mode, want := range map[string][]iptables.Mode{
		"auto": {iptables.NFT, iptables.Legacy}, "nft": {iptables.NFT}, "legacy": {iptables.Legacy}, "NFT": nil, "nft,legacy": nil,
	} {
		if got, err := cleanupModes(mode); !slices.Equal(got, want) || (err == nil) != (want != nil) {
			t.Errorf("%q: got %v, %v", mode, got, err)
		}
	}
}

// TestDumpAsksTheAgent has a server stand for the agent.
func TestDumpAsksTheAgent(t *testing.T) {
	agent := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if of := r.URL.Query().Get("of"); of == "default/none & more" {
			http.Error(w, "no Service that this agent serves", http.StatusNotFound)
		} else {
			_, _ = io.WriteString(w, r.Method+" "+r.URL.Path+" of <"+of+">\n")
		}
	}))
	defer agent.Close()
	address := strings.TrimPrefix(agent.URL, "http://")
	for of, want := range map[string]string{
		"": "GET /debug/dump of <>\n", "default/web": "GET /debug/dump of <default/web>\n", "fd00::1": "GET /debug/dump of <fd00::1>\n",
		"a&of=b": "GET /debug/dump of <a&of=b>\n",
	} {
		args := []string{"dump", "--address", address}
		if of != "" {
			args = append(args, of)
		}
		if code, stdout, stderr := execute(t, args...); code != 0 || stdout != want || stderr != "" {
			t.Errorf("%v: exit code %d, printed %q and %q", args, code, stdout, stderr)
		}
	}
	code, stdout, stderr := execute(t, "dump", "--address", address, "default/none & more")
	if code != 1 || stdout != "" || stderr != "error: no Service that this agent serves\n" {
		t.Errorf("of what is not there: exit code %d, printed %q and %q", code, stdout, stderr)
	}
}

// TestAtLoopback has when the kernel has to route 127.0.0.0/8.
func TestAtLoopback(t *testing.T) {
	for name, tc := range map[string]struct {
		addresses []string
		off, want bool
	}{
		"by default":                    {nil, false, true},
		"not wanted":                    {nil, true, false},
		"at other addresses":            {[]string{"192.168.0.0/16"}, false, false},
		"at a part of loopback":         {[]string{"192.168.0.0/16", "127.1.0.0/16"}, false, true},
		"at any address":                {[]string{"0.0.0.0/0"}, false, true},
		"at the node's own addresses":   {[]string{"primary"}, false, false},
		"at addresses of IPv6, of IPv4": {[]string{"fd00::/64"}, false, true},
	} {
		c := v1alpha1.DefaultProxyAgent()
		c.NodePortAddresses, c.LocalhostNodePorts = tc.addresses, !tc.off
		if got := atLoopback(c); got != tc.want {
			t.Errorf("%s: got %t", name, got)
		}
	}
}

// TestNewLogger logs in both formats, and as much as it is asked for.
func TestNewLogger(t *testing.T) {
	for format, want := range map[string]string{"json": `"msg":"shown","number":1`, "text": "shown\t{\"number\": 1}"} {
		stderr := func() string {
			before := os.Stderr
			defer func() { os.Stderr = before }()
			file, text := collect(t)
			os.Stderr = file
			log := newLogger(v1alpha1.Log{Level: 2, Format: format})
			log.V(2).Info("shown", "number", 1)
			log.V(3).Info("hidden")
			return text()
		}()
		if !strings.Contains(stderr, want) || strings.Contains(stderr, "hidden") || strings.Count(stderr, "\n") != 1 {
			t.Errorf("%s: got %q, want one line with %q", format, stderr, want)
		}
	}
}

// TestTheSilenceOfTheAPIServerIsTold until it has listed everything.
func TestTheSilenceOfTheAPIServerIsTold(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var told []string
		ctx := logr.NewContext(t.Context(), funcr.New(func(_, line string) { told = append(told, line) }, funcr.Options{}))
		listed, ended := make(chan struct{}), make(chan error)
		go func() { ended <- tellSilence(ctx, listed, "10.96.0.1:443") }()
		time.Sleep(2*silence + time.Second)
		close(listed)
		if err := <-ended; err != nil {
			t.Error(err)
		}
		if len(told) != 2 || !strings.Contains(told[0], "10.96.0.1:443") || !strings.Contains(told[0], "KUBERNETES_SERVICE_HOST") {
			t.Errorf("in %s it said %q", 2*silence, told)
		}
	})
}

func TestShort(t *testing.T) {
	if got := short(strings.Repeat("x", 5000)); len(got) > 1024 || len(got) < 100 {
		t.Errorf("a note of 5000 bytes becomes one of %d", len(got))
	}
	if got := short("as it is"); got != "as it is" {
		t.Errorf("got %q", got)
	}
}

func TestWaitEndsWhenItIsAsked(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		ctx, cancel := context.WithCancel(t.Context())
		root, ended := newRoot(), make(chan error, 1)
		root.SetArgs([]string{"wait"})
		go func() { ended <- root.ExecuteContext(ctx) }()
		synctest.Wait()
		select {
		case err := <-ended:
			t.Fatal("it ended by itself:", err)
		default:
		}
		cancel()
		if err := <-ended; err != nil {
			t.Error(err)
		}
	})
}
