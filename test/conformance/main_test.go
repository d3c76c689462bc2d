package main

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/onsi/ginkgo/v2/types"

	"github.com/clusterip-operator/clusterip-operator/test/bench/report"
)

func spec(text string, state types.SpecState, why string, labels ...string) types.SpecReport {
	return types.SpecReport{
		ContainerHierarchyTexts: []string{"[sig-network] Services"}, LeafNodeText: text, LeafNodeType: types.NodeTypeIt, State: state,
		LeafNodeLabels: labels, Failure: types.Failure{Message: why},
	}
}

func reportOf(day int, specs ...types.SpecReport) types.Report {
	other := spec("of another group", types.SpecStatePassed, "")
	other.ContainerHierarchyTexts = []string{"[sig-node] Pods"}
	return types.Report{SpecReports: append(specs, other), StartTime: time.Date(2026, 11, day, 12, 0, 0, 0, time.UTC)}
}

// two are the columns of two proxies, and the specs of the second one.
func two() ([]column, types.SpecReports) {
	left := []types.SpecReport{spec("c", types.SpecStateSkipped, "", "Feature:LoadBalancer"), spec("d", types.SpecStateSkipped, "needs three nodes\nnot two")}
	first := reportOf(1, append(left, spec("b", types.SpecStatePassed, ""), spec("a", types.SpecStateFailed, "no"))...)
	second := reportOf(2, append(left, spec("a", types.SpecStatePassed, ""), spec("b", types.SpecStateSkipped, "not today"), spec("new", types.SpecStatePassed, ""))...)
	return []column{reported("first", first), reported("second", second)}, second.SpecReports
}

func TestTables(t *testing.T) {
	ran, left, err := tables(two())
	if err != nil {
		t.Fatal(err)
	}
	wantRan := [][]string{{"passed", "1 of 2", "2 of 2"}, {"on", "2026-11-01", "2026-11-02"}, {"Services a", fails, passes}, {"Services b", passes, skips}, {"Services new", unknown, passes}}
	wantLeft := [][]string{{"Services c", "needs load balancers of a cloud"}, {"Services d", "needs three nodes"}}
	if diff := cmp.Diff([][][]string{wantRan, wantLeft}, [][][]string{ran.Rows, left.Rows}); diff != "" {
		t.Error(diff)
	}
}

func TestWrittenColumnsAreReadBack(t *testing.T) {
	columns, asked := two()
	ran, left, err := tables(columns, asked)
	if err != nil {
		t.Fatal(err)
	}
	file := filepath.Join(t.TempDir(), "document.md")
	if err := os.WriteFile(file, []byte("# Title\n<!-- bench:sig-network -->\n<!-- /bench:sig-network -->\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	if err := (report.Section{Name: section, Tables: []report.Table{ran, left}}).WriteTo(file); err != nil {
		t.Fatal(err)
	}
	kept, err := keptIn(file)
	want := map[string]column{"first": columns[0], "second": columns[1]}
	for _, c := range want {
		delete(c.states, "Services d") // no proxy ran it, so it is in the other table
	}
	if diff := cmp.Diff(want, kept, cmp.AllowUnexported(column{})); diff != "" || err != nil {
		t.Error(diff, err)
	}
}

// A skipped spec without a reason is an error, and so is a run in which no spec ran.
func TestWhatIsNotExplained(t *testing.T) {
	columns, asked := two()
	if _, _, err := tables(columns, append(asked, spec("e", types.SpecStateSkipped, ""))); err == nil || !strings.Contains(err.Error(), "no reason") {
		t.Errorf("a spec without a reason: %v", err)
	}
	if _, _, err := tables(nil, asked); err == nil || !strings.Contains(err.Error(), "no spec has run") {
		t.Errorf("no columns: %v", err)
	}
}
