package arrows

import (
	"os/exec"
	"slices"
	"strings"
	"testing"
)

const module = "github.com/clusterip-operator/clusterip-operator"

// arrow forbids a folder and all below it to depend on a path and all below that, however
// indirectly. A trailing * in mustNotReach makes it a bare prefix. A folder may reach itself.
type arrow struct{ folder, mustNotReach, why string }

// exempt are folders inside of others to which a row about the outer folder does not apply.
var exempt = map[string]string{
	"controllers": "controllers/migration/etcdstore",
}

var arrows = []arrow{
	{"allocator", "k8s.io/*", "address arithmetic knows nothing of Kubernetes"},
	{"allocator", "sigs.k8s.io/*", "address arithmetic knows nothing of Kubernetes"},
	{"allocator", "go.etcd.io/*", "address arithmetic stores nothing"},
	{"allocator", "github.com/*", "the allocator gets by on the standard library, other packages of this module included"},
	{"allocator", "golang.org/x/*", "the allocator gets by on the standard library"},
	{"allocator", "log", "arithmetic returns values and errors; its callers log"},
	{"allocator", "net/http", "arithmetic reaches no network"},
	{"allocator", "os/exec", "arithmetic starts no programs"},

	{"api", module + "/controllers", "programs that import the types must not get the loops"},
	{"api", module + "/internal", "programs that import the types must not get what the loops share"},
	{"api", module + "/allocator", "types and names do no arithmetic"},
	{"api", module + "/plugin", "programs that import the types must not get the commands"},
	{"api", module + "/cmd", "the binary reads the types, never the other way"},
	{"api", "k8s.io/client-go", "programs that import the types must not get a client"},

	{"controllers", module + "/plugin", "what runs in the cluster does not know who looks at it"},
	{"controllers", module + "/cmd", "loops are wired by the binary and do not know it"},
	{"controllers", module + "/test", "the product does not carry its test tools"},
	{"controllers", module + "/proxyagent", "control plane and node meet in API objects only"},
	{"controllers", module + "/api/config", "loops take plain values; only the binary reads its configuration file"},
	{"controllers", "go.etcd.io/*", "loops speak to the API server, never to its storage; of the migration one package does"},
	{"cmd/manager", "go.etcd.io/*", "the manager speaks to the API server, never to its storage"},
	{"cmd/manager", module + "/controllers/migration/etcdstore", "the manager speaks to the API server, never to its storage"},

	{"internal", module + "/controllers", "controllers share what lies here, and it knows none of them"},
	{"internal", module + "/plugin", "manager and plugin share what lies here, and it knows neither"},
	{"internal", module + "/cmd", "the binaries use what lies here, never the other way"},
	{"internal", module + "/test", "the product does not carry its test tools"},
	{"internal", module + "/proxyagent", "control plane and node meet in API objects only"},
	{"internal", module + "/api/config", "only the binaries read configuration files"},
	{"internal", "go.etcd.io/*", "all but the migration speak to the API server, never to its storage"},

	{"plugin", module + "/cmd", "commands are wired by the binary and do not know it"},
	{"plugin", module + "/test", "the product does not carry its test tools"},
	{"plugin", module + "/proxyagent", "plugin and node meet in API objects and in answers over HTTP"},
	{"plugin", module + "/api/config", "only manager and agent have configuration files"},
	{"plugin/view", module + "/plugin", "all commands show the same picture of a cluster, and it knows none of them"},
	{"plugin/cli", module + "/plugin/check", "commands are made of what lies here, and it knows none of them"},
	{"plugin/cli", module + "/plugin/health", "commands are made of what lies here, and it knows none of them"},
	{"plugin/cli", module + "/plugin/migrate", "commands are made of what lies here, and it knows none of them"},
	{"plugin/check", module + "/plugin/health", "health tells how the findings of check look as a whole"},
	{"plugin/health", module + "/plugin/inspect", "the state of an installation is told without that of an address"},
	{"plugin/inspect", module + "/plugin/renumber", "what only looks does not reach what writes"},
	{"plugin/inspect", module + "/plugin/bundle", "a bundle has what the other commands say, and they do not know it"},
	{"plugin/bundle", module + "/plugin/renumber", "what only looks does not reach what writes"},
	{"plugin/console", module + "/plugin/renumber", "what only looks does not reach what writes"},
	{"cmd/manager", module + "/plugin", "what runs in the cluster does not know who looks at it"},

	{"proxyagent/model", "k8s.io/*", "plain values are what all parts of the agent share"},
	{"proxyagent/model", "github.com/*", "plain values are what all parts of the agent share"},
	{"proxyagent/backend", "k8s.io/*", "what backends have in common knows no cluster"},
	{"proxyagent/compile", "k8s.io/*", "what a node has to do follows from plain values"},
	{"proxyagent/compile", "os/exec", "compiling touches no kernel"},
	{"proxyagent/compile", "net/http", "compiling reaches no network"},
	{"proxyagent/compile", "context", "compiling waits for nothing"},
	{"proxyagent/compile", module + "/proxyagent/watch", "sources and backends meet in the model"},
	{"proxyagent/compile", module + "/proxyagent/iptables", "the plan knows no backend"},
	{"proxyagent/watch", module + "/proxyagent/compile", "sources and backends meet in the model"},
	{"proxyagent/watch", module + "/proxyagent/iptables", "sources and backends meet in the model"},
	{"proxyagent/watch", module + "/proxyagent/conntrack", "sources and backends meet in the model"},
	{"proxyagent/iptables", "k8s.io/*", "a backend turns a plan into rules and knows no cluster"},
	{"proxyagent/iptables", module + "/proxyagent/compile", "a backend gets the plan handed in"},
	{"proxyagent/iptables", module + "/proxyagent/watch", "sources and backends meet in the model"},
	{"proxyagent/iptables", module + "/proxyagent/conntrack", "sources and backends meet in the model"},
	{"proxyagent/iptables/rules", "os/exec", "rendering starts no programs"},
	{"proxyagent/iptables/rules", "net/http", "rendering reaches no network"},
	{"proxyagent/nftables", "k8s.io/*", "a backend turns a plan into rules and knows no cluster"},
	{"proxyagent/nftables", module + "/proxyagent/compile", "a backend gets the plan handed in"},
	{"proxyagent/nftables", module + "/proxyagent/watch", "sources and backends meet in the model"},
	{"proxyagent/nftables", module + "/proxyagent/conntrack", "sources and backends meet in the model"},
	{"proxyagent/nftables", module + "/proxyagent/iptables", "backends do not know one another"},
	{"proxyagent/nftables/tables", "os/exec", "rendering starts no programs"},
	{"proxyagent/nftables/tables", "net/http", "rendering reaches no network"},
	{"proxyagent/ipvs", "k8s.io/*", "a backend turns a plan into virtual servers and knows no cluster"},
	{"proxyagent/ipvs", module + "/proxyagent/compile", "a backend gets the plan handed in"},
	{"proxyagent/ipvs", module + "/proxyagent/watch", "sources and backends meet in the model"},
	{"proxyagent/ipvs", module + "/proxyagent/conntrack", "sources and backends meet in the model"},
	{"proxyagent/ipvs", module + "/proxyagent/iptables", "backends do not know one another"},
	{"proxyagent/ipvs", module + "/proxyagent/nftables", "it gets the backend handed in that does the rest"},
	{"proxyagent/socketlb", "k8s.io/*", "a backend turns a plan into maps and knows no cluster"},
	{"proxyagent/socketlb", module + "/proxyagent/compile", "a backend gets the plan handed in"},
	{"proxyagent/socketlb", module + "/proxyagent/watch", "sources and backends meet in the model"},
	{"proxyagent/socketlb", module + "/proxyagent/conntrack", "sources and backends meet in the model"},
	{"proxyagent/socketlb", module + "/proxyagent/iptables", "it gets the backend handed in that does the rest"},
	{"proxyagent/socketlb", module + "/proxyagent/nftables", "it gets the backend handed in that does the rest"},
	{"proxyagent/socketlb", module + "/proxyagent/ipvs", "backends do not know one another"},
	{"proxyagent/socketlb/fronts", "os/exec", "deciding starts no programs"},
	{"proxyagent/socketlb/fronts", "github.com/cilium/*", "what the maps hold follows from plain values"},
	{"proxyagent/ipset", "k8s.io/*", "sets of the kernel know no cluster"},
	{"proxyagent/conntrack", "k8s.io/*", "connections know no cluster"},
	{"proxyagent/nfnetlink", module + "/proxyagent/model", "a socket knows nothing of Services"},
	{"proxyagent", module + "/controllers", "control plane and node meet in API objects only"},
	{"proxyagent", module + "/plugin", "plugin and node meet in API objects and in answers over HTTP"},
	{"proxyagent", module + "/cmd", "the agent is wired by the binary and does not know it"},
	{"proxyagent", module + "/test", "the product does not carry its test tools"},
	{"proxyagent", "sigs.k8s.io/controller-runtime", "the agent is small: informers are all that it needs of a cluster"},
	{"cmd/proxyagent", module + "/controllers", "control plane and node meet in API objects only"},
	{"cmd/proxyagent", "sigs.k8s.io/controller-runtime", "the agent is small: informers are all that it needs of a cluster"},

	{"cmd/proxyagent", "github.com/gopacket/*", "a process that runs on every node for ever makes no raw packets: cmd/proxyagent-trace does"},
	{"cmd/proxyagent", module + "/cmd/proxyagent-trace", "a process that runs on every node for ever makes no raw packets: cmd/proxyagent-trace does"},

	{"internal/batch", module + "/*", "items of all kinds are done in batches, and none is known here"},
	{"internal/program", module + "/*", "a program is handed in"},
	{"internal/plain", module + "/*", "it looks at characters, and knows no object"},
	{"internal/plain", "k8s.io/*", "it looks at characters, and knows no object"},
	{"internal/batch", "k8s.io/client-go", "it repeats what it is handed, and sends no request itself"},
	{"internal/addressindex/inflight", module + "/internal", "what is in flight is plain data, and its caller knows the cluster"},
	{"internal/addressindex/inflight", module + "/api", "what is in flight is plain data, and its caller knows the cluster"},
	{"internal/addressindex/inflight", "k8s.io/client-go", "what is in flight is plain data, and its caller knows the cluster"},
	{"internal/timeline", module + "/*", "manager and agent alike hang on it"},
	{"internal/timeline", "k8s.io/client-go", "it compares versions on the way of requests, and sends none of its own kind"},

	{"cmd", module + "/test", "the product does not carry its test tools"},
	{"cmd", "github.com/onsi/*", "the product does not carry its test tools"},
	{"cmd", "testing", "the product does not carry its test tools"},

	{"test/framework", module + "/controllers", "control planes are started without knowing what is tested on them"},
	{"test/framework", module + "/plugin", "control planes are started without knowing what is tested on them"},
	{"test/framework", module + "/cmd", "control planes are started without knowing what is tested on them"},

	{".", "k8s.io/kubernetes", "control planes and peers are built in the modules under hack/tools"},
	{".", module + "/hack", "the modules under hack/tools are programs, which no package imports"},
}

// TestArrows holds every row of the table against what the packages of its folder depend on.
func TestArrows(t *testing.T) {
	packages := dependencies(t)
	matched := 0
	for _, a := range arrows {
		for path, deps := range packages {
			if inner, ok := exempt[a.folder]; !within(path, inModule(a.folder)) || ok && within(path, inModule(inner)) {
				continue
			}
			if a.folder != "." {
				matched++
			}
			for _, dep := range deps {
				if a.forbids(dep) {
					t.Errorf("%s reaches %s: %s", path, dep, a.why)
				}
			}
		}
	}
	if matched == 0 {
		t.Fatal("no package lies in any folder of the table: the map and the tree have parted")
	}
}

// TestLoopsAreStrangers finds the loops by itself: no folder under controllers may reach a sibling,
// for what they share lies under internal. Loops meet in API objects.
func TestLoopsAreStrangers(t *testing.T) {
	for path, deps := range dependencies(t) {
		mine, ok := loopOf(path)
		if !ok {
			continue
		}
		for _, dep := range deps {
			if other, ok := loopOf(dep); ok && other != mine {
				t.Errorf("%s reaches %s: control loops do not import one another", path, dep)
			}
		}
	}
}

// shared are the packages under internal that control plane and plugin share.
var shared = []string{"addressindex", "conditions", "drift", "kube", "leader", "loop", "metrics", "nodeports", "objects", "refusal", "relation", "steering", "upstream", "webhook", "wording"}

// TestTheAgentHasNothingOfTheControlPlane checks the node agent and what starts control planes.
func TestTheAgentHasNothingOfTheControlPlane(t *testing.T) {
	for path, deps := range dependencies(t) {
		if !within(path, inModule("proxyagent")) && !within(path, inModule("cmd/proxyagent")) && !within(path, inModule("test/framework")) {
			continue
		}
		for _, name := range shared {
			if slices.Contains(deps, inModule("internal/"+name)) {
				t.Errorf("%s reaches internal/%s: control plane and node meet in API objects only", path, name)
			}
		}
	}
}

// TestForbids pins how a row is read; a table that forbids nothing would pass for ever.
func TestForbids(t *testing.T) {
	for _, tc := range []struct {
		folder, mustNotReach, dep string
		want                      bool
	}{
		{"allocator", "k8s.io/*", "k8s.io/api/core/v1", true},
		{"allocator", "log", "log/slog", true},
		{"allocator", "log", "logic", false},
		{"allocator", "github.com/*", module + "/allocator/bitmap", false},
		{"allocator", "github.com/*", module + "/allocators", true},
		{"controllers", module + "/api/config", module + "/api/v1alpha1", false},
	} {
		if got := (arrow{folder: tc.folder, mustNotReach: tc.mustNotReach}).forbids(tc.dep); got != tc.want {
			t.Errorf("%s with %s forbidden reaches %s: forbidden is %t, want %t", tc.folder, tc.mustNotReach, tc.dep, got, tc.want)
		}
	}
}

// forbids reports whether the row does not allow its folder to depend on dep.
func (a arrow) forbids(dep string) bool {
	if a.folder != "." && within(dep, inModule(a.folder)) {
		return false
	}
	if prefix, bare := strings.CutSuffix(a.mustNotReach, "*"); bare {
		return strings.HasPrefix(dep, prefix)
	}
	return within(dep, a.mustNotReach)
}

// within reports whether path is root or lies below it.
func within(path, root string) bool {
	return path == root || strings.HasPrefix(path, root+"/")
}

// inModule returns the import path of a folder; "." is the whole module.
func inModule(folder string) string {
	if folder == "." {
		return module
	}
	return module + "/" + folder
}

// loopOf returns the name of the folder under controllers that path lies in.
func loopOf(path string) (string, bool) {
	rest, ok := strings.CutPrefix(path, module+"/controllers/")
	name, _, _ := strings.Cut(rest, "/")
	return name, ok
}

// dependencies maps every package of the module to all packages that it needs, tests not counted.
func dependencies(t *testing.T) map[string][]string {
	t.Helper()
	list := exec.Command("go", "list", "-C", "../..", "-f", `{{.ImportPath}} {{join .Deps " "}}`, "./...")
	var complaints strings.Builder
	list.Stderr = &complaints
	out, err := list.Output()
	if err != nil {
		t.Fatalf("listing the packages of the module: %v\n%s", err, &complaints)
	}
	packages := map[string][]string{}
	for line := range strings.Lines(string(out)) {
		fields := strings.Fields(line)
		packages[fields[0]] = fields[1:]
	}
	return packages
}
