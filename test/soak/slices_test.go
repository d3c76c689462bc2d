package main

import (
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/clusterip-operator/clusterip-operator/test/framework"
)

func TestEachLastingSpecBelongsToASlice(t *testing.T) {
	folders := map[string]bool{}
	for _, s := range lastingSpecs(t) {
		folders[s.folder] = true
		if !slices.ContainsFunc(all(), func(in slice) bool { return in.runs(s.folder, s.text) }) {
			t.Errorf("%s: no slice runs the spec %q", s.at, s.text)
		}
	}
	if len(folders) < 20 {
		t.Errorf("found lasting specs in %d folders alone: the search is broken", len(folders))
	}
}

// A part of a focus that matches nothing is the text of a spec that has another one since.
func TestEachSliceFindsItsSpecs(t *testing.T) {
	found := lastingSpecs(t)
	for _, s := range all() {
		for _, folder := range s.packages {
			if !slices.ContainsFunc(found, func(it spec) bool { return it.folder == folder && s.runs(folder, it.text) }) {
				t.Errorf("slice %s: no spec of %s lasts and matches %q", s.name, folder, s.focus)
			}
		}
		for part := range strings.SplitSeq(s.focus, "|") {
			one := s
			one.focus = part
			if part != "" && !slices.ContainsFunc(found, func(it spec) bool { return one.runs(it.folder, it.text) }) {
				t.Errorf("slice %s: no spec matches %q", s.name, part)
			}
		}
	}
}

func TestNamesAreFileNamesAndOnce(t *testing.T) {
	seen := map[string]bool{}
	for _, s := range all() {
		if seen[s.name] || !regexp.MustCompile(`^[a-z0-9.-]+$`).MatchString(s.name) || s.proves == "" {
			t.Errorf("slice %q is there twice, is no file's name, or does not say what it shows", s.name)
		}
		seen[s.name] = true
	}
}

func TestEachVersionHasASlice(t *testing.T) {
	for _, v := range framework.Versions {
		if _, err := chosen([]string{"kubernetes-" + v.Minor()}); err != nil {
			t.Error(err)
		}
	}
}

func TestChosen(t *testing.T) {
	for _, c := range []struct {
		names []string
		want  int
		fails bool
	}{
		{nil, len(all()), false},
		{[]string{"fuzz"}, 1, false},
		{[]string{"chaos-*", "fuzz"}, 3, false},
		{[]string{"fuzzy"}, 0, true},
		{[]string{"fuzz", "none-*"}, 0, true},
	} {
		got, err := chosen(c.names)
		if (err != nil) != c.fails || err == nil && len(got) != c.want {
			t.Errorf("%v: %d slices and %v, want %d", c.names, len(got), err, c.want)
		}
	}
}
