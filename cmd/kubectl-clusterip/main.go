// Command kubectl-clusterip is the kubectl plugin of clusterip-operator: `kubectl clusterip`.
package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/signal"
	"runtime/debug"
	"syscall"

	"github.com/spf13/cobra"
)

func main() { os.Exit(run(os.Args[1:])) }

// run returns 0 when all is well, 1 when something is to be done about the cluster, and 2 when that
// could not be told, nothing was done, or the command line was wrong.
func run(args []string) int {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	out := streams{Out: os.Stdout, ErrOut: os.Stderr}
	if os.Getenv("GOGC") == "" {
		debug.SetGCPercent(400) // a command lists, answers and ends: collecting garbage would take a third of its time
	}
	root := newRoot(out)
	root.SetArgs(args)
	return exitCode(root.ExecuteContext(ctx), out)
}

const (
	exitDone     = 0
	exitFindings = 1
	exitUnknown  = 2
)

// exit is how a command ends with another status than 2. Its error is printed if there is one.
type exit struct {
	code int
	err  error
}

// Error implements error.
func (e exit) Error() string {
	if e.err == nil {
		return fmt.Sprintf("exit status %d", e.code)
	}
	return e.err.Error()
}

// Unwrap implements errors.Unwrap.
func (e exit) Unwrap() error { return e.err }

func exitCode(err error, out streams) int {
	if err == nil {
		return exitDone
	}
	code, told := exitUnknown, err
	if e, ok := errors.AsType[exit](err); ok {
		code, told = e.code, e.err
	}
	if told != nil {
		write(out.ErrOut, "error: %v\n", told)
	}
	return code
}

// noArguments refuses words that are no flags.
func noArguments(cmd *cobra.Command, args []string) error {
	if len(args) > 0 {
		return fmt.Errorf("%q is neither a command nor a flag; try `%s --help`", args[0], cmd.CommandPath())
	}
	return nil
}
