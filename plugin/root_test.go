package plugin

import (
	"strings"
	"testing"

	"github.com/clusterip-operator/clusterip-operator/internal/version"
	"github.com/clusterip-operator/clusterip-operator/plugin/cli"
	"github.com/clusterip-operator/clusterip-operator/plugin/internal/plugintest"
)

// TestCompletion asks as the program does that `completion` writes.
func TestCompletion(t *testing.T) {
	for args, want := range map[string]string{"completion": "exec kubectl-clusterip __complete \"$@\"", "__complete ran": "ranges", "__complete ranges --no": "--no-headers"} {
		p := &plugintest.Printed{}
		root := New(p.Streams())
		root.SetArgs(strings.Fields(args))
		if err := root.ExecuteContext(t.Context()); err != nil {
			t.Fatal(err)
		}
		if !strings.Contains(p.Out.String(), want) {
			t.Errorf("%s prints %q, want %q", args, p.Out.String(), want)
		}
	}
}

// TestUsage has wrong command lines: each ends with 2 and says what to do, without a cluster.
func TestUsage(t *testing.T) {
	const etcd = "--etcd-servers=http://127.0.0.1:1"
	for name, tc := range map[string]struct {
		args string
		want string // a piece of the error
	}{
		"no such command":                  {"migrate chek", `"chek" is neither a command nor a flag; try ` + "`kubectl clusterip migrate --help`"},
		"no such command at the root":      {"migrat", `"migrat" is neither a command nor a flag`},
		"no such flag":                     {"migrate check --colour", "unknown flag: --colour; try `kubectl clusterip migrate check --help`"},
		"a word too much":                  {"migrate check now", `"now" is neither a command nor a flag`},
		"check of no format":               {"migrate check -o xml", `--output "xml" is none of json, yaml, jsonpath=TEMPLATE or custom-columns=HEAD:PATH,...`},
		"verify of no format":              {"migrate verify -o plan.yaml", `--output "plan.yaml" is none of json, yaml`},
		"plan of no format":                {"migrate plan -o xml", "a file name that ends in .yaml or .json"},
		"plan that repairs what is unseen": {"migrate plan --repair-bitmap", "--repair-bitmap needs --etcd-servers"},
		"run that repairs what is unseen":  {"migrate run --repair-bitmap", "give --etcd-servers"},
		"run offline":                      {"migrate run --offline " + etcd, "leave out --offline"},
		"run backwards":                    {"migrate run --qps=-1", "--qps must not be negative"},
		"run by nobody":                    {"migrate run --workers=0", "--workers must be 1 or more"},
		"run without a leak grace":         {"migrate run --leak-grace=10ms", "--leak-grace must be a second or more"},
		"verify by nobody":                 {"migrate verify --watch --workers=0", "--workers must be 1 or more"},
		"watch offline":                    {"migrate verify --watch --offline " + etcd, "leave out --offline"},
		"watch etcd without etcd":          {"migrate verify --watch --etcd", "give --etcd-servers"},
		"offline without etcd":             {"migrate check --offline", "--offline reads everything from etcd: give --etcd-servers"},
		"seed without etcd":                {"migrate seed --etcd", "give --etcd-servers"},
		"seed without consent":             {"migrate seed " + etcd, "say --etcd if that is what you want, or look first with --dry-run"},
		"unseed without consent":           {"migrate unseed " + etcd, "say --etcd if that is what you want"},
		"rollback without etcd":            {"migrate rollback --yes", "give --etcd-servers"},
		"finalize without etcd":            {"migrate finalize --yes", "give --etcd-servers"},
		"finalize offline":                 {"migrate finalize --offline " + etcd, "leave out --offline"},
		"restore from no file":             {"migrate finalize --restore=/none " + etcd, "/none"},
		"a range that is none":             {"migrate check --offline --service-cluster-ip-range=ten " + etcd, `--service-cluster-ip-range: "ten"`},
		"a certificate without its key":    {"migrate check --offline --etcd-certfile=x " + etcd, "etcd-keyfile"},
		"a selector that is none":          {"dual-stack plan -l a==b==c", "--selector: "},
		"dual-stack of no format":          {"dual-stack plan -o xml", "a file name that ends in .yaml or .json"},
		"dual-stack without a plan":        {"dual-stack run", "give the plan that is to be carried out: --from FILE"},
		"dual-stack by nobody":             {"dual-stack run --from=x --workers=0", "--workers must be 1 or more"},
		"dual-stack of no file":            {"dual-stack run --from=/none", "reading /none"},
		"node ports of a ServiceCIDR":      {"ranges --node-ports kubernetes", "leave out names, --contexts and --watch"},
		"a range of no node ports":         {"ranges --node-port-range=1-9", "--node-port-range is for --node-ports"},
		"no node port":                     {"why nodeport/70000", "names no node port; write nodeport/NUMBER"},
		"reserve of nothing":               {"reserve", "say what is to be reserved: --from-services"},
		"reserve that tries nothing":       {"reserve --from-services --dry-run", "--dry-run is for --apply"},
		"reserve that writes and prints":   {"reserve --from-services --apply -o json", "leave one of both out"},
		"no cluster anywhere":              {"migrate check", "reading the kubeconfig"},
	} {
		t.Run(name, func(t *testing.T) {
			code, p := command(t, strings.Fields(tc.args)...)
			if code != 2 {
				t.Errorf("exit status %d, want 2", code)
			}
			if got := p.Err.String(); !strings.HasPrefix(got, "error: ") || !strings.Contains(got, tc.want) {
				t.Errorf("it says %q, want %q", got, tc.want)
			}
			if p.Out.Len() > 0 {
				t.Errorf("and it prints %q", p.Out.String())
			}
		})
	}
}

func TestHelp(t *testing.T) {
	for _, args := range [][]string{nil, {"--help"}, {"migrate"}, {"migrate", "--help"}, {"migrate", "run", "--help"}} {
		code, p := command(t, args...)
		if code != 0 || !strings.Contains(p.Out.String(), "kubectl clusterip") || p.Err.Len() > 0 {
			t.Errorf("%v: exit status %d, %q, %q", args, code, &p.Out, &p.Err)
		}
	}
}

func TestVersion(t *testing.T) {
	if code, p := command(t, "version"); code != 0 || p.Out.String() != version.String()+"\n" {
		t.Errorf("exit status %d, %q", code, &p.Out)
	}
}

// command runs a command line in a place without any cluster.
func command(t *testing.T, args ...string) (code int, p *plugintest.Printed) {
	t.Helper()
	t.Setenv("KUBECONFIG", "/dev/null")
	t.Setenv("KUBERNETES_SERVICE_HOST", "")
	p = &plugintest.Printed{}
	root := New(p.Streams())
	root.SetArgs(args)
	return cli.ExitCode(root.ExecuteContext(t.Context()), p.Streams()), p
}
