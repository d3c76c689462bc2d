// Command kubectl-clusterip is the kubectl plugin of clusterip-operator: `kubectl clusterip`.
package main

import (
	"context"
	"os"
	"os/signal"
	"runtime/debug"
	"syscall"

	"github.com/clusterip-operator/clusterip-operator/plugin"
	"github.com/clusterip-operator/clusterip-operator/plugin/cli"
)

func main() { os.Exit(run(os.Args[1:])) }

// run returns 0 when all is well, 1 when something is to be done about the cluster, and 2 when that
// could not be told, nothing was done, or the command line was wrong.
func run(args []string) int {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	out := cli.Streams{Out: os.Stdout, ErrOut: os.Stderr}
	if os.Getenv("GOGC") == "" {
		debug.SetGCPercent(400) // a command lists, answers and ends: collecting garbage would take a third of its time
	}
	root := plugin.New(out)
	root.SetArgs(args)
	return cli.ExitCode(root.ExecuteContext(ctx), out)
}
