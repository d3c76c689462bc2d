package suite

import (
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
)

func TestCrashes(t *testing.T) {
	log := `{"level":"info","msg":"Starting","note":"do not panic: all is well"}
{"level":"error","msg":"Observed a panic","panic":"assignment to entry in nil map"}
WARNING: DATA RACE
Read at 0x00c000466b00 by main goroutine:
panic: boom
`
	want := []string{log[strings.Index(log, `{"level":"error"`):], log[strings.Index(log, "WARNING"):], log[strings.Index(log, "panic: boom"):]}
	if diff := cmp.Diff(want, crashes(log)); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
	race := "WARNING: DATA RACE\nRead by main goroutine:\n  manager.(*controllerManager).engageStopProcedure()\nPrevious write by goroutine 9:\n"
	for log, want := range map[string]int{"": 0, race + "  manager.(*controllerManager).initLeaderElector.func2()\n": 0, race + "  main.main()\n": 1} {
		if found := crashes(log); len(found) != want {
			t.Errorf("%q: %q", log, found)
		}
	}
}
