// Command versions writes into docs/versions.md which features are proven on which versions of
// Kubernetes, and in what these versions differ.
//
//	versions suites MINOR        the packages whose specs have to run on a minor release, say 1.34
//	versions table FOLDER FILE   the tables, from hack/test.sh's FOLDER/MINOR.json and API servers
//
// It promises that a cell is a number of passed specs: a failed spec, a suite that did not run and
// a spec of which no feature knows are errors, and it writes nothing. Start with features.go.
package main

import (
	"context"
	"errors"
	"fmt"
	"os"

	"github.com/clusterip-operator/clusterip-operator/test/bench/report"
	"github.com/clusterip-operator/clusterip-operator/test/framework"
)

func main() {
	if err := run(context.Background(), os.Args[1:]); err != nil {
		_, _ = fmt.Fprintln(os.Stderr, "versions:", err)
		os.Exit(1)
	}
}

func run(ctx context.Context, args []string) error {
	switch {
	case len(args) == 2 && args[0] == "suites":
		return printSuites(args[1])
	case len(args) == 3 && args[0] == "table":
		return write(ctx, args[1], args[2])
	default:
		return errors.New("usage: versions suites MINOR, or versions table FOLDER FILE")
	}
}

func printSuites(minor string) error {
	if _, err := framework.VersionOf(minor); err != nil {
		return err
	}
	for _, p := range suites(minor) {
		fmt.Println(p)
	}
	return nil
}

func write(ctx context.Context, folder, file string) error {
	features, err := proven(folder, framework.ModulePath, framework.Versions) // go test -trimpath begins paths of files with it
	if err != nil {
		return err
	}
	differences, err := differences(ctx, framework.Versions)
	if err != nil {
		return err
	}
	return report.Section{Name: "kubernetes", Tables: []report.Table{features, differences}}.WriteTo(file)
}
