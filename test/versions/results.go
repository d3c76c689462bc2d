package main

import (
	"errors"
	"fmt"
	"path/filepath"
	"slices"
	"strconv"

	"github.com/onsi/ginkgo/v2/types"

	"github.com/clusterip-operator/clusterip-operator/test/bench/report"
	"github.com/clusterip-operator/clusterip-operator/test/framework"
	"github.com/clusterip-operator/clusterip-operator/test/framework/suite"
)

// proven is the table of features: how many specs of each passed on which version.
func proven(folder, root string, versions []framework.Version) (report.Table, error) {
	t := report.Table{Header: []string{"specs that passed"}}
	for _, f := range features {
		t.Add(f.name)
	}
	var errs []error
	for _, v := range versions {
		t.Header = append(t.Header, v.Name)
		suites, err := suite.Reports(filepath.Join(folder, v.Minor()+".json"))
		if err != nil {
			return t, err
		}
		cells, err := judge(v.Minor(), root, suites)
		if err != nil {
			errs = append(errs, fmt.Errorf("on Kubernetes %s: %w", v.Name, err))
			continue
		}
		for i, cell := range cells {
			t.Rows[i] = append(t.Rows[i], cell)
		}
	}
	return t, errors.Join(errs...)
}

// judge returns a version's cells, one per feature. Its error names failed and missing suites, and
// specs of no feature.
func judge(minor, root string, suites []types.Report) (cells []string, err error) {
	passed := map[string]int{} // by file
	var errs []error
	for _, suite := range suites {
		if !suite.SuiteSucceeded {
			errs = append(errs, fmt.Errorf("suite %s failed", suite.SuiteDescription))
		}
		for _, spec := range suite.SpecReports {
			file, err := filepath.Rel(root, spec.FileName())
			switch known := func(f feature) bool { return f.has(file) }; {
			case spec.LeafNodeType != types.NodeTypeIt || spec.State != types.SpecStatePassed:
			case err != nil || !slices.ContainsFunc(features, known):
				errs = append(errs, fmt.Errorf("no feature in test/versions/features.go has the specs of %s", spec.FileName()))
			default:
				passed[file]++
			}
		}
	}
	for _, f := range features {
		cell, err := f.cell(minor, passed)
		cells, errs = append(cells, cell), append(errs, err)
	}
	return cells, errors.Join(errs...)
}

// cell is how many specs passed on a release. Where it has to be proven, each package needs some.
func (f feature) cell(minor string, passed map[string]int) (string, error) {
	sum := 0
	for _, s := range f.sources {
		n := s.count(passed)
		if n == 0 && slices.Contains(f.on, minor) {
			return "", fmt.Errorf("%s: no spec of %s has run", f.name, s.folder)
		}
		sum += n
	}
	switch note := f.notes[minor]; {
	case sum == 0:
		return "", nil
	case note != "":
		return strconv.Itoa(sum) + ": " + note, nil
	default:
		return strconv.Itoa(sum), nil
	}
}
