package main

import (
	"errors"
	"os"
	"reflect"
	"strings"
	"testing"
	"time"

	"github.com/onsi/ginkgo/v2/types"
)

// reported is a report of three specs: one passed with figures, one failed, one was skipped.
func reported() []types.Report {
	said := func(name, value string, visibility types.ReportEntryVisibility) types.ReportEntry {
		return types.ReportEntry{Name: name, Visibility: visibility, Value: types.WrapEntryValue(value)}
	}
	it := func(text string, state types.SpecState, entries ...types.ReportEntry) types.SpecReport {
		return types.SpecReport{LeafNodeType: types.NodeTypeIt, LeafNodeText: text, State: state, ReportEntries: entries}
	}
	return []types.Report{{SpecReports: types.SpecReports{
		it("holds", types.SpecStatePassed, said("lost", "0", types.ReportEntryVisibilityAlways), said("log", "long", types.ReportEntryVisibilityFailureOrVerbose)),
		it("breaks", types.SpecStateFailed),
		it("is for another day", types.SpecStateSkipped),
	}}}
}

func TestCount(t *testing.T) {
	var r result
	r.count(reported())
	if r.Specs != 1 || !reflect.DeepEqual(r.Failed, []string{"breaks"}) || len(r.Figures) != 1 || r.Figures[0] != (figure{"holds", "lost", "0"}) {
		t.Errorf("counted %+v", r)
	}
}

func TestJudge(t *testing.T) {
	for name, c := range map[string]struct {
		r   result
		s   slice
		ran error
		why string
	}{
		"passed":                   {result{Specs: 2}, slice{reports: true}, nil, ""},
		"a command without specs":  {result{}, slice{}, nil, ""},
		"a command that failed":    {result{Specs: 2}, slice{}, errors.New("exit status 1"), "exit status 1"},
		"a spec that failed":       {result{Specs: 2, Failed: []string{"x"}}, slice{}, nil, "1 specs failed"},
		"a focus that finds none":  {result{}, slice{reports: true}, nil, "no spec ran"},
		"an error before the rest": {result{Failed: []string{"x"}}, slice{}, errors.New("too long"), "too long"},
	} {
		c.r.judge(c.s, c.ran)
		if c.r.Why != c.why || c.r.Passed != (c.why == "") {
			t.Errorf("%s: passed %v, why %q; want %q", name, c.r.Passed, c.r.Why, c.why)
		}
	}
}

func TestAResultIsKept(t *testing.T) {
	folder, want := t.TempDir(), result{Slice: "fuzz", Passed: true, Commit: "abc", Code: "def", Seed: 7, Began: time.Unix(1, 0).UTC(), Seconds: 61}
	if err := want.keep(folder); err != nil {
		t.Fatal(err)
	}
	got, err := kept(folder, all())
	if err != nil || len(got) != 1 || !reflect.DeepEqual(got["fuzz"], want) {
		t.Errorf("kept %+v, %v", got, err)
	}
	if err := os.WriteFile(folder+"/flows.json", []byte("{"), 0o600); err != nil {
		t.Fatal(err)
	}
	if _, err := kept(folder, all()); err == nil || !strings.Contains(err.Error(), "flows") {
		t.Errorf("a broken file is read with the error %v", err)
	}
}

func TestPage(t *testing.T) {
	some := []slice{{name: "one", proves: "that it holds"}, {name: "two", proves: "the same"}}
	passed := result{Slice: "one", Passed: true, Commit: "c1", Code: "aaa", Seed: 7, Began: time.Unix(0, 0), Seconds: 61, Specs: 2, Machine: "a machine",
		Figures: []figure{{"a spec", "lost", "0\n"}}}
	failed := result{Slice: "two", Why: "1 specs failed", Commit: "c2", Code: "aaa", Began: time.Unix(0, 0), Failed: []string{"breaks"}}
	for name, c := range map[string]struct {
		results map[string]result
		says    []string
	}{
		"none":           {nil, []string{"0 of 2 slices have run", "**not yet the whole on one commit**", "has not run |"}},
		"one":            {map[string]result{"one": passed}, []string{"1 of 2 slices have run, 1 passed", "**not yet", " passed |", "1970-01-01 00:00", "lost, of \"a spec\":\n\n```text\n0\n```"}},
		"all, one fails": {map[string]result{"one": passed, "two": failed}, []string{"2 of 2 slices have run, 1 passed, all on one code, aaa.", "**failed** |", "Failed: 1 specs failed.", "* failed: breaks"}},
	} {
		got := page(some, c.results)
		for _, text := range c.says {
			if !strings.Contains(got, text) {
				t.Errorf("%s: the page lacks %q:\n%s", name, text, got)
			}
		}
	}
}
