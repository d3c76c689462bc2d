package arrows

import (
	"go/parser"
	"go/token"
	"io/fs"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"
)

// rules are the files that decide: a struct in, a struct out, testable without a cluster. Only
// their direct imports are checked, because their packages do talk to the API server.
var rules = []string{"decide.go", "plan.go"}

var rulesMustNotImport = []struct{ path, why string }{
	{"context", "a decision waits for nothing, so there is nothing to cancel"},
	{"k8s.io/client-go", "a decision is made from what was gathered"},
	{"sigs.k8s.io/controller-runtime", "a decision is made from what was gathered"},
	{"net/http", "a decision reaches no network"},
	{"os", "a decision reads no file and no environment"},
}

// TestRulesArePure checks every file that decides, wherever it lies.
func TestRulesArePure(t *testing.T) {
	for _, path := range slices.Concat(goFiles(t, "../../controllers"), goFiles(t, "../../plugin")) {
		if !slices.Contains(rules, filepath.Base(path)) {
			continue
		}
		for _, imported := range importsOf(t, path) {
			for _, row := range rulesMustNotImport {
				if within(imported, row.path) {
					t.Errorf("%s imports %s: %s", path, imported, row.why)
				}
			}
		}
	}
}

// purePackages may import only values. Some of what they import also has an edge to the kernel, or
// a clock: its imports do not count, but which of its names are used does.
var purePackages = []struct {
	folder    string
	mayImport []string
	values    map[string]string // of packages, all that may be used
}{
	{
		folder: "../../proxyagent/iptables/rules", mayImport: []string{module + "/proxyagent/model", module + "/proxyagent/ipset"},
		values: map[string]string{"ipset": "Entry|Change|Set|Type|HashIP|HashIPPort|HashIPPortIP|HashIPPortNet|BitmapPort"},
	},
	{
		folder: "../../proxyagent/nftables/tables", mayImport: []string{module + "/proxyagent/model", "github.com/google/nftables/expr", "golang.org/x/sys/unix", "time"},
		values: map[string]string{"unix": "[A-Z0-9_]+", "time": "Time|Duration|Second"},
	},
	{
		folder: "../../proxyagent/socketlb/fronts", mayImport: []string{module + "/proxyagent/model", "time"},
		values: map[string]string{"time": "Time|Duration|Second"},
	},
	{
		folder: "../addressindex/inflight", mayImport: []string{module + "/allocator", "k8s.io/apimachinery/pkg/types", "time"},
		values: map[string]string{"time": "Time|Duration|Second|Millisecond"},
	},
	{
		folder: "../history", mayImport: []string{"k8s.io/apimachinery/pkg/types", "time"},
		values: map[string]string{"time": "Time|Second|Minute|Parse|RFC3339"},
	},
}

var purePackagesMustNot = []string{"context", "io/fs", "log", "log/slog", "net", "net/http", "os", "os/exec", "os/signal", "runtime", "sync", "sync/atomic", "syscall", "time", "unsafe"}

// TestPurePackages checks what they import, and what they use of some of that.
func TestPurePackages(t *testing.T) {
	for _, p := range purePackages {
		for _, path := range goFiles(t, p.folder) {
			if strings.HasSuffix(path, "_test.go") {
				continue
			}
			for _, imported := range importsOf(t, path) {
				domain, _, _ := strings.Cut(imported, "/")
				if (slices.Contains(purePackagesMustNot, imported) || strings.Contains(domain, ".")) && !slices.Contains(p.mayImport, imported) {
					t.Errorf("%s imports %s: what is pure follows from what it is told", path, imported)
				}
			}
			text, err := os.ReadFile(path)
			if err != nil {
				t.Fatal(err)
			}
			for name, values := range p.values {
				for _, used := range regexp.MustCompile(`\b`+name+`\.([A-Z]\w*)`).FindAllStringSubmatch(string(text), -1) {
					if !regexp.MustCompile("^(" + values + ")$").MatchString(used[1]) {
						t.Errorf("%s uses %s, which is no value", path, used[0])
					}
				}
			}
		}
	}
}

// replaceWhole are the folders that replace objects, and why nothing of them gets lost.
var replaceWhole = map[string]string{
	"plugin/renumber":  "a Mover reads from the API server itself",
	"internal/webhook": "it has a cache of its own, which keeps the few objects whole",
	"internal/leader":  "a Lease is read from the API server itself",
}

// TestNoPartReplacesAnObject: what is read of a cache, or of the plugin's mirrors, is a part of the
// object. It may be applied to or patched, by bodies that name what they change, and not be written
// back. A merge patch between two copies replaces lists, so that it has to name a version as well.
func TestNoPartReplacesAnObject(t *testing.T) {
	replaces := regexp.MustCompile(`\.(Update|UpdateStatus)\(|\b(Strategic)?MergeFrom(WithOptions)?\(`)
	replaced := map[string]bool{}
	for _, path := range slices.Concat(goFiles(t, "../../controllers"), goFiles(t, "../../plugin"), goFiles(t, "../../internal")) {
		if strings.HasSuffix(path, "_test.go") {
			continue
		}
		text, err := os.ReadFile(path)
		if err != nil {
			t.Fatal(err)
		}
		for line := range strings.Lines(string(text)) {
			if !replaces.MatchString(line) || strings.Contains(line, "MergeFromWithOptimisticLock{}") {
				continue
			}
			folder := strings.TrimPrefix(filepath.Dir(path), "../../")
			if replaced[folder] = true; replaceWhole[folder] == "" {
				t.Errorf("%s replaces an object; it takes away what the cache has not kept of it: %s", path, strings.TrimSpace(line))
			}
		}
	}
	for folder := range replaceWhole {
		if !replaced[folder] {
			t.Errorf("%s replaces nothing: leave it out", folder)
		}
	}
}

// TestToolModules checks that the modules under hack/tools import no package of this module.
func TestToolModules(t *testing.T) {
	tools := module + "/hack/tools"
	for _, path := range goFiles(t, "../../hack/tools") {
		for _, imported := range importsOf(t, path) {
			if within(imported, module) && !within(imported, tools) {
				t.Errorf("%s imports %s: a tool builds without us, so that it can be compared with us", path, imported)
			}
		}
	}
}

// goFiles lists the Go files below root.
func goFiles(t *testing.T, root string) []string {
	t.Helper()
	var files []string
	err := filepath.WalkDir(root, func(path string, _ fs.DirEntry, err error) error {
		if err == nil && strings.HasSuffix(path, ".go") {
			files = append(files, path)
		}
		return err
	})
	if err != nil {
		t.Fatalf("walking %s: %v", root, err)
	}
	return files
}

// importsOf returns the import paths of one file.
func importsOf(t *testing.T, path string) []string {
	t.Helper()
	file, err := parser.ParseFile(token.NewFileSet(), path, nil, parser.ImportsOnly)
	if err != nil {
		t.Fatalf("reading the imports of %s: %v", path, err)
	}
	paths := make([]string, 0, len(file.Imports))
	for _, spec := range file.Imports {
		imported, err := strconv.Unquote(spec.Path.Value)
		if err != nil {
			t.Fatalf("reading the imports of %s: %v", path, err)
		}
		paths = append(paths, imported)
	}
	return paths
}
