package cli

import (
	"bytes"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
)

func TestValidOutput(t *testing.T) {
	for format, want := range map[string]bool{"table": true, "json": true, "yaml": true, "": false, "JSON": false, "wide": false} {
		if err := ValidOutput(format); (err == nil) != want {
			t.Errorf("%q: %v", format, err)
		}
	}
}

// printed is what a command wrote.
type printed struct{ out, err bytes.Buffer }

func (p *printed) streams() Streams { return Streams{Out: &p.out, ErrOut: &p.err} }

func mustPrint(t *testing.T, got, want string) {
	t.Helper()
	if diff := cmp.Diff(strings.TrimPrefix(want, "\n"), got); diff != "" {
		t.Errorf("printed (-want +got):\n%s", diff)
	}
}
