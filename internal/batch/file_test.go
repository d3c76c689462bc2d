package batch

import (
	"encoding/json"
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
)

// JSON that is printed steers no terminal, and reads as what was written.
func TestEncodedJSONSteersNoTerminal(t *testing.T) {
	want := map[string]string{"text": "a\x1b[2J\u009b2J\u202e\x7f\U000E0001 \u00fc \U0001F680\n"}
	var out strings.Builder
	if err := Encode(&out, want, "json"); err != nil {
		t.Fatal(err)
	}
	if strings.ContainsAny(out.String(), "\x1b\u009b\u202e\x7f\U000E0001") || !strings.Contains(out.String(), "\u00fc \U0001F680") {
		t.Errorf("printed is %q", out.String())
	}
	var got map[string]string
	if err := json.Unmarshal([]byte(out.String()), &got); err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
}

// YAML and JSON read alike.
func TestLoad(t *testing.T) {
	type plan struct {
		Head `json:",inline"`
		Size int64 `json:"size"`
	}
	want := plan{Head{"v1", "Plan", "x"}, 1<<62 + 1}
	for name, text := range map[string]string{
		"YAML": "# ours\napiVersion: v1\nkind: Plan\ncluster: x\nsize: 4611686018427387905\n", "one document": "---\napiVersion: v1\nkind: Plan\ncluster: x\nsize: 4611686018427387905\n",
		"JSON": `{"apiVersion": "v1", "kind": "Plan", "cluster": "x", "size": 4611686018427387905}`,
	} {
		file := filepath.Join(t.TempDir(), "plan")
		if err := os.WriteFile(file, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
		var got plan
		if err := Load(file, Head{APIVersion: "v1", Kind: "Plan"}, &got); err != nil || got != want {
			t.Errorf("%s: %+v, error %v; want %+v", name, got, err, want)
		}
	}
}

// The kind of a file is looked at before its fields, and no file is read for ever.
func TestLoadRefuses(t *testing.T) {
	type plan struct {
		Head  `json:",inline"`
		Items []string `json:"items"`
	}
	want, dir := Head{APIVersion: "v1", Kind: "Plan"}, t.TempDir()
	for text, tc := range map[string]struct {
		other bool // a KindError
		want  string
	}{
		"apiVersion: v1\nkind: Report\nfields: [of, it]":       {true, "is of kind Report, not Plan"},
		`{"apiVersion": "v1", "kind": "Report", "a": 1}`:       {true, "is of kind Report, not Plan"},
		"apiVersion: v2\nkind: Plan":                           {true, `is of version "v2", not "v1"`},
		"":                                                     {true, "is no Plan: it names no kind"},
		"items: [a]":                                           {true, "is no Plan: it names no kind"},
		"apiVersion: v1\nkind: Plan\nitms: [a]":                {false, `unknown field "itms"`},
		"apiVersion: v1\nkind: Plan\n---\nitems: [a]":          {false, "more than one document"},
		`{"apiVersion": "v1", "kind": "Plan", "items": ["a"`:   {false, "reading "},
		"apiVersion: v1\nkind: Report\n---\nitems: [a]":        {false, "more than one document"},
		"apiVersion: v1\nkind: Plan\nkind: Plan":               {false, `key "kind" already set`},
		"apiVersion: v1\nkind: Plan\nItems: [a]":               {false, `unknown field "Items"`},
		"apiVersion: v1\nKind: Plan":                           {true, "it names no kind"},
		`{"apiVersion": "v1", "kind": "Plan", "Items": ["a"]}`: {false, `unknown field "Items"`},
		`{"apiVersion": "v1", "kind": "Plan"} {"items": []}`:   {false, "reading "},
		"kind: [Plan]":                                         {false, "reading "},
	} {
		file := filepath.Join(dir, "plan")
		if err := os.WriteFile(file, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
		err := Load(file, want, &plan{})
		_, other := errors.AsType[KindError](err)
		if err == nil || other != tc.other || !strings.Contains(err.Error(), tc.want) || !strings.Contains(err.Error(), file) {
			t.Errorf("%q: error %v, another kind: %t; want %+v", text, err, other, tc)
		}
	}
	for file, words := range map[string]string{dir: "is a directory", "/none": "reading /none: no such file"} {
		if err := Load(file, want, &plan{}); err == nil || !strings.Contains(err.Error(), words) {
			t.Errorf("%s: error %v, want %q", file, err, words)
		}
	}
	if _, err := read("/dev/zero", 1000); err == nil || err.Error() != "it has more than 1000 bytes" {
		t.Errorf("a file without an end: %v", err)
	}
}
