package main

import (
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"time"

	"github.com/onsi/ginkgo/v2/types"
)

// result is what a slice has shown, as it is kept in the repository.
type result struct {
	Slice string `json:"slice"`
	// Passed is the verdict, Why the reason of one that did not pass.
	Passed bool   `json:"passed"`
	Why    string `json:"why,omitempty"`
	// Commit is what ran, Code the digest of its files but for documents: results that are
	// committed between two slices change the commit and not the code.
	Commit string `json:"commit"`
	Code   string `json:"code"`
	// Seed repeats the order of specs and what happens at random.
	Seed    int64     `json:"seed"`
	Began   time.Time `json:"began"`
	Seconds int       `json:"seconds"`
	Machine string    `json:"machine"`
	// Specs passed, Failed are those that did not; both are zero where the command makes no report.
	Specs  int      `json:"specs,omitempty"`
	Failed []string `json:"failed,omitempty"`
	// Figures are what specs measured and always tell.
	Figures []figure `json:"figures,omitempty"`
}

// figure is an entry of a spec's report that Ginkgo always shows.
type figure struct {
	Spec  string `json:"spec"`
	Name  string `json:"name"`
	Value string `json:"value"`
}

// count takes specs and figures from Ginkgo's reports of the slice's suites.
func (r *result) count(suites []types.Report) {
	for _, suite := range suites {
		for _, spec := range suite.SpecReports {
			r.countSpec(spec)
		}
	}
}

func (r *result) countSpec(spec types.SpecReport) {
	text := spec.FullText()
	switch {
	case spec.State.Is(types.SpecStateFailureStates):
		r.Failed = append(r.Failed, text)
	case spec.State == types.SpecStatePassed && spec.LeafNodeType == types.NodeTypeIt:
		r.Specs++
	}
	for _, entry := range spec.ReportEntries {
		if entry.Visibility == types.ReportEntryVisibilityAlways {
			r.Figures = append(r.Figures, figure{text, entry.Name, entry.StringRepresentation()})
		}
	}
}

// judge is the verdict: of the command's error, if any, and of what the reports say.
func (r *result) judge(s slice, ran error) {
	switch {
	case ran != nil:
		r.Why = ran.Error()
	case len(r.Failed) > 0:
		r.Why = fmt.Sprintf("%d specs failed", len(r.Failed))
	case s.reports && r.Specs == 0:
		r.Why = "no spec ran"
	default:
		r.Passed = true
	}
}

// keep writes a result into a folder, in place of the slice's last one.
func (r result) keep(folder string) error {
	content, err := json.MarshalIndent(r, "", "\t")
	if err != nil {
		return fmt.Errorf("keeping the result of %s: %w", r.Slice, err)
	}
	if err := os.MkdirAll(folder, 0o755); err != nil { //nolint:gosec // every user may read results
		return fmt.Errorf("keeping the result of %s: %w", r.Slice, err)
	}
	return os.WriteFile(filepath.Join(folder, r.Slice+".json"), append(content, '\n'), 0o644) //nolint:gosec // as above
}

// kept reads the last result of each slice that has one.
func kept(folder string, of []slice) (map[string]result, error) {
	results := map[string]result{}
	for _, s := range of {
		content, err := os.ReadFile(filepath.Join(folder, s.name+".json"))
		if errors.Is(err, fs.ErrNotExist) {
			continue
		}
		if err != nil {
			return nil, fmt.Errorf("reading the result of %s: %w", s.name, err)
		}
		var r result
		if err := json.Unmarshal(content, &r); err != nil {
			return nil, fmt.Errorf("reading the result of %s: %w", s.name, err)
		}
		results[s.name] = r
	}
	return results, nil
}
