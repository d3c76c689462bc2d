package main

import (
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/clusterip-operator/clusterip-operator/test/framework"
)

var (
	// lasting is what hack/test.sh looks for in the files of a suite.
	lasting = regexp.MustCompile(`Label\("(long|soak)"|LabelsOf\(`)
	// lastingSuite is a suite of which all specs last.
	lastingSuite = regexp.MustCompile(`RunSpecs\(.*Label\("(long|soak)"`)
	// specs are in files that have one of these.
	containers = regexp.MustCompile(`\b(Describe|DescribeTable|It|each)\(`)
)

// lastingFiles are the files with lasting specs of each folder, as text.
func lastingFiles(t *testing.T) map[string]map[string]string {
	t.Helper()
	root, found := filepath.Join("..", ".."), map[string]map[string]string{}
	names, err := filepath.Glob(root + "/*/*_test.go")
	for _, depth := range []string{"/*/*/*_test.go", "/*/*/*/*_test.go"} {
		more, globErr := filepath.Glob(root + depth)
		names, err = append(names, more...), errors.Join(err, globErr)
	}
	if err != nil {
		t.Fatal(err)
	}
	for _, name := range names {
		folder, err := filepath.Rel(root, filepath.Dir(name))
		if err != nil {
			t.Fatal(err)
		}
		text := textOf(t, name)
		suite := lastingSuite.MatchString(textOf(t, filepath.Join(filepath.Dir(name), "suite_test.go")))
		if !containers.MatchString(text) || !strings.Contains(text, `"github.com/onsi/ginkgo/v2"`) || !suite && !lasting.MatchString(text) {
			continue
		}
		if found[folder] == nil {
			found[folder] = map[string]string{}
		}
		found[folder][filepath.Base(name)] = text
	}
	return found
}

// textOf reads a file, which need not be there.
func textOf(t *testing.T, name string) string {
	t.Helper()
	content, err := os.ReadFile(name)
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		t.Fatal(err)
	}
	return string(content)
}

func TestEachLastingSpecBelongsToASlice(t *testing.T) {
	files := lastingFiles(t)
	if len(files) < 20 {
		t.Fatalf("found lasting specs in %d folders alone: the search is broken", len(files))
	}
	for folder, texts := range files {
		for name, text := range texts {
			if !slices.ContainsFunc(all(), func(s slice) bool { return s.has(folder, text) }) {
				t.Errorf("no slice runs the specs of %s/%s", folder, name)
			}
		}
	}
}

func TestEachSliceFindsItsSpecs(t *testing.T) {
	files := lastingFiles(t)
	for _, s := range all() {
		for _, folder := range s.packages {
			found := false
			for _, text := range files[folder] {
				found = found || s.has(folder, text)
			}
			if !found {
				t.Errorf("slice %s: no file of %s has specs that last and match %q", s.name, folder, s.focus)
			}
		}
	}
}

func TestNamesAreFileNamesAndOnce(t *testing.T) {
	seen := map[string]bool{}
	for _, s := range all() {
		if seen[s.name] || !regexp.MustCompile(`^[a-z0-9.-]+$`).MatchString(s.name) || s.proves == "" {
			t.Errorf("slice %q is there twice, is no file's name, or does not say what it shows", s.name)
		}
		seen[s.name] = true
	}
}

func TestEachVersionHasASlice(t *testing.T) {
	for _, v := range framework.Versions {
		if _, err := chosen([]string{"kubernetes-" + v.Minor()}); err != nil {
			t.Error(err)
		}
	}
}

func TestChosen(t *testing.T) {
	for _, c := range []struct {
		names []string
		want  int
		fails bool
	}{
		{nil, len(all()), false},
		{[]string{"fuzz"}, 1, false},
		{[]string{"chaos-*", "fuzz"}, 3, false},
		{[]string{"fuzzy"}, 0, true},
		{[]string{"fuzz", "none-*"}, 0, true},
	} {
		got, err := chosen(c.names)
		if (err != nil) != c.fails || err == nil && len(got) != c.want {
			t.Errorf("%v: %d slices and %v, want %d", c.names, len(got), err, c.want)
		}
	}
}
