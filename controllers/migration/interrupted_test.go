package migration

import (
	"errors"
	"fmt"
	"testing"
)

// errDied stands for kill -9: the call that gets it may have taken effect or not.
var errDied = errors.New("the process died")

// cut is a point at which a work is interrupted.
type cut struct {
	call  int  // the how-many-eth call of the store, of all
	after bool // it took effect, and the answer was lost
}

// dieAt makes every call from the cut on fail, as if the process were dead.
func (m *memory) dieAt(c cut) {
	n := 0
	m.before = func(call) error {
		if n++; n > c.call+1 || n == c.call+1 && !c.after {
			return errDied
		}
		return nil
	}
	m.after = func(call) error {
		if n == c.call+1 && c.after {
			return errDied
		}
		return nil
	}
}

// mustSurvive interrupts a work before and after each call of the store, and does it again to the
// end. Then there must be what one undisturbed run leaves behind. check may look at more.
func mustSurvive(t *testing.T, build func() *memory, work func(m *memory, dir string) error, check func(t *testing.T, m *memory, dir string)) {
	t.Helper()
	undisturbed, dir := build(), t.TempDir()
	undisturbed.calls = nil // those of the building
	if err := work(undisturbed, dir); err != nil {
		t.Fatalf("undisturbed: %v", err)
	}
	calls, want, commits := undisturbed.calls, undisturbed.String(), 0
	check(t, undisturbed, dir)
	for i, c := range calls {
		if c.op == "Commit" {
			commits++
		}
		for _, after := range []bool{false, true} {
			if after && c.op != "Commit" {
				continue
			}
			at, m, dir := cut{i, after}, build(), t.TempDir()
			name := fmt.Sprintf("interrupted %+v, at %s %s", at, c.op, c.key)
			m.dieAt(at)
			if err := work(m, dir); err == nil {
				t.Fatalf("%s: nobody notices", name)
			}
			m.before, m.after = nil, nil
			if err := work(m, dir); err != nil {
				t.Fatalf("%s: again: %v", name, err)
			}
			if got := m.String(); got != want {
				t.Fatalf("%s: it leaves behind\n%s\nwant\n%s", name, got, want)
			}
			check(t, m, dir)
		}
	}
	if commits == 0 {
		t.Error("the work wrote nothing: nothing was proved")
	}
}
