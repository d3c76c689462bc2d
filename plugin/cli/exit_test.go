package cli

import (
	"errors"
	"fmt"
	"testing"
)

func TestExitCode(t *testing.T) {
	cause := errors.New("the cause")
	for name, tc := range map[string]struct {
		err      error
		want     int
		wantText string
	}{
		"done":                       {nil, 0, ""},
		"something is to be done":    {Exit{Code: 1}, 1, ""},
		"and there is more to say":   {Exit{Code: 1, Err: cause}, 1, "error: the cause\n"},
		"it could not be told":       {Exit{Code: 2, Err: cause}, 2, "error: the cause\n"},
		"any other error":            {cause, 2, "error: the cause\n"},
		"wrapped":                    {fmt.Errorf("rolling back: %w", Exit{Code: 1, Err: cause}), 1, "error: the cause\n"},
		"an error that steers terms": {errors.New("the name \x1b[2J"), 2, "error: the name \uFFFD[2J\n"},
	} {
		t.Run(name, func(t *testing.T) {
			p := &printed{}
			if got := ExitCode(tc.err, p.streams()); got != tc.want {
				t.Errorf("exit status %d, want %d", got, tc.want)
			}
			mustPrint(t, p.err.String(), tc.wantText)
			if p.out.Len() > 0 {
				t.Errorf("errors go to the standard output: %s", &p.out)
			}
		})
	}
}

func TestExitIsAnError(t *testing.T) {
	cause := errors.New("the cause")
	if got := (Exit{Code: 1}).Error(); got != "exit status 1" {
		t.Errorf("without a cause it says %q", got)
	}
	if e := (Exit{Code: 2, Err: cause}); e.Error() != "the cause" || !errors.Is(e, cause) {
		t.Errorf("with a cause it says %q", e.Error())
	}
}
