// Command report merges Ginkgo's JSON reports of each package into one, tells failed specs as Go
// tells failed tests, and prints the slowest specs.
//
//	report FOLDER FILE
//
// It reads all in FOLDER. FILE is as from `ginkgo --json-report`, less what passed specs have said.
package main

import (
	"cmp"
	"encoding/json"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"github.com/onsi/ginkgo/v2/types"

	"github.com/clusterip-operator/clusterip-operator/test/framework/suite"
)

// shown is how many of the slowest specs are printed.
const shown = 10

func main() {
	if len(os.Args) != 3 {
		_, _ = fmt.Fprintln(os.Stderr, "usage: report FOLDER FILE")
		os.Exit(2)
	}
	if err := run(os.Stdout, os.Args[1], os.Args[2]); err != nil {
		_, _ = fmt.Fprintln(os.Stderr, "report:", err)
		os.Exit(1)
	}
}

func run(out io.Writer, folder, file string) error {
	suites, err := read(folder)
	if err != nil {
		return err
	}
	merged, err := json.Marshal(suites)
	if err != nil {
		return fmt.Errorf("writing the report: %w", err)
	}
	if err := os.WriteFile(file, merged, 0o644); err != nil { //nolint:gosec // every user may read a report
		return fmt.Errorf("writing the report: %w", err)
	}
	show(out, specsOf(suites))
	return nil
}

// read returns the suites of all reports in a folder.
func read(folder string) ([]types.Report, error) {
	names, err := filepath.Glob(filepath.Join(folder, "*.json"))
	if err != nil {
		return nil, fmt.Errorf("looking for reports: %w", err)
	}
	suites := []types.Report{}
	for _, name := range names {
		some, err := suite.Reports(name)
		if err != nil {
			return nil, err
		}
		shorten(some)
		suites = append(suites, some...)
	}
	return suites, nil
}

// shorten leaves out what was said by specs that passed.
func shorten(suites []types.Report) {
	for _, suite := range suites {
		for i := range suite.SpecReports {
			if s := &suite.SpecReports[i]; !s.State.Is(types.SpecStateFailureStates) {
				s.SpecEvents, s.CapturedGinkgoWriterOutput, s.CapturedStdOutErr = nil, "", ""
			}
		}
	}
}

// spec is a spec that ran, or a node like BeforeSuite.
type spec struct {
	name string
	types.SpecReport
}

// specsOf returns what ran in suites, the slowest first.
func specsOf(suites []types.Report) (all []spec) {
	for _, suite := range suites {
		for _, report := range suite.SpecReports {
			if report.State.Is(types.SpecStateSkipped | types.SpecStatePending) {
				continue
			}
			text := report.FullText()
			if !report.LeafNodeType.Is(types.NodeTypeIt) {
				text = strings.TrimSpace("[" + report.LeafNodeType.String() + "] " + text)
			}
			all = append(all, spec{suite.SuiteDescription + ": " + text, report})
		}
	}
	slices.SortStableFunc(all, func(a, b spec) int { return cmp.Compare(b.RunTime, a.RunTime) })
	return all
}

// show prints the specs that failed, named as Go names tests, and the slowest of all.
func show(out io.Writer, specs []spec) {
	for _, s := range specs {
		if s.State.Is(types.SpecStateFailureStates) {
			_, _ = fmt.Fprintf(out, "--- FAIL: %s (%.2fs)\n", strings.Join(strings.Fields(s.name), "_"), s.RunTime.Seconds())
		}
	}
	_, _ = fmt.Fprintf(out, "== the slowest of %d specs\n", len(specs))
	for _, s := range specs[:min(shown, len(specs))] {
		_, _ = fmt.Fprintf(out, "%8s  %s\n", s.RunTime.Round(100*time.Millisecond), s.name)
	}
}
