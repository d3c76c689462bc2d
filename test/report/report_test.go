package main

import (
	"encoding/json"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/onsi/ginkgo/v2/types"
)

// specReport is what Ginkgo says of a spec below a container.
func specReport(container, text string, state types.SpecState, took time.Duration) types.SpecReport {
	return types.SpecReport{
		ContainerHierarchyTexts: []string{container}, LeafNodeText: text, LeafNodeType: types.NodeTypeIt, State: state, RunTime: took,
	}
}

var reports = map[string][]types.Report{
	"first.json": {{SuiteDescription: "steering", SpecReports: types.SpecReports{
		{LeafNodeType: types.NodeTypeBeforeSuite, State: types.SpecStatePassed, RunTime: 3 * time.Second},
		specReport("A tenant", "gets its own", types.SpecStatePassed, time.Second),
		specReport("A tenant", "gets more", types.SpecStateSkipped, 0),
	}}},
	"second.json": {{SuiteDescription: "flows", SpecReports: types.SpecReports{
		specReport("", "fails", types.SpecStateFailed, 1500*time.Millisecond),
		specReport("", "never ends", types.SpecStateTimedout, time.Minute),
		{LeafNodeType: types.NodeTypeBeforeSuite, State: types.SpecStatePanicked},
	}}},
}

func write(t *testing.T) (folder string) {
	t.Helper()
	folder = t.TempDir()
	for name, report := range reports {
		content, err := json.Marshal(report)
		if err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(filepath.Join(folder, name), content, 0o600); err != nil {
			t.Fatal(err)
		}
	}
	return folder
}

func TestRunMergesAndTellsFailuresAndTheSlowest(t *testing.T) {
	file := filepath.Join(t.TempDir(), "report.json")
	var out strings.Builder
	if err := run(&out, write(t), file); err != nil {
		t.Fatal(err)
	}
	const want = `--- FAIL: flows:_never_ends (60.00s)
--- FAIL: flows:_fails (1.50s)
--- FAIL: flows:_[BeforeSuite] (0.00s)
== the slowest of 5 specs
    1m0s  flows: never ends
      3s  steering: [BeforeSuite]
    1.5s  flows: fails
      1s  steering: A tenant gets its own
      0s  flows: [BeforeSuite]
`
	if diff := cmp.Diff(want, out.String()); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
	merged, err := read(filepath.Dir(file))
	if err != nil {
		t.Fatal(err)
	}
	var names []string
	for _, suite := range merged {
		names = append(names, suite.SuiteDescription)
	}
	if diff := cmp.Diff([]string{"steering", "flows"}, names); diff != "" {
		t.Errorf("merged (-want +got):\n%s", diff)
	}
}

func TestReadRefusesWhatIsNoReport(t *testing.T) {
	folder := t.TempDir()
	if err := os.WriteFile(filepath.Join(folder, "cut.json"), []byte(`[{"SuiteDescr`), 0o600); err != nil {
		t.Fatal(err)
	}
	if _, err := read(folder); err == nil || !strings.Contains(err.Error(), "cut.json") {
		t.Errorf("got %v", err)
	}
}
