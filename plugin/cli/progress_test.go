package cli

import (
	"bytes"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"
)

// In a log there is a line now and then, with the time that is left, and one at the end.
func TestLines(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var b bytes.Buffer
		l := &lines{out: &b}
		l.Begin("writing", 100)
		for range 10 {
			time.Sleep(4 * time.Second)
			l.Done(10)
		}
		l.End()
		l.Begin("repairing", 1)
		time.Sleep(1500 * time.Millisecond)
		l.Done(1)
		l.End()
		want := `writing: 30 of 100 after 12s, about 28s left
writing: 60 of 100 after 24s, about 16s left
writing: 90 of 100 after 36s, about 4s left
writing: 100 of 100 after 40s, about 0s left
repairing: 1 of 1 after 1.5s, about 0s left
`
		if diff := cmp.Diff(want, b.String()); diff != "" {
			t.Errorf("(-want +got):\n%s", diff)
		}
	})
}

func TestBar(t *testing.T) {
	var b bytes.Buffer
	p := &bar{out: &b}
	p.End() // nothing was begun
	p.Begin("writing", 10)
	p.Done(4)
	p.Begin("repairing", 1) // the next stage ends the one before
	p.Done(1)
	p.End()
	p.End()
	if got := b.String(); !strings.Contains(got, "writing") || !strings.Contains(got, "repairing") || strings.Count(got, "\n") != 2 {
		t.Errorf("it draws %q", got)
	}
}

// Without a terminal there is no bar.
func TestProgressOfALog(t *testing.T) {
	if p, ok := (Streams{ErrOut: &bytes.Buffer{}}).Progress().(*lines); !ok {
		t.Errorf("a file gets %T", p)
	}
}
