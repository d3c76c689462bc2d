// Command bench measures the operator through a real API server, beside what upstream has for the
// same job, and writes the results into docs/reference/benchmarks.md.
//
//	go run ./test/bench                                 allocations, then the manager
//	go run ./test/bench --only allocations --levels 0,500 --rounds 2  a part of it
//	go run ./test/bench --only allocator --write        micro benchmarks, as hack/bench.sh kept them
//	go run ./test/bench --only upgrade --quick          the way off the bitmap, small, as a check
//	go run ./test/bench --only minors --quick           one minor version after the other, small
//	go run ./test/bench --only proxy --quick            Service proxies, small (needs root)
//	go run ./test/bench --only proxy-sizes --quick      the same in an extreme cluster
//	go run ./test/bench --only ipvs --quick             the same with IPVS, in an emulated machine
//	go run ./test/bench --only steering --quick         the admission webhooks, small
//	go run ./test/bench --only plugin --quick           the kubectl plugin, small
//	go run ./test/bench --only scale --quick            a world of thousands, small
//	go run ./test/bench --only million --quick          the arithmetic alone, small
//	go run ./test/bench --only renumber --quick         Services change ClusterIPs, small (root)
//
// Start with parts, the list of what can be measured.
package main

import (
	"context"
	"fmt"
	"os"
	"os/signal"
	"path/filepath"
	"runtime"
	"strings"
	"syscall"
	"time"

	"github.com/clusterip-operator/clusterip-operator/test/bench/allocation"
	"github.com/clusterip-operator/clusterip-operator/test/bench/micro"
	"github.com/clusterip-operator/clusterip-operator/test/bench/million"
	"github.com/clusterip-operator/clusterip-operator/test/bench/operation"
	"github.com/clusterip-operator/clusterip-operator/test/bench/plugin"
	"github.com/clusterip-operator/clusterip-operator/test/bench/progress"
	"github.com/clusterip-operator/clusterip-operator/test/bench/proxy"
	"github.com/clusterip-operator/clusterip-operator/test/bench/proxy/probe"
	"github.com/clusterip-operator/clusterip-operator/test/bench/renumber"
	"github.com/clusterip-operator/clusterip-operator/test/bench/report"
	"github.com/clusterip-operator/clusterip-operator/test/bench/scale"
	"github.com/clusterip-operator/clusterip-operator/test/bench/steering"
	"github.com/clusterip-operator/clusterip-operator/test/bench/upgrade"
)

func main() {
	if len(os.Args) > 1 && os.Args[1] == probe.Name {
		os.Exit(probe.Main(os.Args[2:]))
	}
	if len(os.Args) > 2 && os.Args[1] == plugin.Name {
		os.Exit(plugin.Main(os.Args[2:]))
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
	result, versions, err := p.run(ctx, c, log)
	if err != nil {
		return err
	}
	section := report.Section{Name: p.name, Intro: []string{intro(c, versions)}, Tables: result.Tables(), Notes: result.Notes()}
	fmt.Println()
	if err := section.Print(os.Stdout); err != nil {
		return err
	}
	if !c.write {
		return nil
	}
	if err := section.WriteTo(c.document); err != nil {
		return err
	}
	if r, ok := result.(proxy.Result); ok {
		return summarize(ctx, r, section.Intro, c.document)
	}
	return nil
}

// summarize renews the page at the top of the document, and its charts in the folder beside it.
func summarize(ctx context.Context, r proxy.Result, intro []string, document string) error {
	folder := strings.TrimSuffix(document, filepath.Ext(document))
	if err := report.Draw(ctx, folder, r.Charts()); err != nil {
		return err
	}
	page := report.Section{Name: "summary", Intro: intro, Tables: []report.Table{r.Summary()}, Notes: r.Pictures(filepath.Base(folder))}
	return page.WriteTo(document)
}

// part is something to measure. Its name is also that of its section in the document.
type part struct {
	name string
	run  func(context.Context, command, *progress.Log) (r result, versions string, err error)
}

// result is what a part has measured.
type result interface {
	Tables() []report.Table
	Notes() []string
}

var parts = append([]part{
	{"allocator", func(_ context.Context, c command, _ *progress.Log) (result, string, error) {
		r, err := micro.ReadKept(c.kept)
		return r, "", err
	}},
	{"allocations", func(ctx context.Context, c command, log *progress.Log) (result, string, error) {
		r, err := allocation.Run(ctx, c.allocations, log)
		return r, r.Versions, err
	}},
	{"manager", func(ctx context.Context, c command, log *progress.Log) (result, string, error) {
		r, err := operation.Run(ctx, c.manager, log)
		return r, r.Versions, err
	}},
	{"memory", func(ctx context.Context, c command, log *progress.Log) (result, string, error) {
		r, err := operation.RunMemory(ctx, c.memory, log)
		return r, r.Versions, err
	}},
	{"upgrade", func(ctx context.Context, c command, log *progress.Log) (result, string, error) {
		r, err := upgrade.Run(ctx, c.upgrade, log)
		return r, r.Versions, err
	}},
	{"minors", func(ctx context.Context, c command, log *progress.Log) (result, string, error) {
		r, err := upgrade.Walk(ctx, c.upgrade, log)
		return r, r.Versions, err
	}},
	{"proxy", func(ctx context.Context, c command, log *progress.Log) (result, string, error) {
		r, err := proxy.Run(ctx, c.proxy, log)
		return r, r.Versions, err
	}},
	{"ipvs", func(ctx context.Context, c command, log *progress.Log) (result, string, error) {
		if c.prepared != "" {
			r, err := proxy.Inside(ctx, c.prepared, log)
			return r, r.Versions, err
		}
		r, err := proxy.IPVS(ctx, c.ipvs, log)
		return r, r.Versions, err
	}},
	{"plugin", func(ctx context.Context, c command, log *progress.Log) (result, string, error) {
		r, err := plugin.Run(ctx, c.plugin, log)
		return r, r.Versions, err
	}},
	{"million", func(ctx context.Context, c command, log *progress.Log) (result, string, error) {
		o := million.Full()
		if c.quick {
			o = million.Quick()
		}
		r, err := million.Run(ctx, o, log)
		return r, r.Versions, err
	}},
	{"renumber", func(ctx context.Context, c command, log *progress.Log) (result, string, error) {
		r, err := renumber.Run(ctx, c.renumber, log)
		return r, r.Versions, err
	}},
	{"scale", func(ctx context.Context, c command, log *progress.Log) (result, string, error) {
		r, err := scale.Run(ctx, c.scale, log)
		return r, r.Versions, err
	}},
	{"steering", func(ctx context.Context, c command, log *progress.Log) (result, string, error) {
		r, err := steering.Run(ctx, c.steering, log)
		return r, r.Versions, err
	}},
}, extremes()...)

// extremes are Service proxies in clusters unlike most.
func extremes() (all []part) {
	for _, e := range proxy.Extremes {
		all = append(all, part{e.Name, func(ctx context.Context, c command, log *progress.Log) (result, string, error) {
			r, err := e.Run(ctx, c.quick, c.proxies, log)
			return r, r.Versions, err
		}})
	}
	return all
}

func names() (out []string) {
	for _, p := range parts {
		out = append(out, p.name)
	}
	return out
}

// intro says how numbers came about: when, by which command, on what.
func intro(c command, versions string) string {
	command := c.String()
	if versions == "" { // hack/bench.sh has measured, and kept what go test printed
		command = "hack/bench.sh"
	} else {
		versions += ", "
	}
	return fmt.Sprintf("Measured on %s by `%s` with %s%s, on %s.", time.Now().Format(time.DateOnly), command, versions, runtime.Version(), report.Machine())
}
