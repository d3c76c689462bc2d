package cli_test

import (
	"errors"
	"fmt"
	"testing"

	"github.com/clusterip-operator/clusterip-operator/plugin/cli"
	"github.com/clusterip-operator/clusterip-operator/plugin/internal/plugintest"
)

func TestExitCode(t *testing.T) {
	cause := errors.New("the cause")
	for name, tc := range map[string]struct {
		err      error
		want     int
		wantText string
	}{
		"done":                       {nil, 0, ""},
		"something is to be done":    {cli.Exit{Code: 1}, 1, ""},
		"and there is more to say":   {cli.Exit{Code: 1, Err: cause}, 1, "error: the cause\n"},
		"it could not be told":       {cli.Exit{Code: 2, Err: cause}, 2, "error: the cause\n"},
		"any other error":            {cause, 2, "error: the cause\n"},
		"wrapped":                    {fmt.Errorf("rolling back: %w", cli.Exit{Code: 1, Err: cause}), 1, "error: the cause\n"},
		"several errors":             {errors.Join(cause, errors.New("another\n\tof two lines")), 2, "error: the cause; another; of two lines\n"},
		"an error that steers terms": {errors.New("the name \x1b[2J"), 2, "error: the name \uFFFD[2J\n"},
	} {
		t.Run(name, func(t *testing.T) {
			p := &plugintest.Printed{}
			if got := cli.ExitCode(tc.err, p.Streams()); got != tc.want {
				t.Errorf("exit status %d, want %d", got, tc.want)
			}
			plugintest.MustPrint(t, p.Err.String(), tc.wantText)
			if p.Out.Len() > 0 {
				t.Errorf("errors go to the standard output: %s", &p.Out)
			}
		})
	}
}

func TestExitIsAnError(t *testing.T) {
	cause := errors.New("the cause")
	if got := (cli.Exit{Code: 1}).Error(); got != "exit status 1" {
		t.Errorf("without a cause it says %q", got)
	}
	if e := (cli.Exit{Code: 2, Err: cause}); e.Error() != "the cause" || !errors.Is(e, cause) {
		t.Errorf("with a cause it says %q", e.Error())
	}
}
