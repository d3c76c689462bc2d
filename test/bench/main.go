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
	"path/filepath"
	"runtime"
	"strings"
	"syscall"
	"time"

	"github.com/clusterip-operator/clusterip-operator/test/bench/allocation"
	"github.com/clusterip-operator/clusterip-operator/test/bench/micro"
	"github.com/clusterip-operator/clusterip-operator/test/bench/operation"
	"github.com/clusterip-operator/clusterip-operator/test/bench/progress"
	"github.com/clusterip-operator/clusterip-operator/test/bench/proxy"
	"github.com/clusterip-operator/clusterip-operator/test/bench/proxy/probe"
	"github.com/clusterip-operator/clusterip-operator/test/bench/report"
	"github.com/clusterip-operator/clusterip-operator/test/bench/steering"
	"github.com/clusterip-operator/clusterip-operator/test/bench/upgrade"
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

// part is something to measure. Its name is also that of its section in the document.
type part struct {
	name string
	run  func(context.Context, command, *progress.Log) (report.Section, error)
}

var parts = []part{
	{"allocator", showAllocator},
	{"allocations", runAllocations},
	{"manager", runManager},
	{"upgrade", runUpgrade},
	{"proxy", runProxy},
	{"steering", runSteering},
}

func names() []string {
	var out []string
	for _, p := range parts {
		out = append(out, p.name)
	}
	return out
}

// showAllocator measures nothing: hack/bench.sh has, and kept what go test printed.
func showAllocator(_ context.Context, c command, _ *progress.Log) (report.Section, error) {
	times, err := micro.ReadFiles("Allocate", filepath.Join(c.kept, "ours.txt"), filepath.Join(c.kept, "upstream.txt"))
	if err != nil {
		return report.Section{}, err
	}
	memory, err := micro.ReadFiles("Memory", filepath.Join(c.kept, "ours.txt"))
	if err != nil {
		return report.Section{}, err
	}
	return report.Section{
		Intro:  intro("hack/bench.sh", ""),
		Tables: []report.Table{times.Times(), memory.Memory()},
		Notes:  times.Notes(),
	}, nil
}

func runAllocations(ctx context.Context, c command, log *progress.Log) (report.Section, error) {
	result, err := allocation.Run(ctx, c.allocations, log)
	if err != nil {
		return report.Section{}, err
	}
	return report.Section{Intro: intro(c.String(), result.Versions), Tables: result.Tables(), Notes: result.Notes()}, nil
}

func runManager(ctx context.Context, c command, log *progress.Log) (report.Section, error) {
	result, err := operation.Run(ctx, c.manager, log)
	if err != nil {
		return report.Section{}, err
	}
	return report.Section{Intro: intro(c.String(), result.Versions), Tables: result.Tables(), Notes: result.Notes()}, nil
}

func runUpgrade(ctx context.Context, c command, log *progress.Log) (report.Section, error) {
	result, err := upgrade.Run(ctx, c.upgrade, log)
	if err != nil {
		return report.Section{}, err
	}
	return report.Section{Intro: intro(c.String(), result.Versions), Tables: result.Tables(), Notes: result.Notes()}, nil
}

func runProxy(ctx context.Context, c command, log *progress.Log) (report.Section, error) {
	result, err := proxy.Run(ctx, c.proxy, log)
	if err != nil {
		return report.Section{}, err
	}
	return report.Section{Intro: intro(c.String(), result.Versions), Tables: result.Tables(), Notes: result.Notes()}, nil
}

func runSteering(ctx context.Context, c command, log *progress.Log) (report.Section, error) {
	result, err := steering.Run(ctx, c.steering, log)
	if err != nil {
		return report.Section{}, err
	}
	return report.Section{Intro: intro(c.String(), result.Versions), Tables: result.Tables(), Notes: result.Notes()}, nil
}

// intro says how numbers came about: when, by which command, on what.
func intro(command, versions string) []string {
	parts := []string{runtime.Version()}
	if versions != "" {
		parts = append([]string{versions}, parts...)
	}
	return []string{fmt.Sprintf("Measured on %s by `%s` with %s, on %s.",
		time.Now().Format(time.DateOnly), command, strings.Join(parts, ", "), machine())}
}

// machine describes the computer as far as it tells.
func machine() string {
	text := fmt.Sprintf("%d processors", runtime.NumCPU())
	if model := field("/proc/cpuinfo", "model name"); model != "" {
		text += " (" + model + ")"
	}
	if memory := field("/proc/meminfo", "MemTotal"); memory != "" {
		text += ", " + memory + " of memory"
	}
	if release, err := os.ReadFile("/proc/sys/kernel/osrelease"); err == nil {
		text += ", Linux " + strings.TrimSpace(string(release))
	}
	return text
}

// field returns the first value of a "name : value" file in /proc; empty where there is none.
func field(path, name string) string {
	content, err := os.ReadFile(path)
	if err != nil {
		return ""
	}
	for line := range strings.Lines(string(content)) {
		if key, value, found := strings.Cut(line, ":"); found && strings.TrimSpace(key) == name {
			return strings.TrimSpace(value)
		}
	}
	return ""
}
