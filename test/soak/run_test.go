package main

import (
	"encoding/json"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// TestRun runs slices of a shell's commands here, in this repository.
func TestRun(t *testing.T) {
	reports, err := json.Marshal(reported()[:1])
	if err != nil {
		t.Fatal(err)
	}
	file := filepath.Join(t.TempDir(), "report.json")
	if err := os.WriteFile(file, reports, 0o600); err != nil {
		t.Fatal(err)
	}
	t.Chdir(t.TempDir())
	for _, command := range []string{"git init -q .", "echo bin/ >.gitignore && git add .gitignore", "git -c user.name=a -c user.email=a@b commit -q --allow-empty -m 'a commit'"} {
		if _, err := shell(t.Context(), command); err != nil {
			t.Fatal(err)
		}
	}
	t.Setenv("SEED", "42")
	for name, c := range map[string]struct {
		command string
		specs   int
		why     string
	}{
		"it passes":       {`[ "$SEED $MORE" = "42 yes" ]`, 0, ""},
		"it fails":        {"exit 3", 0, "exit status 3"},
		"a spec fails":    {`mkdir -p bin/soak && cp ` + file + ` "$REPORT"`, 1, "1 specs failed"},
		"it has no specs": {`mkdir -p bin/soak && echo '[]' >"$REPORT"`, 0, ""},
	} {
		r, err := run(t.Context(), slice{name: "a-slice", command: []string{"bash", "-c", c.command}, env: []string{"MORE=yes"}})
		if err != nil {
			t.Fatal(err)
		}
		if r.Passed != (c.why == "") || !strings.Contains(r.Why, c.why) || r.Specs != c.specs || r.Seed != 42 || len(r.Commit) != 12 {
			t.Errorf("%s: %+v", name, r)
		}
	}
}

func TestASeedIsANumber(t *testing.T) {
	t.Setenv("SEED", "many")
	if _, err := run(t.Context(), slice{name: "a-slice"}); err == nil {
		t.Error("SEED=many is taken")
	}
}
