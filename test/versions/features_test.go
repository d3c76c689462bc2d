package main

import (
	"errors"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/onsi/ginkgo/v2/types"

	"github.com/clusterip-operator/clusterip-operator/test/framework"
)

const root = "../.."

// specs are n of a file that ended in a state.
func specs(file string, n int, state types.SpecState) (reports types.SpecReports) {
	for range n {
		reports = append(reports, types.SpecReport{
			LeafNodeType: types.NodeTypeIt, State: state, LeafNodeLocation: types.CodeLocation{FileName: filepath.Join("/src", file)},
		})
	}
	return reports
}

// everything is a suite in which one spec passed of each source that a minor release needs.
func everything(minor string) (all types.SpecReports) {
	for _, f := range features {
		for _, s := range f.sources {
			file := "any"
			if len(s.files) > 0 {
				file = s.files[0]
			}
			for _, on := range f.on {
				if on == minor {
					all = append(all, specs(s.folder+"/"+file+"_test.go", 1, types.SpecStatePassed)...)
				}
			}
		}
	}
	return all
}

func cellsByFeature(t *testing.T, minor string, more types.SpecReports) map[string]string {
	t.Helper()
	cells, err := judge(minor, "/src", []types.Report{{SuiteSucceeded: true, SpecReports: append(everything(minor), more...)}})
	if err != nil {
		t.Fatal(err)
	}
	got := map[string]string{}
	for i, f := range features {
		if cells[i] != "" {
			got[f.name] = cells[i]
		}
	}
	return got
}

func TestACellIsTheNumberOfSpecsThatPassed(t *testing.T) {
	more := append(specs(steering+"/cooldown_test.go", 4, types.SpecStatePassed), specs(steering+"/cooldown_test.go", 7, types.SpecStateSkipped)...)
	got := cellsByFeature(t, "1.34", more)
	for feature, want := range map[string]string{
		"Cool-down": "5", "Reservations": "1", "Node agent: the flow matrix, by packets": "", "`kubectl clusterip migrate`, from 1.32 to 1.37 and back": "",
	} {
		if got[feature] != want {
			t.Errorf("%s: %q, want %q", feature, got[feature], want)
		}
	}
	want := map[string]string{
		"ServiceCIDRPolicy: what the API server takes, refuses and shows": "1",
		"`kubectl clusterip`: why, status, check, repair":                 "1",
		"`kubectl clusterip renumber`":                                    "1: refused",
		"`kubectl clusterip migrate`, from 1.32 to 1.37 and back":         "3",
		"Node agent: follows the API server":                              "1",
	}
	if diff := cmp.Diff(want, cellsByFeature(t, "1.32", nil)); diff != "" {
		t.Errorf("on 1.32 (-want +got):\n%s", diff)
	}
}

func TestWhatIsNotProvenIsAnError(t *testing.T) {
	without := func(folder string) (left types.SpecReports) {
		for _, s := range everything("1.35") {
			if !strings.Contains(s.FileName(), folder) {
				left = append(left, s)
			}
		}
		return left
	}
	for name, tc := range map[string]struct {
		suite types.Report
		want  string
	}{
		"a red suite":                      {types.Report{SuiteDescription: "steering", SpecReports: everything("1.35")}, "suite steering failed"},
		"a suite that did not run":         {types.Report{SuiteSucceeded: true, SpecReports: without("enforcement")}, "no spec of controllers/enforcement has run"},
		"one of two suites of a feature":   {types.Report{SuiteSucceeded: true, SpecReports: without("behaviour")}, "no spec of test/integration/behaviour has run"},
		"specs that are of no feature":     {types.Report{SuiteSucceeded: true, SpecReports: append(everything("1.35"), specs(steering+"/new_test.go", 1, types.SpecStatePassed)...)}, "new_test.go"},
		"specs of a suite that no one has": {types.Report{SuiteSucceeded: true, SpecReports: append(everything("1.35"), specs("test/other/a_test.go", 1, types.SpecStatePassed)...)}, "test/other/a_test.go"},
	} {
		t.Run(name, func(t *testing.T) {
			if _, err := judge("1.35", "/src", []types.Report{tc.suite}); err == nil || !strings.Contains(err.Error(), tc.want) {
				t.Errorf("got %v, want an error with %q", err, tc.want)
			}
		})
	}
	if _, err := proven(t.TempDir(), "/src", framework.Versions[:1]); err == nil || !strings.Contains(err.Error(), "1.32.json") {
		t.Errorf("without a report: %v", err)
	}
}

func TestStateOfAFeatureGate(t *testing.T) {
	refused := errors.New("exit status 1")
	for want, tc := range map[string]struct {
		found, on bool
		said      string
		err       error
	}{
		"on, locked":              {true, true, "cannot set feature gate X to false, feature is locked to true", refused},
		"on, may be switched off": {true, true, "Kubernetes v1.33.13", nil},
		"off, may be switched on": {true, false, "Kubernetes v1.33.13", nil},
		"unknown":                 {false, false, "unrecognized feature gate: X", refused},
	} {
		if got, err := state(tc.found, tc.on, tc.said, tc.err); got != want || err != nil {
			t.Errorf("%s, %v; want %s", got, err, want)
		}
	}
	if got, err := state(true, true, "no such file or directory", refused); err == nil {
		t.Errorf("%q of a program that does not start", got)
	}
}

// itself is how a file that has specs looks.
var itself = regexp.MustCompile(`(?m)\b(It|Entry)\(`)

// A file that is renamed or new is noticed here, and not after the hours that the specs take.
func TestEveryFileWithSpecsBelongsToAFeature(t *testing.T) {
	for _, f := range features {
		for _, s := range f.sources {
			for _, noun := range s.files {
				if _, err := os.Stat(filepath.Join(root, s.folder, noun+"_test.go")); err != nil {
					t.Errorf("%s: %v", f.name, err)
				}
			}
		}
	}
	for _, folder := range slices.Concat(suites("1.32"), suites("1.33")) {
		files, err := filepath.Glob(filepath.Join(root, folder, "*_test.go"))
		if err != nil || len(files) == 0 {
			t.Errorf("%s has no tests: %v", folder, err)
		}
		for _, file := range files {
			content, err := os.ReadFile(file)
			relative, _ := filepath.Rel(root, file)
			if known := func(f feature) bool { return f.has(relative) }; err != nil || itself.Match(content) && !slices.ContainsFunc(features, known) {
				t.Errorf("%s belongs to no feature: %v", relative, err)
			}
		}
	}
}

func TestTheDocumentIsOfTheVersionsThatAreTested(t *testing.T) {
	content, err := os.ReadFile(filepath.Join(root, "docs", "versions.md"))
	if err != nil {
		t.Fatal(err)
	}
	for _, v := range framework.Versions {
		if !strings.Contains(string(content), " "+v.Name+" |") {
			t.Errorf("docs/versions.md has no column %s: run make test-versions", v.Name)
		}
	}
	for _, f := range features {
		if !strings.Contains(string(content), "| "+f.name+" ") {
			t.Errorf("docs/versions.md has no row %q: run make test-versions", f.name)
		}
	}
}
