package report

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
)

func table() Table {
	t := Table{Header: []string{"existing", "ours"}}
	t.Add("0", "930 ±4%")
	t.Add("20,000")
	return t
}

func TestSectionReplacesItsOwnPartOnly(t *testing.T) {
	path := filepath.Join(t.TempDir(), "benchmarks.md")
	before := "# Title\n\n<!-- bench:a -->\nold\n<!-- /bench:a -->\n\nwords\n\n<!-- bench:b -->\n<!-- /bench:b -->\n"
	if err := os.WriteFile(path, []byte(before), 0o644); err != nil {
		t.Fatal(err)
	}
	section := Section{Name: "a", Intro: []string{"How."}, Tables: []Table{table()}, Notes: []string{"Note."}}
	for range 2 { // the second time replaces what the first has written
		if err := section.WriteTo(path); err != nil {
			t.Fatal(err)
		}
	}
	got, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	want := `# Title

<!-- bench:a -->

How.

| existing |    ours |
| -------- | ------: |
| 0        | 930 ±4% |
| 20,000   |         |

Note.

<!-- /bench:a -->

words

<!-- bench:b -->
<!-- /bench:b -->
`
	if diff := cmp.Diff(want, string(got)); diff != "" {
		t.Error(diff)
	}
}

func TestSectionWithoutMarkersIsRefused(t *testing.T) {
	path := filepath.Join(t.TempDir(), "benchmarks.md")
	if err := os.WriteFile(path, []byte("# Title\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	if err := (Section{Name: "a"}).WriteTo(path); err == nil || !strings.Contains(err.Error(), "<!-- bench:a -->") {
		t.Errorf("got %v, want an error that names the marker", err)
	}
}
