// Command bench measures the operator through a real API server, beside what upstream has for the same job, and
// writes the results into docs/benchmarks.md.
//
//	go run ./test/bench                                              allocations, then the manager
//	go run ./test/bench --only allocations --levels 0,500 --rounds 2 a part of it
//	go run ./test/bench --only allocator --write                     the micro benchmarks that hack/bench.sh has kept
//	go run ./test/bench --only upgrade --quick                       the way off the bitmap, small, to see that it works
//	go run ./test/bench --only proxy --quick                         Service proxies, small (needs root)
//	go run ./test/bench --only steering --quick                      the admission webhooks, small
//
// Start with part.go, the list of what can be measured.
package main

import (
	"context"
	"fmt"
	"os"
	"os/signal"
	"syscall"

	"github.com/clusterip-operator/clusterip-operator/test/bench/progress"
	"github.com/clusterip-operator/clusterip-operator/test/bench/proxy/probe"
)

func main() {
	if len(os.Args) > 1 && os.Args[1] == probe.Name {
		os.Exit(probe.Main(os.Args[2:]))
	}
	os.Exit(run(os.Args[1:]))
}

func run(args []string) int {
	c, err := parse(args)
	if err != nil {
		fmt.Fprintln(os.Stderr, "bench:", err)
		return 2
	}
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	log := progress.New(os.Stderr)
	for _, p := range c.parts {
		if err := measure(ctx, p, c, log); err != nil {
			fmt.Fprintf(os.Stderr, "bench: %s: %v\n", p.name, err)
			return 1
		}
	}
	log.Step("done")
	return 0
}

// measure runs one part, prints it, and writes it down if that is asked for.
func measure(ctx context.Context, p part, c command, log *progress.Log) error {
	log.Step("part %s", p.name)
	section, err := p.run(ctx, c, log)
	if err != nil {
		return err
	}
	section.Name = p.name
	fmt.Println()
	if err := section.Print(os.Stdout); err != nil {
		return err
	}
	if !c.write {
		return nil
	}
	return section.WriteTo(c.document)
}
