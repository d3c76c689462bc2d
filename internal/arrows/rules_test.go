package arrows

import (
	"go/parser"
	"go/token"
	"io/fs"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"
)

// rules are the files that decide: a struct in, a struct out, testable without a cluster. What they import
// directly is checked, because their packages do talk to the API server.
var rules = []string{"decide.go", "plan.go"}

var rulesMustNotImport = []struct{ path, why string }{
	{"context", "a decision waits for nobody, so there is nothing to cancel"},
	{"k8s.io/client-go", "a decision is made from what was gathered"},
	{"sigs.k8s.io/controller-runtime", "a decision is made from what was gathered"},
	{"net/http", "a decision reaches no network"},
	{"os", "a decision reads no file and no environment"},
}

// TestRulesArePure checks every file that decides, wherever it lies.
func TestRulesArePure(t *testing.T) {
	for _, path := range goFiles(t, "../../controllers") {
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

// TestIslands checks that the modules under hack/tools stand alone: they import no package of this module.
func TestIslands(t *testing.T) {
	islands := module + "/hack/tools"
	for _, path := range goFiles(t, "../../hack/tools") {
		for _, imported := range importsOf(t, path) {
			if within(imported, module) && !within(imported, islands) {
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
