// Command manager runs the control loops of clusterip-operator, or takes away what they left.
package main

import (
	"context"
	"errors"
	"fmt"
	"os"

	"github.com/go-logr/logr"
	"github.com/spf13/pflag"
	ctrl "sigs.k8s.io/controller-runtime"

	"github.com/clusterip-operator/clusterip-operator/internal/version"
)

func main() { os.Exit(run(os.Args[1:])) }

// subcommands are what can be run, and what to log when it fails.
var subcommands = map[string]struct {
	do     func(context.Context, command, logr.Logger) error
	failed string
}{
	"run":     {serve, "The manager stops"},
	"cleanup": {cleanUp, "The clean-up is not complete; run it again when the cause is mended"},
}

// run picks the subcommand. It returns 0 when it did what was asked, 1 when it could not, 2 when it
// was asked for something that does not exist.
func run(args []string) int {
	name := "run"
	if len(args) > 0 && args[0] != "" && args[0][0] != '-' {
		name, args = args[0], args[1:]
	}
	if name == "version" {
		fmt.Println(version.String())
		return 0
	}
	sub, ok := subcommands[name]
	if !ok {
		fmt.Fprintf(os.Stderr, "manager: there is no command %q; try `manager --help`\n", name)
		return 2
	}
	c, err := parse(name, args)
	switch {
	case errors.Is(err, pflag.ErrHelp):
		return 0
	case err != nil:
		fmt.Fprintf(os.Stderr, "manager %s: %v\n", name, err)
		return 2
	}
	log := newLogger(c.config.Log)
	if err := sub.do(ctrl.SetupSignalHandler(), c, log); err != nil {
		log.Error(err, sub.failed)
		return 1
	}
	return 0
}
