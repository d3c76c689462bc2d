package main

import (
	"cmp"
	"fmt"
	"os"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/clusterip-operator/clusterip-operator/test/bench/report"
)

// most is how many characters of a figure the page shows; the whole is in the result's file.
const most = 600

// write makes the page of the last result of each slice.
func write(file string, of []slice, results map[string]result) error {
	return os.WriteFile(file, []byte(page(of, results)), 0o644) //nolint:gosec // every user may read it
}

// page is docs/reference/soak.md.
func page(of []slice, results map[string]result) string {
	var b strings.Builder
	b.WriteString("# Soak\n\nThe last result of each slice of `make soak`, which writes this page. `make soak SLICE=NAME SEED=N` repeats one. " +
		"Two slices ran on the same code if the digest is the same: it is that of all files but documents.\n\n")
	b.WriteString(whole(of, results) + "\n\n")
	table := verdicts(of, results)
	_ = table.Print(&b) // a strings.Builder takes all
	for _, s := range of {
		if r, ok := results[s.name]; ok {
			b.WriteString(details(r))
		}
	}
	return strings.TrimRight(b.String(), "\n") + "\n"
}

// whole says whether all slices have passed on one and the same code.
func whole(of []slice, results map[string]result) string {
	codes, commits, passed := map[string]bool{}, map[string]bool{}, 0
	for _, s := range of {
		r, ok := results[s.name]
		if !ok {
			continue
		}
		codes[r.Code], commits[r.Commit] = true, true
		if r.Passed {
			passed++
		}
	}
	text := fmt.Sprintf("%d of %d slices have run, %d passed, ", len(results), len(of), passed)
	if len(codes) == 1 && len(results) == len(of) {
		return fmt.Sprintf("%sall on one code, %s.", text, sorted(codes)[0])
	}
	return fmt.Sprintf("%son %d states of the code: **not yet the whole on one commit**.", text, len(codes))
}

func sorted(set map[string]bool) (keys []string) {
	for k := range set {
		keys = append(keys, k)
	}
	slices.Sort(keys)
	return keys
}

// verdicts has a row for each slice, those that never ran included.
func verdicts(of []slice, results map[string]result) report.Table {
	t := report.Table{Header: []string{"slice", "what it shows", "verdict", "specs", "minutes", "seed", "began (UTC)", "commit", "code"}}
	for _, s := range of {
		r, ok := results[s.name]
		if !ok {
			t.Add(s.name, s.proves, "has not run")
			continue
		}
		t.Add(s.name, s.proves, verdict(r), specCount(r), strconv.Itoa((r.Seconds+59)/60), strconv.FormatInt(r.Seed, 10),
			r.Began.UTC().Format("2006-01-02 15:04"), r.Commit, r.Code)
	}
	return t
}

func verdict(r result) string {
	if r.Passed {
		return "passed"
	}
	return "**failed**"
}

func specCount(r result) string {
	switch {
	case r.Specs+len(r.Failed) == 0:
		return ""
	case len(r.Failed) == 0:
		return strconv.Itoa(r.Specs)
	default:
		return fmt.Sprintf("%d, %d failed", r.Specs, len(r.Failed))
	}
}

// details are why a slice failed and what it measured; empty if there is nothing of both.
func details(r result) string {
	if r.Passed && len(r.Figures) == 0 {
		return ""
	}
	var b strings.Builder
	fmt.Fprintf(&b, "## %s\n\nOn %s, in %s.\n\n", r.Slice, r.Machine, (time.Duration(r.Seconds) * time.Second).String())
	if !r.Passed {
		fmt.Fprintf(&b, "Failed: %s.\n\n", r.Why)
	}
	for _, f := range r.Failed {
		fmt.Fprintf(&b, "* failed: %s\n", f)
	}
	if len(r.Failed) > 0 {
		b.WriteString("\n")
	}
	figures := slices.Clone(r.Figures)
	slices.SortStableFunc(figures, func(a, b figure) int { return cmp.Compare(a.Name, b.Name) })
	for _, f := range figures {
		fmt.Fprintf(&b, "%s, of \"%s\":\n\n```text\n%s\n```\n\n", f.Name, f.Spec, shortened(f.Value))
	}
	return b.String()
}

func shortened(text string) string {
	text = strings.TrimSpace(text)
	if len(text) <= most {
		return text
	}
	return strings.ToValidUTF8(text[:most], "") + " …"
}
