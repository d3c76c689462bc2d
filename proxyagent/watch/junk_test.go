package watch

import (
	"fmt"
	"strings"
	"testing"
)

func TestJunkIsOneShortLine(t *testing.T) {
	var j junk
	if got := j.String(); got != "" {
		t.Errorf("no junk is told as %q", got)
	}
	j.add("endpoint", "10.0.0.01")
	if got, want := j.String(), `endpoint "10.0.0.01"`; got != want {
		t.Errorf("one piece is told as %q, want %q", got, want)
	}
	for i := range 10000 {
		j.add("endpoint", fmt.Sprint(i, "\n", strings.Repeat("x", 10000)))
	}
	got := j.String()
	if len(got) > 400 || strings.Contains(got, "\n") || !strings.HasSuffix(got, " and 9998 more") || len(j.examples) != 3 {
		t.Errorf("much junk is told as %q", got)
	}
}
