package framework

import (
	"os"
	"path/filepath"
	"testing"
)

func TestFolders(t *testing.T) {
	named := filepath.Join(t.TempDir(), "of", "the", "caller")
	for name, tc := range map[string]struct {
		path, keep string
		wantKept   bool
	}{
		"a temporary folder goes":        {},
		"a temporary folder may be kept": {keep: "1", wantKept: true},
		"the caller's folder stays":      {path: named, wantKept: true},
	} {
		t.Run(name, func(t *testing.T) {
			t.Setenv("TMPDIR", t.TempDir())
			t.Setenv("KEEP", tc.keep)
			f, err := openFolder(tc.path)
			if err != nil {
				t.Fatal(err)
			}
			if err := f.remove(); err != nil {
				t.Fatal(err)
			}
			if _, err := os.Stat(f.path); (err == nil) != tc.wantKept {
				t.Errorf("kept: %t (%v), want %t", err == nil, err, tc.wantKept)
			}
		})
	}
}
