// Command soak runs what takes hours, in slices of less than 80 minutes, and writes
// docs/reference/soak.md: each slice's verdict, seed, commit and figures.
//
//	soak list          names of slices, and what they show
//	soak run [NAME...] some slices or all, one after another; NAME may end in *
//	soak page          writes the page anew of the results that are kept
//
// It runs in the root of the repository. SEED repeats the order of specs and what happens at
// random. The results are files in docs/reference/soak, one for each slice, so that slices may run
// on different days; the page says whether they ran on the same code. A slice that takes longer
// than 80 minutes has failed: it is to be divided. `run` goes on after a slice that failed, and
// exits 1 in the end.
//
// Start with slices.go.
package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/signal"
	"syscall"
)

const (
	folder = "docs/reference/soak"
	file   = "docs/reference/soak.md"
)

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	if err := command(ctx, os.Args[1:]); err != nil {
		_, _ = fmt.Fprintln(os.Stderr, "soak:", err)
		os.Exit(1) //nolint:gocritic // stop has nothing to do any more
	}
}

func command(ctx context.Context, args []string) error {
	switch {
	case len(args) == 1 && args[0] == "list":
		list()
		return nil
	case len(args) == 1 && args[0] == "page":
		return publish()
	case len(args) > 0 && args[0] == "run":
		return runAll(ctx, args[1:])
	default:
		return errors.New("usage: soak list, soak run [NAME...], or soak page")
	}
}

func list() {
	for _, s := range all() {
		fmt.Printf("%-28s %s\n", s.name, s.proves)
	}
}

// publish writes the page of what is kept.
func publish() error {
	results, err := kept(folder, all())
	if err != nil {
		return err
	}
	return write(file, all(), results)
}

// runAll runs slices, each to the end, and keeps the result of each at once.
func runAll(ctx context.Context, names []string) error {
	some, err := chosen(names)
	if err != nil {
		return err
	}
	var errs []error
	for _, s := range some {
		r, err := run(ctx, s)
		if err != nil {
			return err // nothing can be said of the tree
		}
		if ctx.Err() != nil {
			return fmt.Errorf("slice %s was interrupted, its result is not kept", s.name)
		}
		if err := errors.Join(r.keep(folder), publish()); err != nil {
			return err
		}
		fmt.Printf("== slice %s: %s after %d s, SEED=%d %s\n", s.name, verdict(r), r.Seconds, r.Seed, r.Why)
		if !r.Passed {
			errs = append(errs, fmt.Errorf("slice %s: %s", s.name, r.Why))
		}
	}
	return errors.Join(errs...)
}
