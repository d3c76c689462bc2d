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

// mostMemory is from where on garbage is collected more often: with 100,000 Services of two
// families, of which 190 MiB are kept, a command would take a GiB otherwise. Where that is not
// enough, half of the processor time may go into it, and no more.
const mostMemory = 300 << 20

func main() { os.Exit(run(os.Args[1:])) }

// run returns 0 when all is well, 1 when something is to be done about the cluster, and 2 when that
// could not be told, nothing was done, or the command line was wrong.
func run(args []string) int {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	out := cli.Streams{Out: os.Stdout, ErrOut: os.Stderr}
	if os.Getenv("GOGC")+os.Getenv("GOMEMLIMIT") == "" {
		debug.SetGCPercent(400) // a command lists, answers and ends: collecting garbage would take a third of its time
		debug.SetMemoryLimit(mostMemory)
	}
	root := plugin.New(out)
	root.SetArgs(args)
	return cli.ExitCode(root.ExecuteContext(ctx), out)
}
