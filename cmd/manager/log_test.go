package main

import (
	"net/netip"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
	"time"

	config "github.com/clusterip-operator/clusterip-operator/api/config/v1alpha1"
)

// TestNewLogger logs in both formats, with times and fields that an admin can read.
func TestNewLogger(t *testing.T) {
	type status struct {
		name    string
		healthy bool
	}
	for format, want := range map[string]string{
		"json": `^{"level":"info","ts":"TIME","msg":"shown","after":"1.5s","statuses":"\[{name:index healthy:false} {name:ping healthy:true}\]","ranges":\["a","b"\],"networks":\["10.0.0.0/24","fd00::/64"\],"at":"2026-01-02T03:04:05Z"}\n$`,
		"text": `^TIME\tINFO\tshown\t{"after": "1.5s", "statuses": "\[{name:index healthy:false} {name:ping healthy:true}\]", "ranges": \["a", "b"\], "networks": \["10.0.0.0/24","fd00::/64"\], "at": "2026-01-02T03:04:05Z"}\n$`,
	} {
		file := filepath.Join(t.TempDir(), "stderr")
		logTo(t, file, config.Log{Format: format}, []status{{"index", false}, {"ping", true}})
		got, err := os.ReadFile(file)
		if err != nil {
			t.Fatal(err)
		}
		stamp := `\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d(\.\d+)?(Z|[+-]\d\d:\d\d)`
		if want := strings.ReplaceAll(want, "TIME", stamp); !regexp.MustCompile(want).Match(got) {
			t.Errorf("%s: got\n%s\nwant\n%s", format, got, want)
		}
	}
}

// logTo logs a line that is shown, and one that is not, into a file in the place of standard error.
func logTo(t *testing.T, path string, c config.Log, statuses any) {
	t.Helper()
	file, err := os.Create(path)
	if err != nil {
		t.Fatal(err)
	}
	before := os.Stderr
	os.Stderr = file
	defer func() {
		os.Stderr = before
		_ = file.Close() // the lines are written unbuffered
	}()
	log := newLogger(c)
	log.Info("shown", "after", 1500*time.Millisecond, "statuses", statuses, "ranges", []string{"a", "b"},
		"networks", []netip.Prefix{netip.MustParsePrefix("10.0.0.0/24"), netip.MustParsePrefix("fd00::/64")}, "at", time.Date(2026, 1, 2, 3, 4, 5, 0, time.UTC))
	log.V(1).Info("hidden")
}
