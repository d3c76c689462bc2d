package main

import (
	"go/ast"
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

var (
	// nodes are the functions of Ginkgo whose texts make up the text of a spec.
	nodes = []string{"Describe", "DescribeTable", "DescribeTableSubtree", "Context", "When", "It", "Specify", "Entry"}
	// perhaps are what gives the label soak by chance, and how helpers call what they are given.
	perhaps = []string{"LabelsOf", "EachMode", "labels"}
	// lastingSuite is a suite of which all specs last.
	lastingSuite = regexp.MustCompile(`RunSpecs\(.*Label\("(long|soak)"`)
)

// unknown stands for a text that is no literal: no focus matches it.
const unknown = "…"

// spec is one with the label long or soak, with the text that Ginkgo compares with a focus. Where
// a helper makes the specs, it is what stands in the call.
type spec struct{ folder, at, text string }

// lastingSpecs are those of all packages.
func lastingSpecs(t *testing.T) (found []spec) {
	t.Helper()
	root := filepath.Join("..", "..")
	err := filepath.WalkDir(root, func(path string, entry fs.DirEntry, err error) error {
		if entry.IsDir() && (path == filepath.Join(root, "bin") || path == filepath.Join(root, ".git")) {
			return fs.SkipDir
		}
		if err != nil || !strings.HasSuffix(path, "_test.go") {
			return err
		}
		folder, err := filepath.Rel(root, filepath.Dir(path))
		suite, _ := os.ReadFile(filepath.Join(filepath.Dir(path), "suite_test.go")) // which need not be there
		found = append(found, specsOf(t, folder, path, lastingSuite.Match(suite))...)
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	return found
}

// specsOf are those of a file.
func specsOf(t *testing.T, folder, path string, lasts bool) []spec {
	t.Helper()
	source, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	if !strings.Contains(string(source), `"github.com/onsi/ginkgo/v2"`) {
		return nil
	}
	s := search{folder: folder, files: token.NewFileSet()}
	file, err := parser.ParseFile(s.files, path, source, 0)
	if err != nil {
		t.Fatal(err)
	}
	s.in(file, nil, lasts || lastingSuite.Match(source))
	return s.found
}

// search goes through a file.
type search struct {
	folder string
	files  *token.FileSet
	found  []spec
}

// in looks for specs below a node, of containers with these texts that last or do not, and reports
// whether there are any, be it without the labels. A container without one is one itself: something
// that it calls makes its specs.
func (s *search) in(node ast.Node, texts []string, lasts bool) (found bool) {
	ast.Inspect(node, func(n ast.Node) bool {
		call, is := n.(*ast.CallExpr)
		if !is {
			return true
		}
		found = s.call(call, texts, lasts) || found
		return false
	})
	return found
}

func (s *search) call(call *ast.CallExpr, texts []string, lasts bool) bool {
	lasts = lasts || labelled(call)
	named := slices.Contains(nodes, nameOf(call)) && len(call.Args) > 0
	if named {
		texts = append(slices.Clip(texts), literal(call.Args[0]))
	}
	below := s.in(call.Fun, texts, lasts)
	for _, argument := range call.Args {
		below = s.in(argument, texts, lasts) || below
	}
	if named && !below && lasts {
		s.found = append(s.found, spec{s.folder, s.files.Position(call.Pos()).String(), strings.Join(texts, " ")})
	}
	return named || below
}

// nameOf is the function that is called, if it is of this package or of one that is imported whole.
func nameOf(call *ast.CallExpr) string {
	if name, is := call.Fun.(*ast.Ident); is {
		return name.Name
	}
	return ""
}

// labelled reports whether a call is given a label that lasts, directly or as a helper's argument.
// What is in functions and in specs below is theirs.
func labelled(call *ast.CallExpr) (is bool) {
	for _, argument := range call.Args {
		ast.Inspect(argument, func(n ast.Node) bool {
			switch n := n.(type) {
			case *ast.FuncLit:
				return false
			case *ast.CallExpr:
				return !slices.Contains(nodes, nameOf(n))
			case *ast.BasicLit:
				is = is || n.Value == `"long"` || n.Value == `"soak"`
			case *ast.Ident:
				is = is || slices.Contains(perhaps, n.Name)
			}
			return true
		})
	}
	return is
}

// literal is the text of an expression, as far as it is known without running it.
func literal(expression ast.Expr) string {
	switch e := expression.(type) {
	case *ast.BasicLit:
		if text, err := strconv.Unquote(e.Value); err == nil {
			return text
		}
	case *ast.BinaryExpr:
		return literal(e.X) + literal(e.Y)
	}
	return unknown
}

func TestSpecsOf(t *testing.T) {
	path := filepath.Join(t.TempDir(), "a_test.go")
	source := `package a

import . "github.com/onsi/ginkgo/v2"

var _ = Describe("A cluster", func() {
	It("is short", func() {})
	It("is long", Label("long"), func() { Expect(t.Context()) })
	DescribeTable("is a table", func(n int) {}, Entry("short", 1), Entry("that lasts", Label("all", "soak"), 2), Entry(nil, Label("long"), 3))
	for _, name := range names {
		It("is "+name+" too", LabelsOf(name), func() {})
	}
})

var _ = Describe("All of it", Label("soak"), func() { specs() })
var _ = helper("A helper", func() { When("called", func() { It("knows", func() {}) }) }, "long")
`
	if err := os.WriteFile(path, []byte(source), 0o600); err != nil {
		t.Fatal(err)
	}
	var texts []string
	for _, s := range specsOf(t, "a", path, false) {
		texts = append(texts, s.text)
	}
	want := []string{"A cluster is long", "A cluster is a table that lasts", "A cluster is a table …", "A cluster is … too", "All of it", "called knows"}
	if !slices.Equal(texts, want) {
		t.Errorf("found %q, want %q", texts, want)
	}
}
