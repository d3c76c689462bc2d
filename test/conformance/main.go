// Command conformance writes docs/reference/proxy-conformance.md from test/e2e/signetwork's
// reports: what the sig-network specs say of each Service proxy, and which did not run and why. The
// column of a proxy without a report stays as the file has it, with the day of its run.
//
//	go run ./test/conformance bin/sig-network docs/reference/proxy-conformance.md
//
// column.go has what is known of a proxy, from its report or from the file; reason.go why specs are
// not for that cluster.
package main

import (
	"cmp"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"github.com/onsi/ginkgo/v2/types"

	"github.com/clusterip-operator/clusterip-operator/test/bench/report"
	"github.com/clusterip-operator/clusterip-operator/test/framework/suite"
)

// proxies are those that may be judged, in the order of the columns, by the names of their reports.
var proxies = []string{"agent-nft", "agent-legacy", "agent-nftables", "agent-nftables-socketlb", "kube-proxy-iptables", "kube-proxy-nftables"}

func main() {
	if len(os.Args) != 3 {
		fmt.Fprintln(os.Stderr, "usage: conformance FOLDER FILE")
		os.Exit(2)
	}
	if err := run(os.Args[1], os.Args[2]); err != nil {
		fmt.Fprintln(os.Stderr, "conformance:", err)
		os.Exit(1)
	}
}

const section = "sig-network"

func run(folder, file string) error {
	kept, err := keptIn(file)
	if err != nil {
		return err
	}
	var columns []column
	var asked types.SpecReports // of any of the reports: all have the same specs
	for _, name := range proxies {
		r, err := read(filepath.Join(folder, name+".json"))
		if errors.Is(err, fs.ErrNotExist) {
			if c, known := kept[name]; known {
				columns = append(columns, c)
			}
			continue
		}
		if err != nil {
			return err
		}
		asked = r.SpecReports
		columns = append(columns, reported(name, r))
	}
	if len(asked) == 0 {
		return fmt.Errorf("%s has no reports: run test/e2e/signetwork first", folder)
	}
	ran, left, err := tables(columns, asked)
	if err != nil {
		return err
	}
	return report.Section{Name: section, Tables: []report.Table{ran, left}}.WriteTo(file)
}

func read(file string) (r types.Report, err error) {
	reports, err := suite.Reports(file)
	if err != nil {
		return r, err
	}
	if len(reports) != 1 {
		return r, fmt.Errorf("%s has %d suites, not one", file, len(reports))
	}
	return reports[0], nil
}

// name is what a spec is called, without the name of the group that all of them have.
func name(s types.SpecReport) string {
	return strings.NewReplacer("[sig-network] ", "", "|", "or", "\n", " ").Replace(s.FullText())
}

// tables are what each proxy made of the specs, and the specs that no proxy ran, of those asked.
func tables(columns []column, asked types.SpecReports) (ran, left report.Table, err error) {
	ran.Header, left.Header = []string{"spec"}, []string{"spec", "left out because it"}
	passed, day := []string{"passed"}, []string{"on"}
	for _, c := range columns {
		ran.Header, passed, day = append(ran.Header, c.proxy), append(passed, c.passed()), append(day, c.day)
	}
	ran.Rows = [][]string{passed, day}
	for _, name := range specsOf(columns) {
		row := []string{name}
		for _, c := range columns {
			row = append(row, cmp.Or(c.states[name], unknown))
		}
		ran.Add(row...)
	}
	if len(ran.Rows) == 2 {
		return ran, left, errors.New("no spec has run")
	}
	for _, s := range sorted(asked) {
		if slices.ContainsFunc(columns, func(c column) bool { return c.ran(name(s)) }) {
			continue
		}
		why := unsuitable(s)
		if why == "" {
			if why, _, _ = strings.Cut(s.Failure.Message, "\n"); why == "" {
				return ran, left, fmt.Errorf("there is no reason why this spec was left out: %s", s.FullText())
			}
		}
		left.Add(name(s), why)
	}
	return ran, left, nil
}
