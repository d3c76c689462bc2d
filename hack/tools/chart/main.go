// Chart makes the Helm chart of config/, which stays what is written by hand:
//
//	chart [-version v1.2.3] [-image NAME:TAG@DIGEST] CONFIG LICENSE OUT
//	chart values CONFIG
//
// The first writes OUT/clusterip-operator, the chart as a folder; OUT/clusterip-operator-1.2.3.tgz;
// and OUT/chart.tar, which is the same as an OCI layout, to be pushed to a registry. The second
// prints a page about the values. The same files give the same bytes.
//
// render.go has kustomize render config/default alone, and with each component that a value
// switches on; merge.go makes templates of the differences; values.go says what else is a value,
// chart.go where it goes; print.go writes YAML with actions. A test (test/integration/chart)
// compares what Helm makes of the templates with what kustomize makes of config/, object by object.
package main

import (
	"errors"
	"flag"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"

	"github.com/blang/semver/v4"
)

func main() {
	if err := run(os.Args[1:]); err != nil {
		fmt.Fprintln(os.Stderr, "chart:", err)
		os.Exit(1)
	}
}

// versionOf reads v1.2.3 of a release, or what git describe makes of a commit after one. Build
// metadata is refused: a tag of a registry cannot have its sign.
func versionOf(text string) (string, error) {
	number, found := strings.CutPrefix(text, "v")
	if v, err := semver.Parse(number); !found || err != nil || len(v.Build) > 0 {
		return "", fmt.Errorf("-version %q: want one as v1.2.3", text)
	}
	return number, nil
}

func run(args []string) error {
	set := flag.NewFlagSet("chart", flag.ContinueOnError)
	version := set.String("version", "v0.0.0-dev", "of the chart, and of what it installs")
	image := set.String("image", "", "the manager's image, by its digest; empty for that of config/")
	if err := set.Parse(args); err != nil {
		return err
	}
	if set.NArg() == 2 && set.Arg(0) == "values" {
		return printPage(set.Arg(1))
	}
	if set.NArg() != 3 {
		return errors.New("want CONFIG LICENSE OUT, or values CONFIG")
	}
	number, err := versionOf(*version)
	if err != nil {
		return err
	}
	license, err := os.ReadFile(set.Arg(1))
	if err != nil {
		return err
	}
	m, err := load(set.Arg(0))
	if err != nil {
		return err
	}
	files, err := m.chart(about{number, *image})
	if err != nil {
		return err
	}
	files["LICENSE"] = license
	return write(set.Arg(2), number, files)
}

func printPage(config string) error {
	m, err := load(config)
	if err != nil {
		return err
	}
	values, err := m.values(m.image())
	if err == nil {
		fmt.Print(page(values))
	}
	return err
}

// write writes the folder and the archives. What was in the folder before is gone.
func write(out, version string, files map[string][]byte) error {
	folder := filepath.Join(out, name)
	if err := os.RemoveAll(folder); err != nil {
		return err
	}
	for path, content := range files {
		path = filepath.Join(folder, path)
		if err := errors.Join(os.MkdirAll(filepath.Dir(path), 0o755), os.WriteFile(path, content, 0o644)); err != nil {
			return err
		}
	}
	tgz, err := compressed(files)
	if err != nil {
		return err
	}
	layout, err := layoutOf(tgz, files["Chart.yaml"])
	if err != nil {
		return fmt.Errorf("making the OCI layout: %w", err)
	}
	return errors.Join(writeFile(out, fmt.Sprintf("%s-%s.tgz", name, version), tgz), writeFile(out, "chart.tar", layout))
}

func writeFile(folder, name string, content []byte) error {
	return os.WriteFile(filepath.Join(folder, name), content, fs.FileMode(0o644))
}
