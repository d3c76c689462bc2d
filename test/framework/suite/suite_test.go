package suite

import (
	"testing"

	"github.com/google/go-cmp/cmp"
)

func TestCrashes(t *testing.T) {
	log := `{"level":"info","msg":"Starting","note":"do not panic: all is well"}
{"level":"error","msg":"Observed a panic","panic":"assignment to entry in nil map"}
WARNING: DATA RACE
panic: boom
`
	want := []string{
		`{"level":"error","msg":"Observed a panic","panic":"assignment to entry in nil map"}` + "\n",
		"WARNING: DATA RACE\n",
		"panic: boom\n",
	}
	if diff := cmp.Diff(want, crashes(log)); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
	if lines := crashes(""); lines != nil {
		t.Errorf("of an empty log: %q", lines)
	}
}
