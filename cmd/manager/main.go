// Command manager runs the control loops of clusterip-operator, or takes away what they left.
package main

import (
	"fmt"
	"os"
	"runtime/debug"

	ctrl "sigs.k8s.io/controller-runtime"
)

func main() { os.Exit(run(os.Args[1:])) }

// run picks the subcommand. It returns 0 when it did what was asked, 1 when it could not, 2 when it was asked
// for something that does not exist.
func run(args []string) int {
	command := "run"
	if len(args) > 0 && args[0] != "" && args[0][0] != '-' {
		command, args = args[0], args[1:]
	}
	switch command {
	case "run":
		return runManager(ctrl.SetupSignalHandler(), args)
	case "cleanup":
		return runCleanup(ctrl.SetupSignalHandler(), args)
	case "version":
		fmt.Println(version())
		return 0
	default:
		fmt.Fprintf(os.Stderr, "manager: there is no command %q; try `manager --help`\n", command)
		return 2
	}
}

// stamped is set by the linker: -X main.stamped=v1.2.3.
var stamped string

func version() string {
	if stamped != "" {
		return stamped
	}
	if info, ok := debug.ReadBuildInfo(); ok {
		return info.Main.Version
	}
	return "unknown"
}
