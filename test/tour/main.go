// Command tour is `make run`: it starts etcd and kube-apiserver on loopback, installs and runs the
// operator, and shows what an admin would look at. Every step checks that it did what it says.
//
//	go run ./test/tour          stays up after the tour, until Ctrl-C
//	go run ./test/tour --once   ends after the tour, with status 0 only if every step held
//	go run ./test/tour --nodes  has operator and agent in pods, with two nodes (Linux, root)
package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"io"
	"os"
	"os/signal"
	"syscall"
)

func main() { os.Exit(run(os.Args[1:], os.Stdout)) }

func run(args []string, out io.Writer) int {
	flags := flag.NewFlagSet("tour", flag.ContinueOnError)
	once := flags.Bool("once", false, "end after the tour instead of staying up")
	nodes := flags.Bool("nodes", false, "deploy everything in pods, on two nodes in namespaces of this machine")
	if err := flags.Parse(args); err != nil {
		return 2
	}
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()

	t := &tour{out: out}
	steps := t.onLoopback()
	if !*once {
		steps = append(steps, t.toStay()...)
	}
	if *nodes {
		if err := prepareNodes(ctx); err != nil {
			_, _ = fmt.Fprintln(out, "Preparing nodes:", err)
			return 1
		}
		steps = t.onNodes()
	}
	err := errors.Join(t.walk(ctx, steps, *once), t.end())
	switch {
	case errors.Is(err, context.Canceled) && !*once:
		return 0
	case err != nil:
		_, _ = fmt.Fprintf(out, "\nThe tour ended early: %v\n", err)
		return 1
	}
	return 0
}
