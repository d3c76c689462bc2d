// Command conformance writes docs/reference/proxy-conformance.md from test/e2e/signetwork's
// reports: what the sig-network specs say of each Service proxy, and which did not run and why.
//
//	go run ./test/conformance bin/sig-network docs/reference/proxy-conformance.md
package main

import (
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"

	"github.com/onsi/ginkgo/v2/types"

	"github.com/clusterip-operator/clusterip-operator/test/bench/report"
)

// proxies are those that may be judged, in the order of the columns, by the names of their reports.
var proxies = []string{"agent-nft", "agent-legacy", "agent-nftables", "kube-proxy-iptables", "kube-proxy-nftables"}

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

func run(folder, file string) error {
	var judged []string
	var all []types.Report
	for _, name := range proxies {
		r, err := read(filepath.Join(folder, name+".json"))
		if errors.Is(err, fs.ErrNotExist) {
			continue
		}
		if err != nil {
			return err
		}
		judged, all = append(judged, name), append(all, r)
	}
	if len(all) == 0 {
		return fmt.Errorf("%s has no reports: run test/e2e/signetwork first", folder)
	}
	ran, left, err := tables(judged, all)
	if err != nil {
		return err
	}
	return report.Section{Name: "sig-network", Tables: []report.Table{ran, left}}.WriteTo(file)
}

func read(file string) (r types.Report, err error) {
	text, err := os.ReadFile(file)
	if err != nil {
		return r, fmt.Errorf("reading a report: %w", err)
	}
	var reports []types.Report
	if err := json.Unmarshal(text, &reports); err != nil {
		return r, fmt.Errorf("reading %s: %w", file, err)
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

// tables are what each proxy made of the specs, and the specs that did not run.
func tables(judged []string, reports []types.Report) (ran, left report.Table, err error) {
	ran.Header, left.Header = append([]string{"spec"}, judged...), []string{"spec", "left out because it"}
	passed := make([]int, len(reports))
	for _, s := range sorted(reports[0].SpecReports) {
		states, err := statesOf(judged, reports, s.FullText())
		if err != nil {
			return ran, left, err
		}
		why := unsuitable(s)
		if skipped := !slices.ContainsFunc(states, func(state string) bool { return state != skips }); skipped && why == "" {
			if why, _, _ = strings.Cut(s.Failure.Message, "\n"); why == "" {
				return ran, left, fmt.Errorf("nobody knows why this spec was left out: %s", s.FullText())
			}
		}
		if why != "" {
			left.Add(name(s), why)
			continue
		}
		ran.Add(append([]string{name(s)}, states...)...)
		for i, state := range states {
			if state == passes {
				passed[i]++
			}
		}
	}
	if len(ran.Rows) == 0 {
		return ran, left, errors.New("no spec has run")
	}
	sum := []string{fmt.Sprintf("passed of %d", len(ran.Rows))}
	for _, n := range passed {
		sum = append(sum, strconv.Itoa(n))
	}
	ran.Rows = append([][]string{sum}, ran.Rows...)
	return ran, left, nil
}

// What becomes of a spec.
const passes, fails, skips = "passes", "**fails**", "skips itself"

// statesOf says what became of a spec with each proxy.
func statesOf(judged []string, reports []types.Report, text string) (states []string, err error) {
	for i, r := range reports {
		at := slices.IndexFunc(r.SpecReports, func(s types.SpecReport) bool { return s.FullText() == text })
		switch {
		case at < 0:
			return nil, fmt.Errorf("%s was not asked: %s", judged[i], text)
		case r.SpecReports[at].State.Is(types.SpecStatePassed):
			states = append(states, passes)
		case r.SpecReports[at].Failed():
			states = append(states, fails)
		default:
			states = append(states, skips)
		}
	}
	return states, nil
}
