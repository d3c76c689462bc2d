package main

import (
	"cmp"
	"slices"
	"strings"
	"time"

	"github.com/onsi/ginkgo/v2/types"
)

// spec is a spec that ran, or a node like BeforeSuite.
type spec struct {
	name   string
	took   time.Duration
	failed bool
}

// specsOf returns what ran in suites.
func specsOf(suites []types.Report) (all []spec) {
	for _, suite := range suites {
		for _, report := range suite.SpecReports {
			if report.State.Is(types.SpecStateSkipped | types.SpecStatePending) {
				continue
			}
			all = append(all, spec{
				name:   nameOf(suite.SuiteDescription, report),
				took:   report.RunTime,
				failed: report.State.Is(types.SpecStateFailureStates),
			})
		}
	}
	return all
}

// nameOf is the whole text of a spec, and of BeforeSuite and its like the type, after the name of the suite.
func nameOf(suite string, report types.SpecReport) string {
	text := report.FullText()
	if !report.LeafNodeType.Is(types.NodeTypeIt) {
		text = strings.TrimSpace("[" + report.LeafNodeType.String() + "] " + text)
	}
	return suite + ": " + text
}

// testName is the name as Go writes those of tests.
func (s spec) testName() string { return strings.Join(strings.Fields(s.name), "_") }

// slowest returns the n that took longest, the slowest first.
func slowest(specs []spec, n int) []spec {
	sorted := slices.SortedStableFunc(slices.Values(specs), func(a, b spec) int { return cmp.Compare(b.took, a.took) })
	return sorted[:min(n, len(sorted))]
}
